// Convolutions of bfloat16 on AMX tiles (conv_lowp.cpp): a tile of the source is 16 positions of 16
// pairs of channels.
#include "cpu/conv/conv_lowp_lines.h"
#include "cpu/matmul/amx_tiles.h"

namespace tinyt::cpu {
namespace {

constexpr int64_t kWeightSteps = 10;  // whose operands, of two tiles each, share L1

// ---- the products: C in tiles 0 to 3, A in 4 and 5, B in 6 and 7

// Up to two tiles side by side: `next` bytes from one to the other, `row` from a row to the next.
struct TilePair {
  const char* at;
  int64_t row, next;
};

// Rows and Cols: tiles of A and of B in use.
template <int Rows, int Cols>
TINYT_INLINE void step(const TilePair& a, const TilePair& b) {
  _tile_loadd(4, a.at, a.row);
  if constexpr (Rows == 2) _tile_loadd(5, a.at + a.next, a.row);
  _tile_loadd(6, b.at, b.row);
  if constexpr (Cols == 2) _tile_loadd(7, b.at + b.next, b.row);
  _tile_dpbf16ps(0, 4, 6);
  if constexpr (Cols == 2) _tile_dpbf16ps(1, 4, 7);
  if constexpr (Rows == 2) _tile_dpbf16ps(2, 5, 6);
  if constexpr (Rows == 2 && Cols == 2) _tile_dpbf16ps(3, 5, 7);
}

template <int Rows, int Cols>
void corner_of(const ConvTiles& g, const Corner& c, const StepBlock& k, char* partial) {
  const TileSquare kept = dense_square(partial);
  if (k.first) {
    clear_tiles<Rows, Cols>();
  } else {
    load_tiles<Rows, Cols>(kept);
  }
  for (int64_t i = 0; i < k.steps; ++i) {
    step<Rows, Cols>({k.weights + i * kStep, 64, kTile}, {k.source + k.offset[i], g.stride, 64});
  }
  if (!k.last) return store_tiles<Rows, Cols>(kept);
  alignas(64) char sums[4 * kTile];
  store_tiles<Rows, Cols>(dense_square(sums));
  write(g, c, sums);
}

struct Tiles {
  static void corner(const ConvTiles& g, const Corner& c, const StepBlock& k, char* partial) {
    if (c.outs > 16) {
      if (c.count > 16) return corner_of<2, 2>(g, c, k, partial);
      return corner_of<2, 1>(g, c, k, partial);
    }
    if (c.count > 16) return corner_of<1, 2>(g, c, k, partial);
    corner_of<1, 1>(g, c, k, partial);
  }
};

// ---- gradients of weights: A is the source, a line for each channel, B the outputs' gradients

// A corner of C: up to 32 channels by 32 outputs, for one tap.
template <int Rows, int Cols>
void add_steps(const WeightTiles& g, int64_t first, int64_t steps, int64_t tap, char* sums) {
  const TileSquare c = {sums, g.sums_row, 16 * g.sums_row, 64};
  load_tiles<Rows, Cols>(c);
  const char* source = static_cast<const char*>(g.source) + tap;
  const char* grads = static_cast<const char*>(g.grads) + first * 16 * g.pair;
  for (int64_t i = 0; i < steps; ++i, grads += 16 * g.pair) {
    step<Rows, Cols>({source + g.offset[first + i], g.stride, 16 * g.stride}, {grads, g.pair, 64});
  }
  store_tiles<Rows, Cols>(c);
}

// Block by block of positions, whose lines stay in L1 for all taps.
template <int Rows, int Cols>
void add_weights(const WeightTiles& g) {
  for (int64_t k = 0; k < g.steps; k += kWeightSteps) {
    const int64_t steps = at_most(kWeightSteps, g.steps - k);
    char* sums = static_cast<char*>(g.sums);
    for (int64_t t = 0; t < g.taps; ++t, sums += g.sums_tap) {
      add_steps<Rows, Cols>(g, k, steps, g.tap[t], sums);
    }
  }
}

void weights(const WeightTiles& g) {
  __asm__ volatile("" : : : "memory");
  if (g.channels > 16) {
    if (g.outs > 16) return add_weights<2, 2>(g);
    return add_weights<2, 1>(g);
  }
  if (g.outs > 16) return add_weights<1, 2>(g);
  add_weights<1, 1>(g);
}

}  // namespace

extern "C" const ConvTilesTable TINYT_TABLE(conv);
const ConvTilesTable TINYT_TABLE(conv) = {pair, multiply_all<Tiles>, copy, turn, weights, false};

}  // namespace tinyt::cpu
