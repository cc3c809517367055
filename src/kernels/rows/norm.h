#pragma once

#include <cstdint>

#include "base/thread_pool.h"

/// Normalisation in f32. Nothing allocates or fails; buffers need no alignment. Results depend on
/// neither threads nor ISA: sums have 64 partial sums, element i in partial sum i mod 64, added as
/// s[j] + s[j + 32], then + s[j + 16] … + s[j + 1]; no step is fused.
namespace downhaul::kernels {

/// Rows of `width` elements: v = in + residual, y = (v - mean v) / sqrt(var v + eps) · weight +
/// bias with the biased variance around the mean. Strides are those from row to row, in floats.
struct LayerNorm {
  int64_t rows = 0;
  int64_t width = 0;
  float eps = 1e-5f;
  const float* in = nullptr;
  int64_t in_stride = 0;
  const float* residual = nullptr;  ///< null: none
  int64_t residual_stride = 0;
  float* sum = nullptr;  ///< where v is kept; null: nowhere. May be in or residual.
  int64_t sum_stride = 0;
  const float* weight = nullptr;  ///< [width]; null: ones
  const float* bias = nullptr;    ///< [width]; null: zeros
  float* out = nullptr;           ///< may be in, residual or (then v is lost) sum
  int64_t out_stride = 0;
};
void layer_norm(const LayerNorm& call, ThreadPool& pool);

/// in, out [batch, channels, plane] row-major: statistics over each of `groups` equal groups of
/// channels with their planes; instance norm has groups = channels. weight, bias [channels] or
/// null.
struct GroupNorm {
  int64_t batch = 0;
  int64_t channels = 0;
  int64_t groups = 1;
  int64_t plane = 1;
  float eps = 1e-5f;
  const float* in = nullptr;
  const float* weight = nullptr;
  const float* bias = nullptr;
  float* out = nullptr;  ///< may be in
};
void group_norm(const GroupNorm& call, ThreadPool& pool);

/// scale = weight / sqrt(var + eps), shift = bias - mean · scale, in f64: batch norm as a
/// multiplication and an addition per channel. weight and bias may be null.
void batch_norm_affine(int64_t channels, const float* weight, const float* bias, const float* mean,
                       const float* var, double eps, float* scale, float* shift);

/// y = x · scale[c] + shift[c] on [batch, channels, plane] (NCHW; NHWC has plane = 1 and its pixels
/// in batch). May be in place.
void channel_affine(int64_t batch, int64_t channels, int64_t plane, const float* in,
                    const float* scale, const float* shift, float* out, ThreadPool& pool);

}  // namespace downhaul::kernels
