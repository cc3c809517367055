// Data movement in the forms that the payload has.
#include <algorithm>
#include <optional>

#include "ops/ops.h"
#include "passes/values.h"
#include "targets/xnnpack/arith.h"
#include "targets/xnnpack/rewrites/rewrites.h"

namespace downhaul::xnnpack {

// concat takes up to five tensors: more become a concat of concats.
const Rewrite kConcatOfConcats = {
    .name = "xnn_concat_of_concats",
    .root = &ops::kConcat,
    .apply = [](Node& node, Builder& b) -> std::vector<Value*> {
      constexpr size_t kMost = 5;
      std::vector<Value*> parts = node.list();
      if (parts.size() <= kMost || !is_f32(node.result())) return {};
      const NamedAttrs attrs = {{"dim", node.i("dim")}};
      while (parts.size() > kMost) {
        std::vector<Value*> joined;
        for (size_t i = 0; i < parts.size(); i += kMost) {
          const size_t end = std::min(i + kMost, parts.size());
          std::vector<Value*> group(parts.begin() + static_cast<std::ptrdiff_t>(i),
                                    parts.begin() + static_cast<std::ptrdiff_t>(end));
          joined.push_back(group.size() == 1 ? group[0] : b.op(ops::kConcat, group, attrs));
        }
        parts = std::move(joined);
      }
      return {b.op(ops::kConcat, parts, attrs)};
    },
};

// Ones are stored in the file: beyond this an operator outside the delegate costs less.
constexpr int64_t kMaxOnes = int64_t{1} << 22;

// expand whose users do not broadcast by themselves: a product with ones, exact also for NaN and
// infinities.
const Rewrite kExpandToProduct = {
    .name = "xnn_expand_to_product",
    .root = &ops::kExpand,
    .apply = [](Node& node, Builder& b) -> std::vector<Value*> {
      Value* x = node.operand(0);
      const Shape& shape = node.result()->shape();
      if (!is_f32(x) || x->is_constant() || !node.result()->type().is_static()) return {};
      // Ones only where the operand repeats: the other dimensions broadcast from it.
      Shape repeated = shape;
      for (size_t i = 0; i < x->shape().size(); ++i) {
        Dim& size = repeated[repeated.size() - 1 - i];
        if (x->shape()[x->shape().size() - 1 - i] == size) size = Dim(1);
      }
      const auto ones = checked_num_elements(static_sizes(repeated));
      if (!ones || *ones > kMaxOnes) return {};
      Tensor factor(DType::kF32, static_sizes(repeated));
      std::fill_n(factor.mutable_data<float>(), factor.num_elements(), 1.0f);
      return {mul(b, x, b.constant(std::move(factor)))};
    },
};

// A pad that crops: a slice first.
const Rewrite kCropBeforePad = {
    .name = "xnn_crop_before_pad",
    .root = &ops::kPad,
    .apply = [](Node& node, Builder& b) -> std::vector<Value*> {
      Value* x = node.operand(0);
      Ints before = node.ints("before");
      Ints after = node.ints("after");
      if (!is_f32(x) || !is_static(x) || node.s("mode") != "constant") return {};
      Value* y = x;
      for (size_t i = 0; i < before.size(); ++i) {
        const Dim start(std::max<int64_t>(-before[i], 0));
        const Dim end = x->shape()[i] - Dim(std::max<int64_t>(-after[i], 0));
        before[i] = std::max<int64_t>(before[i], 0);
        after[i] = std::max<int64_t>(after[i], 0);
        if (start == Dim(0) && end == x->shape()[i]) continue;
        if (start.value() > end.value()) return {};
        y = slice(b, y, static_cast<int64_t>(i), start, end);
      }
      if (y == x) return {};
      return {
          b.op(ops::kPad, {y}, {{"before", before}, {"after", after}, {"value", node.f("value")}})};
    },
};

// A slice with a step, of a dimension that the step divides: the dimension is split in two, and one
// of each step is taken.
const Rewrite kStridedSliceToReshape = {
    .name = "xnn_strided_slice_to_reshape",
    .root = &ops::kSlice,
    .apply = [](Node& node, Builder& b) -> std::vector<Value*> {
      constexpr size_t kMaxRank = 6;
      Value* x = node.operand(0);
      const auto axis = static_cast<size_t>(node.axis("dim", x->rank()));
      const int64_t step = node.i("step");
      if (!is_f32(x) || !is_static(x) || step == 1 || x->shape().size() >= kMaxRank) return {};
      const int64_t size = x->shape()[axis].value();
      const int64_t start = node.dim("start").value();
      const int64_t count = node.result()->shape()[axis].value();
      if (size % step != 0 || count != size / step || start >= step) return {};
      Shape split = x->shape();
      split[axis] = Dim(step);
      split.insert(split.begin() + static_cast<std::ptrdiff_t>(axis), Dim(count));
      Value* one = slice(b, reshape(b, x, split), static_cast<int64_t>(axis) + 1, start, start + 1);
      return {reshape(b, one, node.result()->shape())};
    },
};

// roll → the two pieces of each rolled dimension in the other order.
const Rewrite kRollToSlices = {
    .name = "xnn_roll_to_slices",
    .root = &ops::kRoll,
    .apply = [](Node& node, Builder& b) -> std::vector<Value*> {
      Value* x = node.operand(0);
      const Ints& shifts = node.ints("shifts");
      const Ints& dims = node.ints("dims");
      if (!is_f32(x) || dims.size() != shifts.size()) return {};
      for (size_t i = 0; i < dims.size(); ++i) {
        const int64_t dim = dims[i];
        if (!x->dim(dim).is_static()) return {};
        const int64_t size = x->dim(dim).value();
        const int64_t cut = ((-shifts[i]) % size + size) % size;
        if (cut == 0) continue;
        x = b.op(ops::kConcat, {slice(b, x, dim, cut, size), slice(b, x, dim, 0, cut)},
                 {{"dim", dim}});
        if (x == nullptr) return {};
      }
      return {x};
    },
};

// pixel_shuffle: [N, C·r², H, W] → [N, C, H·r, W·r]
const Rewrite kExpandPixelShuffle = {
    .name = "xnn_expand_pixel_shuffle",
    .root = &ops::kPixelShuffle,
    .apply = [](Node& node, Builder& b) -> std::vector<Value*> {
      Value* x = node.operand(0);
      if (!is_f32(x) || !is_static(x) || x->rank() != 4) return {};
      const Dim r(node.i("factor"));
      const Shape& y = node.result()->shape();
      Value* split = reshape(b, x, {x->dim(0), y[1], r, r, x->dim(2), x->dim(3)});
      return {reshape(b, permute(b, split, {0, 1, 4, 2, 5, 3}), y)};
    },
};

// pixel_unshuffle: [N, C, H·r, W·r] → [N, C·r², H, W]
const Rewrite kExpandPixelUnshuffle = {
    .name = "xnn_expand_pixel_unshuffle",
    .root = &ops::kPixelUnshuffle,
    .apply = [](Node& node, Builder& b) -> std::vector<Value*> {
      Value* x = node.operand(0);
      if (!is_f32(x) || !is_static(x) || x->rank() != 4) return {};
      const Dim r(node.i("factor"));
      const Shape& y = node.result()->shape();
      Value* split = reshape(b, x, {x->dim(0), x->dim(1), y[2], r, y[3], r});
      return {reshape(b, permute(b, split, {0, 1, 3, 5, 2, 4}), y)};
    },
};

}  // namespace downhaul::xnnpack
