// Arithmetic on sizes, strides, offsets and counts that fails where the result needs more than 64
// bits. Sizes of tensors in memory cannot get there, but arguments and expanded tensors can.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "core/base/dtype.h"
#include "core/base/shape.h"

namespace tinyt {

// How many elements the sizes of a tensor may span, and its strides reach: bytes of the largest
// dtype, and twice as many elements, still fit in 64 bits. Kernels and rules rely on it.
inline constexpr int64_t kMostElements = INT64_MAX / int64_t{sizeof(ComplexDouble)};

// a + b; ShapeError that names `op`, `what` and both.
inline int64_t checked_add(std::string_view op, std::string_view what, int64_t a, int64_t b) {
  int64_t sum = 0;
  require(!__builtin_add_overflow(a, b, &sum), ErrorKind::Shape, op, ": ", what,
          " must fit in 64 bits, got ", a, " + ", b);
  return sum;
}

// a * b; ShapeError that names `op`, `what` and both.
inline int64_t checked_mul(std::string_view op, std::string_view what, int64_t a, int64_t b) {
  int64_t product = 0;
  require(!__builtin_mul_overflow(a, b, &product), ErrorKind::Shape, op, ": ", what,
          " must fit in 64 bits, got ", a, " * ", b);
  return product;
}

// Bytes of a contiguous tensor; OutOfMemoryError where 64 bits are too few.
inline size_t bytes_of(std::string_view op, std::span<const int64_t> shape, DType dtype) {
  const int64_t count = numel_of(shape);
  const auto item = static_cast<int64_t>(size_of(dtype));
  require(count <= INT64_MAX / item, ErrorKind::OutOfMemory, op, ": ", shape, " elements of ",
          name_of(dtype), " do not fit in memory");
  return static_cast<size_t>(count * item);
}

// A tensor's sizes: sizes of 0 count as 1, as strides of empty tensors are made of the others.
inline void check_span(std::span<const int64_t> shape) {
  int64_t span = 1;
  for (const int64_t n : shape)
    if (n > 0 && (__builtin_mul_overflow(span, n, &span) || span > kMostElements))
      fail(ErrorKind::Shape, "shape: a tensor spans at most ", kMostElements,
           " elements (sizes of 0 taken as 1), got ", shape);
}

// Strides and an offset that a caller or foreign memory gives: how far they reach in bytes must fit
// in 64 bits, also where no element lies so far (empty tensors, dimensions of size 1), since
// addresses are computed from them.
inline void check_reach(std::string_view op, std::span<const int64_t> shape,
                        std::span<const int64_t> strides, int64_t offset = 0) {
  __int128 reach = offset;
  bool fits = offset <= kMostElements;
  for (size_t d = 0; d < shape.size(); ++d) {
    const auto step = static_cast<__int128>(strides[d]);
    const __int128 extent = (step < 0 ? -step : step) * std::max<int64_t>(shape[d], 1);
    fits = fits && extent <= kMostElements;
    reach += fits ? extent : 0;
  }
  require(fits && reach <= kMostElements, ErrorKind::Shape, op, ": size ", shape, ", stride ",
          strides, " and offset ", offset, " reach beyond 64 bits");
}

}  // namespace tinyt
