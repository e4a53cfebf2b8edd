// Convolutions of bfloat16 on AVX512-BF16 (conv_lowp.cpp).
#include "cpu/conv/conv_lowp_lines.h"
#include "cpu/matmul/dot_rows.h"

namespace tinyt::cpu {
namespace {

template <int Rows, int Vectors>
TINYT_OUTLINE void rows_of_corner(const ConvTiles& g, const StepBlock& k, int64_t first,
                                  const char* partial, char* to) {
  Row sums[Rows][Vectors] = {};
  if (!k.first) load_sums(partial, first, sums);
  const char* weights = k.weights + first * 64;
  for (int64_t i = 0; i < k.steps; ++i, weights += kStep) {
    add_step<BFloat16Dot>({weights, 64}, {k.source + k.offset[i], g.stride, 64}, sums);
  }
  store_sums(sums, to, first);
}

struct Dots {
  static void corner(const ConvTiles& g, const Corner& c, const StepBlock& k, char* partial) {
    alignas(64) char finished[4 * kTile];
    char* const to = k.last ? finished : partial;
    by_rows(c.outs, [&]<int Rows>(int64_t first) {
      c.count > 16 ? rows_of_corner<Rows, 2>(g, k, first, partial, to)
                   : rows_of_corner<Rows, 1>(g, k, first, partial, to);
    });
    if (k.last) write(g, c, finished);
  }
};

// ---- gradients of weights: A is the source, a line for each channel, B the outputs' gradients

constexpr int64_t kWeightSteps = 8;  // whose operands share L1

// Channels from `first` on, for one tap.
template <int Rows, int Vectors>
TINYT_OUTLINE void add_rows(const WeightTiles& g, int64_t k, int64_t steps, int64_t first,
                            int64_t tap, char* sums) {
  Row acc[Rows][Vectors];
  sums += first * g.sums_row;
#pragma GCC unroll 12
  for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < Vectors; ++v) acc[r][v] = load<uint32_t>(sums + r * g.sums_row + v * 64);
  }
  const char* source = static_cast<const char*>(g.source) + tap + first * g.stride;
  const char* grads = static_cast<const char*>(g.grads) + k * 16 * g.pair;
  for (int64_t i = 0; i < steps; ++i, grads += 16 * g.pair) {
    add_step<BFloat16Dot>({source + g.offset[k + i], g.stride}, {grads, g.pair, 64}, acc);
  }
#pragma GCC unroll 12
  for (int r = 0; r < Rows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < Vectors; ++v) store(sums + r * g.sums_row + v * 64, acc[r][v]);
  }
}

// Block by block of positions, whose lines stay in L1 for all taps.
void weights(const WeightTiles& g) {
  for (int64_t k = 0; k < g.steps; k += kWeightSteps) {
    const int64_t steps = at_most(kWeightSteps, g.steps - k);
    char* sums = static_cast<char*>(g.sums);
    for (int64_t t = 0; t < g.taps; ++t, sums += g.sums_tap) {
      by_rows(g.channels, [&]<int Rows>(int64_t first) {
        g.outs > 16 ? add_rows<Rows, 2>(g, k, steps, first, g.tap[t], sums)
                    : add_rows<Rows, 1>(g, k, steps, first, g.tap[t], sums);
      });
    }
  }
}

}  // namespace

extern "C" const ConvTilesTable TINYT_TABLE(conv);
const ConvTilesTable TINYT_TABLE(conv) = {pair, multiply_all<Dots>, copy, turn, weights, true};

}  // namespace tinyt::cpu
