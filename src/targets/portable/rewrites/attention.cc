#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/ops.h"
#include "targets/portable/rewrites/rewrites.h"

// attention(q, k, v) = softmax(scale · q kᵀ + bias) v
//
// A bool mask becomes the bias 0 where it attends and a huge negative number where it does not; all
// layers share it. exp of that number is 0 beside any other score. A row that attends to nothing
// has only huge negative scores, softmax gives it equal weights, and it must be zero: then the
// product is multiplied by 0, once per row. The factor is left out when every row surely attends
// to something.
namespace downhaul::portable {
namespace {

/// Half the lowest number: a score added to it does not overflow.
double far_below(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return -65504.0 / 2;
    case DType::kF64:
      return std::numeric_limits<double>::lowest() / 2;
    default:
      return static_cast<double>(std::numeric_limits<float>::lowest()) / 2;
  }
}

Value* positions(Builder& b, const Dim& length, Shape shape) {
  Value* range = b.op(ops::kArange, {}, {{"start", Dim(0)}, {"end", length}});
  return b.op(ops::kReshape, {range}, {{"shape", std::move(shape)}});
}

/// True when every row of the mask surely attends to something: a constant that shows it, or slices
/// from its start (a causal mask cut to a dynamic length), of which column 0 is always left.
bool every_row_attends(const Value* mask) {
  constexpr int64_t kMaxElements = 1 << 24;
  bool cut = false;
  while (mask->producer() != nullptr && mask->producer()->is(ops::kSlice)) {
    const Node& slice = *mask->producer();
    if (!(slice.dim("start") == Dim(0)) || slice.i("step") != 1) return false;
    mask = slice.operand(0);
    cut = true;
  }
  if (!mask->is_constant()) return false;
  const Tensor& t = mask->constant();
  if (t.num_elements() == 0 || t.num_elements() > kMaxElements || t.rank() == 0) return false;
  const int64_t columns = t.size(t.rank() - 1);
  const uint8_t* data = t.bytes().data();
  for (int64_t row = 0; row < t.num_elements() / columns; ++row, data += columns) {
    const uint8_t* end = data + (cut ? 1 : columns);
    if (std::find(data, end, 1) == end) return false;
  }
  return true;
}

std::vector<Value*> attention_to_products(Node& node, Builder& b) {
  Value* query = node.operand("query");
  Value* key = node.operand("key");
  Value* value = node.operand("value");
  Value* mask = node.operand("mask");
  const DType dtype = query->dtype();
  const Dim& depth = query->dim(query->rank() - 1);
  if (!node.has_attr("scale") && !depth.is_static()) return {};
  const double scale = node.has_attr("scale") ? node.f("scale")
                                              : 1.0 / std::sqrt(static_cast<double>(depth.value()));
  if (scale != 1) query = b.op(ops::kMul, {query, b.scalar(dtype, scale)});
  Value* scores = b.op(ops::kMatmul, {query, key}, {{"transpose_other", true}});

  Value* attends = mask != nullptr && mask->dtype() == DType::kBool ? mask : nullptr;
  bool all_rows = attends == nullptr || every_row_attends(attends);
  if (node.b("is_causal")) {  // never together with a mask
    const Dim& rows = node.operand("query")->dim(query->rank() - 2);
    const Dim& columns = key->dim(key->rank() - 2);
    // Every row attends to position 0.
    attends = b.op(ops::kLe, {positions(b, columns, {1, columns}), positions(b, rows, {rows, 1})});
    all_rows = true;
  }
  if (attends != nullptr) {
    Value* bias =
        b.op(ops::kWhere, {attends, b.scalar(dtype, 0), b.scalar(dtype, far_below(dtype))});
    scores = b.op(ops::kAdd, {scores, bias});
  }
  if (mask != nullptr && mask->dtype() != DType::kBool) scores = b.op(ops::kAdd, {scores, mask});

  Value* weights = b.op(ops::kSoftmax, {scores}, {{"dim", int64_t{-1}}});
  Value* result = b.op(ops::kMatmul, {weights, value});
  if (!all_rows && b.status().ok()) {
    Value* any =
        b.op(ops::kAny, {attends}, {{"dims", Ints{attends->rank() - 1}}, {"keepdim", true}});
    result = b.op(ops::kMul, {result, b.op(ops::kCast, {any}, {{"dtype", dtype}})});
  }
  return {result};
}

}  // namespace

const Rewrite kAttentionToProducts = {
    .name = "attention_to_products",
    .root = &ops::kAttention,
    .apply = attention_to_products,
};

}  // namespace downhaul::portable
