#include <gtest/gtest.h>

#include "passes/passes.h"
#include "rewrite/rewrite_text.h"

namespace downhaul {
namespace {

const std::filesystem::path kFolder = std::filesystem::path(DH_SOURCE_DIR) / "tests/rewrites";

std::vector<Pass> everything() {
  std::vector<Pass> passes;
  for (const Rewrite* rewrite : all_rewrites()) {
    passes.push_back({rewrite->name, {rewrite}, nullptr});
  }
  for (Pass& pass : graph_passes()) passes.push_back(std::move(pass));
  return passes;
}

class RewriteText : public testing::TestWithParam<Pass> {};

TEST_P(RewriteText, DoesWhatItsFileSays) { rewrite_text::check_file(kFolder, GetParam()); }

INSTANTIATE_TEST_SUITE_P(All, RewriteText, testing::ValuesIn(everything()),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(RewriteFolder, HoldsOnlyFilesOfTheIndex) { rewrite_text::check_folder(kFolder, everything()); }

}  // namespace
}  // namespace downhaul
