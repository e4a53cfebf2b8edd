// What the kernels on AMX tiles share: the four tiles of C, 0 to 3.
#pragma once

#include "cpu/matmul/lowp_panels.h"

namespace tinyt::cpu {
namespace {

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
