#pragma once

#include <cstdint>

/// The transforms of Winograd's F(4x4, 3x3): 16 results of a 3x3 convolution from 36 products
/// instead of 144. With points 0, sqrt(1/2), -sqrt(1/2), sqrt(2), -sqrt(2) and infinity:
///   Y = A^T [(G g G^T) * (B^T d B)] A,
/// d 6x6 pixels, g 3x3 weights, Y 4x4 results; the products in the middle, summed over channels,
/// are 36 matrix products.
namespace downhaul::kernels {

inline constexpr int kWinogradIn = 6;   // pixels
inline constexpr int kWinogradOut = 4;  // results
inline constexpr int kWinogradProducts = kWinogradIn * kWinogradIn;

/// B^T d B of one tile: `pixels` [36] row by row, channels [0, channels); product p goes to
/// to + p * stride.
using WinogradInFn = void (*)(const float* const* pixels, int64_t channels, float* to,
                              int64_t stride);
WinogradInFn winograd_in_fn();

/// clamp(A^T m A + bias) of one tile: product p at from + p * stride; result r (row by row) goes to
/// results[r], where that is not null.
using WinogradOutFn = void (*)(const float* from, int64_t stride, const float* bias,
                               int64_t channels, float lo, float hi, float* const* results);
WinogradOutFn winograd_out_fn();

}  // namespace downhaul::kernels
