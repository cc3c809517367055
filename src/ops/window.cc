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
  Dim count = (ceil_mode ? ceil_div(free, stride) : floor_div(free, Dim(stride))) + Dim(1);
  if (ceil_mode) count = min(count, floor_div(size + Dim(before - 1), Dim(stride)) + Dim(1));
  if (free.max() < 0 || count.max() < 1) {
    return invalid_graph(cat(what, ": expected a window of at most ",
                             (size + Dim(before + after)).str(), " elements, found ", extent));
  }
  return count;
}

}  // namespace downhaul
