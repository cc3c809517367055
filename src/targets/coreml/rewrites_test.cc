#include <gtest/gtest.h>

#include "rewrite/rewrite_text.h"
#include "targets/coreml/rewrites/rewrites.h"

namespace downhaul {
namespace {

const std::filesystem::path kFolder =
    std::filesystem::path(DH_SOURCE_DIR) / "tests/rewrites/coreml";

std::vector<Pass> everything() {
  std::vector<Pass> passes = {{"assign_bc1s", {}, coreml::assign_bc1s}};
  for (const Rewrite* rewrite : coreml::rewrites()) {
    passes.push_back({rewrite->name, {rewrite}, nullptr});
  }
  return passes;
}

class CoreMlRewriteText : public testing::TestWithParam<Pass> {};

TEST_P(CoreMlRewriteText, DoesWhatItsFileSays) { rewrite_text::check_file(kFolder, GetParam()); }

INSTANTIATE_TEST_SUITE_P(All, CoreMlRewriteText, testing::ValuesIn(everything()),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(CoreMlRewriteFolder, HoldsOnlyFilesOfTheIndex) {
  rewrite_text::check_folder(kFolder, everything());
}

}  // namespace
}  // namespace downhaul
