// Square transpositions of vectors, for the kernels that pack matrices.
#pragma once

#include "simd_types.h"

namespace tinyt::cpu {
namespace {

#if defined(__clang__)
#define TINYT_SHUFFLE(V, a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define TINYT_SHUFFLE(V, a, b, ...) __builtin_shuffle(a, b, V{__VA_ARGS__})
#endif

// The lower and the upper halves of a and b, interleaved.
template <class V>
TINYT_INLINE V zip_low(V a, V b) {
  constexpr int kSide = sizeof(V) / sizeof(a[0]);
  if constexpr (kSide == 2) return TINYT_SHUFFLE(V, a, b, 0, 2);
  if constexpr (kSide == 4) return TINYT_SHUFFLE(V, a, b, 0, 4, 1, 5);
  if constexpr (kSide == 8) return TINYT_SHUFFLE(V, a, b, 0, 8, 1, 9, 2, 10, 3, 11);
  if constexpr (kSide == 16)
    return TINYT_SHUFFLE(V, a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
}
template <class V>
TINYT_INLINE V zip_high(V a, V b) {
  constexpr int kSide = sizeof(V) / sizeof(a[0]);
  if constexpr (kSide == 2) return TINYT_SHUFFLE(V, a, b, 1, 3);
  if constexpr (kSide == 4) return TINYT_SHUFFLE(V, a, b, 2, 6, 3, 7);
  if constexpr (kSide == 8) return TINYT_SHUFFLE(V, a, b, 4, 12, 5, 13, 6, 14, 7, 15);
  if constexpr (kSide == 16)
    return TINYT_SHUFFLE(V, a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
}
#undef TINYT_SHUFFLE

// Turns one run from each line of a square into one for each k: every round of zips moves one bit
// of the position in a run into the number of the run.
template <class V, int Side>
TINYT_INLINE void transpose(V (&v)[Side]) {
#pragma GCC unroll 4
  for (int done = 1; done < Side; done *= 2) {
    V zipped[Side];
#pragma GCC unroll 8
    for (int i = 0; i < Side / 2; ++i) {
      zipped[2 * i] = zip_low(v[i], v[i + Side / 2]);
      zipped[2 * i + 1] = zip_high(v[i], v[i + Side / 2]);
    }
#pragma GCC unroll 16
    for (int i = 0; i < Side; ++i) v[i] = zipped[i];
  }
}

}  // namespace
}  // namespace tinyt::cpu
