#include "kernels/elementwise/elementwise.h"

#include <array>
#include <unordered_map>

#include "base/strings.h"
#include "engine/steps/elementwise.h"
#include "engine/steps/steps.h"
#include "ops/ops.h"

namespace downhaul::engine {

using kernels::BinaryOp;
using kernels::Element;
using kernels::UnaryOp;

Element element_of(DType dtype) { return static_cast<Element>(dtype); }

std::optional<UnaryCall> unary_call(const Node& node) {
  static const std::unordered_map<const OpDef*, UnaryOp> kOps = {
      {&ops::kAbs, UnaryOp::kAbs},
      {&ops::kAtan, UnaryOp::kAtan},
      {&ops::kBitwiseNot, UnaryOp::kBitwiseNot},
      {&ops::kCeil, UnaryOp::kCeil},
      {&ops::kClamp, UnaryOp::kClamp},
      {&ops::kCos, UnaryOp::kCos},
      {&ops::kElu, UnaryOp::kElu},
      {&ops::kErf, UnaryOp::kErf},
      {&ops::kExp, UnaryOp::kExp},
      {&ops::kExpm1, UnaryOp::kExpm1},
      {&ops::kFloor, UnaryOp::kFloor},
      {&ops::kGelu, UnaryOp::kGelu},
      {&ops::kHardsigmoid, UnaryOp::kHardsigmoid},
      {&ops::kHardswish, UnaryOp::kHardswish},
      {&ops::kIsInf, UnaryOp::kIsInf},
      {&ops::kIsNan, UnaryOp::kIsNan},
      {&ops::kLeakyRelu, UnaryOp::kLeakyRelu},
      {&ops::kLog, UnaryOp::kLog},
      {&ops::kLog1p, UnaryOp::kLog1p},
      {&ops::kLogicalNot, UnaryOp::kLogicalNot},
      {&ops::kMish, UnaryOp::kMish},
      {&ops::kNeg, UnaryOp::kNeg},
      {&ops::kReciprocal, UnaryOp::kReciprocal},
      {&ops::kRound, UnaryOp::kRound},
      {&ops::kRsqrt, UnaryOp::kRsqrt},
      {&ops::kSigmoid, UnaryOp::kSigmoid},
      {&ops::kSign, UnaryOp::kSign},
      {&ops::kSilu, UnaryOp::kSilu},
      {&ops::kSin, UnaryOp::kSin},
      {&ops::kSoftplus, UnaryOp::kSoftplus},
      {&ops::kSqrt, UnaryOp::kSqrt},
      {&ops::kTanh, UnaryOp::kTanh},
      {&ops::kTrunc, UnaryOp::kTrunc},
  };
  const auto found = kOps.find(&node.op());
  if (found == kOps.end()) return std::nullopt;
  UnaryCall call{found->second, {}};
  if (node.is(ops::kClamp)) {
    if (node.has_attr("min")) call.params.a = node.f("min");
    if (node.has_attr("max")) call.params.b = node.f("max");
  } else if (node.is(ops::kElu)) {
    call.params.a = node.f("alpha");
  } else if (node.is(ops::kLeakyRelu)) {
    call.params.a = node.f("negative_slope");
  } else if (node.is(ops::kSoftplus)) {
    call.params.a = node.f("beta");
    call.params.b = node.f("threshold");
  } else if (node.is(ops::kGelu) && node.s("approximate") == "tanh") {
    call.op = UnaryOp::kGeluTanh;
  }
  return call;
}

std::optional<BinaryOp> binary_op(const Node& node) {
  static const std::unordered_map<const OpDef*, BinaryOp> kOps = {
      {&ops::kAdd, BinaryOp::kAdd},
      {&ops::kBitwiseAnd, BinaryOp::kBitwiseAnd},
      {&ops::kBitwiseOr, BinaryOp::kBitwiseOr},
      {&ops::kBitwiseXor, BinaryOp::kBitwiseXor},
      {&ops::kDiv, BinaryOp::kDiv},
      {&ops::kEq, BinaryOp::kEq},
      {&ops::kFloorDivide, BinaryOp::kFloorDivide},
      {&ops::kFmod, BinaryOp::kFmod},
      {&ops::kGe, BinaryOp::kGe},
      {&ops::kGt, BinaryOp::kGt},
      {&ops::kLe, BinaryOp::kLe},
      {&ops::kLogicalAnd, BinaryOp::kLogicalAnd},
      {&ops::kLogicalOr, BinaryOp::kLogicalOr},
      {&ops::kLogicalXor, BinaryOp::kLogicalXor},
      {&ops::kLt, BinaryOp::kLt},
      {&ops::kMaximum, BinaryOp::kMaximum},
      {&ops::kMinimum, BinaryOp::kMinimum},
      {&ops::kMul, BinaryOp::kMul},
      {&ops::kNe, BinaryOp::kNe},
      {&ops::kPow, BinaryOp::kPow},
      {&ops::kRemainder, BinaryOp::kRemainder},
      {&ops::kSub, BinaryOp::kSub},
  };
  const auto found = kOps.find(&node.op());
  if (found == kOps.end()) return std::nullopt;
  return found->second;
}

View broadcast_view(const View& view, const Sizes& sizes) {
  View out = view;
  out.sizes = sizes;
  out.strides.assign(sizes.size(), 0);
  const size_t added = sizes.size() - view.sizes.size();
  for (size_t d = 0; d < view.sizes.size(); ++d) {
    if (view.sizes[d] != 1) out.strides[d + added] = view.strides[d];
  }
  return out;
}

std::optional<kernels::Loops> loops_over(const Sizes& sizes, const std::vector<View>& operands) {
  const std::vector<int64_t> result = contiguous_strides(sizes);
  std::vector<std::vector<int64_t>> strides;
  std::vector<kernels::Extents> extents;
  strides.reserve(operands.size());
  for (const View& v : operands) {
    strides.push_back(broadcast_view(v, sizes).strides);
    extents.emplace_back(strides.back());
  }
  return kernels::strided_loops(sizes, result, extents);
}

namespace {

/// The operands as they lie, when loops over them exist; made dense otherwise.
std::optional<kernels::Loops> loops_of(PlanBuilder& plan, const Node& node,
                                       std::vector<Ref>& refs) {
  const Sizes sizes = plan.sizes(node.result());
  std::vector<View> views;
  for (const Value* v : node.operands()) {
    views.push_back(plan.view(v));
    refs.push_back(views.back().ref);
  }
  if (auto loops = loops_over(sizes, views)) return loops;
  for (size_t i = 0; i < views.size(); ++i) {
    refs[i] = plan.dense(node.operand(static_cast<int>(i)));
    views[i].strides = contiguous_strides(views[i].sizes);
  }
  return loops_over(sizes, views);
}

bool is_empty(PlanBuilder& plan, const Node& node) { return plan.elements(node.result()) == 0; }

}  // namespace

bool plan_unary(PlanBuilder& plan, const Node& node) {
  const auto call = unary_call(node);
  const Element element = element_of(node.operand(0)->dtype());
  if (!call || is_empty(plan, node) || !kernels::is_supported(call->op, element)) return false;
  std::vector<Ref> refs;
  const auto loops = loops_of(plan, node, refs);
  if (!loops) return false;
  const Ref out = plan.result(node.result());
  plan.emit(std::string(node.op_name()), {&node},
            [=, call = *call, loops = *loops, x = refs[0]](RunContext& run) {
              kernels::unary(call.op, call.params, element, loops, run.at<const void>(x),
                             run.at<void>(out), run.pool);
            });
  return true;
}

bool plan_binary(PlanBuilder& plan, const Node& node) {
  const auto op = binary_op(node);
  const Element element = element_of(node.operand(0)->dtype());
  if (!op || is_empty(plan, node) || node.operand(1)->dtype() != node.operand(0)->dtype() ||
      !kernels::is_supported(*op, element)) {
    return false;
  }
  std::vector<Ref> refs;
  const auto loops = loops_of(plan, node, refs);
  if (!loops) return false;
  const Ref out = plan.result(node.result());
  const std::string name(node.op_name());
  plan.emit(name, {&node},
            [=, op = *op, loops = *loops, x = refs[0], y = refs[1]](RunContext& run) {
              if (!kernels::binary(op, element, loops, run.at<const void>(x), run.at<const void>(y),
                                   run.at<void>(out), run.pool)) {
                run.fail(invalid_argument(cat(name, ": division of an integer by zero")));
              }
            });
  return true;
}

bool plan_where(PlanBuilder& plan, const Node& node) {
  if (is_empty(plan, node) || node.operand(0)->dtype() != DType::kBool ||
      node.operand(1)->dtype() != node.operand(2)->dtype()) {
    return false;
  }
  std::vector<Ref> refs;
  const auto loops = loops_of(plan, node, refs);
  if (!loops) return false;
  const auto size = static_cast<int64_t>(item_size(node.result()->dtype()));
  const Ref out = plan.result(node.result());
  plan.emit("where", {&node},
            [=, loops = *loops, c = refs[0], x = refs[1], y = refs[2]](RunContext& run) {
              kernels::where(size, loops, run.at<const bool>(c), run.at<const void>(x),
                             run.at<const void>(y), run.at<void>(out), run.pool);
            });
  return true;
}

namespace {

/// f32 to f16 for one reader alone, which makes it f32 again: rounding.
bool is_first_of_rounding(const Node& node) {
  const Value* half = node.result();
  return node.is(ops::kCast) && node.operand(0)->dtype() == DType::kF32 &&
         half->dtype() == DType::kF16 && half->has_one_use() && half->num_output_uses() == 0 &&
         half->uses()[0].node->is(ops::kCast) &&
         half->uses()[0].node->result()->dtype() == DType::kF32;
}

/// One pass over the elements for both casts.
bool plan_rounding(PlanBuilder& plan, const Node& narrow, const Node& wide) {
  std::vector<Ref> refs;
  const auto loops = loops_of(plan, narrow, refs);
  DH_CHECK(loops.has_value());  // one operand, made dense if need be
  const Ref out = plan.result(wide.result());
  plan.emit("round to f16", {&narrow, &wide}, [=, loops = *loops, x = refs[0]](RunContext& run) {
    kernels::unary(UnaryOp::kRoundToHalf, {}, Element::kF32, loops, run.at<const void>(x),
                   run.at<void>(out), run.pool);
  });
  return true;
}

}  // namespace

bool plan_cast(PlanBuilder& plan, const Node& node) {
  if (is_empty(plan, node)) return false;
  if (is_first_of_rounding(node)) return true;  // its reader does it
  const Node* narrow = node.operand(0)->producer();
  if (narrow != nullptr && is_first_of_rounding(*narrow)) return plan_rounding(plan, *narrow, node);
  const Element from = element_of(node.operand(0)->dtype());
  const Element to = element_of(node.result()->dtype());
  std::vector<Ref> refs;
  const auto loops = loops_of(plan, node, refs);
  if (!loops) return false;
  const Ref out = plan.result(node.result());
  plan.emit("cast", {&node}, [=, loops = *loops, x = refs[0]](RunContext& run) {
    kernels::cast(from, to, loops, run.at<const void>(x), run.at<void>(out), run.pool);
  });
  return true;
}

}  // namespace downhaul::engine
