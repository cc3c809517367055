#pragma once

#include <cstddef>
#include <cstdint>

#include "base/thread_pool.h"

/// softmax(query keyT * scale + mask) value in f32, without a tensor of all scores.
///
/// Nothing allocates or fails in `attention`; any size may be 0. The softmax is exact (maximum,
/// exponentials, sum of 16 partial sums in a fixed order); products as in gemm/gemm.h. Results do
/// not depend on the number of threads, nor on how many other heads or batches there are.
/// A query that may attend to nothing (all masked by false, -inf or causality) gets zeros; NaN in
/// a score makes its row NaN.
namespace downhaul::kernels {

/// [batch][heads][rows][dim] with dim contiguous and any other stride (in floats): a slice of
/// [batch][rows][heads * dim] has head = dim, row = heads * dim. 0 broadcasts.
struct HeadsView {
  const float* data = nullptr;
  int64_t batch = 0;
  int64_t head = 0;
  int64_t row = 0;
};

enum class MaskKind : uint8_t {
  kNone,
  kBool,  ///< one byte per element, 0: this key is not attended to
  kFloat  ///< f32, added to the scaled score
};

/// Element (batch, head, query, key) at data + the sum of index * stride, strides in elements.
/// 0 broadcasts; key must be 0 or 1.
struct MaskView {
  MaskKind kind = MaskKind::kNone;
  const void* data = nullptr;
  int64_t batch = 0;
  int64_t head = 0;
  int64_t query = 0;
  int64_t key = 1;
};

struct Attention {
  int64_t batch = 1;
  int64_t heads = 1;
  int64_t queries = 0;
  int64_t keys = 0;
  int64_t head_dim = 0;   ///< of query and key
  int64_t value_dim = 0;  ///< of value and result
  /// Heads of the query that share one head of key and value (grouped queries).
  int64_t heads_per_key = 1;
  float scale = 1.0f;
  /// Query i attends to keys 0 ... i + causal_offset only.
  bool is_causal = false;
  int64_t causal_offset = 0;
  HeadsView query;
  HeadsView key;
  HeadsView value;
  MaskView mask;
  /// The result, strided as the views; must not overlap them.
  float* out = nullptr;
  int64_t out_batch = 0;
  int64_t out_head = 0;
  int64_t out_row = 0;
};

/// Scratch that `attention` needs (sizes matter, pointers do not), 64-byte aligned.
size_t attention_scratch_bytes(const Attention& call, int num_threads);
void attention(const Attention& call, void* scratch, ThreadPool& pool);

}  // namespace downhaul::kernels
