// The blocked driver: cuts a product into blocks that fit the caches and tasks for the threads.
#include <algorithm>

#include "cpu/matmul/matmul.h"
#include "cpu/schedule/workspace.h"

namespace tinyt::cpu {
namespace {

constexpr int64_t kRowsOfTask = 96;  // a multiple of every GemmTile::rows
constexpr int64_t kColsOfTask = 512;
constexpr int64_t kFewRows = kL2Bytes;      // bytes of a narrow A packed at a time
constexpr int64_t kPackedA = kL3Bytes / 8;  // of a wide A, and of B
constexpr int64_t kPackedB = kL3Bytes / 4;
constexpr int64_t kStackBytes = kLeastL1Bytes;
constexpr int64_t kPackDepth = 16;  // of lines next to each other, at a time
constexpr int64_t kLargestTask = 32 * kTaskProducts;
constexpr int64_t kLargeProduct = 64 * kTaskProducts;  // uses all threads by itself,
constexpr int64_t kLargeBatch = 16;                    // but not in a batch of so many
constexpr int64_t kFewCols = 512;                      // for which A is read where it is,
constexpr int64_t kFarApart = kL2Bytes / 4;            // unless k leads so many bytes through it
constexpr int64_t kSameSets = kPageBytes / 2;          // two rows share them

// Whether rows of B and of C, which are that long, evict each other from the first-level cache, and
// there are too few of B to hide that. Packed on the stack they do not.
bool collides(int64_t row, int64_t k) { return row % kSameSets == 0 && k * row <= kStackBytes; }

// How one product is cut. Only `depth` shows in the results.
//   in place: both operands are read where they are; tasks are parts of C.
//   narrow (few rows): all rows of A are packed for `span` of k; a task packs its panels of B one
//     by one and uses each at once.
//   wide: a block of A and one of B are packed by all threads, then used by all.
struct Blocking {
  GemmTile tile;
  int64_t size;  // bytes of an element
  bool a_in_place, narrow;
  int64_t depth;  // of a block of k
  bool b_in_place;
  int64_t span;  // of k for which A is packed: a multiple of depth
  int64_t rows;  // of A packed at a time
  int64_t cols;  // of B: by all threads (wide) or by each task (narrow)

  Blocking(DType dtype, int64_t m, int64_t n, int64_t k, InMemory memory)
      : tile(kernels().gemm->tile[static_cast<int>(dtype)]),
        size(static_cast<int64_t>(size_of(dtype))),
        a_in_place(memory.a && n <= kFewCols && memory.a_step * size * k <= kFarApart),
        narrow(m <= kRowsOfTask),
        depth(k > 0 ? ceil_div(k, ceil_div(k * size, kDepth)) : 1),
        b_in_place(memory.b && n % tile.step == 0 &&
                   (m <= tile.rows || (a_in_place && (narrow ? depth : k) * n * size <= kNearB &&
                                       !collides(n * size, k)))),
        span(depth),
        rows(round_up(m, tile.rows)),
        cols(tile.cols) {
    if (a_in_place) {
      span = round_up(k, depth);
    } else if (narrow) {
      const int64_t fit =
          std::max<int64_t>(1, kFewRows / std::max<int64_t>(1, rows * depth * size));
      span = std::min(fit * depth, round_up(k, depth));
    } else {
      rows = std::min(rows, round_up(kPackedA / (depth * size), kRowsOfTask));
    }
    if (!narrow) {
      cols = std::min(round_up(n, tile.cols), round_up(kPackedB / (depth * size), tile.cols));
    }
  }
  bool in_place() const { return a_in_place && b_in_place; }
  int64_t bytes_of_a() const {
    return a_in_place ? 0 : round_up(rows * span * size, memory::kAlignment);
  }
  int64_t bytes_of_b() const {
    return b_in_place ? 0 : round_up(cols * depth * size, memory::kAlignment);
  }
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
    if (p_.k == 0) return run_empty();
    if (cut_.in_place()) return run_in_place();
    if (cut_.narrow) return run_narrow();
    packed_b_.with_one([&](char* packed_b) { run_wide(packed_b); });
  }

 private:
  struct Region {
    int64_t row, rows, col, cols, k, depth;
  };

  // Sums of nothing: a block of no depth.
  void run_empty() {
    GemmBlock g = block_of({0, p_.m, 0, p_.n, 0, 0});
    g.a = g.b = p_.c;
    block_(g);
  }

  // Columns of one task, for a share of the work and at most `most`.
  int64_t cols_of_task(int64_t rows, int64_t cols, int64_t depth, int64_t most) const {
    const int64_t work = rows * cols * depth;
    if (work < 2 * kTaskProducts) return cols;
    const int64_t fit = share_of(work) / (std::min(rows, kRowsOfTask) * depth);
    return std::clamp(round_up(fit, cut_.tile.cols), cut_.tile.cols, most);
  }
  static int64_t share_of(int64_t work) {
    return std::clamp(work / 16, kTaskProducts, kLargestTask);
  }

  // Panel number i of the lines [all.first, all.first + all.count).
  void pack_panel(const Packer& packer, const Panel& all, int64_t i, char* out) const {
    Panel panel = all;
    panel.first += i * all.width;
    panel.count = std::min(all.width, all.count - i * all.width);
    packer.pack(packer.context, panel, out);
  }

  // Panels [begin, end). Lines next to each other are taken some of k at a time, so that memory is
  // read along itself.
  void pack_panels(const Packer& packer, const StridedLines* lines, const Panel& all, int64_t begin,
                   int64_t end, char* out) const {
    const int64_t step = lines != nullptr && lines->line == 1 ? kPackDepth : all.depth;
    for (int64_t k = 0; k < all.depth; k += step) {
      Panel part = all;
      part.k0 += k;
      part.depth = std::min(step, all.depth - k);
      for (int64_t i = begin; i < end; ++i) {
        pack_panel(packer, part, i, out + (i * all.depth + k) * all.width * cut_.size);
      }
    }
  }

  GemmBlock block_of(const Region& r) const {
    const Addend add = r.k + r.depth >= p_.k ? p_.add : Addend{};
    return {.rows = r.rows,
            .cols = r.cols,
            .depth = r.depth,
            .a = nullptr,
            .a_line = 1,
            .a_step = cut_.tile.rows,
            .a_panel = cut_.tile.rows * r.depth,
            .b = nullptr,
            .b_step = cut_.tile.cols,
            .b_panel = cut_.tile.cols * r.depth,
            .c = p_.c,
            .row = r.row,
            .col = r.col,
            .c_row = p_.c_row,
            .run = p_.run,
            .c_run = p_.c_run,
            .accumulate = r.k > 0,
            .add = add.data,
            .add_row = add.row,
            .add_col = add.col};
  }

  void tell(int64_t row, int64_t rows, int64_t col, int64_t cols) const {
    if (p_.done) (*p_.done)(row, rows, col, cols);
  }

  const char* element(const StridedLines& lines, int64_t line, int64_t k) const {
    return static_cast<const char*>(lines.data) + (line * lines.line + k * lines.depth) * cut_.size;
  }
  // The rows of a region where they are, or from panels packed from its first row on.
  void set_a(GemmBlock& g, const Region& r, const char* packed) const {
    g.a = packed;
    if (!cut_.a_in_place) return;
    g.a = element(*p_.a_lines, r.row, r.k);
    g.a_line = p_.a_lines->line;
    g.a_step = p_.a_lines->depth;
    g.a_panel = 0;
  }
  void set_b_in_place(GemmBlock& g, const Region& r) const {
    g.b = element(*p_.b_lines, r.col, r.k);
    g.b_step = p_.b_lines->depth;
    g.b_panel = 0;
  }

  void run_in_place() {
    const int64_t work = p_.m * p_.n * p_.k;
    int64_t rows = p_.m, cols = p_.n;
    if (cut_.narrow) {
      cols = cols_of_task(rows, cols, p_.k, round_up(cols, cut_.tile.cols));
    } else if (work >= 2 * kTaskProducts) {
      rows = round_up(std::min(rows, ceil_div(share_of(work), cols * p_.k)), cut_.tile.rows);
    }
    const int64_t down = ceil_div(p_.m, rows);
    parallel_for(down * ceil_div(p_.n, cols), [&](int64_t task) {
      const int64_t i = task % down * rows, j = task / down * cols;
      for (int64_t k = 0; k < p_.k; k += cut_.depth) {
        const Region r = {i, std::min(rows, p_.m - i),      j, std::min(cols, p_.n - j),
                          k, std::min(cut_.depth, p_.k - k)};
        GemmBlock g = block_of(r);
        set_a(g, r, nullptr);
        set_b_in_place(g, r);
        block_(g);
      }
      tell(i, std::min(rows, p_.m - i), j, std::min(cols, p_.n - j));
    });
  }

  void run_narrow() {
    for (int64_t k = 0; k < p_.k; k += cut_.span) {
      const int64_t span = std::min(cut_.span, p_.k - k);
      if (!cut_.a_in_place) pack_all_rows(k, span);
      const int64_t cols = cols_of_task(p_.m, p_.n, span, round_up(p_.n, cut_.tile.cols));
      parallel_ranges(p_.n, cols, [&](int64_t begin, int64_t end) {
        packed_b_.with_one(
            [&](char* packed_b) { compute_narrow(k, span, begin, end - begin, packed_b); });
        if (k + span == p_.k) tell(0, p_.m, begin, end - begin);
      });
    }
  }

  // A for [k, k + span): block of depth by block of depth, each in panels.
  void pack_all_rows(int64_t k, int64_t span) {
    const int64_t panels = cut_.rows / cut_.tile.rows, blocks = ceil_div(span, cut_.depth);
    const int64_t grain = std::max<int64_t>(1, kPackChunk / (cut_.depth * cut_.tile.rows));
    parallel_ranges(panels * blocks, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t at = i / panels * cut_.depth, depth = std::min(cut_.depth, span - at);
        const int64_t first = i % panels * cut_.tile.rows;
        pack_panel(p_.a, {0, p_.m, k + at, depth, cut_.tile.rows}, i % panels,
                   packed_a_ + (at * cut_.rows + first * depth) * cut_.size);
      }
    });
  }

  // Panel by panel of B, each for the whole span: lines are read to their end.
  void compute_narrow(int64_t k, int64_t span, int64_t col, int64_t cols, char* packed_b) const {
    const int64_t width = cut_.b_in_place ? cols : cut_.tile.cols;
    for (int64_t j = col; j < col + cols; j += width) {
      for (int64_t at = k; at < k + span; at += cut_.depth) {
        const Region r = {
            0, p_.m, j, std::min(width, col + cols - j), at, std::min(cut_.depth, k + span - at)};
        GemmBlock g = block_of(r);
        set_a(g, r, packed_a_ + (at - k) * cut_.rows * cut_.size);
        if (cut_.b_in_place) {
          set_b_in_place(g, r);
        } else {
          pack_panel(p_.b, {r.col, r.cols, r.k, r.depth, width}, 0, packed_b);
          g.b = packed_b;
        }
        block_(g);
      }
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
    const int64_t a_panels = cut_.a_in_place ? 0 : ceil_div(r.rows, t.rows);
    const int64_t b_panels = with_b ? ceil_div(r.cols, t.cols) : 0;
    const int64_t grain = std::max<int64_t>(1, kPackChunk / (r.depth * t.cols));
    parallel_ranges(a_panels + b_panels, grain, [&](int64_t begin, int64_t end) {
      const int64_t middle = std::clamp(a_panels, begin, end);
      pack_panels(p_.a, p_.a_lines, {r.row, r.rows, r.k, r.depth, t.rows}, begin, middle,
                  packed_a_);
      pack_panels(p_.b, p_.b_lines, {r.col, r.cols, r.k, r.depth, t.cols}, middle - a_panels,
                  end - a_panels, packed_b);
    });
  }

  void compute_wide(const Region& whole, const char* packed_b) {
    const int64_t cols = cols_of_task(whole.rows, whole.cols, whole.depth, kColsOfTask);
    const int64_t down = ceil_div(whole.rows, kRowsOfTask);
    // Down the rows first: the columns' part of B stays in L2.
    parallel_for(down * ceil_div(whole.cols, cols), [&](int64_t task) {
      const int64_t i = task % down * kRowsOfTask, j = task / down * cols;
      const Region r = {whole.row + i, std::min(kRowsOfTask, whole.rows - i),
                        whole.col + j, std::min(cols, whole.cols - j),
                        whole.k,       whole.depth};
      GemmBlock g = block_of(r);
      set_a(g, r, packed_a_ + i * r.depth * cut_.size);
      g.b = packed_b + j * r.depth * cut_.size;
      block_(g);
      if (r.k + r.depth == p_.k) tell(r.row, r.rows, r.col, r.cols);
    });
  }

  const Product& p_;
  const Blocking& cut_;
  void (*block_)(const GemmBlock&);
  char* packed_a_;
  Slots& packed_b_;
};

// How a batch is shared out among the threads: many small products are spread over them, each of
// which has room for one; else one comes after another.
struct Batch {
  Blocking cut;
  int64_t work;  // of one product
  bool spread;
  int64_t slots;  // for an A and a B each where it is spread, else for a B
  int64_t bytes;

  Batch(DType dtype, int64_t count, int64_t m, int64_t n, int64_t k, InMemory memory)
      : cut(dtype, m, n, k, memory),
        work(std::max<int64_t>(1, m * n * k)),
        spread(count > 1 && work * count >= 2 * kTaskProducts &&
               (work < kLargeProduct || count >= kLargeBatch)),
        // One narrow product may be worth several tasks.
        slots(spread || (cut.narrow && work >= 2 * kTaskProducts) ? num_threads() : 1),
        bytes(spread ? (cut.bytes_of_a() + cut.bytes_of_b()) * slots
                     : cut.bytes_of_a() + cut.bytes_of_b() * slots) {}
  bool on_stack() const { return !spread && bytes <= kStackBytes; }
  int64_t workspace() const { return on_stack() ? 0 : bytes; }
};

}  // namespace

void multiply_batch(DType dtype, int64_t count, int64_t m, int64_t n, int64_t k,
                    FunctionRef<void(int64_t, Compute)> body, InMemory memory) {
  const Batch batch(dtype, count, m, n, k, memory);
  const Blocking& cut = batch.cut;
  const auto compute_in = [&](int64_t i, char* packed_a, Slots& packed_b) {
    body(i, [&](const Product& p) { BlockedProduct(p, cut, packed_a, packed_b).run(); });
  };
  const Workspace heap(batch.workspace());
  if (batch.spread) {
    Slots workspaces(heap.data(), cut.bytes_of_a() + cut.bytes_of_b(), batch.slots);
    const int64_t grain = std::clamp<int64_t>(kTaskProducts / batch.work, 1, count);
    parallel_ranges(count, grain, [&](int64_t begin, int64_t end) {
      workspaces.with_one([&](char* workspace) {
        Slots packed_b(workspace + cut.bytes_of_a(), cut.bytes_of_b(), 1);
        for (int64_t i = begin; i < end; ++i) compute_in(i, workspace, packed_b);
      });
    });
    return;
  }
  alignas(memory::kAlignment) char stack[kStackBytes];
  char* workspace = batch.on_stack() ? stack : heap.data();
  Slots packed_b(workspace + cut.bytes_of_a(), cut.bytes_of_b(), batch.slots);
  for (int64_t i = 0; i < count; ++i) compute_in(i, workspace, packed_b);
}

int64_t batch_workspace(DType dtype, int64_t count, int64_t m, int64_t n, int64_t k,
                        InMemory memory) {
  return Batch(dtype, count, m, n, k, memory).workspace();
}

int64_t tasks_of_product(int64_t m, int64_t n, int64_t k) {
  return std::max<int64_t>(1, m * n * k / kTaskProducts);
}

}  // namespace tinyt::cpu
