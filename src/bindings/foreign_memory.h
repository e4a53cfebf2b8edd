// Layouts of memory that other libraries bring.
#pragma once

#include "core/base/checked.h"
#include "core/base/dtype.h"
#include "core/base/error.h"
#include "core/base/shape.h"

namespace tinyt {

// How many bytes elements of these sizes and strides (in elements) reach from the first one on.
// ValueError for sizes below 0 and for strides that no tensor has.
inline size_t foreign_bytes(const char* op, const Dims& shape, const Dims& strides, DType dtype) {
  for (size_t d = 0; d < shape.size(); ++d) {
    require(strides[d] >= 0 || shape[d] <= 1, ErrorKind::Value, op,
            ": negative strides are not supported, got ", strides);
    require(shape[d] >= 0, ErrorKind::Value, op, ": sizes must not be negative, got ", shape);
  }
  check_reach(op, shape, strides);
  if (numel_of(shape) == 0) return 0;
  int64_t last = 0;
  for (size_t d = 0; d < shape.size(); ++d) last += (shape[d] - 1) * strides[d];
  return static_cast<size_t>(last + 1) * size_of(dtype);
}

}  // namespace tinyt
