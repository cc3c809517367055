#include <gtest/gtest.h>

#include "rewrite/rewrite_text.h"
#include "targets/xnnpack/rewrites/rewrites.h"

namespace downhaul {
namespace {

const std::filesystem::path kFolder =
    std::filesystem::path(DH_SOURCE_DIR) / "tests/rewrites/xnnpack";

std::vector<Pass> everything() {
  std::vector<Pass> passes;
  for (const Rewrite* rewrite : xnnpack::legalizing_rewrites()) {
    passes.push_back({rewrite->name, {rewrite}, nullptr});
  }
  return passes;
}

class XnnpackRewriteText : public testing::TestWithParam<Pass> {};

TEST_P(XnnpackRewriteText, DoesWhatItsFileSays) { rewrite_text::check_file(kFolder, GetParam()); }

INSTANTIATE_TEST_SUITE_P(All, XnnpackRewriteText, testing::ValuesIn(everything()),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(XnnpackRewriteFolder, HoldsOnlyFilesOfTheIndex) {
  rewrite_text::check_folder(kFolder, everything());
}

}  // namespace
}  // namespace downhaul
