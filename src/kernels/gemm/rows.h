#pragma once

#include <cstdint>
#include <string_view>

#include "kernels/gemm/gemm.h"

/// Few rows against a matrix where it lies: what gemm_rows_* and attention of few queries loop
/// over.
namespace downhaul::kernels {

struct RowsArgs {
  const float* a = nullptr;
  int64_t lda = 0;
  int m = 0;  // <= kMaxRows
  const float* b = nullptr;
  int64_t ldb = 0;
  int64_t k = 0;
  int64_t columns = 0;    // n
  float* sums = nullptr;  // [m] rows of `width`; columns rounded up to 16 may be written
  int64_t width = 0;
};

struct RowsTable {
  /// sums = A BT with B [columns, k], 16 partial sums each.
  void (*nk)(const RowsArgs&) = nullptr;
  /// sums += A B with B [k, columns], k ascending.
  void (*kn)(const RowsArgs&) = nullptr;
};

/// The table of the ISA in use.
const RowsTable& rows_table();

}  // namespace downhaul::kernels
