// The two products of blocked attention, queries being lanes: scores [keys][lanes] and results
// [out_width][lanes]. Each class packs operands in its own way; sizes are in elements of Value.
#pragma once

#include <algorithm>

#include "attention_block.h"

namespace tinyt::cpu {

// Of Float32 and Float64, where they lie, and of halves converted to Float32.
template <class T>
class VectorProducts {
 public:
  using Value = T;
  using Lines = StridedLines;

  void begin() const {}
  void end() const {}
  int64_t lanes() const { return gemm_.lanes(); }
  int64_t query_size(int64_t width) const { return width * lanes(); }
  int64_t key_size(int64_t n, int64_t width) const { return n * width; }
  int64_t value_size(int64_t n, int64_t width) const { return n * width; }
  int64_t work_size(int64_t, int64_t width, int64_t) const { return lanes() * width; }
  // How often a block's two products fetch ahead.
  int64_t fetches(int64_t n, int64_t out_width) const {
    return gemm_.fetches(n) + gemm_.fetches(out_width);
  }

  static constexpr bool kScalesQueries = true;  // so that no score has to be scaled
  void pack_query(const HeadRows& rows, double scale, T* out, T* work) const {
    T factor[kMaxTileLines];
    std::fill_n(factor, lanes(), static_cast<T>(scale));
    gemm_.pack(dense(rows, work), rows.count, rows.width(), out);
    gemm_.table.scale_rows[gemm_.kIndex](out, rows.width(), lanes(), factor);
  }
  Lines keys(const HeadRows& rows, T* buffer) const { return dense(rows, buffer); }
  Lines values(const HeadRows& rows, T* buffer) const { return flipped(dense(rows, buffer)); }

  // scores[key][lane] of the first n keys.
  void score(int64_t n, int64_t cols, int64_t width, const Lines& keys, const T* query, T* scores,
             T*, FetchAhead& ahead) const {
    gemm_.multiply(keys, {query, lanes()}, {n, cols, width}, scores, lanes(), false, ahead);
  }
  // result = result * factor (none at first) + the first n values times their weights.
  void add(int64_t n, int64_t, int64_t cols, int64_t width, const Lines& values, const T* weights,
           const T* factor, T* result, T*, FetchAhead& ahead) const {
    if (factor) gemm_.table.scale_rows[gemm_.kIndex](result, width, lanes(), factor);
    gemm_.multiply(values, {weights, lanes()}, {width, cols, n}, result, lanes(), factor != nullptr,
                   ahead);
  }

 private:
  StridedLines dense(const HeadRows& rows, T* buffer) const {
    return dense_rows(rows, gemm_.kDType, rows.width(), buffer);
  }

  AttentionGemm<T> gemm_;
};

// Of BFloat16 on units of its own, summed in Float32; weights are rounded to BFloat16.
class TileProducts {
 public:
  using Value = float;
  using Lines = const float*;  // packed

  void begin() const { low_.begin(); }
  void end() const { low_.end(); }
  int64_t lanes() const { return kTilePanel; }
  int64_t query_size(int64_t width) const { return panel(width) / kValue; }
  int64_t key_size(int64_t n, int64_t width) const { return panels(n) * panel(width) / kValue; }
  int64_t value_size(int64_t n, int64_t width) const { return panels(width) * panel(n) / kValue; }
  int64_t work_size(int64_t n, int64_t, int64_t out_width) const {
    const int64_t weights = (2 * n * lanes() + panel(n)) / kValue;
    return std::max(panels(n) * kSums, weights + out_width * lanes());
  }
  int64_t fetches(int64_t, int64_t) const { return 2; }

  static constexpr bool kScalesQueries = false;  // it would round them
  void pack_query(const HeadRows& rows, double, float* out, float*) const {
    pack(lines(rows), rows.count, rows.width(), true, out);
  }
  Lines keys(const HeadRows& rows, float* buffer) const {
    pack(lines(rows), rows.count, rows.width(), false, buffer);
    return buffer;
  }
  Lines values(const HeadRows& rows, float* buffer) const {
    pack(flipped(lines(rows)), rows.width(), rows.count, false, buffer);
    return buffer;
  }

  void score(int64_t n, int64_t cols, int64_t width, const float* keys, const float* query,
             float* scores, float* work, FetchAhead& ahead) const {
    multiply(n, cols, width, panel(width), keys, query, scores, work);
    ahead.some();
  }
  void add(int64_t n, int64_t packed, int64_t cols, int64_t width, const float* values,
           const float* weights, const float* factor, float* result, float* work,
           FetchAhead& ahead) const {
    auto* const halves = reinterpret_cast<char*>(work);
    float* const tiles = work + 2 * packed * lanes() / kValue;
    float* const sum = tiles + panel(packed) / kValue;
    cast_elements(reinterpret_cast<const char*>(weights), DType::Float32, halves, DType::BFloat16,
                  n * lanes());
    pack({halves, 1, lanes()}, lanes(), n, true, tiles);
    multiply(width, cols, n, panel(packed), values, tiles, factor ? sum : result, nullptr);
    ahead.some();
    if (factor) {
      table_.blend_rows[static_cast<int>(DType::Float32)](result, width, lanes(), factor, sum);
    }
  }

 private:
  static constexpr int kIndex = static_cast<int>(DType::BFloat16);
  static constexpr int64_t kValue = sizeof(Value);
  static constexpr int64_t kSums = kTilePanel * kTilePanel;

  static int64_t panels(int64_t lines) { return ceil_div(lines, kTilePanel); }
  int64_t panel(int64_t depth) const {  // bytes of one, over all its depth
    return ceil_div(depth, format_.depth) * format_.bytes;
  }
  static StridedLines lines(const HeadRows& r) {
    return {r.block().data, r.x.stride(2), r.x.stride(3)};
  }
  void pack(const StridedLines& from, int64_t count, int64_t depth, bool columns,
            float* out) const {
    for (int64_t i = 0; i < count; i += kTilePanel) {
      low_.pack[kIndex](from, {i, std::min(kTilePanel, count - i), 0, depth, columns},
                        out + i / kTilePanel * panel(depth) / kValue);
    }
  }
  void multiply(int64_t rows, int64_t cols, int64_t depth, int64_t a_panel, const float* a,
                const float* b, float* c, float* sums) const {
    if (rows == 0) return;  // values without elements
    const int64_t block = format_.block_steps * format_.bytes;
    low_.block[kIndex]({.rows = rows,
                        .cols = cols,
                        .depth = depth,
                        .by_rows = false,
                        .steps = format_.block_steps,
                        .a = a,
                        .b = b,
                        .panel = a_panel,
                        .a_block = block,
                        .b_block = block,
                        .sums = sums,
                        .sums_panel = 0,
                        .first = true,
                        .last = true,
                        .c = c,
                        .row = 0,
                        .col = 0,
                        .c_row = lanes(),
                        .run = lanes(),
                        .c_run = 0,
                        .wide = true,
                        .add = nullptr,
                        .add_row = 0,
                        .add_col = 0});
  }

  const LowTable& low_ = *kernels().low;
  const AttentionTable& table_ = *kernels().attention;
  const TileFormat format_ = kernels().low->format[kIndex];
};

}  // namespace tinyt::cpu
