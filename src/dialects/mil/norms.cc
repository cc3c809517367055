// Normalisations, softmax, reductions.
#include <cmath>
#include <optional>

#include "base/strings.h"
#include "dialects/mil/table.h"

namespace downhaul::coreml {
namespace {

std::string affine(const Value* v) {
  return v == nullptr || v->is_constant() ? "" : "its weights are computed";
}

std::string refuse_norm(const Node& node, const Target& /*target*/) {
  std::string why = affine(node.operand("weight"));
  return why.empty() ? affine(node.operand("bias")) : why;
}

void layer_norm(const Node& node, const Ints& axes, ProgramBuilder& b) {
  std::vector<In> in = {{"x", b.value(node.operand("input"))},
                        {"axes", b.ints("axes", axes)},
                        {"epsilon", b.number("epsilon", node.f("eps"))}};
  if (const Value* w = node.operand("weight")) in.emplace_back("gamma", b.value(w));
  if (const Value* v = node.operand("bias")) in.emplace_back("beta", b.value(v));
  b.result(node, "layer_norm", in);
}

void emit_layer_norm(const Node& node, ProgramBuilder& b) {
  const auto count = static_cast<int64_t>(node.ints("normalized_shape").size());
  Ints axes;
  for (int64_t i = -count; i < 0; ++i) axes.push_back(i);
  layer_norm(node, axes, b);
}

/// b / w when it can stand for b: then (z·r + b/w)·w, as Apple's layer writes it. Halves must hold
/// the quotient, and a weight of 0 has none.
std::optional<Tensor> quotient(const Tensor& weight, const Tensor& bias) {
  constexpr double kLargest = 1e4;
  std::vector<float> out;
  for (int64_t i = 0; i < weight.num_elements(); ++i) {
    const double q = bias.at(i) / weight.at(i);
    if (weight.at(i) == 0 || !(std::fabs(q) <= kLargest)) return std::nullopt;
    out.push_back(static_cast<float>(q));
  }
  return Tensor::from<float>({1, weight.num_elements(), 1, 1}, out);
}

/// Nine operations: mean, sub, mul, mean, add, rsqrt, mul, and the affine part.
void primitive_norm(const Node& node, ProgramBuilder& b) {
  const Sizes sizes = sizes_of(node.result());
  Sizes rows = sizes;
  rows[1] = 1;
  const std::string axes = b.ints("axes", {1}), keep = b.flag("keep_dims", true);
  const std::string x = b.value(node.operand("input"));
  const std::string mean =
      b.step(node, "reduce_mean", {{"x", x}, {"axes", axes}, {"keep_dims", keep}}, rows);
  const std::string z = b.step(node, "sub", {{"x", x}, {"y", mean}}, sizes);
  const std::string square = b.step(node, "mul", {{"x", z}, {"y", z}}, sizes);
  const std::string variance =
      b.step(node, "reduce_mean", {{"x", square}, {"axes", axes}, {"keep_dims", keep}}, rows);
  const std::string above =
      b.step(node, "add", {{"x", variance}, {"y", b.number("y", node.f("eps"))}}, rows);
  const std::string r =
      b.step(node, "rsqrt", {{"x", above}, {"epsilon", b.number("epsilon", 0)}}, rows);
  const Value* weight = node.operand("weight");
  const Value* bias = node.operand("bias");
  const std::vector<In> product = {{"x", z}, {"y", r}};
  if (weight == nullptr && bias == nullptr) {
    b.result(node, "mul", product);
    return;
  }
  const std::string y = b.step(node, "mul", product, sizes);
  const Sizes channel = {1, sizes[1], 1, 1};
  if (weight != nullptr && bias != nullptr) {
    if (const auto q = quotient(weight->constant(), bias->constant())) {
      const std::string moved = b.step(
          node, "add", {{"x", y}, {"y", b.constant(*q, bias->name() + "_over_weight")}}, sizes);
      b.result(node, "mul", {{"x", moved}, {"y", b.reshaped(weight, channel)}});
      return;
    }
    b.note(cat("'", bias->name(),
               "' over its weight is beyond 1e4 or has no quotient: scaled before it is added"));
    const std::string scaled =
        b.step(node, "mul", {{"x", y}, {"y", b.reshaped(weight, channel)}}, sizes);
    b.result(node, "add", {{"x", scaled}, {"y", b.reshaped(bias, channel)}});
  } else if (weight != nullptr) {
    b.result(node, "mul", {{"x", y}, {"y", b.reshaped(weight, channel)}});
  } else {
    b.result(node, "add", {{"x", y}, {"y", b.reshaped(bias, channel)}});
  }
}

void emit_channel_norm(const Node& node, ProgramBuilder& b) {
  if (b.options().primitive_norms && node.result()->rank() == 4) {
    primitive_norm(node, b);
  } else {
    layer_norm(node, {1}, b);
  }
}

std::string refuse_batch_norm(const Node& node, const Target& /*target*/) {
  for (const Value* v : node.operands()) {
    if (v != nullptr && v != node.operand("input") && !v->is_constant())
      return "its statistics are computed";
  }
  return node.operand("input")->rank() >= 3 ? "" : "Core ML's takes images only";
}
void emit_batch_norm(const Node& node, ProgramBuilder& b) {
  std::vector<In> in = {{"x", b.value(node.operand("input"))},
                        {"mean", b.value(node.operand("mean"))},
                        {"variance", b.value(node.operand("var"))},
                        {"epsilon", b.number("epsilon", node.f("eps"))}};
  if (const Value* w = node.operand("weight")) in.emplace_back("gamma", b.value(w));
  if (const Value* v = node.operand("bias")) in.emplace_back("beta", b.value(v));
  b.result(node, "batch_norm", in);
}

void emit_softmax(const Node& node, ProgramBuilder& b) {
  const int64_t axis = node.axis("dim", node.result()->rank());
  b.result(node, "softmax", {{"x", b.value(node.operand(0))}, {"axis", b.integer("axis", axis)}});
}
void emit_log_softmax(const Node& node, ProgramBuilder& b) {
  const int64_t axis = node.axis("dim", node.result()->rank());
  const Sizes sizes = sizes_of(node.result());
  Sizes rows = sizes;
  rows[static_cast<size_t>(axis)] = 1;
  // x - max - log Σ exp(x - max): a logarithm of softmax would lose what is far below 1.
  const std::string axes = b.ints("axes", {axis}), keep = b.flag("keep_dims", true);
  const std::string x = b.value(node.operand(0));
  const std::string sum =
      b.step(node, "reduce_log_sum_exp", {{"x", x}, {"axes", axes}, {"keep_dims", keep}}, rows);
  b.result(node, "sub", {{"x", x}, {"y", sum}});
}

template <const char* kType>
void reduce(const Node& node, ProgramBuilder& b) {
  b.result(node, kType,
           {{"x", b.value(node.operand(0))},
            {"axes", b.ints("axes", node.ints("dims"))},
            {"keep_dims", b.flag("keep_dims", node.b("keepdim"))}});
}
template <const char* kType>
void reduce_index(const Node& node, ProgramBuilder& b) {
  b.result(node, kType,
           {{"x", b.value(node.operand(0))},
            {"axis", b.integer("axis", node.axis("dim", node.operand(0)->rank()))},
            {"keep_dims", b.flag("keep_dims", node.b("keepdim"))}});
}
std::string refuse_reduction(const Node& node, const Target& /*target*/) {
  return node.operand(0)->dtype() == DType::kBool ? "Core ML reduces numbers only" : "";
}

void emit_cumsum(const Node& node, ProgramBuilder& b) {
  b.result(node, "cumsum",
           {{"x", b.value(node.operand(0))},
            {"axis", b.integer("axis", node.axis("dim", node.operand(0)->rank()))}});
}

constexpr char kMean[] = "reduce_mean", kSum[] = "reduce_sum", kMax[] = "reduce_max",
               kMin[] = "reduce_min", kProd[] = "reduce_prod", kArgmax[] = "reduce_argmax",
               kArgmin[] = "reduce_argmin";

constexpr EmitRow kRows[] = {
    {&ops::kLayerNorm, refuse_norm, emit_layer_norm},
    {&ops::kChannelNorm, refuse_norm, emit_channel_norm},
    {&ops::kBatchNorm, refuse_batch_norm, emit_batch_norm},
    {&ops::kSoftmax, nullptr, emit_softmax},
    {&ops::kLogSoftmax, nullptr, emit_log_softmax},
    {&ops::kMean, refuse_reduction, reduce<kMean>},
    {&ops::kSum, refuse_reduction, reduce<kSum>},
    {&ops::kAmax, refuse_reduction, reduce<kMax>},
    {&ops::kAmin, refuse_reduction, reduce<kMin>},
    {&ops::kProd, refuse_reduction, reduce<kProd>},
    {&ops::kArgmax, refuse_reduction, reduce_index<kArgmax>},
    {&ops::kArgmin, refuse_reduction, reduce_index<kArgmin>},
    {&ops::kCumsum, refuse_reduction, emit_cumsum},
};

}  // namespace

std::span<const EmitRow> norm_rows() { return kRows; }

}  // namespace downhaul::coreml
