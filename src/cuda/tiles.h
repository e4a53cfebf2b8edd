// Which tiles products are made of, for all kernels by hand that are products.
#pragma once

#include <string>

#include "core/base/dtype.h"
#include "core/device/device.h"

namespace tinyt::cuda {

// What the kernels' texts call operands' elements (kernels/elements.cuh), with the exactness that
// is asked for now; empty: there is no kernel for such.
std::string_view element_of(DType dtype);
// Of a result that another kernel rounds, or nobody.
std::string_view whole_element_of(DType sums);

// Tiles of a product, and parts of its sums that are made side by side: by the sizes and the device
// alone, since parts change bits.
struct Tiling {
  int rows = 0, columns = 0;
  int warp_rows = 0, warp_columns = 0;  // 0: by threads, not by warps
  int64_t parts = 1, sums_of_part = 0;

  static Tiling of(int64_t rows, int64_t columns, int64_t sums, int64_t batches,
                   std::string_view element, int64_t processors);
  // The same sums by small tiles, for operands whose elements are read one by one.
  Tiling small() const;
  // The same in one part.
  Tiling whole(int64_t sums) const;

  bool is_small() const { return rows == 64; }
  int threads() const;
  int64_t down(int64_t lines) const { return (lines + rows - 1) / rows; }
  int64_t across(int64_t lines) const { return (lines + columns - 1) / columns; }
  // Of a block, for a ring of strips of both operands and for slices of results.
  size_t shared_bytes() const;
  // And more of it, for the tables of operands that are windows (kernels/windows.cuh).
  size_t table_bytes(int operands) const;
  // As "variant.h" has it: `T`, `Products` and `kStages`.
  std::string text(std::string_view element) const;
};

}  // namespace tinyt::cuda
