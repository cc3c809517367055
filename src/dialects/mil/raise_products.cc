// Products, normalisations, reductions.
#include <algorithm>

#include "base/strings.h"
#include "dialects/mil/raiser.h"

namespace downhaul::coreml {
namespace {

Values linear(RaiseCall& c) {
  Value* x = c.in("x");
  Value* weight = c.in("weight");
  return {c.b.op(ops::kLinear, {x, weight, c.maybe("bias")})};
}

Values matmul(RaiseCall& c) {
  Value* x = c.in("x");
  return {c.b.op(ops::kMatmul, {x, c.in("y")},
                 {{"transpose_self", c.flag("transpose_x", false)},
                  {"transpose_other", c.flag("transpose_y", false)}})};
}

/// nchw,nwhu->nchu in any letters, and chw,whr->chr.
Values einsum(RaiseCall& c) {
  const std::vector<Value*> values = c.list("values");
  std::string equation = c.text("equation", "");
  std::erase(equation, ' ');
  std::string renamed;
  const std::string_view kLetters = "nchwu";
  std::string order;
  const bool four = equation.size() == 15;
  // Letters in the order of their first appearance stand for those of the known form.
  for (const char letter : equation) {
    if (letter == ',' || letter == '-' || letter == '>') {
      renamed.push_back(letter);
      continue;
    }
    size_t at = order.find(letter);
    if (at == std::string::npos) {
      at = order.size();
      order.push_back(letter);
    }
    if (!four) ++at;
    renamed.push_back(at < kLetters.size() ? kLetters[at] : '?');
  }
  if (values.size() != 2 || (renamed != "nchw,nwhu->nchu" && renamed != "chw,whu->chu")) {
    return {c.refuse(cat("equation ", printable(equation, 40)))};
  }
  if (!c.ok()) return {nullptr};
  if (renamed[0] == 'n') return {c.b.op(ops::kChannelMatmul, {values[0], values[1]})};
  const auto batched = [&](Value* v) {
    Dims shape(v->shape().begin(), v->shape().end());
    shape.insert(shape.begin(), Dim(1));
    return c.b.op(ops::kReshape, {v}, {{"shape", shape}});
  };
  Value* y = c.b.op(ops::kChannelMatmul, {batched(values[0]), batched(values[1])});
  if (y == nullptr) return {nullptr};
  return {c.b.op(ops::kReshape, {y}, {{"shape", Dims(y->shape().begin() + 1, y->shape().end())}})};
}

Values layer_norm(RaiseCall& c) {
  Value* x = c.in("x");
  if (x == nullptr) return {nullptr};
  Ints axes = c.axes(c.ints("axes", {-1}), x->rank());
  std::sort(axes.begin(), axes.end());
  const double eps = c.number("epsilon", 1e-5);
  Value* gamma = c.maybe("gamma");
  Value* beta = c.maybe("beta");
  if (axes == Ints{1} && x->rank() > 2) {
    return {c.b.op(ops::kChannelNorm, {x, gamma, beta}, {{"eps", eps}})};
  }
  Ints normalized;
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] != x->rank() - static_cast<int64_t>(axes.size() - i)) {
      return {c.refuse("axes that are neither the last ones nor the channels")};
    }
    normalized.push_back(x->dim(axes[i]).value());
  }
  return {
      c.b.op(ops::kLayerNorm, {x, gamma, beta}, {{"normalized_shape", normalized}, {"eps", eps}})};
}

Values softmax(RaiseCall& c) {
  Value* x = c.in("x");
  if (x == nullptr) return {nullptr};
  return {c.b.op(ops::kSoftmax, {x}, {{"dim", c.axis(c.integer("axis", -1), x->rank())}})};
}

/// Sums of integers are wider in the IR than in Core ML.
Value* in_type_of(RaiseCall& c, Value* y, const Value* x) {
  if (y == nullptr || y->dtype() == x->dtype()) return y;
  return c.b.op(ops::kCast, {y}, {{"dtype", x->dtype()}});
}

Ints reduced_axes(RaiseCall& c, const Value* x) {
  if (c.has("axes")) return c.axes(c.ints("axes"), x->rank());
  Ints all;
  for (int64_t d = 0; d < x->rank(); ++d) all.push_back(d);
  return all;
}

template <const OpDef& kOp>
Values reduce(RaiseCall& c) {
  Value* x = c.in("x");
  if (x == nullptr) return {nullptr};
  Value* y =
      c.b.op(kOp, {x}, {{"dims", reduced_axes(c, x)}, {"keepdim", c.flag("keep_dims", false)}});
  return {in_type_of(c, y, x)};
}
template <const OpDef& kOp>
Values reduce_index(RaiseCall& c) {
  Value* x = c.in("x");
  if (x == nullptr) return {nullptr};
  Value* index = c.b.op(
      kOp, {x},
      {{"dim", c.axis(c.integer("axis", -1), x->rank())}, {"keepdim", c.flag("keep_dims", false)}});
  return {c.b.op(ops::kCast, {index}, {{"dtype", DType::kI32}})};
}
Values reduce_log_sum_exp(RaiseCall& c) {
  Value* x = c.in("x");
  if (x == nullptr) return {nullptr};
  const Ints dims = reduced_axes(c, x);
  Value* most = c.b.op(ops::kAmax, {x}, {{"dims", dims}, {"keepdim", true}});
  Value* sum = c.b.op(ops::kSum, {c.b.op(ops::kExp, {c.b.op(ops::kSub, {x, most})})},
                      {{"dims", dims}, {"keepdim", true}});
  Value* y = c.b.op(ops::kAdd, {c.b.op(ops::kLog, {sum}), most});
  if (c.flag("keep_dims", false) || y == nullptr) return {y};
  Dims shape;
  for (int64_t d = 0; d < y->rank(); ++d) {
    if (std::find(dims.begin(), dims.end(), d) == dims.end()) shape.push_back(y->dim(d));
  }
  return {c.b.op(ops::kReshape, {y}, {{"shape", shape}})};
}
Values cumsum(RaiseCall& c) {
  Value* x = c.in("x");
  if (x == nullptr) return {nullptr};
  if (c.flag("exclusive", false) || c.flag("reverse", false))
    return {c.refuse("exclusive or reverse")};
  Value* wide = is_float(x->dtype()) ? x : c.b.op(ops::kCast, {x}, {{"dtype", DType::kI64}});
  Value* y = c.b.op(ops::kCumsum, {wide}, {{"dim", c.axis(c.integer("axis", 0), x->rank())}});
  return {in_type_of(c, y, x)};
}

constexpr RaiseRow kRows[] = {
    {"cumsum", cumsum},
    {"einsum", einsum},
    {"layer_norm", layer_norm},
    {"linear", linear},
    {"matmul", matmul},
    {"reduce_argmax", reduce_index<ops::kArgmax>},
    {"reduce_argmin", reduce_index<ops::kArgmin>},
    {"reduce_log_sum_exp", reduce_log_sum_exp},
    {"reduce_max", reduce<ops::kAmax>},
    {"reduce_mean", reduce<ops::kMean>},
    {"reduce_min", reduce<ops::kAmin>},
    {"reduce_prod", reduce<ops::kProd>},
    {"reduce_sum", reduce<ops::kSum>},
    {"softmax", softmax},
};

}  // namespace

std::span<const RaiseRow> raise_product_rows() { return kRows; }

}  // namespace downhaul::coreml
