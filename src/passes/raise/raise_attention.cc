// softmax(q·kᵀ · scale + mask) · v → attention(q, k, v, mask, scale), in all spellings that
// programs have: the scale on the scores, on q, on k or on both; an additive mask or none; scores
// replaced by a large negative number where a mask is false (as additive mask, which is the same to
// the last bit of any finite score); the guard by which decomposed programs give zeros for rows
// with nothing to attend to. That guard decides what the mask means: with it, where(m, 0, -inf) is
// the bool mask m; without it the mask stays a float tensor, whose empty rows are what softmax
// makes of them.
#include <cmath>
#include <numeric>

#include "ops/ops.h"
#include "passes/passes.h"
#include "passes/values.h"

namespace downhaul::rewrites {

namespace {

/// Masks are as large as the scores of one head at most (2048 positions).
constexpr int64_t kMaxMaskElements = 4 << 20;

struct Scores {
  Value* product = nullptr;
  Value* query = nullptr;
  Value* key = nullptr;  ///< [.., T, D]
  Value* mask = nullptr;
  double scale = 1;
};

Shape leading(const Value* value) { return {value->shape().begin(), value->shape().end() - 2}; }

/// The source of a reshape that changes only leading dimensions: batch and heads merged or split.
Value* without_reshape(Value* value) {
  if (!is_op(value, ops::kReshape) || value->rank() < 2) return nullptr;
  Value* source = value->producer()->operand(0);
  if (source->rank() < 2) return nullptr;
  for (int64_t d = 1; d <= 2; ++d) {
    if (!(source->dim(source->rank() - d) == value->dim(value->rank() - d))) return nullptr;
  }
  return source;
}

/// True when the shapes differ only by dimensions of size 1 in front, where masks may broadcast.
bool same_but_front(Shape a, Shape b) {
  while (a.size() > b.size() && a.front() == Dim(1)) a.erase(a.begin());
  while (b.size() > a.size() && b.front() == Dim(1)) b.erase(b.begin());
  return a == b;
}

/// `value` under other leading dimensions with as many elements.
Value* with_leading(Value* value, const Shape& lead, Builder& b) {
  if (leading(value) == lead) return value;
  Dims shape = lead;
  shape.insert(shape.end(), value->shape().end() - 2, value->shape().end());
  return b.op(ops::kReshape, {value}, {{"shape", shape}});
}

bool is_minus_infinity(const Value* value) {
  const auto number = splat_value(value);
  return number && std::isinf(*number) && *number < 0;
}

/// Swaps the last two dimensions; merges with a permute that is there already.
Value* transposed(Value* value, Builder& b) {
  Ints dims(static_cast<size_t>(value->rank()));
  std::iota(dims.begin(), dims.end(), 0);
  std::swap(dims[dims.size() - 1], dims[dims.size() - 2]);
  return b.op(ops::kPermute, {value}, {{"dims", dims}});
}

/// q·kᵀ with its scales; false when `value` is not such a product or has not `uses` uses.
bool match_product(Value* value, int uses, Scores& scores, Builder& b) {
  if (uses == 1) value = strip_scale(value, scores.scale);
  if (!is_op(value, ops::kMatmul) || value->num_uses() != uses) return false;
  const Node& product = *value->producer();
  if (product.b("transpose_self") || product.operand(0)->rank() != value->rank() ||
      product.operand(1)->rank() != value->rank()) {
    return false;
  }
  scores.query = strip_scale(product.operand(0), scores.scale);
  scores.key = strip_scale(product.operand(1), scores.scale);
  if (!product.b("transpose_other")) scores.key = transposed(scores.key, b);
  scores.product = value;
  return scores.key != nullptr;
}

/// True for a constant bool mask, possibly sliced to dynamic sizes from its first element on, whose
/// first column is all true: no row is empty at any size.
bool every_row_is_open(const Value* mask) {
  while (is_op(mask, ops::kSlice) && mask->producer()->dim("start") == Dim(0)) {
    mask = mask->producer()->operand(0);
  }
  if (!mask->is_constant() || mask->dtype() != DType::kBool || mask->rank() == 0) return false;
  const Tensor& t = mask->constant();
  const int64_t row = t.size(t.rank() - 1);
  for (int64_t begin = 0; row > 0 && begin < t.num_elements(); begin += row) {
    if (t.int_at(begin) == 0) return false;
  }
  return row > 0;
}

/// Scores with what is added to them, or with what replaces them where a mask is false; reshapes of
/// batch and heads may stand between.
bool match_masked(Value* value, int uses, Scores& scores, Builder& b, int depth = 4) {
  if (depth == 0 || value->rank() < 2) return false;
  if (Value* source = without_reshape(value)) {
    if (value->num_uses() != uses || !match_masked(source, 1, scores, b, depth - 1)) return false;
    return scores.mask == nullptr || same_but_front(source->shape(), value->shape());
  }
  const bool is_where = is_op(value, ops::kWhere);
  if (!is_where && !is_op(value, ops::kAdd)) return match_product(value, uses, scores, b);
  if (value->num_uses() != uses) return false;
  const Node& node = *value->producer();
  if (is_where) {
    // The bool mask, if it leaves every row something: an empty row has the mean of the values
    // here.
    const auto low = splat_value(node.operand(2));
    if (!low || *low > -1e30 || !(node.operand(1)->type() == value->type())) return false;
    if (!every_row_is_open(node.operand(0))) return false;
    if (!match_masked(node.operand(1), 1, scores, b, depth - 1) || scores.mask != nullptr) {
      return false;
    }
    scores.mask = node.operand(0);
    return true;
  }
  for (const int i : {0, 1}) {
    Scores attempt;
    if (!(node.operand(i)->type() == value->type())) continue;
    if (!match_masked(node.operand(i), 1, attempt, b, depth - 1)) continue;
    Value* mask = node.operand(1 - i);
    if (attempt.mask != nullptr) {
      if (attempt.mask->dtype() != mask->dtype()) return false;
      mask = b.op(ops::kAdd, {attempt.mask, mask});
    }
    scores = attempt;
    scores.mask = mask;
    return mask != nullptr;
  }
  return false;
}

/// True when `value` says of each row of `scores` whether it has (`open`) or has not any number
/// other than -inf, in the ways that decompositions spell it.
bool match_row_test(const Value* value, const Value* scores, bool open) {
  if (is_op(value, ops::kLogicalNot)) {
    return match_row_test(value->producer()->operand(0), scores, !open);
  }
  // any(s != -inf), all(s == -inf)
  if (!is_op(value, open ? ops::kAny : ops::kAll)) return false;
  const Node& reduction = *value->producer();
  if (!reduction.b("keepdim") || reduction.ints("dims") != Ints{scores->rank() - 1}) return false;
  const Value* element = reduction.operand(0);
  bool equal = !open;
  if (is_op(element, ops::kLogicalNot)) {
    element = element->producer()->operand(0);
    equal = !equal;
  }
  if (!is_op(element, equal ? ops::kEq : ops::kNe)) return false;
  const Node& comparison = *element->producer();
  return comparison.operand(0) == scores && is_minus_infinity(comparison.operand(1));
}

/// The probabilities under the guard that gives rows with nothing to attend to zeros, or null.
Value* match_guard(const Node& where) {
  for (const int i : {1, 2}) {
    Value* probabilities = where.operand(i);
    if (!is_splat(where.operand(3 - i), 0) || !is_op(probabilities, ops::kSoftmax) ||
        probabilities->num_uses() != 1) {
      continue;
    }
    const Value* scores = probabilities->producer()->operand(0);
    if (match_row_test(where.operand(0), scores, i == 1)) return probabilities;
  }
  return nullptr;
}

/// The bool mask m of where(m, 0, -inf), computed or constant; null when the mask is another.
Value* bool_mask(Value* mask, Builder& b) {
  if (is_op(mask, ops::kWhere)) {
    const Node& where = *mask->producer();
    if (is_splat(where.operand(1), 0) && is_minus_infinity(where.operand(2))) {
      return where.operand(0);
    }
    return nullptr;
  }
  if (!mask->is_constant()) return nullptr;
  const Tensor& t = mask->constant();
  if (t.num_elements() > kMaxMaskElements) return nullptr;
  Tensor out(DType::kBool, t.sizes());
  for (int64_t i = 0; i < t.num_elements(); ++i) {
    const double v = t.at(i);
    if (v != 0 && !(std::isinf(v) && v < 0)) return nullptr;
    out.set(i, v == 0 ? 1 : 0);
  }
  return b.constant(std::move(out), mask->name());
}

/// A float tensor that no input makes infinite: chosen among, or computed from, finite constants
/// and numbers of 0 and 1.
bool is_finite(const Value* value, int depth = 8) {
  if (depth == 0) return false;
  if (value->is_constant()) {
    const Tensor& t = value->constant();
    if (t.num_elements() > kMaxMaskElements) return false;
    for (int64_t i = 0; i < t.num_elements(); ++i) {
      if (!std::isfinite(t.at(i))) return false;
    }
    return true;
  }
  if (value->producer() == nullptr) return false;
  const Node& node = *value->producer();
  const auto finite = [&](int i) { return is_finite(node.operand(i), depth - 1); };
  if (node.is(ops::kCast)) return !is_float(node.operand(0)->dtype()) || finite(0);
  if (node.is(ops::kWhere)) return finite(1) && finite(2);
  if (node.is(ops::kReshape) || node.is(ops::kExpand) || node.is(ops::kSlice) ||
      node.is(ops::kPermute) || node.is(ops::kNeg) || node.is(ops::kAbs) || node.is(ops::kClamp)) {
    return finite(0);
  }
  // (1 - mask) · lowest, as masks are computed from a tensor of 0 and 1.
  if (node.is(ops::kMul) || node.is(ops::kAdd) || node.is(ops::kSub)) return finite(0) && finite(1);
  return false;
}

/// True when no row of the mask is -inf throughout: softmax and attention, which gives such rows
/// zeros, then agree.
bool every_row_is_finite_somewhere(const Value* mask) {
  if (!mask->is_constant()) return is_finite(mask);
  const Tensor& t = mask->constant();
  if (t.num_elements() > kMaxMaskElements) return false;
  const int64_t row = t.rank() == 0 ? 1 : t.size(t.rank() - 1);
  for (int64_t begin = 0; begin < t.num_elements(); begin += row) {
    bool open = false;
    for (int64_t i = begin; i < begin + row && !open; ++i) open = std::isfinite(t.at(i));
    if (!open) return false;
  }
  return true;
}

std::vector<Value*> apply(Node& node, Builder& b) {
  Value* probabilities = node.operand(0);
  Value* value = node.operand(1);
  if (node.b("transpose_self") || node.b("transpose_other") || probabilities->num_uses() != 1) {
    return {};
  }
  if (probabilities->rank() != value->rank()) return {};
  if (Value* source = without_reshape(probabilities)) {
    // Then the values must have the batch and heads of the probabilities, not broadcast to them.
    if (source->num_uses() != 1 || !(leading(value) == leading(probabilities))) return {};
    probabilities = source;
  }
  const bool guarded = is_op(probabilities, ops::kWhere);
  if (guarded) probabilities = match_guard(*probabilities->producer());
  if (!is_op(probabilities, ops::kSoftmax)) return {};
  const Node& softmax = *probabilities->producer();
  const int64_t rank = probabilities->rank();
  if (softmax.axis("dim", rank) != rank - 1) return {};
  Scores scores;
  // The guard reads the scores too.
  if (!match_masked(softmax.operand(0), guarded ? 2 : 1, scores, b)) return {};
  if (guarded && scores.mask != nullptr) {
    if (Value* mask = bool_mask(scores.mask, b)) scores.mask = mask;
  } else if (scores.mask != nullptr && is_float(scores.mask->dtype()) &&
             !every_row_is_finite_somewhere(scores.mask)) {
    return {};
  }
  const Shape lead = leading(probabilities);
  if (!(leading(scores.product) == lead)) {
    if (!(leading(scores.query) == leading(scores.product)) ||
        !(leading(scores.key) == leading(scores.product))) {
      return {};
    }
    scores.query = with_leading(scores.query, lead, b);
    scores.key = with_leading(scores.key, lead, b);
  }
  if (!(leading(node.operand(0)) == lead)) value = with_leading(value, lead, b);
  const Dim& depth = scores.query->dim(scores.query->rank() - 1);
  Attr scale = scores.scale;
  if (depth.is_static()) {
    const double usual = 1 / std::sqrt(static_cast<double>(depth.value()));
    if (std::abs(scores.scale - usual) <= 1e-6 * usual) scale = Attr();
  }
  Value* result =
      b.op(ops::kAttention, {scores.query, scores.key, value, scores.mask}, {{"scale", scale}});
  if (result == nullptr) return {};
  return {with_leading(result, leading(node.result()), b)};
}

}  // namespace

const Rewrite kRaiseAttention = {
    .name = "raise_attention",
    .root = &ops::kMatmul,
    .apply = apply,
};

}  // namespace downhaul::rewrites
