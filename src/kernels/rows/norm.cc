#include "kernels/rows/norm.h"

#include <algorithm>
#include <cmath>

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/rows/norm.cc"
#include "hwy/foreach_target.h"
// The order matters: foreach_target.h sets the target of what follows.
#include "hwy/highway.h"
#include "kernels/rows/sum-inl.h"

HWY_BEFORE_NAMESPACE();
namespace downhaul::kernels::HWY_NAMESPACE {

/// y = (x - mean) · inverse · weight + bias for one row.
HWY_INLINE void normalize(const float* x, float mean, float inverse, const float* weight,
                          const float* bias, int64_t width, float* y) {
  if (weight != nullptr && bias != nullptr) {
    for_row(width, [=](auto d, size_t i, size_t n) HWY_ATTR {
      auto v = hn::Mul(hn::Sub(load_some(d, x + i, n), hn::Set(d, mean)), hn::Set(d, inverse));
      v = hn::Add(hn::Mul(v, load_some(d, weight + i, n)), load_some(d, bias + i, n));
      store_some(v, d, y + i, n);
    });
    return;
  }
  for_row(width, [=](auto d, size_t i, size_t n) HWY_ATTR {
    auto v = hn::Mul(hn::Sub(load_some(d, x + i, n), hn::Set(d, mean)), hn::Set(d, inverse));
    if (weight != nullptr) v = hn::Mul(v, load_some(d, weight + i, n));
    if (bias != nullptr) v = hn::Add(v, load_some(d, bias + i, n));
    store_some(v, d, y + i, n);
  });
}

HWY_INLINE float sum_of(const float* x, int64_t width) {
  return sum_row(width,
                 [=](auto d, size_t i, size_t n) HWY_ATTR { return load_some(d, x + i, n); });
}

HWY_INLINE float sum_of_squares(const float* x, float mean, int64_t width) {
  return sum_row(width, [=](auto d, size_t i, size_t n) HWY_ATTR {
    const auto v = hn::Sub(load_some(d, x + i, n), hn::Set(d, mean));
    return first_some(d, hn::Mul(v, v), n);
  });
}

void layer_norm_rows(const LayerNorm& call, int64_t begin, int64_t end) {
  const int64_t width = call.width;
  const auto count = static_cast<float>(width);
  for (int64_t row = begin; row < end; ++row) {
    const float* x = call.in + row * call.in_stride;
    float* out = call.out + row * call.out_stride;
    float sum = 0;
    if (call.residual != nullptr || call.sum != nullptr) {
      // Read again twice, so it has to be somewhere: in the result, unless it is wanted.
      float* kept = call.sum != nullptr ? call.sum + row * call.sum_stride : out;
      if (call.residual != nullptr) {
        const float* residual = call.residual + row * call.residual_stride;
        sum = sum_row(width, [=](auto d, size_t i, size_t n) HWY_ATTR {
          const auto v = hn::Add(load_some(d, x + i, n), load_some(d, residual + i, n));
          store_some(v, d, kept + i, n);
          return v;
        });
      } else {
        sum = sum_row(width, [=](auto d, size_t i, size_t n) HWY_ATTR {
          const auto v = load_some(d, x + i, n);
          store_some(v, d, kept + i, n);
          return v;
        });
      }
      x = kept;
    } else {
      sum = sum_of(x, width);
    }
    const float mean = sum / count;
    const float variance = sum_of_squares(x, mean, width) / count;
    normalize(x, mean, 1.0f / std::sqrt(variance + call.eps), call.weight, call.bias, width, out);
  }
}

/// Sums of long runs: 4096 elements at a time, those in f64.
constexpr int64_t kRun = 4096;

void group_norm_groups(const GroupNorm& call, int64_t begin, int64_t end) {
  const int64_t channels = call.channels / call.groups;
  const int64_t count = channels * call.plane;
  for (int64_t task = begin; task < end; ++task) {
    const float* x = call.in + task * count;
    float* out = call.out + task * count;
    double sum = 0;
    for (int64_t i = 0; i < count; i += kRun) {
      sum += static_cast<double>(sum_of(x + i, std::min(kRun, count - i)));
    }
    const auto mean = static_cast<float>(sum / static_cast<double>(count));
    double squares = 0;
    for (int64_t i = 0; i < count; i += kRun) {
      squares += static_cast<double>(sum_of_squares(x + i, mean, std::min(kRun, count - i)));
    }
    const double inverse =
        1 / std::sqrt(squares / static_cast<double>(count) + static_cast<double>(call.eps));
    for (int64_t c = 0; c < channels; ++c) {
      const int64_t channel = task % call.groups * channels + c;
      const double weight = call.weight == nullptr ? 1 : static_cast<double>(call.weight[channel]);
      const auto scale = static_cast<float>(inverse * weight);
      const float shift = call.bias == nullptr ? 0.0f : call.bias[channel];
      const float* from = x + c * call.plane;
      float* to = out + c * call.plane;
      for_row(call.plane, [=](auto d, size_t i, size_t n) HWY_ATTR {
        const auto v = hn::Sub(load_some(d, from + i, n), hn::Set(d, mean));
        store_some(hn::Add(hn::Mul(v, hn::Set(d, scale)), hn::Set(d, shift)), d, to + i, n);
      });
    }
  }
}

/// y = x · scale + shift, with one scale and shift for the run.
void affine_run(const float* x, float scale, float shift, int64_t width, float* y) {
  for_row(width, [=](auto d, size_t i, size_t n) HWY_ATTR {
    const auto v = hn::Mul(load_some(d, x + i, n), hn::Set(d, scale));
    store_some(hn::Add(v, hn::Set(d, shift)), d, y + i, n);
  });
}

/// The same with one for each element.
void affine_row(const float* x, const float* scale, const float* shift, int64_t width, float* y) {
  for_row(width, [=](auto d, size_t i, size_t n) HWY_ATTR {
    const auto v = hn::Mul(load_some(d, x + i, n), load_some(d, scale + i, n));
    store_some(hn::Add(v, load_some(d, shift + i, n)), d, y + i, n);
  });
}

}  // namespace downhaul::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace downhaul::kernels {
namespace {

HWY_EXPORT(layer_norm_rows);
HWY_EXPORT(group_norm_groups);
HWY_EXPORT(affine_run);
HWY_EXPORT(affine_row);

/// Elements that are worth a thread.
constexpr int64_t kGrain = 16384;

int64_t tasks_per_grain(int64_t elements) {
  return std::max<int64_t>(1, kGrain / std::max<int64_t>(1, elements));
}

}  // namespace

void layer_norm(const LayerNorm& call, ThreadPool& pool) {
  const auto rows = HWY_DYNAMIC_DISPATCH(layer_norm_rows);
  pool.run(call.rows, tasks_per_grain(call.width),
           [&](int64_t begin, int64_t end, int) { rows(call, begin, end); });
}

void group_norm(const GroupNorm& call, ThreadPool& pool) {
  const auto groups = HWY_DYNAMIC_DISPATCH(group_norm_groups);
  pool.run(call.batch * call.groups, tasks_per_grain(call.channels / call.groups * call.plane),
           [&](int64_t begin, int64_t end, int) { groups(call, begin, end); });
}

void batch_norm_affine(int64_t channels, const float* weight, const float* bias, const float* mean,
                       const float* var, double eps, float* scale, float* shift) {
  for (int64_t c = 0; c < channels; ++c) {
    const double s = (weight == nullptr ? 1.0 : static_cast<double>(weight[c])) /
                     std::sqrt(static_cast<double>(var[c]) + eps);
    scale[c] = static_cast<float>(s);
    shift[c] = static_cast<float>((bias == nullptr ? 0.0 : static_cast<double>(bias[c])) -
                                  static_cast<double>(mean[c]) * s);
  }
}

void channel_affine(int64_t batch, int64_t channels, int64_t plane, const float* in,
                    const float* scale, const float* shift, float* out, ThreadPool& pool) {
  if (plane == 1) {
    const auto row = HWY_DYNAMIC_DISPATCH(affine_row);
    pool.run(batch, tasks_per_grain(channels), [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        row(in + i * channels, scale, shift, channels, out + i * channels);
      }
    });
    return;
  }
  const auto run = HWY_DYNAMIC_DISPATCH(affine_run);
  pool.run(batch * channels, tasks_per_grain(plane), [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t c = i % channels;
      run(in + i * plane, scale[c], shift[c], plane, out + i * plane);
    }
  });
}

}  // namespace downhaul::kernels
#endif  // HWY_ONCE
