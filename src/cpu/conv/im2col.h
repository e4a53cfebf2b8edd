// The columns of a convolution: for each (channel, kernel tap), the elements of a tensor that the
// tap meets at each (image, position).
#pragma once

#include <cstdint>

#include "cpu/conv/spatial.h"

namespace tinyt::cpu {

// Where a tap meets the source: see ColumnSource in levels.h.
struct Columns {
  const char* data;  // of the group's first channel
  int64_t image_stride, channel_stride;
  Sizes source, positions, kernel;
  Sizes multiply, offset, tap_step;
};

// Copies of a few elements, too short for a call of memcpy each.
template <class T>
void copy_run(const T* from, T* to, int64_t n) {
  for (; n >= 8; n -= 8, from += 8, to += 8) __builtin_memcpy(to, from, 8 * sizeof(T));
  if (n >= 4) {
    __builtin_memcpy(to, from, 4 * sizeof(T));
    n -= 4, from += 4, to += 4;
  }
  for (int64_t i = 0; i < n; ++i) to[i] = from[i];
}

template <class T>
void zero_run(T* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = 0;
}

}  // namespace tinyt::cpu
