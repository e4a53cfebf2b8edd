#include "cpu/attention/attention_gradients.h"
#include "cpu/attention/attention_tiles.h"

namespace tinyt::cpu {
namespace {

constexpr int64_t kLowpQueries = 128;  // of a block, at most

// Of BFloat16 on units of its own: as in forward, scores are scaled, and weights and slopes are
// rounded. A panel of queries at a time meets a block of keys, which are the lanes; its weights and
// slopes are written as operands of the products that follow, over all queries of a block.
// Gradients of keys and values are summed up turned, [width][keys].
class TileBlocks {
 public:
  using Value = float;
  struct Lines {};                       // keys are packed
  static constexpr int64_t kKeys = 128;  // of a block, at most

  TileBlocks(const AttentionShape& shape, const GradientOperands& operands)
      : s_(shape), in_(operands) {}

  void plan(int64_t pass, WorkspaceLayout& at) {
    const int64_t width = s_.width, out_width = s_.out_width;
    queries_ = equal_block(s_.queries, kLowpQueries, kTilePanel);
    keys_ = equal_block(std::min(s_.keys, pass), kKeys, kTilePanel);
    query_panel_ = gemm_.panel(queries_);
    key_panel_ = gemm_.panel(pass);
    key_cols_ = at.add(gemm_.packed(pass, width));
    value_cols_ = at.add(gemm_.packed(pass, out_width));
    key_lines_ = at.add(gemm_.packed(width, pass));
    of_key_ = at.add(gemm_.panels(pass) * sums(width));
    of_value_ = at.add(gemm_.panels(pass) * sums(out_width));
    query_ = at.add(gemm_.packed(queries_, width));
    grad_ = at.add(gemm_.packed(queries_, out_width));
    query_lines_ = at.add(gemm_.packed(width, queries_));
    grad_lines_ = at.add(gemm_.packed(out_width, queries_));
    dense_ = at.add(2 * queries_ * out_width);
    delta_ = at.add(queries_);
    scores_ = at.add(kTilePanel * kRow);
    slopes_ = at.add(kTilePanel * kRow);
    sums_ = at.add(sums(keys_));
    mask_ = at.add(in_.mask ? kTilePanel * kKeys : 0);
    weight_cols_ = at.add(gemm_.packed(keys_, queries_));
    slope_cols_ = at.add(gemm_.packed(keys_, queries_));
    slope_rows_ = at.add(gemm_.panel(keys_));
    of_query_ = at.add(gemm_.panels(queries_) * sums(width));
  }
  int64_t queries() const { return queries_; }
  int64_t width() const { return s_.width; }
  int64_t fetches(int64_t n) const { return gemm_.panels(queries_) * ceil_div(n, keys_); }
  void begin() const { gemm_.low.begin(); }
  void end() const { gemm_.low.end(); }

  Lines load_keys(const KeyRows& r, float* memory) const {
    const StridedLines keys = gemm_.lines(r.of(in_.k)), values = gemm_.lines(r.of(in_.v));
    gemm_.pack(keys, r.count, s_.width, true, memory + key_cols_);
    gemm_.pack(values, r.count, s_.out_width, true, memory + value_cols_);
    pack_lines(keys, s_.width, r.count, true, key_panel_, memory + key_lines_);
    std::fill_n(memory + of_key_, gemm_.panels(r.count) * sums(s_.width), 0.0f);
    std::fill_n(memory + of_value_, gemm_.panels(r.count) * sums(s_.out_width), 0.0f);
    return {};
  }

  void add_queries(const QueryRows& r, const KeyRows& pass, Lines, int64_t seen, float* to,
                   FetchAhead& ahead, float* memory) const {
    load_queries(r, memory);
    for (int64_t at = 0; at < seen; at += keys_) {
      add_block(r, {pass.first + at, at, std::min(keys_, seen - at), pass.first + seen}, to, ahead,
                memory);
    }
  }

  void store_keys(const KeyRows& r, float* memory) const {
    const auto item = static_cast<int64_t>(in_.of_k.itemsize());
    const int64_t row = (r.b * s_.groups + r.g) * s_.keys + r.first;
    const auto store = [&](const float* from, int64_t width, double scale, char* out) {
      for (int64_t i = 0; i < r.count; i += kTilePanel, from += sums(width)) {
        gemm_.low.turn_sums({.sums = from,
                             .rows = width,
                             .cols = std::min(kTilePanel, r.count - i),
                             .scale = static_cast<float>(scale),
                             .out = out + (row + i) * width * item,
                             .out_row = width});
      }
    };
    store(memory + of_key_, s_.width, s_.scale, in_.of_k.host_data());
    store(memory + of_value_, s_.out_width, 1.0, in_.of_v.host_data());
  }

 private:
  // An odd number of lines of cache: rows of scores spread over all sets.
  static constexpr int64_t kRow = kKeys + 16;

  int64_t sums(int64_t lines) const { return gemm_.panels(lines) * gemm_.kSums; }
  // The depth of rows as lines, in panels `panel` apart.
  void pack_lines(const StridedLines& rows, int64_t width, int64_t count, bool columns,
                  int64_t panel, float* out) const {
    for (int64_t i = 0; i < width; i += kTilePanel, out += panel) {
      gemm_.low.pack[gemm_.kIndex](flipped(rows),
                                   {i, std::min(kTilePanel, width - i), 0, count, columns}, out);
    }
  }

  void load_queries(const QueryRows& r, float* memory) const {
    const StridedLines queries = gemm_.lines(r.of(in_.q)), grads = gemm_.lines(r.of(in_.grad));
    gemm_.pack(queries, r.count, s_.width, false, memory + query_);
    gemm_.pack(grads, r.count, s_.out_width, false, memory + grad_);
    pack_lines(queries, s_.width, r.count, false, query_panel_, memory + query_lines_);
    pack_lines(grads, s_.out_width, r.count, false, query_panel_, memory + grad_lines_);
    float* const grad = memory + dense_;
    float* const out = grad + r.count * s_.out_width;
    dense_rows(r.of(in_.grad), DType::Float32, s_.out_width, grad);
    dense_rows(r.of(in_.out), DType::Float32, s_.out_width, out);
    for (int64_t i = 0; i < r.count; ++i) {
      table_.dots[static_cast<int>(DType::Float32)](grad + i * s_.out_width, out + i * s_.out_width,
                                                    0, 1, s_.out_width, memory + delta_ + i);
    }
  }

  // Some of the keys: where they start in the sequence and in the pass, and where those of the pass
  // end that any query of the block sees.
  struct Keys {
    int64_t first, at, count, end;

    bool last(int64_t seen) const { return first + count >= std::min(seen, end); }
  };

  // All queries with a block of keys.
  void add_block(const QueryRows& r, const Keys& keys, float* to, FetchAhead& ahead,
                 float* memory) const {
    int64_t first[kKeys / kTilePanel];  // query that sees any of a panel of keys: its panel
    int64_t met = 0;
    for (int64_t i = 0; i < r.count; i += kTilePanel) {
      const QueryRows part = {r.b, r.head, r.first + i, std::min(kTilePanel, r.count - i)};
      const int64_t before = s_.keys_before(part.first + part.count);
      const int64_t seen = std::min(keys.count, before - keys.first);
      ahead.some();
      if (seen <= 0) continue;
      while (met < gemm_.panels(seen)) first[met++] = i;
      weigh(part, i, keys, seen, memory);
      gemm_.multiply({.rows = part.count,
                      .cols = s_.width,
                      .depth = seen,
                      .by_rows = true,
                      .a = memory + slope_rows_,
                      .b = memory + key_lines_ + gemm_.panel(keys.at),
                      .panel = key_panel_,
                      .sums = memory + of_query_ + i / kTilePanel * sums(s_.width),
                      .first = keys.at == 0,
                      .last = keys.last(before),
                      .c = to + i * s_.width,
                      .c_row = s_.width});
    }
    for (int64_t j = 0; j < met; ++j) {
      const int64_t cols = std::min(kTilePanel, keys.count - j * kTilePanel);
      const int64_t of_keys = keys.at / kTilePanel + j;
      const auto add = [&](int64_t lines, int64_t width, int64_t weights, int64_t to_sums) {
        const int64_t from = gemm_.panel(first[j]);
        gemm_.multiply({.rows = width,
                        .cols = cols,
                        .depth = r.count - first[j],
                        .by_rows = false,
                        .a = memory + lines + from,
                        .b = memory + weights + j * query_panel_ + from,
                        .panel = query_panel_,
                        .sums = memory + to_sums + of_keys * sums(width),
                        .first = false,
                        .last = false});
      };
      add(grad_lines_, s_.out_width, weight_cols_, of_value_);
      add(query_lines_, s_.width, slope_cols_, of_key_);
    }
  }

  // Weights and slopes of panel i of the queries.
  void weigh(const QueryRows& r, int64_t i, const Keys& keys, int64_t seen, float* memory) const {
    const auto multiply = [&](int64_t rows, int64_t cols, int64_t width, int64_t to) {
      gemm_.multiply({.rows = r.count,
                      .cols = seen,
                      .depth = width,
                      .by_rows = true,
                      .a = memory + rows + i / kTilePanel * gemm_.panel(width),
                      .b = memory + cols + keys.at / kTilePanel * gemm_.panel(width),
                      .panel = gemm_.panel(width),
                      .sums = memory + sums_,
                      .c = memory + to,
                      .c_row = kRow});
    };
    multiply(query_, key_cols_, s_.width, scores_);
    multiply(grad_, value_cols_, s_.out_width, slopes_);
    AttentionSlopes block = {.queries = r.count,
                             .lanes = kRow,
                             .used = ceil_div(seen, int64_t{16}) * 16,
                             .scores = memory + scores_,
                             .slopes = memory + slopes_,
                             .delta = memory + delta_ + i};
    set_operands(block, s_, in_, r, keys.first, seen, memory + mask_);
    gemm_.low.slopes({.block = block,
                      .keys = seen,
                      .scale = static_cast<float>(s_.scale),
                      .weights = memory + weight_cols_ + gemm_.panel(i),
                      .slopes = memory + slope_cols_ + gemm_.panel(i),
                      .panel = query_panel_ * gemm_.kItem,
                      .rows = memory + slope_rows_});
  }

  const AttentionShape& s_;
  const GradientOperands& in_;
  const TileGemm gemm_{};
  const AttentionTable& table_ = *kernels().attention;
  int64_t queries_, keys_;                           // of a block
  int64_t query_panel_, key_panel_;                  // of lines of a block of queries, of a pass
  int64_t key_cols_, value_cols_, key_lines_;        // of a pass
  int64_t of_key_, of_value_;                        // their sums
  int64_t query_, grad_, query_lines_, grad_lines_;  // of a block of queries
  int64_t dense_, delta_, of_query_;
  int64_t scores_, slopes_, sums_, mask_;          // of a panel of them with a block of keys
  int64_t weight_cols_, slope_cols_, slope_rows_;  // of a block of them, and of a panel
};

}  // namespace

void gradients_on_tiles(const AttentionShape& shape, const GradientOperands& operands) {
  Gradients<TileBlocks>(shape, operands).run();
}

int64_t tile_gradients_workspace(const AttentionShape& shape, const GradientOperands& operands) {
  return Gradients<TileBlocks>(shape, operands).workspace();
}

}  // namespace tinyt::cpu
