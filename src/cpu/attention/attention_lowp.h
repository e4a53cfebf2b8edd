// Gradients of attention on units for bfloat16 (ADR 0009): what lies between their products,
// in the layouts of packed operands.
#pragma once

#include "cpu/attention/attention_weights.h"
#include "cpu/matmul/matmul_lowp_block.h"
#include "cpu/simd/transpose.h"

namespace tinyt::cpu {
namespace {

// Bytes of a row of a tile, and of the next 16 lines of a panel.
constexpr int64_t kTileRow = 64;

// Weights and slopes of 16 keys, for one query.
struct KeyLanes {
  F32 weight = {}, slope = {};
};

template <MaskKind Kind>
TINYT_INLINE KeyLanes weigh_keys(const TileSlopes& s, int64_t row, int64_t lane) {
  const AttentionSlopes& b = s.block;
  const int64_t last = at_most(b.diagonal + row, s.keys - 1) - lane;  // that the query sees
  if (row >= b.queries || last < 0) return {};
  const auto of_row = static_cast<const float*>(b.log_sum)[row];
  const auto* const scores = static_cast<const float*>(b.scores) + row * b.lanes + lane;
  const auto* const slopes = static_cast<const float*>(b.slopes) + row * b.lanes + lane;
  // A row that sees no key has no weights, whatever its scores.
  const F32 base = splat(of_row == -kInf<float> ? kInf<float> : of_row);
  const F32 score = load<float>(scores) * splat(s.scale);
  const F32 above = masked<Kind, float>(score, b.mask, row * b.mask_row + lane) - base;
  const F32 w = weight(at_most(above, F32{}));  // as slopes_of_row does
  const F32 slope = w * (load<float>(slopes) - splat(static_cast<const float*>(b.delta)[row]));
  if (last >= kWidth<float> - 1) return {w, slope};
  const auto seen = up_to<float>(last);
  return {select(seen, w, F32{}), select(seen, slope, F32{})};
}

// Two registers as bfloat16s: one after the other, or in turn.
TINYT_INLINE Row as_halves(F32 first, F32 second) {
  return (Row)_mm512_maskz_cvtne2ps_pbh(0xFFFFFFFF, (__m512)second, (__m512)first);
}
TINYT_INLINE Row as_units(F32 even, F32 odd) {
  const Row halves = as_halves(even, odd);
  const auto low = (Row)_mm512_maskz_cvtepu16_epi32(
      0xFFFF, _mm512_maskz_extracti64x4_epi64(0xFF, (__m512i)halves, 0));
  const auto high = (Row)_mm512_maskz_cvtepu16_epi32(
      0xFFFF, _mm512_maskz_extracti64x4_epi64(0xFF, (__m512i)halves, 1));
  return low | high << 16;
}

// Queries row and row + 1 and a panel of keys.
template <MaskKind Kind>
TINYT_INLINE void weigh_unit(const TileSlopes& s, int64_t row, int64_t panel) {
  const int64_t lane = panel * kTilePanel;
  KeyLanes of[2][2];
#pragma GCC unroll 2
  for (int q = 0; q < 2; ++q) {
#pragma GCC unroll 2
    for (int v = 0; v < 2; ++v) of[q][v] = weigh_keys<Kind>(s, row + q, lane + v * kWidth<float>);
  }
  const int64_t at = panel * s.panel + row / 2 * kTileRow;
#pragma GCC unroll 2
  for (int v = 0; v < 2; ++v) {
    store(static_cast<char*>(s.weights) + at + v * kTile,
          as_units(of[0][v].weight, of[1][v].weight));
    store(static_cast<char*>(s.slopes) + at + v * kTile, as_units(of[0][v].slope, of[1][v].slope));
  }
  char* const line =
      static_cast<char*>(s.rows) + panel * kStep + row / 16 * kTile + row % 16 * kTileRow;
#pragma GCC unroll 2
  for (int q = 0; q < 2; ++q) {
    store(line + q * kTileRow, as_halves(of[q][0].slope, of[q][1].slope));
  }
}

template <MaskKind Kind>
void slopes_of_panel(const TileSlopes& s) {
  const int64_t panels = (s.keys + kTilePanel - 1) / kTilePanel;
  for (int64_t row = 0; row < kTilePanel; row += 2) {
    for (int64_t panel = 0; panel < panels; ++panel) weigh_unit<Kind>(s, row, panel);
  }
}

void slopes_on_units(const TileSlopes& s) {
  switch (s.block.kind) {
    case MaskKind::None:
      return slopes_of_panel<MaskKind::None>(s);
    case MaskKind::Add:
      return slopes_of_panel<MaskKind::Add>(s);
    case MaskKind::Keep:
      return slopes_of_panel<MaskKind::Keep>(s);
  }
}

// 16 sums of a line, rounded, of which n count.
TINYT_INLINE void store_halves(Row sums, float scale, int64_t n, void* out) {
  const Row upper = round_upper((__m512)((F32)sums * splat(scale))) >> 16;
  const __m256i halves = _mm512_maskz_cvtepi32_epi16(0xFFFF, (__m512i)upper);
  if (n >= 16) return store(out, halves);
  _mm256_mask_storeu_epi16(out, static_cast<__mmask16>(first_bits(n)), halves);
}

void turn_sums(const TileSums& s) {
  const auto* const sums = static_cast<const char*>(s.sums);
  auto* const out = static_cast<BFloat16*>(s.out);
  for (int64_t row = 0; row < s.rows; row += 16) {
    for (int64_t col = 0; col < s.cols; col += 16) {
      const char* const tile = sums + row / 16 * 2 * kTile + col / 16 * kTile;
      Row lines[16];
#pragma GCC unroll 16
      for (int i = 0; i < 16; ++i) lines[i] = load<uint32_t>(tile + i * kTileRow);
      transpose(lines);
      const int64_t count = at_most(16, s.cols - col);
      for (int64_t i = 0; i < count; ++i) {
        store_halves(lines[i], s.scale, s.rows - row, out + (col + i) * s.out_row + row);
      }
    }
  }
}

}  // namespace
}  // namespace tinyt::cpu
