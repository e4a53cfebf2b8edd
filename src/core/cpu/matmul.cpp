#include "matmul.h"

#include <cstring>

#include "complex.h"
#include "copy.h"
#include "matmul_low.h"
#include "scratch.h"
#include "tiles.h"

namespace tinyt::cpu {
namespace {

constexpr int64_t kDepth = 256;      // most of k in one chain of fma
constexpr int64_t kRowsOfTask = 96;  // a multiple of every GemmTile::rows
constexpr int64_t kColsOfTask = 512;
constexpr int64_t kPackedA = int64_t{1} << 20;  // bytes of A and of B packed at a time
constexpr int64_t kPackedB = int64_t{4} << 20;
constexpr int64_t kStackBytes = 32 * 1024;
constexpr int64_t kPackTask = 32 * 1024;             // elements packed by one unit of parallel work
constexpr int64_t kSmallestTask = int64_t{1} << 18;  // multiplications worth a task
constexpr int64_t kLargestTask = int64_t{1} << 23;
constexpr int64_t kLargeProduct = int64_t{1} << 24;  // uses all threads by itself

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

// How one product is cut. Only `depth` shows in the results.
//   narrow (few rows): all rows of A are packed for `span` of k; a task packs its panels of B one
//     by one and uses each at once.
//   wide: a block of A and one of B are packed by all threads, then used by all.
struct Blocking {
  GemmTile tile;
  int64_t size;  // bytes of an element
  bool narrow;
  int64_t depth;  // of a block of k
  int64_t span;   // of k for which A is packed: a multiple of depth
  int64_t rows;   // of A packed at a time
  int64_t cols;   // of B: by all threads (wide) or by each task (narrow)

  Blocking(DType dtype, int64_t m, int64_t n, int64_t k)
      : tile(kernels().gemm->tile[static_cast<int>(dtype)]),
        size(static_cast<int64_t>(size_of(dtype))),
        narrow(m <= kRowsOfTask),
        depth(k > 0 ? ceil_div(k, ceil_div(k, kDepth)) : 1),
        span(depth),
        rows(round_up(m, tile.rows)),
        cols(tile.cols) {
    if (narrow) {
      const int64_t fit =
          std::max<int64_t>(1, kPackedA / std::max<int64_t>(1, rows * depth * size));
      span = std::min(fit * depth, round_up(k, depth));
    } else {
      rows = std::min(rows, round_up(kPackedA / (depth * size), kRowsOfTask));
      cols = std::min(round_up(n, tile.cols), round_up(kPackedB / (depth * size), tile.cols));
    }
  }
  int64_t bytes_of_a() const { return round_up(rows * span * size, memory::kAlignment); }
  int64_t bytes_of_b() const { return round_up(cols * depth * size, memory::kAlignment); }
};

// One product, block by block.
class BlockedProduct {
 public:
  BlockedProduct(const Product& p, const Blocking& blocking, char* packed_a, Slots& packed_b)
      : p_(p),
        cut_(blocking),
        block_(kernels().gemm->block[static_cast<int>(p.dtype)]),
        packed_a_(packed_a),
        packed_b_(packed_b) {}

  void run() {
    if (p_.m == 0 || p_.n == 0) return;
    if (p_.k == 0) return clear();
    if (cut_.narrow) return run_narrow();
    packed_b_.with_one([&](char* packed_b) { run_wide(packed_b); });
  }

 private:
  struct Region {
    int64_t row, rows, col, cols, k, depth;
  };

  void clear() {
    for (int64_t i = 0; i < p_.m; ++i) {
      for (int64_t j = 0; j < p_.n; j += p_.run) {
        char* c = static_cast<char*>(p_.c) + (i * p_.c_row + j / p_.run * p_.c_run) * cut_.size;
        std::memset(c, 0, static_cast<size_t>(std::min(p_.run, p_.n - j) * cut_.size));
      }
    }
  }

  // Columns of one task, for a share of the work and at most `most`.
  int64_t cols_of_task(int64_t rows, int64_t cols, int64_t depth, int64_t most) const {
    const int64_t work = rows * cols * depth;
    if (work < 2 * kSmallestTask) return cols;
    const int64_t share = std::clamp(work / 16, kSmallestTask, kLargestTask);
    const int64_t fit = share / (std::min(rows, kRowsOfTask) * depth);
    return std::clamp(round_up(fit, cut_.tile.cols), cut_.tile.cols, most);
  }

  // Panel number i of the lines [all.first, all.first + all.count).
  void pack_panel(const Packer& packer, const Panel& all, int64_t i, char* out) const {
    Panel panel = all;
    panel.first += i * all.width;
    panel.count = std::min(all.width, all.count - i * all.width);
    packer.pack(packer.context, panel, out);
  }

  GemmBlock block_of(const Region& r, const char* a) const {
    return {.rows = r.rows,
            .cols = r.cols,
            .depth = r.depth,
            .a = a,
            .b = nullptr,
            .b_panel = cut_.tile.cols * r.depth,
            .b_step = cut_.tile.cols,
            .c = p_.c,
            .row = r.row,
            .col = r.col,
            .c_row = p_.c_row,
            .run = p_.run,
            .c_run = p_.c_run,
            .accumulate = r.k > 0};
  }

  void run_narrow() {
    for (int64_t k = 0; k < p_.k; k += cut_.span) {
      const int64_t span = std::min(cut_.span, p_.k - k);
      pack_all_rows(k, span);
      const int64_t cols = cols_of_task(p_.m, p_.n, span, round_up(p_.n, cut_.tile.cols));
      parallel_ranges(p_.n, cols, [&](int64_t begin, int64_t end) {
        packed_b_.with_one([&](char* packed_b) {
          for (int64_t at = k; at < k + span; at += cut_.depth) {
            const int64_t depth = std::min(cut_.depth, k + span - at);
            compute_narrow({0, p_.m, begin, end - begin, at, depth},
                           packed_a_ + (at - k) * cut_.rows * cut_.size, packed_b);
          }
        });
      });
    }
  }

  // A for [k, k + span): block of depth by block of depth, each in panels.
  void pack_all_rows(int64_t k, int64_t span) {
    const int64_t panels = cut_.rows / cut_.tile.rows, blocks = ceil_div(span, cut_.depth);
    const int64_t grain = std::max<int64_t>(1, kPackTask / (cut_.depth * cut_.tile.rows));
    parallel_ranges(panels * blocks, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t at = i / panels * cut_.depth, depth = std::min(cut_.depth, span - at);
        const int64_t first = i % panels * cut_.tile.rows;
        pack_panel(p_.a, {0, p_.m, k + at, depth, cut_.tile.rows}, i % panels,
                   packed_a_ + (at * cut_.rows + first * depth) * cut_.size);
      }
    });
  }

  void compute_narrow(const Region& r, const char* a, char* packed_b) const {
    GemmBlock g = block_of(r, a);
    int64_t done = 0;
    if (p_.b_lines && p_.m <= cut_.tile.rows) {  // one use of each panel does not pay for packing
      done = r.cols / cut_.tile.cols * cut_.tile.cols;
      g.cols = done;
      g.b = static_cast<const char*>(p_.b_lines->data) +
            (r.col + r.k * p_.b_lines->depth) * cut_.size;
      g.b_panel = cut_.tile.cols;
      g.b_step = p_.b_lines->depth;
      block_(g);
      g = block_of(r, a);
    }
    g.b = packed_b;
    for (; done < r.cols; done += cut_.tile.cols) {
      g.cols = std::min(cut_.tile.cols, r.cols - done);
      g.col = r.col + done;
      pack_panel(p_.b, {g.col, g.cols, r.k, r.depth, cut_.tile.cols}, 0, packed_b);
      block_(g);
    }
  }

  void run_wide(char* packed_b) {
    for (int64_t j = 0; j < p_.n; j += cut_.cols) {
      for (int64_t k = 0; k < p_.k; k += cut_.depth) {
        for (int64_t i = 0; i < p_.m; i += cut_.rows) {
          const Region r = {i, std::min(cut_.rows, p_.m - i), j, std::min(cut_.cols, p_.n - j),
                            k, std::min(cut_.depth, p_.k - k)};
          pack_wide(r, i == 0, packed_b);
          compute_wide(r, packed_b);
        }
      }
    }
  }

  void pack_wide(const Region& r, bool with_b, char* packed_b) {
    const GemmTile t = cut_.tile;
    const int64_t a_panels = ceil_div(r.rows, t.rows);
    const int64_t b_panels = with_b ? ceil_div(r.cols, t.cols) : 0;
    const int64_t grain = std::max<int64_t>(1, kPackTask / (r.depth * t.cols));
    parallel_ranges(a_panels + b_panels, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        if (i < a_panels) {
          pack_panel(p_.a, {r.row, r.rows, r.k, r.depth, t.rows}, i,
                     packed_a_ + i * t.rows * r.depth * cut_.size);
        } else {
          pack_panel(p_.b, {r.col, r.cols, r.k, r.depth, t.cols}, i - a_panels,
                     packed_b + (i - a_panels) * t.cols * r.depth * cut_.size);
        }
      }
    });
  }

  void compute_wide(const Region& r, const char* packed_b) {
    const int64_t cols = cols_of_task(r.rows, r.cols, r.depth, kColsOfTask);
    const int64_t down = ceil_div(r.rows, kRowsOfTask);
    // Down the rows first: the columns' part of B stays in L2.
    parallel_for(down * ceil_div(r.cols, cols), [&](int64_t task) {
      const int64_t i = task % down * kRowsOfTask, j = task / down * cols;
      GemmBlock g = block_of(r, packed_a_ + i * r.depth * cut_.size);
      g.row += i;
      g.rows = std::min(kRowsOfTask, r.rows - i);
      g.col += j;
      g.cols = std::min(cols, r.cols - j);
      g.b = packed_b + j * r.depth * cut_.size;
      block_(g);
    });
  }

  const Product& p_;
  const Blocking& cut_;
  void (*block_)(const GemmBlock&);
  char* packed_a_;
  Slots& packed_b_;
};

// The operands of one matmul: strides in elements.
struct Operand {
  const Tensor& tensor;
  int64_t line, depth;  // of a row of A or a column of B, and along k
  Dims batch;           // strides at the output's batch shape
};

// Lines of another dtype, converted while they are packed.
struct ConvertedLines {
  StridedLines lines;
  DType from, to;
};

void pack_converted(const void* context, const Panel& p, void* out) {
  const auto& c = *static_cast<const ConvertedLines*>(context);
  const auto item = static_cast<int64_t>(size_of(c.from));
  const auto size = static_cast<int64_t>(size_of(c.to));
  const char* data = static_cast<const char*>(c.lines.data) +
                     (p.first * c.lines.line + p.k0 * c.lines.depth) * item;
  const int64_t step = kTileElements / p.width;
  Tile tile;
  for (int64_t k = 0; k < p.depth; k += step) {
    const int64_t rows = std::min(step, p.depth - k);
    const Block from = {const_cast<char*>(data) + k * c.lines.depth * item, c.lines.depth * item,
                        c.lines.line * item};
    char* to = static_cast<char*>(out) + k * p.width * size;
    if (p.count == p.width) {
      load_tile(from, c.from, rows, p.count, c.to, to);
      continue;
    }
    load_tile(from, c.from, rows, p.count, c.to, tile.bytes);
    std::memset(to, 0, static_cast<size_t>(rows * p.width * size));
    copy_block({tile.bytes, p.count * size, size}, {to, p.width * size, size},
               static_cast<size_t>(size), rows, p.count);
  }
}

// One batched product of a matmul call, with its batch dimensions.
struct MatmulShape {
  int64_t m, n, k;
  Dims batch;
};

// Batch dimensions that B does not have join the rows of A, where A's strides allow.
void fold_batch(MatmulShape& s, Operand& a, Operand& b) {
  while (!s.batch.empty()) {
    const int64_t size = s.batch.back(), step = a.batch.back();
    if (size != 1) {
      if (b.batch.back() != 0 || (s.m != 1 && step != s.m * a.line)) return;
      if (s.m == 1) a.line = step;
      s.m *= size;
    }
    s.batch.pop_back();
    a.batch.pop_back();
    b.batch.pop_back();
  }
}

int64_t batch_offset(const MatmulShape& s, const Dims& strides, int64_t i) {
  int64_t offset = 0;
  for (size_t d = s.batch.size(); d-- > 0; i /= s.batch[d]) offset += i % s.batch[d] * strides[d];
  return offset;
}

void run_matmul(const MatmulShape& s, const Operand& a, const Operand& b, const Tensor& out) {
  const DType have = a.tensor.dtype(), want = out.dtype();
  const auto item = static_cast<int64_t>(size_of(have));
  const auto size = static_cast<int64_t>(size_of(want));
  const PackKernel strided = kernels().gemm->pack[static_cast<int>(want)];
  const int64_t count = numel_of(s.batch);
  multiply_batch(want, count, s.m, s.n, s.k, [&](int64_t i, Compute compute) {
    const auto lines = [&](const Operand& o) {
      return ConvertedLines{
          {o.tensor.data() + batch_offset(s, o.batch, i) * item, o.line, o.depth}, have, want};
    };
    const ConvertedLines la = lines(a), lb = lines(b);
    Product p{.dtype = want,
              .m = s.m,
              .n = s.n,
              .k = s.k,
              .a = {pack_converted, &la},
              .b = {pack_converted, &lb},
              .c = out.data() + i * s.m * s.n * size,
              .c_row = s.n,
              .run = s.n,
              .c_run = 0};
    if (have == want) {
      p.a = {strided, &la.lines};
      p.b = {strided, &lb.lines};
      if (b.line == 1) p.b_lines = &lb.lines;
    }
    compute(p);
  });
}

// Elements of a float16 product that are NaN: those of infinities and NaNs, which float32 adds up
// without rounding anything.
void restore_infinities(const MatmulShape& s, const Operand& a, const Operand& b,
                        const Tensor& out) {
  const Tensor sums = Tensor::empty(out.shape(), DType::Float32);
  const Tensor halves = Tensor::empty(out.shape(), out.dtype());
  run_matmul(s, a, b, sums);
  copy_into(sums, halves);
  auto* to = out.ptr<Half>();
  const auto* from = halves.ptr<Half>();
  for (int64_t i = 0; i < out.numel(); ++i) {
    if ((to[i].bits & 0x7FFF) > 0x7C00) to[i] = from[i];
  }
}

void run_low(const MatmulShape& s, const Operand& a, const Operand& b, const Tensor& out) {
  const auto item = static_cast<int64_t>(size_of(out.dtype()));
  const bool nan = multiply_low(
      out.dtype(), numel_of(s.batch), s.m, s.n, s.k, [&](int64_t i, ComputeLow compute) {
        const auto lines = [&](const Operand& o) {
          return StridedLines{o.tensor.data() + batch_offset(s, o.batch, i) * item, o.line,
                              o.depth};
        };
        compute({.dtype = out.dtype(),
                 .m = s.m,
                 .n = s.n,
                 .k = s.k,
                 .a = lines(a),
                 .b = lines(b),
                 .c = out.data() + i * s.m * s.n * item,
                 .c_row = s.n,
                 .run = s.n,
                 .c_run = 0});
      });
  if (nan && out.dtype() == DType::Float16) restore_infinities(s, a, b, out);
}

}  // namespace

void multiply_batch(DType dtype, int64_t count, int64_t m, int64_t n, int64_t k,
                    FunctionRef<void(int64_t, Compute)> body) {
  const Blocking cut(dtype, m, n, k);
  const auto compute_in = [&](int64_t i, char* packed_a, Slots& packed_b) {
    body(i, [&](const Product& p) { BlockedProduct(p, cut, packed_a, packed_b).run(); });
  };
  const int64_t work = std::max<int64_t>(1, m * n * k);
  const bool shared = work >= 2 * kSmallestTask;  // one product is worth several tasks
  if (count > 1 && work * count >= 2 * kSmallestTask && work < kLargeProduct) {
    const int64_t bytes = cut.bytes_of_a() + cut.bytes_of_b(), threads = num_threads();
    const Scratch memory(bytes * threads);
    Slots workspaces(memory.data(), bytes, threads);
    const int64_t grain = std::clamp<int64_t>(kSmallestTask / work, 1, count);
    parallel_ranges(count, grain, [&](int64_t begin, int64_t end) {
      workspaces.with_one([&](char* workspace) {
        Slots packed_b(workspace + cut.bytes_of_a(), cut.bytes_of_b(), 1);
        for (int64_t i = begin; i < end; ++i) compute_in(i, workspace, packed_b);
      });
    });
    return;
  }
  alignas(memory::kAlignment) char stack[kStackBytes];
  const int64_t slots = cut.narrow && shared ? num_threads() : 1;
  const int64_t bytes = cut.bytes_of_a() + cut.bytes_of_b() * slots;
  const Scratch heap(bytes <= kStackBytes ? 0 : bytes);
  char* workspace = bytes <= kStackBytes ? stack : heap.data();
  Slots packed_b(workspace + cut.bytes_of_a(), cut.bytes_of_b(), slots);
  for (int64_t i = 0; i < count; ++i) compute_in(i, workspace, packed_b);
}

void kernel_matmul(const KernelCall& call) {
  const Tensor &x = call.inputs[0], &y = call.inputs[1], &out = call.outputs[0];
  if (out.numel() == 0) return;
  if (is_complex(call.compute)) return complex_matmul(call);
  const int64_t rank_x = x.rank(), rank_y = y.rank();
  MatmulShape s;
  s.k = x.size(rank_x - 1);
  s.m = rank_x > 1 ? x.size(rank_x - 2) : 1;
  s.n = rank_y > 1 ? y.size(rank_y - 1) : 1;
  const int64_t matrix_dims = (rank_x > 1) + (rank_y > 1);
  s.batch = Dims(std::span<const int64_t>(out.shape()).first(out.rank() - matrix_dims));
  const auto batch_strides = [&](const Tensor& t) {
    const auto n = static_cast<size_t>(std::max<int64_t>(t.rank() - 2, 0));
    return broadcast_strides(std::span<const int64_t>(t.shape()).first(n),
                             std::span<const int64_t>(t.strides()).first(n), s.batch);
  };
  Operand a{x, rank_x > 1 ? x.stride(rank_x - 2) : 0, x.stride(rank_x - 1), batch_strides(x)};
  Operand b{y, rank_y > 1 ? y.stride(rank_y - 1) : 0, y.stride(rank_y > 1 ? rank_y - 2 : 0),
            batch_strides(y)};
  fold_batch(s, a, b);
  if (has_low_units(call.compute)) return run_low(s, a, b, out);
  const DType work = info(call.compute).compute;
  const Tensor result = work == out.dtype() ? out : Tensor::empty(out.shape(), work);
  // One column: the rows of A go to the lanes instead; the products and their order are the same.
  if (s.n == 1) {
    std::swap(s.m, s.n);
    run_matmul(s, b, a, result);
  } else {
    run_matmul(s, a, b, result);
  }
  if (work != out.dtype()) copy_into(result, out);
}

}  // namespace tinyt::cpu
