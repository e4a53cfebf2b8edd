// What the passes of attention share: a call's sizes, and its operands made ready for the blocked
// product (levels.h).
#pragma once

#include <algorithm>
#include <cstdint>

#include "../backend.h"
#include "axes.h"
#include "levels.h"
#include "tiles.h"

namespace tinyt::cpu {

// Queries [B, heads, queries, width], keys [B, groups, keys, width], values [B, groups, keys,
// out_width].
struct AttentionShape {
  int64_t batch, heads, groups, queries, keys, width, out_width;
  int64_t shared;  // heads of queries that use one of keys
  bool causal;
  double scale;

  AttentionShape(const Tensor& q, const Tensor& k, const Tensor& v, const Attrs& attrs)
      : batch(q.size(0)),
        heads(q.size(1)),
        groups(k.size(1)),
        queries(q.size(2)),
        keys(k.size(2)),
        width(q.size(3)),
        out_width(v.size(3)),
        shared(groups == 0 ? 0 : heads / groups) {
    AttrReader read(attrs);
    causal = read.flag();
    scale = read.real();
  }
  // The first of these queries sees keys up to `diagonal` places after the first of these keys.
  int64_t diagonal(int64_t query, int64_t key) const {
    return causal ? query - key : int64_t{1} << 40;
  }
  // Keys that any query before `query` sees.
  int64_t keys_before(int64_t query) const { return causal ? std::min(keys, query) : keys; }
};

// Elements of a workspace, one array after another.
class Workspace {
 public:
  int64_t add(int64_t elements) {
    const int64_t at = elements_;
    elements_ += ceil_div(elements, kAlign) * kAlign;
    return at;
  }
  int64_t elements() const { return elements_; }

 private:
  static constexpr int64_t kAlign = 16;
  int64_t elements_ = 0;
};

// Writes rows x cols elements of a block as dense values of `want`, tile by tile.
inline void load_block(const Block& from, DType dtype, int64_t rows, int64_t cols, DType want,
                       char* dense) {
  const auto size = static_cast<int64_t>(size_of(want));
  const int64_t width = std::min(cols, kTileElements);
  const int64_t height = cols > kTileElements ? 1 : kTileElements / std::max<int64_t>(1, cols);
  for (int64_t r = 0; r < rows; r += height) {
    for (int64_t c = 0; c < cols; c += width) {
      load_tile({from.data + r * from.row + c * from.col, from.row, from.col}, dtype,
                std::min(height, rows - r), std::min(width, cols - c), want,
                dense + (r * cols + c) * size);
    }
  }
}

// One head of an operand [B, H, rows, width], from row `first` on.
inline Block block_of(const Tensor& x, int64_t b, int64_t head, int64_t first) {
  const auto item = static_cast<int64_t>(x.itemsize());
  const int64_t offset = b * x.stride(0) + head * x.stride(1) + first * x.stride(2);
  return {x.data() + offset * item, x.stride(2) * item, x.stride(3) * item};
}

// Rows [first, first + count) of it: where they lie if they have the dtype `want`, else converted
// into `buffer`.
inline StridedLines rows_of(const Tensor& x, int64_t b, int64_t head, int64_t first, int64_t count,
                            DType want, void* buffer) {
  const Block from = block_of(x, b, head, first);
  if (x.dtype() == want) return {from.data, x.stride(2), x.stride(3)};
  load_block(from, x.dtype(), count, x.size(3), want, static_cast<char*>(buffer));
  return {buffer, x.size(3), 1};
}

// The same matrix with its depth as lines.
inline StridedLines flipped(const StridedLines& m) { return {m.data, m.depth, m.line}; }

// A mask that broadcasts to [B, heads, queries, keys]; a 0-d one is none.
struct AttentionMask {
  const Tensor& mask;
  MaskKind kind;

  explicit AttentionMask(const Tensor& m)
      : mask(m),
        kind(m.rank() == 0        ? MaskKind::None
             : is_bool(m.dtype()) ? MaskKind::Keep
                                  : MaskKind::Add) {}
  explicit operator bool() const { return kind != MaskKind::None; }
  int64_t stride(size_t d) const { return mask.size(d) == 1 ? 0 : mask.stride(d); }
  // The scores' masks from (query, key) on.
  Block at(int64_t b, int64_t head, int64_t query, int64_t key) const {
    const auto item = static_cast<int64_t>(mask.itemsize());
    const int64_t offset = b * stride(0) + head * stride(1) + query * stride(2) + key * stride(3);
    return {mask.data() + offset * item, stride(2) * item, stride(3) * item};
  }
};

struct AttentionOperands {
  const Tensor &q, &k, &v;
  AttentionMask mask;
  const Tensor &out, &log_sum;
};

// Few queries, as when tokens are generated one by one (attention_few.cpp).
void attend_few(const AttentionShape& shape, const AttentionOperands& operands);

// C (+)= A B from packed panels; element (i, j) of C is c[i * c_row + (j / run) * c_run + j % run].
struct PanelProduct {
  int64_t rows, cols, depth;
  const void* a;
  const void* b;
  int64_t b_panel, b_step;
  void* c;
  int64_t row, col;
  int64_t c_row, run, c_run;
  bool accumulate;
};

// Blocks of T in the layouts of the product kernel.
template <class T>
struct AttentionGemm {
  static constexpr DType kDType = sizeof(T) == 4 ? DType::Float32 : DType::Float64;
  static constexpr int kIndex = static_cast<int>(kDType);

  const GemmTile tile = kernels().gemm->tile[kIndex];
  const PackKernel pack_panel = kernels().gemm->pack[kIndex];
  const AttentionTable& table = *kernels().attention;

  int64_t lanes() const { return tile.cols; }
  int64_t padded_rows(int64_t n) const { return ceil_div(n, tile.rows) * tile.rows; }
  int64_t padded_cols(int64_t n) const { return ceil_div(n, tile.cols) * tile.cols; }

  void pack(const StridedLines& lines, int64_t count, int64_t depth, int64_t width, T* out) const {
    for (int64_t i = 0; i < count; i += width) {
      pack_panel(&lines, {i, std::min(width, count - i), 0, depth, width}, out + i * depth);
    }
  }
  // Lines of A, of B.
  void pack_a(const StridedLines& lines, int64_t count, int64_t depth, T* out) const {
    pack(lines, count, depth, tile.rows, out);
  }
  void pack_b(const StridedLines& lines, int64_t count, int64_t depth, T* out) const {
    pack(lines, count, depth, tile.cols, out);
  }
  template <class Block = GemmBlock>
  void multiply(const PanelProduct& p) const {
    Block g{};
    g.rows = p.rows;
    g.cols = p.cols;
    g.depth = p.depth;
    g.a = p.a;
    if constexpr (requires { g.a_panel; }) {
      g.a_line = 1;
      g.a_step = tile.rows;
      g.a_panel = tile.rows * p.depth;
    }
    g.b = p.b;
    g.b_panel = p.b_panel;
    g.b_step = p.b_step;
    g.c = p.c;
    g.row = p.row;
    g.col = p.col;
    g.c_row = p.c_row;
    g.run = p.run;
    g.c_run = p.c_run;
    g.accumulate = p.accumulate;
    kernels().gemm->block[kIndex](g);
  }
  // to[i][j] = from[j][i] for i < rows, j < cols; from's rows are `step` apart.
  void transpose(const T* from, int64_t step, int64_t rows, int64_t cols, T* to) const {
    const StridedLines lines = {from, step, 1};
    pack_panel(&lines, {0, cols, 0, rows, cols}, to);
  }
};

}  // namespace tinyt::cpu
