#include <algorithm>

#include "ops/axes.h"
#include "ops/infer.h"
#include "ops/loops.h"
#include "ops/ops.h"

// Elements in another place, or blanked by their place: flip, roll, tril, triu, pixel_shuffle and
// its inverse. Any dtype; shape and dtype checks are kInvalidGraph. Source: aten::<name>.
namespace downhaul::ops {

namespace {

TypesResult infer_flip(const Node& node) {
  DH_TRY(require_axes(node, "dims", node.type("self").rank()));
  return infer_same(node);
}

IndexTables identity_tables(const Sizes& sizes) {
  IndexTables tables;
  for (const int64_t s : sizes) tables.push_back(identity_table(s));
  return tables;
}

Status flip(RefCall& call) {
  const Tensor& self = call.in("self");
  IndexTables tables = identity_tables(self.sizes());
  for (const int64_t d : call.node.ints("dims")) {
    auto& table = tables[static_cast<size_t>(d)];
    std::reverse(table.begin(), table.end());
  }
  copy_by_tables(self, tables, nullptr, call.out());
  return {};
}

TypesResult infer_roll(const Node& node) {
  DH_TRY(require_axes(node, "dims", node.type("self").rank()));
  if (node.ints("shifts").size() != node.ints("dims").size()) {
    return invalid_graph(cat("shifts: expected ", node.ints("dims").size(), " entries, found ",
                             node.ints("shifts").size()));
  }
  return infer_same(node);
}

Status roll(RefCall& call) {
  const Tensor& self = call.in("self");
  IndexTables tables = identity_tables(self.sizes());
  const Ints& dims = call.node.ints("dims");
  for (size_t i = 0; i < dims.size(); ++i) {
    auto& table = tables[static_cast<size_t>(dims[i])];
    const auto size = static_cast<int64_t>(table.size());
    const int64_t shift = (call.node.ints("shifts")[i] % size + size) % size;
    std::rotate(table.begin(), table.end() - shift, table.end());
  }
  copy_by_tables(self, tables, nullptr, call.out());
  return {};
}

TypesResult infer_triangle(const Node& node) {
  DH_TRY(require_min_rank(node, "self", 2));
  const int64_t diagonal = node.i("diagonal");
  constexpr int64_t kLimit = int64_t{1} << 62;
  if (diagonal < -kLimit || diagonal > kLimit) {
    return invalid_graph(cat("diagonal: expected less than 2^62, found ", diagonal));
  }
  return infer_same(node);
}

/// Rows and columns are whole: what is blanked depends on where an element stands.
AxisMap triangle_axes(const Node& node) { return same_except_last(node, 2); }

/// Zeroes what lies above (below) the diagonal column - row = diagonal.
Status triangle(RefCall& call, bool upper) {
  const Tensor& self = call.in("self");
  const int64_t rows = self.size(self.rank() - 2);
  const int64_t columns = self.size(self.rank() - 1);
  const int64_t diagonal = call.node.i("diagonal");
  const auto item = static_cast<int64_t>(item_size(self.dtype()));
  const uint8_t* from = self.bytes().data();
  auto* to = call.out().mutable_data<uint8_t>();
  for (int64_t line = 0; line < self.num_elements() / columns; ++line) {
    const int64_t row = line % rows;
    const int64_t first = upper ? std::clamp<int64_t>(row + diagonal, 0, columns) : 0;
    const int64_t last = upper ? columns : std::clamp<int64_t>(row + diagonal + 1, 0, columns);
    const int64_t at = (line * columns + first) * item;
    std::copy_n(from + at, (last - first) * item, to + at);
  }
  return {};
}

TypesResult infer_pixel_shuffle(const Node& node) {
  DH_TRY(require_min_rank(node, "self", 3));
  DH_TRY(require_int(node, "factor", 1));
  const TensorType& self = node.type("self");
  const Dim factor(node.i("factor"));
  Shape shape = self.shape;
  Dim* last = &shape.back();
  const auto channels = last[-2].divided_by(factor * factor);
  if (!channels) {
    return invalid_graph(cat("self: expected channels divisible by ", (factor * factor).str(),
                             ", found ", self.str()));
  }
  last[-2] = *channels;
  last[-1] = last[-1] * factor;
  last[0] = last[0] * factor;
  return one_type(self.dtype, std::move(shape));
}

TypesResult infer_pixel_unshuffle(const Node& node) {
  DH_TRY(require_min_rank(node, "self", 3));
  DH_TRY(require_int(node, "factor", 1));
  const TensorType& self = node.type("self");
  const Dim factor(node.i("factor"));
  Shape shape = self.shape;
  Dim* last = &shape.back();
  const auto height = last[-1].divided_by(factor);
  const auto width = last[0].divided_by(factor);
  if (!height || !width) {
    return invalid_graph(
        cat("self: expected height and width divisible by ", factor.str(), ", found ", self.str()));
  }
  last[-2] = last[-2] * factor * factor;
  last[-1] = *height;
  last[0] = *width;
  return one_type(self.dtype, std::move(shape));
}

/// self seen as `sizes`, its dimensions in the order `dims`, as the result.
Status reorder(RefCall& call, Sizes sizes, const Ints& dims) {
  const Tensor view = call.in("self").reshaped(std::move(sizes));
  call.out() = permuted(view, dims).reshaped(call.out().sizes());
  return {};
}

int64_t leading_elements(const Tensor& t) {
  int64_t n = 1;
  for (int64_t d = 0; d + 3 < t.rank(); ++d) n *= t.size(d);
  return n;
}

AxisMap shuffle_axes(const Node& node) { return same_except_last(node, 3); }

}  // namespace

// flip: the elements of each dimension in `dims` in reverse order.
const OpDef kFlip = {
    .name = "flip",
    .schema = "flip(Tensor self, int[] dims) -> Tensor",
    .infer = infer_flip,
    .axes = [](const Node& node) { return same_except(node, node.ints("dims")); },
    .reference = flip,
};

// roll: element i of dimension dims[k] moves to i + shifts[k], modulo the size.
const OpDef kRoll = {
    .name = "roll",
    .schema = "roll(Tensor self, int[] shifts, int[] dims) -> Tensor",
    .infer = infer_roll,
    .axes = [](const Node& node) { return same_except(node, node.ints("dims")); },
    .reference = roll,
};

// tril: the elements of the last two dimensions with column - row <= diagonal, 0 elsewhere.
const OpDef kTril = {
    .name = "tril",
    .schema = "tril(Tensor self, int diagonal=0) -> Tensor",
    .infer = infer_triangle,
    .axes = triangle_axes,
    .reference = [](RefCall& c) { return triangle(c, false); },
};

// triu: the elements of the last two dimensions with column - row >= diagonal, 0 elsewhere.
const OpDef kTriu = {
    .name = "triu",
    .schema = "triu(Tensor self, int diagonal=0) -> Tensor",
    .infer = infer_triangle,
    .axes = triangle_axes,
    .reference = [](RefCall& c) { return triangle(c, true); },
};

// pixel_shuffle: [..., C·f·f, H, W] to [..., C, H·f, W·f]; result[c, h·f + i, w·f + j] =
// self[(c·f + i)·f + j, h, w].
const OpDef kPixelShuffle = {
    .name = "pixel_shuffle",
    .schema = "pixel_shuffle(Tensor self, int factor) -> Tensor",
    .infer = infer_pixel_shuffle,
    .axes = shuffle_axes,
    .reference = [](RefCall& call) -> Status {
      const Tensor& self = call.in("self");
      const int64_t f = call.node.i("factor");
      const int64_t r = self.rank();
      return reorder(call,
                     {leading_elements(self), self.size(r - 3) / (f * f), f, f, self.size(r - 2),
                      self.size(r - 1)},
                     {0, 1, 4, 2, 5, 3});
    },
};

// pixel_unshuffle: the inverse of pixel_shuffle, [..., C, H·f, W·f] to [..., C·f·f, H, W].
const OpDef kPixelUnshuffle = {
    .name = "pixel_unshuffle",
    .schema = "pixel_unshuffle(Tensor self, int factor) -> Tensor",
    .infer = infer_pixel_unshuffle,
    .axes = shuffle_axes,
    .reference = [](RefCall& call) -> Status {
      const Tensor& self = call.in("self");
      const int64_t f = call.node.i("factor");
      const int64_t r = self.rank();
      return reorder(call,
                     {leading_elements(self), self.size(r - 3), self.size(r - 2) / f, f,
                      self.size(r - 1) / f, f},
                     {0, 1, 3, 5, 2, 4});
    },
};

}  // namespace downhaul::ops
