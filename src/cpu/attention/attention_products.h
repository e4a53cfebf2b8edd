// The two products of blocked attention, queries being lanes: scores [keys][lanes] and results
// [out_width][lanes]. Each class packs operands in its own way; sizes are in elements of Value.
#pragma once

#include <algorithm>

#include "cpu/attention/attention_tiles.h"

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

  void begin() const { gemm_.low.begin(); }
  void end() const { gemm_.low.end(); }
  int64_t lanes() const { return kTilePanel; }
  int64_t query_size(int64_t width) const { return gemm_.panel(width); }
  int64_t key_size(int64_t n, int64_t width) const { return gemm_.packed(n, width); }
  int64_t value_size(int64_t n, int64_t width) const { return gemm_.packed(width, n); }
  int64_t work_size(int64_t n, int64_t, int64_t out_width) const {
    const int64_t weights = n * lanes() / 2 + gemm_.panel(n);
    return std::max(gemm_.panels(n) * gemm_.kSums, weights + out_width * lanes());
  }
  int64_t fetches(int64_t, int64_t) const { return 2; }

  static constexpr bool kScalesQueries = false;  // it would round them
  void pack_query(const HeadRows& rows, double, float* out, float*) const {
    gemm_.pack(gemm_.lines(rows), rows.count, rows.width(), true, out);
  }
  Lines keys(const HeadRows& rows, float* buffer) const {
    gemm_.pack(gemm_.lines(rows), rows.count, rows.width(), false, buffer);
    return buffer;
  }
  Lines values(const HeadRows& rows, float* buffer) const {
    gemm_.pack(flipped(gemm_.lines(rows)), rows.width(), rows.count, false, buffer);
    return buffer;
  }

  void score(int64_t n, int64_t cols, int64_t width, const float* keys, const float* query,
             float* scores, float* work, FetchAhead& ahead) const {
    multiply(n, cols, width, gemm_.panel(width), keys, query, scores, work);
    ahead.some();
  }
  void add(int64_t n, int64_t packed, int64_t cols, int64_t width, const float* values,
           const float* weights, const float* factor, float* result, float* work,
           FetchAhead& ahead) const {
    float* const tiles = work + packed * lanes() / 2;
    float* const sum = tiles + gemm_.panel(packed);
    cast_elements(reinterpret_cast<const char*>(weights), DType::Float32,
                  reinterpret_cast<char*>(work), DType::BFloat16, n * lanes());
    gemm_.pack({work, 1, lanes()}, lanes(), n, true, tiles);
    multiply(width, cols, n, gemm_.panel(packed), values, tiles, factor ? sum : result, nullptr);
    ahead.some();
    if (factor) {
      table_.blend_rows[static_cast<int>(DType::Float32)](result, width, lanes(), factor, sum);
    }
  }

 private:
  void multiply(int64_t rows, int64_t cols, int64_t depth, int64_t panel, const float* a,
                const float* b, float* c, float* sums) const {
    gemm_.multiply({.rows = rows,
                    .cols = cols,
                    .depth = depth,
                    .by_rows = false,
                    .a = a,
                    .b = b,
                    .panel = panel,
                    .sums = sums,
                    .c = c,
                    .c_row = lanes()});
  }

  const TileGemm gemm_{};
  const AttentionTable& table_ = *kernels().attention;
};

}  // namespace tinyt::cpu
