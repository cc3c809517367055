#include "kernels/attention/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/attention/row_functions.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/pack.h"
#include "kernels/gemm/rows.h"
#include "kernels/gemm/tile.h"
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/attention.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"
#include "kernels/math-inl.h"
#include "kernels/partial-inl.h"

HWY_BEFORE_NAMESPACE();
namespace downhaul::kernels {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::CappedTag<float, 16>;
using V = hn::Vec<D>;
constexpr D kD;
constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(D()));
constexpr int64_t kSums = 16;  // partial sums of a row, on every target
constexpr int kParts = static_cast<int>(kSums / kLanes);
constexpr float kNever = -std::numeric_limits<float>::infinity();

/// scores[j] * scale + mask, in place; `n` rounded up to whole vectors is writable.
HWY_INLINE void mask_row(float* scores, int64_t n, float scale, MaskKind kind, const void* mask,
                         int64_t key_stride) {
  const V by = hn::Set(kD, scale);
  if (kind == MaskKind::kFloat && key_stride == 1) {
    const float* add = static_cast<const float*>(mask);
    int64_t j = 0;
    for (; j + kLanes <= n; j += kLanes) {
      const V s = hn::Mul(hn::LoadU(kD, scores + j), by);
      hn::StoreU(hn::Add(s, hn::LoadU(kD, add + j)), kD, scores + j);
    }
    for (; j < n; ++j) scores[j] = scores[j] * scale + add[j];
    return;
  }
  for (int64_t j = 0; j < n; j += kLanes) {
    hn::StoreU(hn::Mul(hn::LoadU(kD, scores + j), by), kD, scores + j);
  }
  if (kind == MaskKind::kFloat) {
    const float add = *static_cast<const float*>(mask);
    for (int64_t j = 0; j < n; ++j) scores[j] += add;
  } else if (kind == MaskKind::kBool) {
    const uint8_t* keep = static_cast<const uint8_t*>(mask);
    int64_t j = 0;
    if (key_stride == 1) {
      const hn::Rebind<uint8_t, D> d8;
      const hn::RebindToSigned<D> di;
      for (; j + kLanes <= n; j += kLanes) {
        const auto on = hn::PromoteTo(di, hn::LoadU(d8, keep + j));
        const auto off = hn::RebindMask(kD, hn::Eq(on, hn::Zero(di)));
        const V s = hn::LoadU(kD, scores + j);
        hn::StoreU(hn::IfThenElse(off, hn::Set(kD, kNever), s), kD, scores + j);
      }
    }
    for (; j < n; ++j) {
      if (keep[j * key_stride] == 0) scores[j] = kNever;
    }
  }
}

/// Scores become weights before they are divided by their sum; [n, padded) becomes zeros. Returns
/// the reciprocal of the sum, 0 where there is nothing to attend to.
float softmax_row(float* scores, int64_t n, int64_t padded, float scale, MaskKind kind,
                  const void* mask, int64_t key_stride) {
  mask_row(scores, n, scale, kind, mask, key_stride);
  // What is behind n takes part as if it were masked.
  std::fill(scores + n, scores + padded, kNever);
  V tops[kParts];
  for (int p = 0; p < kParts; ++p) tops[p] = hn::Set(kD, kNever);
  for (int64_t j = 0; j < padded; j += kSums) {
    for (int p = 0; p < kParts; ++p) {
      const V s = hn::LoadU(kD, scores + j + p * kLanes);
      tops[p] = hn::IfThenElse(hn::Gt(s, tops[p]), s, tops[p]);
    }
  }
  HWY_ALIGN float lanes[kSums];
  for (int p = 0; p < kParts; ++p) hn::Store(tops[p], kD, lanes + p * kLanes);
  const float top = *std::max_element(lanes, lanes + kSums);
  if (top == kNever && std::all_of(scores, scores + n, [](float s) { return s == kNever; })) {
    std::fill(scores, scores + padded, 0.0f);
    return 0.0f;
  }
  const V top_v = hn::Set(kD, top);
  V sums[kParts];
  for (int p = 0; p < kParts; ++p) sums[p] = hn::Zero(kD);
  for (int64_t j = 0; j < padded; j += kSums) {
    for (int p = 0; p < kParts; ++p) {
      float* at = scores + j + p * kLanes;
      const V e = vec_exp_nonpositive(kD, hn::Sub(hn::LoadU(kD, at), top_v));
      hn::StoreU(e, kD, at);
      sums[p] = hn::Add(sums[p], e);
    }
  }
  for (int p = 0; p < kParts; ++p) hn::Store(sums[p], kD, lanes + p * kLanes);
  for (int64_t half = kSums / 2; half > 0; half /= 2) {
    for (int64_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  }
  if (top == kNever) return std::numeric_limits<float>::quiet_NaN();  // NaN among -inf
  // The padding is zeros also where the top is infinite and made it NaN.
  std::fill(scores + n, scores + padded, 0.0f);
  return 1.0f / lanes[0];
}

/// to[j] = from[j] * by for `count` values; both may be the same.
void scale_row(const float* from, float by, int64_t count, float* to) {
  const V factor = hn::Set(kD, by);
  int64_t j = 0;
  for (; j + kLanes <= count; j += kLanes) {
    hn::StoreU(hn::Mul(hn::LoadU(kD, from + j), factor), kD, to + j);
  }
  for (; j < count; ++j) to[j] = from[j] * by;
}

const RowFunctions* row_functions() {
  static constexpr RowFunctions kFunctions{softmax_row, scale_row};
  return &kFunctions;
}

}  // namespace HWY_NAMESPACE
}  // namespace downhaul::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace downhaul::kernels {
HWY_EXPORT(row_functions);
namespace {

constexpr int64_t kMinForThreads = int64_t{1} << 19;
constexpr int64_t kBlockRows = 28;  // queries whose scores exist at a time
// With so few queries keys and values are read where they lie.
constexpr int64_t kFewQueries = 4;
static_assert(kFewQueries <= kMaxRows);

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

/// What one worker has in scratch, in floats.
struct Scratch {
  int64_t padded_keys;
  int64_t keys;    // packed keys: panels of [head_dim][kPanel]
  int64_t values;  // packed values: panels of [keys][kPanel]
  int64_t scores;
  int64_t sums;
  int64_t total() const { return keys + values + scores + sums; }
};
Scratch scratch_of(const Attention& c) {
  Scratch s{};
  s.padded_keys = round_up(c.keys, kPanel);
  if (c.queries > kFewQueries) {
    s.keys = s.padded_keys * c.head_dim;
    s.values = round_up(c.value_dim, kPanel) * c.keys;
    s.scores = kBlockRows * s.padded_keys;
  } else {
    s.scores = kFewQueries * s.padded_keys;
    s.sums = kFewQueries * (round_up(c.value_dim, 16) + 16);
  }
  s.keys = round_up(s.keys, 16);
  s.values = round_up(s.values, 16);
  return s;
}

/// One head of one batch, by one worker.
class Head {
 public:
  Head(const Attention& call, const Scratch& sizes, const RowFunctions& functions, float* scratch)
      : c_(call),
        tiles_(tile_table()),
        rows_(rows_table()),
        functions_(functions),
        padded_(sizes.padded_keys),
        packed_keys_(scratch),
        packed_values_(packed_keys_ + sizes.keys),
        scores_(packed_values_ + sizes.values),
        sums_(scores_ + sizes.scores) {}

  void select(int64_t batch, int64_t head) {
    const int64_t key_head = head / c_.heads_per_key;
    key_ = c_.key.data + batch * c_.key.batch + key_head * c_.key.head;
    value_ = c_.value.data + batch * c_.value.batch + key_head * c_.value.head;
    query_ = c_.query.data + batch * c_.query.batch + head * c_.query.head;
    out_ = c_.out + batch * c_.out_batch + head * c_.out_head;
    mask_at_ = batch * c_.mask.batch + head * c_.mask.head;
    if (c_.queries <= kFewQueries) return;
    if (key_ == packed_key_ && value_ == packed_value_) return;
    packed_key_ = key_;
    packed_value_ = value_;
    for (int64_t j = 0; j < c_.keys; j += kPanel) {
      pack_columns({key_, c_.key.row, 1}, c_.keys, c_.head_dim, j, packed_keys_ + j * c_.head_dim);
    }
    for (int64_t j = 0; j < c_.value_dim; j += kPanel) {
      pack_columns({value_, 1, c_.value.row}, c_.value_dim, c_.keys, j,
                   packed_values_ + j * c_.keys);
    }
  }

  /// Queries [begin, begin + rows), at most kBlockRows.
  void run(int64_t begin, int64_t rows) {
    // Keys that the last of these queries sees.
    const int64_t limit = keys_of(begin + rows - 1);
    float inverse[kBlockRows];
    if (c_.queries <= kFewQueries) {
      rows_.nk({query_ + begin * c_.query.row, c_.query.row, static_cast<int>(rows), key_,
                c_.key.row, c_.head_dim, limit, scores_, padded_});
      weights(begin, rows, limit, inverse);
      weigh_few(begin, rows, limit, inverse);
      return;
    }
    TileArgs args;
    args.epilogue = &none_;
    args.lda = c_.query.row;
    args.run = c_.head_dim;
    args.ldb = kPanel;
    args.ldc = padded_;
    args.columns = kPanel;
    for (int64_t j = 0; j < limit; j += kPanel) {
      args.b = packed_keys_ + j * c_.head_dim;
      for_tiles(rows, [&](int64_t row, int64_t count) {
        args.a = query_ + (begin + row) * c_.query.row;
        args.c = scores_ + row * padded_ + j;
        tiles_.rows[count](args);
      });
    }
    weights(begin, rows, limit, inverse);
    args.lda = padded_;
    args.run = limit;
    args.ldc = c_.out_row;
    for (int64_t j = 0; j < c_.value_dim; j += kPanel) {
      args.b = packed_values_ + j * c_.keys;
      args.columns = std::min(kPanel, c_.value_dim - j);
      for_tiles(rows, [&](int64_t row, int64_t count) {
        args.a = scores_ + row * padded_;
        args.c = out_ + (begin + row) * c_.out_row + j;
        tiles_.rows[count](args);
        for (int64_t i = 0; i < count; ++i) {
          float* to = args.c + i * args.ldc;
          functions_.scale(to, inverse[row + i], args.columns, to);
        }
      });
    }
  }

 private:
  int64_t keys_of(int64_t query) const {
    if (!c_.is_causal) return c_.keys;
    return std::clamp<int64_t>(query + c_.causal_offset + 1, 0, c_.keys);
  }

  template <typename Body>
  void for_tiles(int64_t rows, const Body& body) const {
    const int64_t tiles = ceil_div(rows, tiles_.mr);
    for (int64_t t = 0; t < tiles; ++t) {
      const int64_t row = rows * t / tiles;
      body(row, rows * (t + 1) / tiles - row);
    }
  }

  void weights(int64_t begin, int64_t rows, int64_t limit, float* inverse) const {
    const int64_t size = c_.mask.kind == MaskKind::kFloat ? int64_t{sizeof(float)} : 1;
    for (int64_t i = 0; i < rows; ++i) {
      const void* mask = nullptr;
      if (c_.mask.kind != MaskKind::kNone) {
        mask = static_cast<const char*>(c_.mask.data) +
               (mask_at_ + (begin + i) * c_.mask.query) * size;
      }
      inverse[i] =
          functions_.softmax(scores_ + i * padded_, keys_of(begin + i), round_up(limit, 16),
                             c_.scale, c_.mask.kind, mask, c_.mask.key);
    }
  }

  void weigh_few(int64_t begin, int64_t rows, int64_t limit, const float* inverse) {
    const int64_t width = round_up(c_.value_dim, 16) + 16;
    std::fill_n(sums_, rows * width, 0.0f);
    rows_.kn({scores_, padded_, static_cast<int>(rows), value_, c_.value.row, limit, c_.value_dim,
              sums_, width});
    for (int64_t i = 0; i < rows; ++i) {
      functions_.scale(sums_ + i * width, inverse[i], c_.value_dim,
                       out_ + (begin + i) * c_.out_row);
    }
  }

  const Attention& c_;
  const TileTable& tiles_;
  const RowsTable& rows_;
  const RowFunctions& functions_;
  int64_t padded_;
  float* packed_keys_;
  float* packed_values_;
  float* scores_;
  float* sums_;
  Epilogue none_;
  const float* key_ = nullptr;
  const float* value_ = nullptr;
  const float* query_ = nullptr;
  float* out_ = nullptr;
  int64_t mask_at_ = 0;
  const float* packed_key_ = nullptr;
  const float* packed_value_ = nullptr;
};

}  // namespace

size_t attention_scratch_bytes(const Attention& call, int num_threads) {
  return static_cast<size_t>(scratch_of(call).total() * num_threads) * sizeof(float);
}

void attention(const Attention& call, void* scratch, ThreadPool& pool) {
  const Scratch sizes = scratch_of(call);
  const RowFunctions& functions = *HWY_DYNAMIC_DISPATCH(row_functions)();
  // Tasks are always the same blocks of queries, so that threads do not change results; a worker
  // takes as many in a row as leaves enough for the others, for each head it meets is packed.
  const int64_t blocks = ceil_div(call.queries, kBlockRows);
  const int64_t heads = call.batch * call.heads;
  const int64_t work = heads * call.queries * call.keys * (call.head_dim + call.value_dim);
  const int64_t tasks = heads * blocks;
  int64_t chunk = tasks;
  if (work >= kMinForThreads) {
    chunk = std::clamp<int64_t>(tasks / (2 * pool.num_threads()), 1, std::max<int64_t>(1, blocks));
  }
  pool.run(tasks, chunk, [&](int64_t begin, int64_t end, int worker) {
    Head head(call, sizes, functions, static_cast<float*>(scratch) + worker * sizes.total());
    for (int64_t task = begin; task < end; ++task) {
      const int64_t block = task % blocks;
      if (task == begin || block == 0) {
        head.select(task / blocks / call.heads, task / blocks % call.heads);
      }
      const int64_t row = call.queries * block / blocks;
      head.run(row, call.queries * (block + 1) / blocks - row);
    }
  });
}

}  // namespace downhaul::kernels
#endif  // HWY_ONCE
