// Packers of lines of another dtype than the product's, for the levels and dtypes without units of
// their own (matmul_lowp.h).
#pragma once

#include "cpu/schedule/levels.h"

namespace tinyt::cpu {

struct ConvertedLines {
  StridedLines lines;
  int64_t k;  // elements of a line
  DType from, to;
};

// Values of the dtype `to`, each converted.
void pack_converted(const void* context, const Panel& panel, void* out);

// Bytes (int8, uint8) as pairs of int16, the product's dtype Int32: a panel's depth counts pairs.
void pack_pairs(const void* context, const Panel& panel, void* out);

}  // namespace tinyt::cpu
