// Attention against the formula in f64, on every ISA, for layouts, masks and sizes around blocks.
#include "kernels/attention/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "kernels/guarded_buffer.h"
#include "kernels/isa.h"

namespace downhaul::kernels {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

size_t at(int64_t i) { return static_cast<size_t>(i); }

struct Case {
  int64_t batch = 1;
  int64_t heads = 2;
  int64_t queries = 1;
  int64_t keys = 1;
  int64_t head_dim = 8;
  int64_t value_dim = 8;
  int64_t heads_per_key = 1;
  bool interleaved = false;  // [rows][heads * dim] instead of [heads][rows][dim]
  MaskKind mask = MaskKind::kNone;
  bool mask_per_key_only = false;
  bool mask_constant_over_keys = false;
  bool is_causal = false;
  int64_t causal_offset = 0;
};

class AttentionTest : public testing::TestWithParam<Isa> {
 protected:
  HeadsView view(GuardedBuffer<float>& data, int64_t heads, int64_t rows, int64_t dim,
                 bool interleaved) {
    for (float& v : data) v = uniform_(engine_);
    if (interleaved) return {data.data(), heads * rows * dim, dim, heads * dim};
    return {data.data(), heads * rows * dim, rows * dim, dim};
  }

  std::vector<float> run(const Case& c, int threads) {
    engine_.seed(11);
    const int64_t key_heads = c.heads / c.heads_per_key;
    GuardedBuffer<float> q(at(c.batch * c.heads * c.queries * c.head_dim));
    GuardedBuffer<float> k(at(c.batch * key_heads * c.keys * c.head_dim));
    GuardedBuffer<float> v(at(c.batch * key_heads * c.keys * c.value_dim));
    GuardedBuffer<float> out(at(c.batch * c.heads * c.queries * c.value_dim));
    Attention call;
    call.batch = c.batch;
    call.heads = c.heads;
    call.queries = c.queries;
    call.keys = c.keys;
    call.head_dim = c.head_dim;
    call.value_dim = c.value_dim;
    call.heads_per_key = c.heads_per_key;
    call.scale = 0.75f;
    call.is_causal = c.is_causal;
    call.causal_offset = c.causal_offset;
    call.query = view(q, c.heads, c.queries, c.head_dim, c.interleaved);
    call.key = view(k, key_heads, c.keys, c.head_dim, c.interleaved);
    call.value = view(v, key_heads, c.keys, c.value_dim, c.interleaved);
    const HeadsView o = view(out, c.heads, c.queries, c.value_dim, c.interleaved);
    call.out = out.data();
    call.out_batch = o.batch;
    call.out_head = o.head;
    call.out_row = o.row;

    int64_t mask_size = c.batch * c.heads * c.queries * c.keys;
    call.mask = {c.mask, nullptr, c.heads * c.queries * c.keys, c.queries * c.keys, c.keys, 1};
    if (c.mask_per_key_only) {
      mask_size = c.keys;
      call.mask.batch = call.mask.head = call.mask.query = 0;
    }
    if (c.mask_constant_over_keys) {
      mask_size = c.queries;
      call.mask.batch = call.mask.head = call.mask.key = 0;
      call.mask.query = 1;
    }
    GuardedBuffer<float> floats(at(c.mask == MaskKind::kFloat ? mask_size : 0));
    GuardedBuffer<uint8_t> bools(at(c.mask == MaskKind::kBool ? mask_size : 0));
    for (float& m : floats) m = engine_() % 3 == 0 ? -kInf : uniform_(engine_);
    for (uint8_t& m : bools) m = static_cast<uint8_t>(engine_() % 3);
    call.mask.data = c.mask == MaskKind::kFloat ? static_cast<const void*>(floats.data())
                                                : static_cast<const void*>(bools.data());

    GuardedBuffer<float> scratch((attention_scratch_bytes(call, threads) + 63) / 64 * 16);
    ThreadPool pool(threads);
    attention(call, scratch.data(), pool);
    check(call);
    return {out.begin(), out.end()};
  }

  static double mask_of(const MaskView& mask, int64_t b, int64_t h, int64_t i, int64_t j) {
    const int64_t index = b * mask.batch + h * mask.head + i * mask.query + j * mask.key;
    if (mask.kind == MaskKind::kFloat) {
      return static_cast<double>(static_cast<const float*>(mask.data)[index]);
    }
    if (mask.kind == MaskKind::kBool) {
      return static_cast<const uint8_t*>(mask.data)[index] != 0 ? 0 : -INFINITY;
    }
    return 0;
  }

  static void check(const Attention& c) {
    std::vector<double> weights(at(c.keys));
    for (int64_t b = 0; b < c.batch; ++b) {
      for (int64_t h = 0; h < c.heads; ++h) {
        const int64_t kh = h / c.heads_per_key;
        for (int64_t i = 0; i < c.queries; ++i) {
          const float* q = c.query.data + b * c.query.batch + h * c.query.head + i * c.query.row;
          double top = -INFINITY;
          for (int64_t j = 0; j < c.keys; ++j) {
            const float* k = c.key.data + b * c.key.batch + kh * c.key.head + j * c.key.row;
            double s = 0;
            for (int64_t d = 0; d < c.head_dim; ++d) {
              s += static_cast<double>(q[d]) * static_cast<double>(k[d]);
            }
            s = s * static_cast<double>(c.scale) + mask_of(c.mask, b, h, i, j);
            if (c.is_causal && j > i + c.causal_offset) s = -INFINITY;
            weights[at(j)] = s;
            top = std::max(top, s);
          }
          double sum = 0;
          for (double& w : weights) {
            w = top == -INFINITY ? 0 : std::exp(w - top);
            sum += w;
          }
          for (int64_t d = 0; d < c.value_dim; ++d) {
            double want = 0;
            for (int64_t j = 0; j < c.keys && sum > 0; ++j) {
              const float* v =
                  c.value.data + b * c.value.batch + kh * c.value.head + j * c.value.row;
              want += weights[at(j)] / sum * static_cast<double>(v[d]);
            }
            const float got = c.out[b * c.out_batch + h * c.out_head + i * c.out_row + d];
            // |scores| < head_dim, so their error is below head_dim^2 eps; that of the weighted
            // mean of values <= 1 is of the same order as the exponents'.
            const double dim = static_cast<double>(c.head_dim);
            const double tolerance = (dim * dim + static_cast<double>(c.keys) + 8) * 6e-8;
            ASSERT_NEAR(static_cast<double>(got), want, tolerance)
                << "batch " << b << " head " << h << " query " << i << " dim " << d;
          }
        }
      }
    }
  }

  ScopedIsa isa_{GetParam()};
  std::mt19937 engine_{11};
  std::uniform_real_distribution<float> uniform_{-1.0f, 1.0f};
};

TEST_P(AttentionTest, EverySizeAroundTheBlocks) {
  for (int64_t s = 1; s <= 67 && !HasFailure(); ++s) run({.queries = s, .keys = 19}, 1);
  for (int64_t t = 0; t <= 67 && !HasFailure(); ++t) {
    run({.queries = 9, .keys = t}, 1);
    run({.queries = 1, .keys = t}, 1);
  }
  for (int64_t d = 1; d <= 67 && !HasFailure(); ++d) {
    run({.queries = 30, .keys = 21, .head_dim = d, .value_dim = 68 - d, .interleaved = true}, 1);
    run({.queries = 2, .keys = 21, .head_dim = d, .value_dim = 68 - d, .interleaved = true}, 1);
  }
}

TEST_P(AttentionTest, MasksOfEveryKind) {
  for (const MaskKind kind : {MaskKind::kBool, MaskKind::kFloat}) {
    for (const int64_t queries : {1, 4, 5, 40}) {
      for (const int64_t keys : {1, 7, 16, 33, 64}) {
        Case c{.batch = 2, .queries = queries, .keys = keys, .interleaved = true, .mask = kind};
        run(c, 1);
        c.mask_per_key_only = true;
        run(c, 1);
        c.mask_per_key_only = false;
        c.mask_constant_over_keys = true;
        run(c, 1);
        if (HasFailure()) return;
      }
    }
  }
}

TEST_P(AttentionTest, CausalWithAnyOffset) {
  for (const int64_t offset : {-3, 0, 2, 50}) {
    for (const int64_t queries : {1, 3, 37}) {
      run({.queries = queries, .keys = 37, .is_causal = true, .causal_offset = offset}, 1);
      run({.queries = queries,
           .keys = 37,
           .mask = MaskKind::kBool,
           .is_causal = true,
           .causal_offset = offset},
          1);
    }
  }
}

TEST_P(AttentionTest, HeadsShareKeys) {
  run({.batch = 2, .heads = 6, .queries = 11, .keys = 13, .heads_per_key = 3}, 1);
  run({.batch = 2, .heads = 6, .queries = 1, .keys = 13, .heads_per_key = 2, .interleaved = true},
      2);
}

TEST_P(AttentionTest, ThreadsDoNotChangeBits) {
  const Case cases[] = {{.heads = 12, .queries = 64, .keys = 64, .head_dim = 64, .value_dim = 64},
                        {.heads = 1,
                         .queries = 197,
                         .keys = 197,
                         .head_dim = 64,
                         .value_dim = 64,
                         .is_causal = true}};
  for (const Case& c : cases) {
    const std::vector<float> one = run(c, 1);
    for (const int threads : {2, 3}) {
      const std::vector<float> more = run(c, threads);
      EXPECT_EQ(std::memcmp(one.data(), more.data(), one.size() * sizeof(float)), 0);
    }
  }
}

TEST_P(AttentionTest, NanStaysInItsRow) {
  for (const int64_t queries : {2, 6}) {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    std::vector<float> q(at(queries), 1.0f);
    q[1] = nan;
    const std::vector<float> kv = {1, 2, 3};
    std::vector<float> out(at(queries));
    Attention call;
    call.queries = queries;
    call.keys = 3;
    call.head_dim = call.value_dim = 1;
    call.query = {q.data(), 0, 0, 1};
    call.key = call.value = {kv.data(), 0, 0, 1};
    call.out = out.data();
    call.out_row = 1;
    std::vector<float> scratch(attention_scratch_bytes(call, 1) / sizeof(float));
    ThreadPool pool(1);
    attention(call, scratch.data(), pool);
    EXPECT_FALSE(std::isnan(out[0]));
    EXPECT_TRUE(std::isnan(out[1]));
  }
}

INSTANTIATE_TEST_SUITE_P(Isas, AttentionTest, testing::ValuesIn(supported_isas()),
                         [](const auto& i) { return std::string(name(i.param)); });

}  // namespace
}  // namespace downhaul::kernels
