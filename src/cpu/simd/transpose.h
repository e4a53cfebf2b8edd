// Square transpositions of vectors, for the kernels that pack matrices.
#pragma once

#include <utility>

#include "cpu/simd/simd_types.h"

namespace tinyt::cpu {
namespace {

// Half of the items of a and b, from number First on, in turn.
template <int First, class V, int... I>
TINYT_INLINE V zip(V a, V b, std::integer_sequence<int, I...>) {
  constexpr int kSide = sizeof...(I);
  return __builtin_shufflevector(a, b, (First + I / 2 + I % 2 * kSide)...);
}

// Turns one run from each line of a square into one for each k: every round of zips moves one bit
// of the position in a run into the number of the run.
template <class V, int Side>
TINYT_INLINE void transpose(V (&v)[Side]) {
  constexpr auto kItems = std::make_integer_sequence<int, Side>{};
#pragma GCC unroll 4
  for (int done = 1; done < Side; done *= 2) {
    V zipped[Side];
#pragma GCC unroll 8
    for (int i = 0; i < Side / 2; ++i) {
      zipped[2 * i] = zip<0>(v[i], v[i + Side / 2], kItems);
      zipped[2 * i + 1] = zip<Side / 2>(v[i], v[i + Side / 2], kItems);
    }
#pragma GCC unroll 16
    for (int i = 0; i < Side; ++i) v[i] = zipped[i];
  }
}

}  // namespace
}  // namespace tinyt::cpu
