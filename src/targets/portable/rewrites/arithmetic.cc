#include "ops/ops.h"
#include "targets/portable/rewrites/rewrites.h"

// Operators whose stock kernel is right for some element types only.
namespace downhaul::portable {
namespace {

// The kernel gives signed integers the sign of the dividend.
// remainder(x, y) = x - floor(x / y) · y
std::vector<Value*> remainder_of_integers(Node& node, Builder& b) {
  const DType dtype = node.result()->dtype();
  if (is_float(dtype) || dtype == DType::kU8) return {};
  Value* x = node.operand(0);
  Value* y = node.operand(1);
  Value* quotient = b.op(ops::kFloorDivide, {x, y});
  return {b.op(ops::kSub, {x, b.op(ops::kMul, {quotient, y})})};
}

// The kernel does not take f64.
// log_softmax(x) = s - log(sum(exp(s))), s = x - max(x)
std::vector<Value*> log_softmax_of_doubles(Node& node, Builder& b) {
  Value* x = node.operand(0);
  if (x->dtype() != DType::kF64) return {};
  const NamedAttrs along = {{"dims", Ints{node.i("dim")}}, {"keepdim", true}};
  Value* shifted = b.op(ops::kSub, {x, b.op(ops::kAmax, {x}, along)});
  Value* sum = b.op(ops::kSum, {b.op(ops::kExp, {shifted})}, along);
  return {b.op(ops::kSub, {shifted, b.op(ops::kLog, {sum})})};
}

}  // namespace

const Rewrite kRemainderOfIntegers = {
    .name = "remainder_of_integers",
    .root = &ops::kRemainder,
    .apply = remainder_of_integers,
};

const Rewrite kLogSoftmaxOfDoubles = {
    .name = "log_softmax_of_doubles",
    .root = &ops::kLogSoftmax,
    .apply = log_softmax_of_doubles,
};

}  // namespace downhaul::portable
