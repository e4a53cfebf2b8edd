// What the kernels for halves and bytes share on any units: the measures of their panels, bits of
// masks.
#pragma once

#include <immintrin.h>

#include "cpu/simd/simd_types.h"

namespace tinyt::cpu {
namespace {

constexpr int64_t kTile = 1024;       // bytes: 16 rows of 64
constexpr int64_t kStep = 2 * kTile;  // of a panel
using Row = Vec<uint32_t>;            // of a tile

constexpr int64_t at_most(int64_t a, int64_t b) { return a < b ? a : b; }

// The instruction looks at the lowest byte of n only.
TINYT_INLINE uint64_t first_bits(int64_t n) {
  return _bzhi_u64(~uint64_t{0}, static_cast<unsigned>(n < 64 ? n : 64));
}

}  // namespace
}  // namespace tinyt::cpu
