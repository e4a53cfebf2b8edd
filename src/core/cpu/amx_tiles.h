// What the kernels on AMX tiles share: the four tiles of C, 0 to 3, and bits of masks.
#pragma once

#include <immintrin.h>

#include "simd_types.h"

namespace tinyt::cpu {
namespace {

constexpr int64_t kTile = 1024;       // bytes
constexpr int64_t kStep = 2 * kTile;  // of a panel
using Row = Vec<uint32_t>;            // of a tile

constexpr int64_t at_most(int64_t a, int64_t b) { return a < b ? a : b; }

// The instruction looks at the lowest byte of n only.
TINYT_INLINE uint64_t first_bits(int64_t n) {
  return _bzhi_u64(~uint64_t{0}, static_cast<unsigned>(n < 64 ? n : 64));
}

// Where the tiles of C lie.
struct TileSquare {
  char* at;
  int64_t row, down, across;  // bytes
};
// One after another.
TINYT_INLINE TileSquare dense_square(char* at) { return {at, 64, 2 * kTile, kTile}; }

// Below, Rows and Cols: tiles of A and of B in use.
template <int Rows, int Cols>
TINYT_INLINE void clear_tiles() {
  _tile_zero(0);
  if constexpr (Cols == 2) _tile_zero(1);
  if constexpr (Rows == 2) _tile_zero(2);
  if constexpr (Rows == 2 && Cols == 2) _tile_zero(3);
}

template <int Rows, int Cols>
TINYT_INLINE void load_tiles(const TileSquare& c) {
  _tile_loadd(0, c.at, c.row);
  if constexpr (Cols == 2) _tile_loadd(1, c.at + c.across, c.row);
  if constexpr (Rows == 2) _tile_loadd(2, c.at + c.down, c.row);
  if constexpr (Rows == 2 && Cols == 2) _tile_loadd(3, c.at + c.down + c.across, c.row);
}

template <int Rows, int Cols>
TINYT_INLINE void store_tiles(const TileSquare& c) {
  _tile_stored(0, c.at, c.row);
  if constexpr (Cols == 2) _tile_stored(1, c.at + c.across, c.row);
  if constexpr (Rows == 2) _tile_stored(2, c.at + c.down, c.row);
  if constexpr (Rows == 2 && Cols == 2) _tile_stored(3, c.at + c.down + c.across, c.row);
}

}  // namespace
}  // namespace tinyt::cpu
