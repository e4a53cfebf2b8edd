// What this machine can do, by tinyt's own kernels: the yardstick of reports for users. (Benchmarks
// have an independent one.)
#pragma once

#include <cstddef>

#include "core/base/dtype.h"

namespace tinyt {

// Bytes a second of a copy that reads and writes `bytes` of them together.
double copy_rate(size_t bytes);
// Operations a second of a product of large matrices, an addition and a multiplication counting
// as two. A dtype that has no products of its own is a DTypeError.
double product_rate(DType dtype);

}  // namespace tinyt
