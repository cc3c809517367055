#include "dialects/edge/call.h"
#include "dialects/xnn/emit.h"
#include "passes/passes.h"
#include "targets/portable/rewrites/rewrites.h"
#include "targets/xnnpack/rewrites/rewrites.h"
#include "targets/xnnpack/xnnpack.h"

namespace downhaul {
namespace {

std::vector<const Rewrite*> with_cleanup(std::vector<const Rewrite*> rewrites) {
  std::vector<const Rewrite*> cleanup = cleanup_rewrites();
  // A mask of dynamic size is cheaper computed inside than sliced from a table of its largest size.
  std::erase(cleanup, &rewrites::kFoldBoundedConstant);
  rewrites.insert(rewrites.end(), cleanup.begin(), cleanup.end());
  return rewrites;
}

}  // namespace

std::vector<Pass> xnnpack_passes(bool exact_select) {
  using namespace xnnpack;  // NOLINT: the lists below are what this function is for

  std::vector<const Rewrite*> all(legalizing_rewrites().begin(), legalizing_rewrites().end());
  std::erase(all, &kRefusedImageToNchw);
  if (exact_select) {
    std::erase(all, &kSelectByProduct);
    std::erase(all, &kDynamicRowByProduct);
  }
  std::vector<Pass> passes = {
      // What has constants per channel becomes arithmetic while channels are dimension 1: the
      // layout
      // pass moves the constants along.
      {"xnn_legalize_images",
       with_cleanup({&kExpandPrelu, &kAdaptiveToAvgPool, &kPadBeforeAvgPool, &kExpandGroupNorm}),
       nullptr},
  };
  // The payload's images are channels-last.
  for (Pass& pass : nhwc_passes()) passes.push_back(std::move(pass));
  // Everything else in terms of the payload's nodes.
  passes.push_back({"xnn_legalize", with_cleanup(std::move(all)), nullptr});
  // What had its chance and is refused still.
  passes.push_back({"xnn_images_outside", with_cleanup({&kRefusedImageToNchw}), nullptr});
  // What neither a delegate nor a kernel computes becomes what kernels do.
  passes.push_back({.name = "xnn_legalize_outside",
                    .rewrites = portable::rewrites(),
                    .only = [](const Node& node) {
                      return !xnn_refusal(node).empty() && !edge::why_no_kernel(node).empty();
                    }});
  // The layers of a transformer share their mask's arithmetic.
  passes.push_back({"xnn_share_common_subexpressions", {}, share_common_subexpressions});
  return passes;
}

}  // namespace downhaul
