// Products of attention on units for bfloat16 (ADR 0007): operands packed for them, sums in
// Float32. Sizes are in elements of float.
#pragma once

#include "cpu/attention/attention_block.h"

namespace tinyt::cpu {

// One operand is a single panel, which stays: of A with `by_rows`, else of B.
struct TileMultiply {
  int64_t rows, cols, depth;
  bool by_rows;
  const float *a, *b;
  int64_t panel;  // from one panel of the other to the next
  float* sums;    // kSums for each of its panels, where sums do not stay in registers
  bool first = true, last = true;
  float* c = nullptr;  // where sums go in the end
  int64_t c_row = 1;
};

struct TileGemm {
  static constexpr int kIndex = static_cast<int>(DType::BFloat16);
  static constexpr int64_t kItem = sizeof(float);
  static constexpr int64_t kSums = kTilePanel * kTilePanel;

  const LowTable& low = *kernels().low;
  const TileFormat format = kernels().low->format[kIndex];

  static int64_t panels(int64_t lines) { return ceil_div(lines, kTilePanel); }
  int64_t step() const { return format.bytes / kItem; }
  int64_t panel(int64_t depth) const { return ceil_div(depth, format.depth) * step(); }
  int64_t packed(int64_t lines, int64_t depth) const { return panels(lines) * panel(depth); }

  static StridedLines lines(const HeadRows& r) {
    return {r.block().data, r.x.stride(2), r.x.stride(3)};
  }
  void pack(const StridedLines& from, int64_t count, int64_t depth, bool columns,
            float* out) const {
    for (int64_t i = 0; i < count; i += kTilePanel) {
      low.pack[kIndex](from, {i, std::min(kTilePanel, count - i), 0, depth, columns},
                       out + i / kTilePanel * panel(depth));
    }
  }
  void multiply(const TileMultiply& p) const {
    if (p.rows == 0 || p.cols == 0) return;  // of keys or values without elements
    if (p.depth == 0) {
      for (int64_t i = 0; i < p.rows; ++i) std::fill_n(p.c + i * p.c_row, p.cols, 0.0f);
      return;
    }
    const int64_t block = format.block_steps * format.bytes;
    low.block[kIndex]({.rows = p.rows,
                       .cols = p.cols,
                       .depth = p.depth,
                       .by_rows = p.by_rows,
                       .steps = format.block_steps,
                       .a = p.a,
                       .b = p.b,
                       .panel = p.panel * kItem,
                       .a_block = block,
                       .b_block = block,
                       .sums = p.sums,
                       .sums_panel = 0,
                       .first = p.first,
                       .last = p.last,
                       .c = p.c,
                       .row = 0,
                       .col = 0,
                       .c_row = p.c_row,
                       .run = p.c_row,
                       .c_run = 0,
                       .wide = true,
                       .add = nullptr,
                       .add_row = 0,
                       .add_col = 0});
  }
};

}  // namespace tinyt::cpu
