#include "ops/axes.h"

#include <algorithm>

namespace downhaul {

AxisMap whole_axes(const Node& node) {
  AxisMap map;
  for (const Value* v : node.operands()) {
    map.operand.emplace_back(v == nullptr ? 0 : v->shape().size(), AxisMap::kWhole);
  }
  return map;
}

void map_axis_always(AxisMap& map, int operand, int64_t dim, int64_t to) {
  map.operand[static_cast<size_t>(operand)][static_cast<size_t>(dim)] = static_cast<int>(to);
}

void map_axis(AxisMap& map, const Node& node, int operand, int64_t dim, int64_t to) {
  const Value* v = node.operand(operand);
  if (v == nullptr || v->dim(dim) == Dim(1) || !(v->dim(dim) == node.result()->dim(to))) return;
  map_axis_always(map, operand, dim, to);
}

AxisMap elementwise_axes(const Node& node) {
  AxisMap map = whole_axes(node);
  const int64_t rank = node.result()->rank();
  for (int o = 0; o < static_cast<int>(node.operands().size()); ++o) {
    const Value* v = node.operand(o);
    for (int64_t d = 0; v != nullptr && d < v->rank(); ++d) {
      map_axis(map, node, o, d, rank - v->rank() + d);
    }
  }
  return map;
}

AxisMap same_except(const Node& node, std::span<const int64_t> dims) {
  AxisMap map = whole_axes(node);
  for (int64_t d = 0; d < node.operand(0)->rank(); ++d) {
    if (std::find(dims.begin(), dims.end(), d) == dims.end()) map_axis_always(map, 0, d, d);
  }
  return map;
}

AxisMap same_except_axis(const Node& node, std::string_view attr) {
  const int64_t axis = node.axis(attr, node.operand(0)->rank());
  return same_except(node, std::span(&axis, 1));
}

AxisMap same_except_last(const Node& node, int64_t count) {
  AxisMap map = whole_axes(node);
  for (int64_t d = 0; d + count < node.operand(0)->rank(); ++d) map_axis_always(map, 0, d, d);
  return map;
}

AxisMap image_axes(const Node& node) {
  const bool nhwc = node.s("layout") == "nhwc";
  AxisMap map = whole_axes(node);
  map_axis_always(map, 0, 0, 0);
  map_axis_always(map, 0, nhwc ? 3 : 1, nhwc ? 3 : 1);
  return map;
}

AxisMap reduction_axes(const Node& node, std::span<const int64_t> dims) {
  AxisMap map = whole_axes(node);
  const bool keepdim = node.b("keepdim");
  int64_t to = 0;
  for (int64_t d = 0; d < node.operand(0)->rank(); ++d) {
    const bool reduced = std::find(dims.begin(), dims.end(), d) != dims.end();
    if (!reduced) map_axis_always(map, 0, d, to);
    if (!reduced || keepdim) ++to;
  }
  return map;
}

}  // namespace downhaul
