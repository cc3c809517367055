#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/file.h"
#include "base/status.h"
#include "tensor/tensor.h"

/// Weights in fewer bits. Everything is computed from the halves that the weights would be, so that
/// nothing depends on how they were stored; the same on every machine. Mapped weights are read a
/// stretch at a time and given back.
namespace downhaul::coreml {

/// The half nearest to a number, ties to even. Finite numbers beyond the largest half stay finite:
/// a mask's "minus infinity" spelled as the smallest float must not become one.
uint16_t half_of(float value);
/// The same for many: `to` has room for as many.
void to_halves(std::span<const float> from, uint16_t* to);

/// One scale, itself a half, for each slice of axis 0: weight ≈ q · scale with q in [-127, 127].
///   weight  f32, rank at least 1
std::vector<uint16_t> int8_scales(const Tensor& weight);
/// Appends the q, a byte each.
Status write_int8(const Tensor& weight, const std::vector<uint16_t>& scales, OutputFile& out);

/// 2^bits halves that stand for all weights of a tensor.
struct Palette {
  int bits = 0;
  std::vector<uint16_t> entries;  ///< ascending
  std::vector<uint8_t> nearest;   ///< by the bits of a half: index of its entry
};
/// The palette with the least squared error that k-means finds over the counts of all halves,
/// beginning at their quantiles. weight  f32; bits  1 to 8.
Palette palette_of(const Tensor& weight, int bits);
/// Appends the indices, packed with the low bits first.
Status write_palette(const Tensor& weight, const Palette& palette, OutputFile& out);

}  // namespace downhaul::coreml
