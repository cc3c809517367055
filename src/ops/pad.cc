#include <algorithm>
#include <cmath>

#include "ops/axes.h"
#include "ops/infer.h"
#include "ops/loops.h"
#include "ops/ops.h"
#include "ops/pad.h"

namespace downhaul::ops {

namespace {

TypesResult infer_pad(const Node& node) {
  const TensorType& self = node.type("self");
  DH_TRY(require_one_of(node, "mode", {"constant", "reflect", "replicate"}));
  const std::string& mode = node.s("mode");
  // Constant padding may crop.
  const int64_t least = mode == "constant" ? -(int64_t{1} << 31) : 0;
  DH_TRY(require_ints(node, "before", self.shape.size(), least));
  DH_TRY(require_ints(node, "after", self.shape.size(), least));
  const double value = node.f("value");
  if (is_integer(self.dtype) && (!std::isfinite(value) || value != std::trunc(value))) {
    return invalid_graph(
        cat("value: expected an integer for ", name(self.dtype), ", found ", value));
  }
  Shape shape;
  for (size_t d = 0; d < self.shape.size(); ++d) {
    const int64_t before = node.ints("before")[d];
    const int64_t after = node.ints("after")[d];
    const Dim size = self.shape[d] + Dim(before) + Dim(after);
    // Reflection does not repeat the border, so it has size - 1 elements to show.
    const int64_t wanted = std::max(before, after) + (mode == "reflect" ? 1 : 0);
    const bool needs_elements = mode != "constant" && std::max(before, after) > 0;
    if (size.max() < 0 ||
        (needs_elements && self.shape[d].max() < (mode == "reflect" ? wanted : 1))) {
      return invalid_graph(cat("before, after: expected no more than dimension ", d, " of ",
                               self.str(), " allows in mode ", mode, ", found ", before, " and ",
                               after));
    }
    shape.push_back(size);
  }
  return one_type(self.dtype, std::move(shape));
}

AxisMap pad_axes(const Node& node) {
  Ints padded;
  for (int64_t d = 0; d < node.operand(0)->rank(); ++d) {
    const auto i = static_cast<size_t>(d);
    if (node.ints("before")[i] != 0 || node.ints("after")[i] != 0) padded.push_back(d);
  }
  return same_except(node, padded);
}

Status pad(RefCall& call) {
  const Tensor& self = call.in("self");
  const std::string& mode = call.node.s("mode");
  IndexTables tables;
  for (size_t d = 0; d < self.sizes().size(); ++d) {
    const int64_t size = self.sizes()[d];
    const int64_t before = call.node.ints("before")[d];
    const int64_t after = call.node.ints("after")[d];
    const int64_t most = std::max(before, after);
    if ((mode == "reflect" && most > 0 && most >= size) ||
        (mode == "replicate" && most > 0 && size == 0)) {
      return invalid_argument(cat("before, after: expected less than the ", size,
                                  " elements of dimension ", d, " in mode ", mode, ", found ",
                                  before, " and ", after));
    }
    std::vector<int64_t> table(static_cast<size_t>(call.out().sizes()[d]));
    for (size_t i = 0; i < table.size(); ++i) {
      table[i] = pad_source_index(mode, static_cast<int64_t>(i) - before, size);
    }
    tables.push_back(std::move(table));
  }
  const Tensor fill = Tensor::scalar(self.dtype(), call.node.f("value"));
  copy_by_tables(self, tables, fill.bytes().data(), call.out());
  return {};
}

}  // namespace

int64_t pad_source_index(const std::string& mode, int64_t i, int64_t size) {
  if (i >= 0 && i < size) return i;
  if (mode == "constant") return -1;
  if (mode == "replicate") return std::clamp<int64_t>(i, 0, size - 1);
  return i < 0 ? -i : 2 * (size - 1) - i;
}

// pad: before[d] elements in front of and after[d] behind dimension d, outermost dimension first.
//   mode "constant": `value`; negative entries crop      "replicate": the border element
//   mode "reflect": mirrored at the border element, which is not repeated; less than the size
// Any dtype. Errors: kInvalidGraph for counts, modes, padding that the size does not allow, a value
// that an integer dtype cannot hold. Source: aten::pad, aten::constant_pad_nd.
const OpDef kPad = {
    .name = "pad",
    .schema =
        "pad(Tensor self, int[] before, int[] after, float value=0.0, str mode=\"constant\") "
        "-> Tensor",
    .infer = infer_pad,
    .axes = pad_axes,
    .reference = pad,
};

}  // namespace downhaul::ops
