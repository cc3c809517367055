#include "ops/axes.h"
#include "ops/infer.h"
#include "ops/ops.h"

#include <cstring>

namespace downhaul::ops {

namespace {

TypesResult infer_concat(const Node& node) {
  const std::vector<Value*> tensors = node.list();
  if (tensors.empty()) return invalid_graph("tensors: expected at least one, found none");
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i] == nullptr) return invalid_graph(cat("tensors[", i, "]: expected a tensor"));
  }
  const TensorType& first = tensors[0]->type();
  DH_TRY(require_axis(node, "dim", first.rank()));
  const int64_t axis = node.axis("dim", first.rank());
  Shape shape = first.shape;
  for (size_t i = 1; i < tensors.size(); ++i) {
    const TensorType& type = tensors[i]->type();
    bool fits = type.dtype == first.dtype && type.rank() == first.rank();
    for (int64_t d = 0; fits && d < first.rank(); ++d) {
      fits = d == axis || type.shape[static_cast<size_t>(d)] == shape[static_cast<size_t>(d)];
    }
    if (!fits) {
      return invalid_graph(cat("tensors[", i, "]: expected ", first.str(), " but for dimension ",
                               axis, ", found ", type.str()));
    }
    Dim& total = shape[static_cast<size_t>(axis)];
    total = total + type.shape[static_cast<size_t>(axis)];
  }
  return one_type(first.dtype, std::move(shape));
}

AxisMap concat_axes(const Node& node) {
  AxisMap map = whole_axes(node);
  const int64_t axis = node.axis("dim", node.result()->rank());
  for (int o = 0; o < static_cast<int>(node.operands().size()); ++o) {
    for (int64_t d = 0; d < node.result()->rank(); ++d) {
      if (d != axis) map_axis_always(map, o, d, d);
    }
  }
  return map;
}

Status concat(RefCall& call) {
  const Tensor& out = call.out();
  const int64_t axis = call.node.axis("dim", out.rank());
  size_t outer = 1;
  for (int64_t d = 0; d < axis; ++d) outer *= static_cast<size_t>(out.size(d));
  const size_t out_row = out.num_bytes() / outer;
  auto* to = call.out().mutable_data<uint8_t>();
  for (const Tensor* t : call.operands) {
    const size_t row = t->num_bytes() / outer;
    const uint8_t* from = t->bytes().data();
    for (size_t o = 0; o < outer && row != 0; ++o) {
      std::memcpy(to + o * out_row, from + o * row, row);
    }
    to += row;
  }
  return {};
}

}  // namespace

// concat: the tensors one after the other along `dim`; sizes there add up, all others are equal.
// Errors: kInvalidGraph for no tensor, another dtype, rank or size. Source: aten::cat.
const OpDef kConcat = {
    .name = "concat",
    .schema = "concat(Tensor[] tensors, int dim) -> Tensor",
    .infer = infer_concat,
    .axes = concat_axes,
    .reference = concat,
};

}  // namespace downhaul::ops
