// What the passes of attention share: a call's sizes, and its operands made ready for the blocked
// product (levels.h).
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "core/ops/kernels.h"
#include "cpu/schedule/axes.h"
#include "cpu/schedule/levels.h"
#include "cpu/schedule/tiles.h"

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
  // A query among those of all heads.
  int64_t row_of(int64_t b, int64_t head, int64_t query) const {
    return (b * heads + head) * queries + query;
  }
  // Keys that any query before `query` sees.
  int64_t keys_before(int64_t query) const { return causal ? std::min(keys, query) : keys; }
};

// The size of equal blocks of n > 0 elements: at most `most`, a multiple of `step` as that is.
inline int64_t equal_block(int64_t n, int64_t most, int64_t step) {
  return ceil_div(ceil_div(n, ceil_div(n, most)), step) * step;
}

// How many of `tasks` one thread takes at a time, each of `work` multiplications.
inline int64_t tasks_at_once(int64_t tasks, int64_t work) {
  return std::clamp<int64_t>(kTaskProducts / std::max<int64_t>(1, work), 1, tasks);
}

// Elements of a workspace, one array after another.
class WorkspaceLayout {
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
  return {x.host_data() + offset * item, x.stride(2) * item, x.stride(3) * item};
}

// Rows of one head: [first, first + count).
struct HeadRows {
  const Tensor& x;
  int64_t b, head, first, count;

  int64_t width() const { return x.size(3); }
  Block block() const { return block_of(x, b, head, first); }
};

// Rows that will be needed soon, brought into the second-level cache bit by bit between products:
// more lines at once than a core can wait for would hold these up.
class FetchAhead {
 public:
  explicit FetchAhead(int64_t calls) : calls_(calls) {}

  // At most kParts times.
  void add(const HeadRows& r) {
    const Block from = r.block();
    const auto item = static_cast<int64_t>(r.x.itemsize());
    if (r.count <= 0 || from.col != item) return;
    const int64_t lines = ceil_div(r.width() * item, kCacheLine);
    parts_[count_++] = {from.data, from.row, lines, r.count};
    lines_ += lines * r.count;
  }
  // A share of them, at each of the calls.
  void some() {
    for (int64_t n = ceil_div(lines_, calls_); n > 0 && next_ < count_; --n) {
      Part& p = parts_[next_];
      __builtin_prefetch(p.data + line_ * kCacheLine, 0, 2);
      if (++line_ < p.lines) continue;
      line_ = 0;
      p.data += p.step;
      if (--p.rows == 0) ++next_;
    }
  }

 private:
  static constexpr int kParts = 5;
  struct Part {
    const char* data;
    int64_t step;   // bytes from one row to the next
    int64_t lines;  // of a row
    int64_t rows;
  };
  Part parts_[kParts];
  int count_ = 0, next_ = 0;
  int64_t calls_, lines_ = 0, line_ = 0;
};

// Rows as values of `want` that lie side by side: where they are, if they do there and are `step`
// wide, else in `buffer`, `step` elements apart; what lies between is 0.
inline StridedLines dense_rows(const HeadRows& r, DType want, int64_t step, void* buffer) {
  const Block from = r.block();
  if (r.x.dtype() == want && r.x.stride(3) == 1 && step == r.width()) {
    return {from.data, r.x.stride(2), 1};
  }
  const auto size = static_cast<int64_t>(size_of(want));
  char* to = static_cast<char*>(buffer);
  if (step == r.width()) {
    load_block(from, r.x.dtype(), r.count, step, want, to);
    return {buffer, step, 1};
  }
  for (int64_t i = 0; i < r.count; ++i, to += step * size) {
    load_block({from.data + i * from.row, from.row, from.col}, r.x.dtype(), 1, r.width(), want, to);
    std::memset(to + r.width() * size, 0, static_cast<size_t>((step - r.width()) * size));
  }
  return {buffer, step, 1};
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
    return {mask.host_data() + offset * item, stride(2) * item, stride(3) * item};
  }
};

struct AttentionOperands {
  const Tensor &q, &k, &v;
  AttentionMask mask;
  const Tensor &out, &log_sum;
};

// Whether there are units for the operands' dtype.
inline bool on_tiles(const Tensor& q) { return kernels().low && q.dtype() == DType::BFloat16; }

// Few queries, as when tokens are generated one by one (attention_few.cpp).
void attend_few(const AttentionShape& shape, const AttentionOperands& operands);
int64_t few_workspace(const AttentionShape& shape, const AttentionOperands& operands);

// Blocks of T in the layouts of the product kernel.
template <class T>
struct AttentionGemm {
  static constexpr DType kDType = sizeof(T) == 4 ? DType::Float32 : DType::Float64;
  static constexpr int kIndex = static_cast<int>(kDType);

  struct Extent {
    int64_t rows, cols, depth;
  };
  // From one k to the next, and from one panel to the next: 0 where columns lie side by side.
  struct Columns {
    const void* data;
    int64_t step, panel = 0;
  };

  static constexpr int64_t kRowsAtOnce = 48;  // a multiple of every GemmTile::rows
  const GemmTile tile = kernels().gemm->tile[kIndex];
  const PackKernel pack_panel = kernels().gemm->pack[kIndex];
  void (*const block)(const GemmBlock&) = kernels().gemm->block[kIndex];
  const AttentionTable& table = *kernels().attention;

  int64_t lanes() const { return tile.cols; }
  // Widths that products read where they lie.
  int64_t padded(int64_t width) const { return ceil_div(width, tile.step) * tile.step; }

  // Lines of B as panels.
  void pack(const StridedLines& lines, int64_t count, int64_t depth, T* out) const {
    for (int64_t i = 0; i < count; i += tile.cols) {
      pack_panel(&lines, {i, std::min(tile.cols, count - i), 0, depth, tile.cols}, out + i * depth);
    }
  }
  // How often a product of so many rows fetches ahead.
  static int64_t fetches(int64_t rows) { return ceil_div(rows, kRowsAtOnce); }

  // C (+)= A B, with lines of A and rows or panels of B; rows of C are `c_row` apart.
  void multiply(const StridedLines& a, const Columns& b, const Extent& size, T* c, int64_t c_row,
                bool accumulate, FetchAhead& ahead) const {
    for (int64_t i = 0; i < size.rows; i += kRowsAtOnce) {
      block({.rows = std::min(kRowsAtOnce, size.rows - i),
             .cols = size.cols,
             .depth = size.depth,
             .a = static_cast<const T*>(a.data) + i * a.line,
             .a_line = a.line,
             .a_step = a.depth,
             .a_panel = 0,
             .b = b.data,
             .b_step = b.step,
             .b_panel = b.panel,
             .c = c + i * c_row,
             .row = 0,
             .col = 0,
             .c_row = c_row,
             .run = c_row,
             .c_run = 0,
             .accumulate = accumulate,
             .add = nullptr,
             .add_row = 0,
             .add_col = 0});
      ahead.some();
    }
  }
  // to[i][j] = from[j][i] for i < rows, j < cols; from's rows are `step` apart.
  void transpose(const T* from, int64_t step, int64_t rows, int64_t cols, T* to) const {
    const StridedLines lines = {from, step, 1};
    pack_panel(&lines, {0, cols, 0, rows, cols}, to);
  }
};

}  // namespace tinyt::cpu
