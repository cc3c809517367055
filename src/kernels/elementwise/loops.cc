#include "kernels/elementwise/loops.h"

namespace downhaul::kernels {

std::vector<int64_t> row_major(Extents sizes) {
  std::vector<int64_t> strides(sizes.size());
  int64_t stride = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    strides[d] = stride;
    stride *= sizes[d];
  }
  return strides;
}

namespace {

/// Strides of the result (entry 0) and of the operands at one dimension.
struct Dimension {
  int64_t size = 1;
  std::array<int64_t, Loops::kMaxOperands + 1> strides{};
};

/// Gathers dimensions from the outermost to the innermost, merging those that go together.
class Merger {
 public:
  explicit Merger(size_t tensors) : tensors_(tensors) {
    loops_.num_operands = static_cast<int>(tensors) - 1;
  }

  bool add(const Dimension& d) {
    count_ *= d.size;
    if (d.size == 1) return true;
    if (rank_ > 0 && goes_on(d)) {
      sizes(rank_ - 1) *= d.size;
      for (size_t t = 0; t < tensors_; ++t) stride(t, rank_ - 1) = d.strides[t];
      return true;
    }
    if (rank_ == Loops::kMaxRank) return false;
    sizes(rank_) = d.size;
    for (size_t t = 0; t < tensors_; ++t) stride(t, rank_) = d.strides[t];
    ++rank_;
    return true;
  }

  Loops finish() {
    if (rank_ == 0) {
      sizes(0) = 1;
      for (size_t t = 0; t < tensors_; ++t) stride(t, 0) = 1;
      rank_ = 1;
    }
    loops_.rank = static_cast<int>(rank_);
    loops_.count = count_;
    return loops_;
  }

 private:
  /// Whether the last dimension and this one can be walked as one.
  bool goes_on(const Dimension& d) {
    for (size_t t = 0; t < tensors_; ++t) {
      if (stride(t, rank_ - 1) != d.strides[t] * d.size) return false;
    }
    return true;
  }
  int64_t& sizes(size_t dimension) { return loops_.sizes[dimension]; }
  int64_t& stride(size_t tensor, size_t dimension) {
    return tensor == 0 ? loops_.result_strides[dimension] : loops_.strides[tensor - 1][dimension];
  }

  Loops loops_;
  size_t tensors_;
  size_t rank_ = 0;
  int64_t count_ = 1;
};

}  // namespace

int64_t element_size(Element element) {
  switch (element) {
    case Element::kBool:
    case Element::kU8:
    case Element::kI8:
      return 1;
    case Element::kI16:
    case Element::kF16:
    case Element::kBF16:
      return 2;
    case Element::kI32:
    case Element::kF32:
      return 4;
    case Element::kI64:
    case Element::kF64:
      return 8;
  }
  return 0;
}

std::optional<Loops> strided_loops(Extents sizes, Extents result_strides,
                                   std::span<const Extents> operand_strides) {
  if (operand_strides.size() > Loops::kMaxOperands) return std::nullopt;
  Merger merger(operand_strides.size() + 1);
  for (size_t d = 0; d < sizes.size(); ++d) {
    Dimension dimension{.size = sizes[d]};
    dimension.strides[0] = result_strides[d];
    for (size_t o = 0; o < operand_strides.size(); ++o) {
      dimension.strides[o + 1] = operand_strides[o][d];
    }
    if (!merger.add(dimension)) return std::nullopt;
  }
  return merger.finish();
}

std::optional<Loops> broadcast_loops(Extents sizes, std::span<const Extents> operands) {
  if (operands.size() > Loops::kMaxOperands) return std::nullopt;
  const size_t tensors = operands.size() + 1;
  // Strides grow from the innermost dimension on, dimensions are merged from the outermost: start
  // with the whole and divide.
  std::array<int64_t, Loops::kMaxOperands + 1> block{};
  const auto product = [](Extents extents) {
    int64_t n = 1;
    for (const int64_t s : extents) n *= s;
    return n;
  };
  block[0] = product(sizes);
  for (size_t o = 0; o < operands.size(); ++o) block[o + 1] = product(operands[o]);
  Merger merger(tensors);
  for (size_t d = 0; d < sizes.size(); ++d) {
    Dimension dimension{.size = sizes[d]};
    for (size_t t = 0; t < tensors; ++t) {
      const Extents own = t == 0 ? sizes : operands[t - 1];
      const size_t missing = sizes.size() - own.size();
      if (d < missing || own[d - missing] == 0) continue;
      const int64_t size = own[d - missing];
      block[t] /= size;
      dimension.strides[t] = size == 1 ? 0 : block[t];
    }
    if (!merger.add(dimension)) return std::nullopt;
  }
  return merger.finish();
}

bool is_contiguous(const Loops& loops, std::span<const int64_t, Loops::kMaxRank> strides) {
  int64_t expected = 1;
  for (int d = loops.rank - 1; d >= 0; --d) {
    const auto i = static_cast<size_t>(d);
    if (strides[i] != expected) return false;
    expected *= loops.sizes[i];
  }
  return true;
}

LoopCursor::LoopCursor(const Loops& loops, int64_t begin) : loops_(loops) {
  for (int d = loops.rank - 1; d >= 0 && begin > 0; --d) {
    const auto i = static_cast<size_t>(d);
    index_[i] = begin % loops.sizes[i];
    begin /= loops.sizes[i];
    result_ += index_[i] * loops.result_strides[i];
    for (int o = 0; o < loops.num_operands; ++o) {
      const auto operand = static_cast<size_t>(o);
      offsets_[operand] += index_[i] * loops.strides[operand][i];
    }
  }
  inner_ = index_[static_cast<size_t>(loops.rank - 1)];
}

void LoopCursor::advance(int64_t n) {
  // The innermost dimension, and outer ones as far as they carry.
  auto d = static_cast<size_t>(loops_.rank - 1);
  inner_ += n;
  result_ += n * loops_.result_strides[d];
  for (size_t o = 0; o < static_cast<size_t>(loops_.num_operands); ++o) {
    offsets_[o] += n * loops_.strides[o][d];
  }
  if (inner_ < loops_.sizes[d]) return;
  index_[d] = inner_;
  inner_ = 0;
  while (index_[d] == loops_.sizes[d]) {
    const int64_t size = loops_.sizes[d];
    index_[d] = 0;
    result_ -= size * loops_.result_strides[d];
    for (size_t o = 0; o < static_cast<size_t>(loops_.num_operands); ++o) {
      offsets_[o] -= size * loops_.strides[o][d];
    }
    if (d == 0) return;
    --d;
    ++index_[d];
    result_ += loops_.result_strides[d];
    for (size_t o = 0; o < static_cast<size_t>(loops_.num_operands); ++o) {
      offsets_[o] += loops_.strides[o][d];
    }
  }
}

}  // namespace downhaul::kernels
