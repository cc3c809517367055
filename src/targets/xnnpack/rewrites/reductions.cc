// Sums, means and variances. The runtime reduces by a product with a constant row (last dimension)
// or by pooling (dimensions before the last).
#include <algorithm>

#include "ops/ops.h"
#include "targets/xnnpack/arith.h"
#include "targets/xnnpack/rewrites/rewrites.h"

namespace downhaul::xnnpack {

namespace {

/// The reduced dimensions as one block [first, last) of neighbours; false when they are not.
bool reduced_block(const Node& node, size_t& first, size_t& last) {
  Ints dims = node.ints("dims");
  if (dims.empty()) return false;
  std::sort(dims.begin(), dims.end());
  for (size_t i = 1; i < dims.size(); ++i) {
    if (dims[i] != dims[i - 1] + 1) return false;
  }
  first = static_cast<size_t>(dims.front());
  last = static_cast<size_t>(dims.back()) + 1;
  return true;
}

bool at_most_one_dynamic(const Shape& shape) {
  return std::count_if(shape.begin(), shape.end(), [](const Dim& d) { return !d.is_static(); }) <=
         1;
}

// The ones that sum are stored in the file: beyond this an operator outside costs less.
constexpr int64_t kMaxOnes = int64_t{1} << 20;

// x [P, N, Q] summed over N, times `factor`; result [P, 1, Q] or with all sizes of x's block.
Value* reduce_static(Builder& b, Value* x, size_t first, size_t last, double factor) {
  const Shape& shape = x->shape();
  const Dim n = product(shape, first, last);
  if (last == shape.size()) {
    if (n.value() > kMaxOnes) return nullptr;
    Shape flat(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(first));
    if (flat.empty()) flat.push_back(Dim(1));
    flat.push_back(n);
    if (!at_most_one_dynamic(flat)) return nullptr;
    return sum_last(b, reshape(b, x, flat), factor);
  }
  const Shape image = {product(shape, 0, first), n, Dim(1), product(shape, last, shape.size())};
  if (!at_most_one_dynamic(image)) return nullptr;
  Value* mean = b.op(ops::kAdaptiveAvgPool2d, {reshape(b, x, image)},
                     {{"output_size", Ints{1, 1}}, {"layout", std::string("nhwc")}});
  const double scale = factor * static_cast<double>(n.value());
  return scale == 1 ? mean : mul(b, mean, number(b, scale));
}

// A dynamic N: x as [P, N, Q] multiplied by ones from the left (or, for Q = 1, the right).
Value* sum_dynamic(Builder& b, Value* x, size_t first, size_t last) {
  const Shape& shape = x->shape();
  const Dim p = product(shape, 0, first);
  const Dim n = product(shape, first, last);
  const Dim q = product(shape, last, shape.size());
  if (!p.is_static() || !q.is_static() || n.max() > kMaxOnes) return nullptr;
  Value* row = ones(b, n);
  if (q == Dim(1)) {
    Value* rows = reshape(b, x, {Dim(1), p, n});
    return matmul(b, rows, reshape(b, row, {Dim(1), Dim(1), n}), true);
  }
  if (!(p == Dim(1))) return nullptr;
  Value* left = reshape(b, row, {Dim(1), Dim(1), n});
  return matmul(b, left, reshape(b, x, {Dim(1), n, q}));
}

// The runtime adds up the pixels of an image one by one in f32: over n equal values the error grows
// to about n·eps/4 of the sum. Above this many pixels they are averaged in blocks first.
constexpr int64_t kMaxPixelsAtOnce = 2048;
constexpr int64_t kMaxBlockSide = 16;

// The largest divisor of a side that a block may have.
int64_t block_side(int64_t size) {
  for (int64_t side = std::min(size, kMaxBlockSide); side > 1; --side) {
    if (size % side == 0) return side;
  }
  return 1;
}

// A large image as averages of blocks of equal size, where its sides have divisors.
Value* average_in_blocks(Builder& b, Value* image) {
  const int64_t height = image->dim(1).value();
  const int64_t width = image->dim(2).value();
  if (width != 0 && height <= kMaxPixelsAtOnce / width) return image;
  const Ints block = {block_side(height), block_side(width)};
  if (block == Ints{1, 1}) return image;
  return b.op(ops::kAvgPool2d, {image},
              {{"kernel", block}, {"stride", block}, {"layout", std::string("nhwc")}});
}

}  // namespace

// mean over height and width of an image is a pooling: the two dimensions keep their places.
const Rewrite kMeanToGlobalPool = {
    .name = "xnn_mean_to_global_pool",
    .root = &ops::kMean,
    .apply = [](Node& node, Builder& b) -> std::vector<Value*> {
      Value* x = node.operand(0);
      size_t first = 0;
      size_t last = 0;
      if (!is_f32(x) || x->rank() != 4 || !reduced_block(node, first, last)) return {};
      if (first != 1 || last != 3 || !x->dim(1).is_static() || !x->dim(2).is_static()) return {};
      Value* y = b.op(ops::kAdaptiveAvgPool2d, {average_in_blocks(b, x)},
                      {{"output_size", Ints{1, 1}}, {"layout", std::string("nhwc")}});
      return {reshape(b, y, node.result()->shape())};
    },
};

const Rewrite kExpandMean = {
    .name = "xnn_expand_mean",
    .root = &ops::kMean,
    .apply = [](Node& node, Builder& b) -> std::vector<Value*> {
      Value* x = node.operand(0);
      size_t first = 0;
      size_t last = 0;
      if (!is_f32(x) || !reduced_block(node, first, last)) return {};
      const Dim n = product(x->shape(), first, last);
      if (!n.is_static() || n.value() == 0) return {};
      Value* y = reduce_static(b, x, first, last, 1 / static_cast<double>(n.value()));
      if (y == nullptr) return {};
      return {reshape(b, y, node.result()->shape())};
    },
};

const Rewrite kExpandSum = {
    .name = "xnn_expand_sum",
    .root = &ops::kSum,
    .apply = [](Node& node, Builder& b) -> std::vector<Value*> {
      Value* x = node.operand(0);
      size_t first = 0;
      size_t last = 0;
      if (!is_f32(x) || !reduced_block(node, first, last)) return {};
      const Dim n = product(x->shape(), first, last);
      if (n.max() == 0) return {};  // no image to pool
      const bool is_static_sum = n.is_static();
      Value* y =
          is_static_sum ? reduce_static(b, x, first, last, 1) : sum_dynamic(b, x, first, last);
      if (y == nullptr) return {};
      return {reshape(b, y, node.result()->shape())};
    },
};

// var(x) = sum((x - mean x)²) / (N - correction)
const Rewrite kExpandVar = {
    .name = "xnn_expand_var",
    .root = &ops::kVar,
    .apply = [](Node& node, Builder& b) -> std::vector<Value*> {
      Value* x = node.operand(0);
      size_t first = 0;
      size_t last = 0;
      if (!is_f32(x) || !is_static(x) || !reduced_block(node, first, last)) return {};
      const double n = static_cast<double>(product(x->shape(), first, last).value());
      const double freedom = n - static_cast<double>(node.i("correction"));
      if (freedom <= 0) return {};
      const Ints& dims = node.ints("dims");
      Value* mean = b.op(ops::kMean, {x}, {{"dims", dims}, {"keepdim", true}});
      Value* y = b.op(ops::kMean, {square(b, sub(b, x, mean))},
                      {{"dims", dims}, {"keepdim", node.b("keepdim")}});
      return {mul(b, y, number(b, n / freedom))};
    },
};

// softmax along another dimension: that one changes places with the last.
const Rewrite kSoftmaxOnLastAxis = {
    .name = "xnn_softmax_on_last_axis",
    .root = &ops::kSoftmax,
    .apply = [](Node& node, Builder& b) -> std::vector<Value*> {
      Value* x = node.operand(0);
      if (!is_f32(x) || x->rank() < 2) return {};
      const int64_t axis = node.axis("dim", x->rank());
      if (axis == x->rank() - 1) return {};
      Ints swap;
      for (int64_t i = 0; i < x->rank(); ++i) swap.push_back(i);
      std::swap(swap[static_cast<size_t>(axis)], swap.back());
      Value* y = b.op(ops::kSoftmax, {permute(b, x, swap)}, {{"dim", int64_t{-1}}});
      return {permute(b, y, swap)};
    },
};

}  // namespace downhaul::xnnpack
