// Matrix products of bfloat16, float16, int8 and uint8 on units made for them. Halves are summed in
// float32, bytes in int32.
#pragma once

#include <cstdint>

#include "core/base/parallel.h"
#include "cpu/matmul/matmul.h"
#include "cpu/schedule/levels.h"

namespace tinyt::cpu {

// C = A B, with A [m, k] and B [k, n].
struct LowProduct {
  DType dtype;  // of A and B; that of C, too, unless `wide`: then float32 or int32
  int64_t m, n, k;
  // Lines of the operands: rows of A, columns of B.
  StridedLines a, b;
  // Element (i, j) of C is c[i * c_row + (j / run) * c_run + j % run], in elements.
  void* c;
  int64_t c_row, run, c_run;
  bool wide = false;
  Addend add = {};  // of a bfloat16 C only, before the sums are rounded
};

// The tiles' registers are a thread's own.
struct UsingTiles {
  explicit UsingTiles(const LowTable& table) : low(table) { low.begin(); }
  ~UsingTiles() { low.end(); }
  UsingTiles(const UsingTiles&) = delete;
  UsingTiles& operator=(const UsingTiles&) = delete;
  const LowTable& low;
};

// Whether the level in use has such units for the dtype.
bool has_low_units(DType dtype);

// As multiply_batch. Returns whether C got a NaN, which is asked of float16 only: then its
// infinities may be missing.
using ComputeLowp = FunctionRef<void(const LowProduct&)>;
bool multiply_lowp(DType dtype, int64_t count, int64_t m, int64_t n, int64_t k,
                   FunctionRef<void(int64_t, ComputeLowp)> body);
int64_t lowp_workspace(DType dtype, int64_t count, int64_t m, int64_t n, int64_t k);

}  // namespace tinyt::cpu
