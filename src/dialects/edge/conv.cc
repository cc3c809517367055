#include <cmath>

#include "base/strings.h"
#include "dialects/edge/functions.h"

// Image operators. The kernels take NCHW and one padding per axis; the operators take one per side.
namespace downhaul::edge {
namespace {

Status require_nchw(const Node& node) {
  if (node.s("layout") != "nchw") return no_kernel(node, "the kernel takes NCHW");
  return {};
}

/// [top, left, bottom, right] as [height, width].
Result<Ints> symmetric_padding(const Node& node) {
  const Ints& p = node.ints("padding");
  if (p[0] != p[2] || p[1] != p[3])
    return no_kernel(node, "the kernel pads both sides of an axis equally");
  return Ints{p[0], p[1]};
}

/// Two numbers from a list of one (for both axes) or two.
Ints pair(Raising& r, size_t i, const Ints& when_empty = {}) {
  Ints v = r.ints(i);
  if (v.empty() && !when_empty.empty()) return when_empty;
  if (v.size() == 1) v.push_back(v[0]);
  if (v.size() != 2) {
    r.refuse(cat("argument ", i, " has ", v.size(), " numbers, expected 2"));
    return {1, 1};
  }
  return v;
}

Ints both_sides(const Ints& p) { return {p[0], p[1], p[0], p[1]}; }

Value* insert_axis(Raising& r, Value* v) {
  Shape shape = v->shape();
  shape.insert(shape.begin() + 2, 1);
  return r.b.op(ops::kReshape, {v}, {{"shape", shape}});
}

}  // namespace

// --- convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding,
//     groups)

Result<KernelCall> emit_conv2d(const Node& node) {
  DH_TRY(require_nchw(node));
  DH_ASSIGN(const Ints padding, symmetric_padding(node));
  return call_of(
      node, "aten::convolution.out",
      {tensor(node.operand("input")), tensor(node.operand("weight")), tensor(node.operand("bias")),
       ints(node.ints("stride")), ints(padding), ints(node.ints("dilation")), flag(false),
       ints({0, 0}), integer(node.i("groups"))});
}

Result<KernelCall> emit_conv_transpose2d(const Node& node) {
  DH_TRY(require_nchw(node));
  DH_ASSIGN(const Ints padding, symmetric_padding(node));
  return call_of(
      node, "aten::convolution.out",
      {tensor(node.operand("input")), tensor(node.operand("weight")), tensor(node.operand("bias")),
       ints(node.ints("stride")), ints(padding), ints(node.ints("dilation")), flag(true),
       ints(node.ints("output_padding")), integer(node.i("groups"))});
}

Values raise_convolution(Raising& r) {
  Value* input = r.tensor(0);
  Value* weight = r.tensor(1);
  Value* bias = r.tensor_or_null(2);
  if (!r.ok()) return {};
  const int64_t rank = input->rank();
  if ((rank != 3 && rank != 4) || weight->rank() != rank) {
    r.refuse(cat("convolution of ", input->type().str()));
    return {};
  }
  // One spatial dimension: the same with a height of 1.
  const bool one = rank == 3;
  const auto read = [&](size_t i, int64_t height) {
    return one ? Ints{height, pair(r, i)[1]} : pair(r, i);
  };
  const Ints stride = read(3, 1), padding = read(4, 0), dilation = read(5, 1);
  const bool transposed = r.flag(6);
  const int64_t groups = r.integer(8);
  if (!r.ok()) return {};
  if (one) {
    input = insert_axis(r, input);
    weight = insert_axis(r, weight);
  }
  NamedAttrs attrs = {{"stride", stride},
                      {"padding", both_sides(padding)},
                      {"dilation", dilation},
                      {"groups", groups}};
  if (transposed) attrs.emplace_back("output_padding", read(7, 0));
  Value* result =
      r.b.op(transposed ? ops::kConvTranspose2d : ops::kConv2d, {input, weight, bias}, attrs);
  if (one && r.ok()) {
    Shape shape = result->shape();
    shape.erase(shape.begin() + 2);
    result = r.b.op(ops::kReshape, {result}, {{"shape", shape}});
  }
  return {result};
}

// --- pooling

Result<KernelCall> emit_max_pool2d(const Node& node) {
  DH_TRY(require_nchw(node));
  DH_ASSIGN(const Ints padding, symmetric_padding(node));
  KernelCall call =
      call_of(node, "aten::max_pool2d_with_indices.out",
              {tensor(node.operand(0)), ints(node.ints("kernel")), ints(node.ints("stride")),
               ints(padding), ints(node.ints("dilation")), flag(node.b("ceil_mode"))});
  call.outs.push_back({DType::kI64, node.result()->shape()});
  return call;
}

Values raise_max_pool2d(Raising& r) {
  Value* self = r.tensor(0);
  const Ints kernel = pair(r, 1), stride = pair(r, 2, kernel), padding = pair(r, 3),
             dilation = pair(r, 4);
  const bool ceil_mode = r.flag(5);
  if (!r.ok()) return {};
  return {r.b.op(ops::kMaxPool2d, {self},
                 {{"kernel", kernel},
                  {"stride", stride},
                  {"padding", both_sides(padding)},
                  {"dilation", dilation},
                  {"ceil_mode", ceil_mode}})};
}

Result<KernelCall> emit_avg_pool2d(const Node& node) {
  DH_TRY(require_nchw(node));
  DH_ASSIGN(const Ints padding, symmetric_padding(node));
  const bool divides = node.has_attr("divisor_override");
  return call_of(node, "aten::avg_pool2d.out",
                 {tensor(node.operand(0)), ints(node.ints("kernel")), ints(node.ints("stride")),
                  ints(padding), flag(node.b("ceil_mode")), flag(node.b("count_include_pad")),
                  divides ? integer(node.i("divisor_override")) : none()});
}

Values raise_avg_pool2d(Raising& r) {
  Value* self = r.tensor(0);
  const Ints kernel = pair(r, 1), stride = pair(r, 2, kernel), padding = pair(r, 3);
  const bool ceil_mode = r.flag(4), count_include_pad = r.flag(5);
  NamedAttrs attrs = {{"kernel", kernel},
                      {"stride", stride},
                      {"padding", both_sides(padding)},
                      {"ceil_mode", ceil_mode},
                      {"count_include_pad", count_include_pad}};
  if (!r.is_none(6)) attrs.emplace_back("divisor_override", r.integer(6));
  if (!r.ok()) return {};
  return {r.b.op(ops::kAvgPool2d, {self}, attrs)};
}

// --- resampling: the size of the result, or factors from which the kernel computes it

namespace {

/// The arguments output_size and scale_factors.
Result<std::pair<Arg, Arg>> size_or_factors(const Node& node) {
  DH_TRY(require_nchw(node));
  if (!node.has_attr("scale_h") && !node.has_attr("scale_w"))
    return std::pair(ints(node.ints("output_size")), none());
  if (!node.has_attr("scale_h") || !node.has_attr("scale_w"))
    return no_kernel(node, "the kernel takes a factor for both axes or for none");
  const Floats factors = {node.f("scale_h"), node.f("scale_w")};
  for (size_t i = 0; i < 2; ++i) {
    const Dim& in = node.operand(0)->dim(static_cast<int64_t>(2 + i));
    if (!in.is_static() || std::floor(static_cast<double>(in.value()) * factors[i]) !=
                               static_cast<double>(node.ints("output_size")[i]))
      return no_kernel(node, "factors that do not give the size of the result");
  }
  return std::pair(none(), Arg(factors));
}

NamedAttrs read_size_or_factors(Raising& r, size_t size_arg, size_t factors_arg) {
  NamedAttrs attrs;
  if (!r.is_none(size_arg)) {
    attrs.emplace_back("output_size", pair(r, size_arg));
    return attrs;
  }
  const Floats factors = r.floats(factors_arg);
  if (factors.size() != 2 || r.out().rank() != 4 || !r.out().is_static()) {
    r.refuse("neither a size nor two factors");
    return attrs;
  }
  attrs.emplace_back("output_size", Ints{r.out().shape[2].value(), r.out().shape[3].value()});
  attrs.emplace_back("scale_h", factors[0]);
  attrs.emplace_back("scale_w", factors[1]);
  return attrs;
}

}  // namespace

Result<KernelCall> emit_upsample_bilinear2d(const Node& node) {
  DH_ASSIGN(auto size, size_or_factors(node));
  return call_of(node, "aten::upsample_bilinear2d.vec_out",
                 {tensor(node.operand(0)), std::move(size.first), flag(node.b("align_corners")),
                  std::move(size.second)});
}

Values raise_upsample_bilinear2d(Raising& r) {
  Value* self = r.tensor(0);
  NamedAttrs attrs = read_size_or_factors(r, 1, 3);
  attrs.emplace_back("align_corners", r.flag(2));
  if (!r.ok()) return {};
  return {r.b.op(ops::kUpsampleBilinear2d, {self}, attrs)};
}

Result<KernelCall> emit_upsample_nearest2d(const Node& node) {
  DH_ASSIGN(auto size, size_or_factors(node));
  return call_of(node, "aten::upsample_nearest2d.vec_out",
                 {tensor(node.operand(0)), std::move(size.first), std::move(size.second)});
}

Values raise_upsample_nearest2d(Raising& r) {
  Value* self = r.tensor(0);
  const NamedAttrs attrs = read_size_or_factors(r, 1, 2);
  if (!r.ok()) return {};
  return {r.b.op(ops::kUpsampleNearest2d, {self}, attrs)};
}

}  // namespace downhaul::edge
