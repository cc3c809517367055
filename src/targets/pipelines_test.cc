// Every graph that some rewrite is tested with goes through all passes of both targets: rewrites
// that undo each other, or leave a graph that is not valid, show here.
#include <gtest/gtest.h>

#include <filesystem>

#include "passes/passes.h"
#include "rewrite/rewrite_text.h"
#include "targets/portable/portable.h"
#include "targets/xnnpack/xnnpack.h"

namespace downhaul {
namespace {

Status lower(Graph& graph, bool xnnpack) {
  DH_TRY(run_pipeline(graph, canonical_passes(), {}));
  if (xnnpack) {
    DH_ASSIGN([[maybe_unused]] const XnnpackLowered lowered, lower_xnnpack(graph));
  } else {
    DH_ASSIGN([[maybe_unused]] const Lowered lowered, lower_portable(graph, {}));
  }
  return {};
}

TEST(Pipelines, EndOnEveryGraphOfTheRewrites) {
  int graphs = 0;
  int lowered = 0;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(DH_SOURCE_DIR "/tests/rewrites")) {
    if (entry.path().extension() != ".dh") continue;
    for (const rewrite_text::Case& c : rewrite_text::read_cases(entry.path())) {
      for (const bool xnnpack : {false, true}) {
        SCOPED_TRACE(cat(entry.path().string(), ":", c.line, xnnpack ? " xnnpack" : " portable"));
        const auto graph = rewrite_text::parse(c.before);
        ASSERT_NE(graph, nullptr);
        const Status status = lower(*graph, xnnpack);
        ++graphs;
        if (status.ok()) {
          ++lowered;
        } else {
          EXPECT_EQ(status.kind(), ErrorKind::kUnsupported) << status.message();
        }
      }
    }
  }
  EXPECT_GT(lowered, graphs / 2) << "of " << graphs;
}

}  // namespace
}  // namespace downhaul
