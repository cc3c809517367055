#include <algorithm>
#include <limits>

#include "ops/ops.h"
#include "targets/portable/rewrites/rewrites.h"

// Image kernels take NCHW and pad both sides of an axis equally.
namespace downhaul::portable {
namespace {

bool is_even(const Ints& p) { return p[0] == p[2] && p[1] == p[3]; }

// op(x, padding=[t, l, b, r]) → op(pad(x), padding=0) for t ≠ b or l ≠ r
std::vector<Value*> uneven_padding_to_pad(Node& node, Builder& b) {
  if (node.schema().find("padding") == nullptr || node.s("layout") != "nchw") return {};
  const Ints p = node.ints("padding");
  if (p.size() != 4 || is_even(p)) return {};
  double fill = 0;
  if (node.is(ops::kConvTranspose2d)) return {};  // its padding takes away from the result
  if (node.is(ops::kMaxPool2d)) {
    // Padding never wins, and a window that starts in the right padding is dropped.
    if (node.b("ceil_mode") || !is_float(node.result()->dtype())) return {};
    fill = -std::numeric_limits<double>::infinity();
  }
  if (node.is(ops::kAvgPool2d) &&
      (node.b("ceil_mode") || !(node.b("count_include_pad") || node.has_attr("divisor_override"))))
    return {};
  Value* padded = b.op(
      ops::kPad, {node.operand(0)},
      {{"before", Ints{0, 0, p[0], p[1]}}, {"after", Ints{0, 0, p[2], p[3]}}, {"value", fill}});
  std::vector<Value*> operands = node.operands();
  operands[0] = padded;
  return {b.like(node, std::move(operands), {{"padding", Ints{0, 0, 0, 0}}})};
}

// op(x, layout="nhwc") → permute(op(permute(x), layout="nchw"))
std::vector<Value*> nhwc_to_nchw(Node& node, Builder& b) {
  const SchemaArg* layout = node.schema().find("layout");
  if (layout == nullptr || node.s("layout") != "nhwc" || node.operand(0)->rank() != 4) return {};
  std::vector<Value*> operands = node.operands();
  operands[0] = b.op(ops::kPermute, {operands[0]}, {{"dims", Ints{0, 3, 1, 2}}});
  Value* y = b.like(node, std::move(operands), {{"layout", std::string("nchw")}});
  return {b.op(ops::kPermute, {y}, {{"dims", Ints{0, 2, 3, 1}}})};
}

// pad with negative entries → slice, then pad with the others
std::vector<Value*> crop_to_slice(Node& node, Builder& b) {
  Value* v = node.operand(0);
  Ints before = node.ints("before"), after = node.ints("after");
  bool crops = false;
  if (node.s("mode") != "constant") return {};
  for (size_t d = 0; d < before.size(); ++d) {
    if (before[d] >= 0 && after[d] >= 0) continue;
    crops = true;
    const auto dim = static_cast<int64_t>(d);
    const Dim start = std::max<int64_t>(-before[d], 0);
    const Dim end = v->dim(dim) - std::max<int64_t>(-after[d], 0);
    v = b.op(ops::kSlice, {v}, {{"dim", dim}, {"start", start}, {"end", end}});
    if (!b.status().ok()) return {};
    before[d] = std::max<int64_t>(before[d], 0);
    after[d] = std::max<int64_t>(after[d], 0);
  }
  if (!crops) return {};
  return {b.like(node, {v}, {{"before", before}, {"after", after}})};
}

}  // namespace

const Rewrite kCropToSlice = {
    .name = "crop_to_slice",
    .root = &ops::kPad,
    .apply = crop_to_slice,
};

const Rewrite kUnevenPaddingToPad = {
    .name = "uneven_padding_to_pad",
    .apply = uneven_padding_to_pad,
};

const Rewrite kNhwcToNchw = {
    .name = "nhwc_to_nchw",
    .apply = nhwc_to_nchw,
};

}  // namespace downhaul::portable
