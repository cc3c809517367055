#pragma once

#include <cstdint>
#include <optional>

#include "tensor/tensor.h"

/// How far two tensors are apart, in the measures that people compare models by.
namespace downhaul {

/// Share of places whose largest entry along an axis is at the same index. NaN counts as largest.
struct Agreement {
  int64_t axis = 0;
  int64_t rows = 0;
  int64_t equal = 0;
  double share() const {
    return rows == 0 ? 1.0 : static_cast<double>(equal) / static_cast<double>(rows);
  }
};

/// Overlap of the masks of each class, |A and B| / |A or B|, over the classes that either has.
struct MaskOverlap {
  int64_t classes = 0;
  double mean = 1;
  double lowest = 1;
};

/// Where only finite pairs count, positions with a NaN or an infinity on either side are left out.
struct TensorMetrics {
  int64_t elements = 0;
  int64_t unequal = 0;  ///< as values: NaN equals NaN, -0 equals 0
  int64_t not_finite_a = 0;
  int64_t not_finite_b = 0;
  /// NaN or an infinity on one side, and something else on the other.
  int64_t not_finite_unequal = 0;
  double max_abs = 0;    ///< largest |a - b|, finite pairs
  double mean_abs = 0;   ///< finite pairs
  double magnitude = 0;  ///< largest finite |a|
  /// Largest |a| that is not above kLarge: masks put in numbers like -1e4 or -3e38, against which
  /// any difference elsewhere would look small.
  double scale = 0;
  double relative = 0;     ///< largest |a - b| / max(scale, |a|)
  double relative_l2 = 0;  ///< ||a - b|| / ||a||, finite pairs
  /// 10·log10(R² / mean((a - b)²)) in dB with R = max a - min a, over finite pairs; infinite when
  /// equal, NaN without finite pairs. Of a constant `a`, R is its magnitude.
  double psnr = 0;
  double cosine = 1;   ///< a·b / (||a|| ||b||), finite pairs; 1 when both are 0
  int64_t worst = -1;  ///< index (row-major) of the largest difference; -1 when equal
  double worst_a = 0, worst_b = 0;
  std::optional<Agreement> argmax;
  std::optional<MaskOverlap> overlap;
};

constexpr double kLarge = 1000;

/// `a` is the one to hold `b` against; both have the same sizes (DH_CHECK), maybe other types.
/// Floats of rank 4 with several channels are taken for class scores of images [N,C,H,W]: argmax
/// along axis 1, and the overlap of the resulting masks; other floats: argmax along the last axis,
/// when it is longer than 1. Integers of rank 3 are taken for masks [N,H,W].
TensorMetrics compare_tensors(const Tensor& a, const Tensor& b);

}  // namespace downhaul
