#include <cmath>

#include "ops/elementwise.h"
#include "ops/ops.h"

// Functions of one floating-point element: y = f(self), same dtype and shape. Errors: kInvalidGraph
// for other dtypes (integers are cast first). f16 and bf16 are computed in f32. Source:
// aten::<name>, argument `self`.
namespace downhaul::ops {

const OpDef kAtan = {
    .name = "atan",
    .schema = "atan(Tensor self) -> Tensor",
    .infer = infer_same_float,
    .axes = elementwise_axes,
    .reference = [](RefCall& c) { return map_float(c, [](auto x) { return std::atan(x); }); },
    .accuracy = Accuracy::kRounding,
};

const OpDef kCos = {
    .name = "cos",
    .schema = "cos(Tensor self) -> Tensor",
    .infer = infer_same_float,
    .axes = elementwise_axes,
    .reference = [](RefCall& c) { return map_float(c, [](auto x) { return std::cos(x); }); },
    .accuracy = Accuracy::kRounding,
};

const OpDef kErf = {
    .name = "erf",
    .schema = "erf(Tensor self) -> Tensor",
    .infer = infer_same_float,
    .axes = elementwise_axes,
    .reference = [](RefCall& c) { return map_float(c, [](auto x) { return std::erf(x); }); },
    .accuracy = Accuracy::kRounding,
};

const OpDef kExp = {
    .name = "exp",
    .schema = "exp(Tensor self) -> Tensor",
    .infer = infer_same_float,
    .axes = elementwise_axes,
    .reference = [](RefCall& c) { return map_float(c, [](auto x) { return std::exp(x); }); },
    .accuracy = Accuracy::kRounding,
};

// expm1: e^x - 1, exact near 0.
const OpDef kExpm1 = {
    .name = "expm1",
    .schema = "expm1(Tensor self) -> Tensor",
    .infer = infer_same_float,
    .axes = elementwise_axes,
    .reference = [](RefCall& c) { return map_float(c, [](auto x) { return std::expm1(x); }); },
    .accuracy = Accuracy::kRounding,
};

const OpDef kLog = {
    .name = "log",
    .schema = "log(Tensor self) -> Tensor",
    .infer = infer_same_float,
    .axes = elementwise_axes,
    .reference = [](RefCall& c) { return map_float(c, [](auto x) { return std::log(x); }); },
    .accuracy = Accuracy::kRounding,
};

// log1p: log(1 + x), exact near 0.
const OpDef kLog1p = {
    .name = "log1p",
    .schema = "log1p(Tensor self) -> Tensor",
    .infer = infer_same_float,
    .axes = elementwise_axes,
    .reference = [](RefCall& c) { return map_float(c, [](auto x) { return std::log1p(x); }); },
    .accuracy = Accuracy::kRounding,
};

const OpDef kReciprocal = {
    .name = "reciprocal",
    .schema = "reciprocal(Tensor self) -> Tensor",
    .infer = infer_same_float,
    .axes = elementwise_axes,
    .reference = [](RefCall& c) { return map_float(c, [](auto x) { return decltype(x)(1) / x; }); },
    .accuracy = Accuracy::kRounding,
};

const OpDef kRsqrt = {
    .name = "rsqrt",
    .schema = "rsqrt(Tensor self) -> Tensor",
    .infer = infer_same_float,
    .axes = elementwise_axes,
    .reference =
        [](RefCall& c) {
          return map_float(c, [](auto x) { return decltype(x)(1) / std::sqrt(x); });
        },
    .accuracy = Accuracy::kRounding,
};

const OpDef kSin = {
    .name = "sin",
    .schema = "sin(Tensor self) -> Tensor",
    .infer = infer_same_float,
    .axes = elementwise_axes,
    .reference = [](RefCall& c) { return map_float(c, [](auto x) { return std::sin(x); }); },
    .accuracy = Accuracy::kRounding,
};

const OpDef kSqrt = {
    .name = "sqrt",
    .schema = "sqrt(Tensor self) -> Tensor",
    .infer = infer_same_float,
    .axes = elementwise_axes,
    .reference = [](RefCall& c) { return map_float(c, [](auto x) { return std::sqrt(x); }); },
    .accuracy = Accuracy::kRounding,
};

const OpDef kTanh = {
    .name = "tanh",
    .schema = "tanh(Tensor self) -> Tensor",
    .infer = infer_same_float,
    .axes = elementwise_axes,
    .reference = [](RefCall& c) { return map_float(c, [](auto x) { return std::tanh(x); }); },
    .accuracy = Accuracy::kRounding,
};

}  // namespace downhaul::ops
