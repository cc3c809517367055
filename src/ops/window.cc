#include "ops/window.h"

namespace downhaul {

Result<ImageShape> image_shape(const Node& node, std::string_view arg) {
  DH_TRY(require_rank(node, arg, 4));
  DH_TRY(require_one_of(node, "layout", {"nchw", "nhwc"}));
  const Shape& s = node.type(arg).shape;
  if (node.s("layout") == "nhwc") return ImageShape{s[0], s[3], s[1], s[2]};
  return ImageShape{s[0], s[1], s[2], s[3]};
}

Result<Dim> window_count(std::string_view what, const Dim& size, int64_t extent, int64_t stride,
                         int64_t before, int64_t after, bool ceil_mode) {
  const Dim free = size + Dim(before + after - extent);
  // floor(free / stride) + 1, in the form that gives s0//2 for a halving pool.
  Dim count = floor_div(free + Dim(stride), Dim(stride));
  if (ceil_mode) {
    count = min(ceil_div(free + Dim(stride), stride),
                floor_div(size + Dim(before - 1 + stride), Dim(stride)));
  }
  if (free.max() < 0 || count.max() < 1) {
    return invalid_graph(cat(what, ": expected a window of at most ",
                             (size + Dim(before + after)).str(), " elements, found ", extent));
  }
  return count;
}

}  // namespace downhaul
