#include "ops/ops.h"
#include "targets/portable/rewrites/rewrites.h"

// The stock runtime has fast kernels for linear with a weight [out, in], for mm and for bmm. It has
// none that transposes an operand, and its addmm is a plain loop.
namespace downhaul::portable {
namespace {

Value* reshape(Builder& b, Value* v, Shape shape) {
  if (v == nullptr || v->shape() == shape) return v;
  return b.op(ops::kReshape, {v}, {{"shape", std::move(shape)}});
}

Dim product(const Shape& shape, size_t from, size_t to) {
  Dim out = 1;
  for (size_t i = from; i < to; ++i) out = out * shape[i];
  return out;
}

// linear of a vector: the kernel wants a matrix.
std::vector<Value*> vector_linear_to_matrix(Node& node, Builder& b) {
  Value* input = node.operand("input");
  if (input->rank() != 1) return {};
  Value* row = b.op(ops::kReshape, {input}, {{"shape", Shape{Dim(1), input->dim(0)}}});
  Value* y = b.op(ops::kLinear, {row, node.operand("weight"), node.operand("bias")},
                  {{"weight_transposed", node.b("weight_transposed")}});
  if (!b.status().ok()) return {};
  return {reshape(b, y, node.result()->shape())};
}

// linear(x, w [in, out], bias) → mm on the rows of x, then add
std::vector<Value*> transposed_linear_to_product(Node& node, Builder& b) {
  if (!node.b("weight_transposed")) return {};
  Value* input = node.operand("input");
  Value* weight = node.operand("weight");
  Value* bias = node.operand("bias");
  if (input->rank() == 2 && bias == nullptr) return {};
  const auto rank = static_cast<size_t>(input->rank());
  if (rank == 0) return {};
  const Dim rows = product(input->shape(), 0, rank - 1);
  Value* flat = reshape(b, input, {rows, input->shape().back()});
  Value* y = b.op(ops::kLinear, {flat, weight, nullptr}, {{"weight_transposed", true}});
  if (bias != nullptr) y = b.op(ops::kAdd, {y, bias});
  if (!b.status().ok()) return {};
  return {reshape(b, y, node.result()->shape())};
}

Value* swap_last_two(Builder& b, Value* v) {
  Ints perm;
  for (int64_t d = 0; d < v->rank(); ++d) perm.push_back(d);
  std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  return b.op(ops::kPermute, {v}, {{"dims", std::move(perm)}});
}

// matmul(a, b): with a matrix on the right → linear; else transposes as permutes, leading
// dimensions made equal and merged → bmm
std::vector<Value*> matmul_to_bmm(Node& node, Builder& b) {
  Value* self = node.operand(0);
  Value* other = node.operand(1);
  const bool transpose_self = node.b("transpose_self");
  const bool transpose_other = node.b("transpose_other");
  const bool matrices = self->rank() == 2 && other->rank() == 2;
  const bool batch = self->rank() == 3 && other->rank() == 3 && self->dim(0) == other->dim(0);
  if ((matrices || batch) && !transpose_self && !transpose_other) return {};

  if (transpose_self) self = swap_last_two(b, self);
  if (!b.status().ok()) return {};
  if (other->rank() == 2)
    return {b.op(ops::kLinear, {self, other, nullptr}, {{"weight_transposed", !transpose_other}})};
  if (transpose_other) other = swap_last_two(b, other);
  if (!b.status().ok()) return {};

  const Shape& result = node.result()->shape();
  const size_t lead = result.size() - 2;
  const Dim count = product(result, 0, lead);
  const auto merged = [&](Value* v) -> Value* {
    const Shape& shape = v->shape();
    const Dim &rows = shape[shape.size() - 2], &columns = shape[shape.size() - 1];
    Shape full(result.begin(), result.begin() + static_cast<std::ptrdiff_t>(lead));
    full.push_back(rows);
    full.push_back(columns);
    if (!(num_elements(shape) == num_elements(full)))
      v = b.op(ops::kExpand, {v}, {{"size", std::move(full)}});
    return reshape(b, v, {count, rows, columns});
  };
  Value* left = merged(self);
  Value* right = merged(other);
  if (!b.status().ok()) return {};
  return {reshape(b, b.op(ops::kMatmul, {left, right}), result)};
}

}  // namespace

const Rewrite kVectorLinearToMatrix = {
    .name = "vector_linear_to_matrix",
    .root = &ops::kLinear,
    .apply = vector_linear_to_matrix,
};

const Rewrite kTransposedLinearToProduct = {
    .name = "transposed_linear_to_product",
    .root = &ops::kLinear,
    .apply = transposed_linear_to_product,
};

const Rewrite kMatmulToBmm = {
    .name = "matmul_to_bmm",
    .root = &ops::kMatmul,
    .apply = matmul_to_bmm,
};

}  // namespace downhaul::portable
