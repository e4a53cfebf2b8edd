// Convolutions of bfloat16 as their source lies (conv_lowp.cpp), for the kernels of any units: its
// rows are pairs of neighbouring channels, so that the products of a tap can be read at any
// position. Steps and their order are those of the products of matrices.
#pragma once

#include "cpu/matmul/lowp_panels.h"
#include "cpu/schedule/levels.h"
#include "cpu/simd/transpose.h"

namespace tinyt::cpu {
namespace {

constexpr int64_t kSteps = 9, kMostSteps = 18;  // of a panel in L1; of one that is a single block

// ---- the source

// n <= 16 elements, every first or every second, each in the lower half of a lane.
template <int Step>
TINYT_INLINE Row load_every(const uint16_t* from, int64_t n) {
  if constexpr (Step == 1) {
    const auto lanes = static_cast<__mmask16>(first_bits(n));
    return (Row)_mm512_maskz_cvtepu16_epi32(0xFFFF, _mm256_maskz_loadu_epi16(lanes, from));
  } else {
    const auto lanes = static_cast<__mmask32>(first_bits(2 * n - 1));
    return (Row)_mm512_maskz_loadu_epi16(lanes, from) & 0xFFFFu;
  }
}

template <int Step>
void pair_line(const uint16_t* low, const uint16_t* high, int64_t n, uint32_t* to) {
  for (int64_t i = 0; i < n; i += 16) {
    const int64_t count = n - i < 16 ? n - i : 16;
    Row v = load_every<Step>(low + i * Step, count);
    if (high != nullptr) v |= load_every<Step>(high + i * Step, count) << 16u;
    _mm512_mask_storeu_epi32(to + i, static_cast<__mmask16>(first_bits(count)), (__m512i)v);
  }
}

void pair(const PairLines& g) {
  const auto* low = static_cast<const uint16_t*>(g.low);
  const auto* high = static_cast<const uint16_t*>(g.high);
  auto* to = static_cast<uint32_t*>(g.to);
  for (int64_t r = 0; r < g.rows; ++r, low += g.from_row, to += g.to_row) {
    if (g.step == 1) {
      pair_line<1>(low, high, g.n, to);
    } else if (g.step == 2) {
      pair_line<2>(low, high, g.n, to);
    } else {
      for (int64_t i = 0; i < g.n; ++i) {
        const uint32_t upper = high != nullptr ? uint32_t{high[i * g.step]} : 0u;
        to[i] = uint32_t{low[i * g.step]} | (upper << 16);
      }
    }
    if (high != nullptr) high += g.from_row;
  }
}

// Lines of single channels.
void copy(const DirectLines& g) {
  const auto* from = static_cast<const uint16_t*>(g.from);
  auto* to = static_cast<uint16_t*>(g.to);
  for (int64_t r = 0; r < g.rows; ++r, from += g.from_row, to += g.to_row) {
    if (g.step == 1) {
      for (int64_t i = 0; i < g.n; i += 32) {
        const auto lanes = static_cast<__mmask32>(first_bits(at_most(g.n - i, 32)));
        _mm512_mask_storeu_epi16(to + i, lanes, _mm512_maskz_loadu_epi16(lanes, from + i));
      }
    } else if (g.step == 2) {
      for (int64_t i = 0; i < g.n; i += 16) {
        const int64_t count = at_most(g.n - i, 16);
        const Row v = load_every<2>(from + 2 * i, count);
        _mm512_mask_cvtepi32_storeu_epi16(to + i, static_cast<__mmask16>(first_bits(count)),
                                          (__m512i)v);
      }
    } else {
      for (int64_t i = 0; i < g.n; ++i) to[i] = from[i * g.step];
    }
  }
}

// 16 lines, of which there are `count`, of n positions: a pair of positions of all lines a row.
void turn(const void* lines, int64_t line, int64_t count, int64_t n, void* out, int64_t row) {
  for (int64_t i = 0; i < n; i += 32) {
    const __mmask64 bytes = first_bits(2 * (n - i));
    const char* from = static_cast<const char*>(lines) + 2 * i;
    Row square[16];
#pragma GCC unroll 16
    for (int k = 0; k < 16; ++k) {
      const bool there = k < count;
      square[k] = (Row)_mm512_maskz_loadu_epi8(there ? bytes : 0, from + (there ? k * line : 0));
    }
    transpose(square);
    char* to = static_cast<char*>(out) + i / 2 * row;
#pragma GCC unroll 16
    for (int k = 0; k < 16; ++k) __builtin_memcpy(to + k * row, &square[k], 64);
  }
}

// ---- outputs: A are weights, B the source

// Outputs [out, out + outs) at positions [at, at + count) of an image.
struct Corner {
  int64_t out, outs;
  int64_t image, at, count;
};

// Positions next to each other in the output.
struct Run {
  int64_t lane, to;
  __mmask32 lanes;
};

int cut_runs(const ConvTiles& g, const Corner& c, Run* runs) {
  int64_t row = c.at / g.pitch, x = c.at % g.pitch;
  int count = 0;
  for (int64_t lane = 0; lane < c.count; lane += g.pitch - x, x = 0, ++row) {
    if (x >= g.width) continue;
    const int64_t left = c.count - lane, n = g.width - x < left ? g.width - x : left;
    const auto lanes = static_cast<__mmask32>(first_bits(n) << lane);
    runs[count++] = {lane, c.image * g.out_image + row * g.out_row + x, lanes};
  }
  return count;
}

void write(const ConvTiles& g, const Corner& c, const char* sums) {
  Run runs[kTilePanel];
  const int count = cut_runs(g, c, runs);
  auto* out = static_cast<uint16_t*>(g.out) + c.out * g.out_channel;
  for (int64_t r = 0; r < c.outs; ++r, out += g.out_channel) {
    const char* row = sums + r / 16 * 2 * kTile + r % 16 * 64;
    const Row low = load<uint32_t>(row);
    const Row high = c.count > 16 ? load<uint32_t>(row + kTile) : Row{};
    // Sums are never subnormal here, so the instruction's flushing of those does not show.
    const auto v = (__m512i)_mm512_maskz_cvtne2ps_pbh(0xFFFFFFFF, (__m512)high, (__m512)low);
    for (int i = 0; i < count; ++i) {
      _mm512_mask_storeu_epi16(out + (runs[i].to - runs[i].lane), runs[i].lanes, v);
    }
  }
}

// A block of steps of one corner; `offset` is that of its first step.
struct StepBlock {
  const char *weights, *source;
  const int64_t* offset;
  int64_t steps;
  bool first, last;
};

// `Unit` multiplies: corner(g, c, k, partial).
template <class Unit>
void multiply_all(const ConvTiles& g) {
  const int64_t positions = (g.rows - 1) * g.pitch + g.width;
  const int64_t most = g.steps <= kMostSteps ? kMostSteps : kSteps;
  __asm__ volatile("" : : : "memory");  // what was packed is in memory: GCC's loads do not say so
  for (int64_t k = 0; k < g.steps; k += most) {
    StepBlock block = {static_cast<const char*>(g.weights) + k * kStep,
                       nullptr,
                       g.offset + k,
                       at_most(most, g.steps - k),
                       k == 0,
                       k + most >= g.steps};
    char* partial = static_cast<char*>(g.sums);
    for (int64_t o = 0; o < g.outs; o += kTilePanel, block.weights += g.steps * kStep) {
      for (int64_t image = 0; image < g.images; ++image) {
        const char* source = static_cast<const char*>(g.source) + image * g.image;
        for (int64_t i = 0; i < positions; i += kTilePanel, partial += 4 * kTile) {
          block.source = source + 4 * i;
          Unit::corner(
              g, {o, at_most(kTilePanel, g.outs - o), image, i, at_most(kTilePanel, positions - i)},
              block, partial);
        }
      }
    }
  }
}

}  // namespace
}  // namespace tinyt::cpu
