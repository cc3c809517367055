#include <gtest/gtest.h>

#include "rewrite/rewrite_text.h"
#include "targets/portable/rewrites/rewrites.h"

namespace downhaul {
namespace {

const std::filesystem::path kFolder =
    std::filesystem::path(DH_SOURCE_DIR) / "tests/rewrites/portable";

std::vector<Pass> everything() {
  std::vector<Pass> passes;
  for (const Rewrite* rewrite : portable::rewrites()) {
    passes.push_back({rewrite->name, {rewrite}, nullptr});
  }
  return passes;
}

class PortableRewriteText : public testing::TestWithParam<Pass> {};

TEST_P(PortableRewriteText, DoesWhatItsFileSays) { rewrite_text::check_file(kFolder, GetParam()); }

INSTANTIATE_TEST_SUITE_P(All, PortableRewriteText, testing::ValuesIn(everything()),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(PortableRewriteFolder, HoldsOnlyFilesOfTheIndex) {
  rewrite_text::check_folder(kFolder, everything());
}

}  // namespace
}  // namespace downhaul
