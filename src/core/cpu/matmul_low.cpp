#include "matmul_low.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "scratch.h"

namespace tinyt::cpu {
namespace {

constexpr int64_t kNarrow = 2 * kTilePanel;  // lines of the shorter operand
constexpr int64_t kSpanBlocks = 32;          // blocks of depth packed at a time
// The sums of a task stay in L2, beside its part of the operands.
constexpr int64_t kRowsOfTask = 512, kColsOfTask = 256;
constexpr int64_t kPackedA = int64_t{8} << 20;  // bytes packed at a time
constexpr int64_t kPackedB = int64_t{16} << 20;
constexpr int64_t kSumBytes = 4 * kTilePanel * kTilePanel;  // of a panel of A by one of B
constexpr int64_t kPackTask = int64_t{64} << 10;            // bytes
constexpr int64_t kSmallestTask = int64_t{1} << 21;         // multiplications worth a task
constexpr int64_t kLargestTask = int64_t{1} << 27;
constexpr int64_t kLargeProduct = int64_t{1} << 25;  // uses all threads by itself

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }
int64_t panels(int64_t lines) { return ceil_div(lines, kTilePanel); }

// How one product is cut, which does not show in the results, and the memory it needs.
//   narrow: the shorter operand is packed whole; a task packs panels of the longer one and uses
//     each at once.
//   wide: blocks of both are packed by all threads, then used by all.
struct Blocking {
  TileFormat format;
  int64_t block;        // depth of a block
  int64_t span;         // depth packed at a time: whole blocks, or all
  int64_t panel_bytes;  // of a panel over one block
  bool narrow, one_span;
  int64_t rows, cols;            // of C at a time
  int64_t task_rows, task_cols;  // wide
  int64_t a_bytes, b_bytes;      // packed (narrow: the shorter operand is a)
  int64_t sum_bytes;             // of all tasks, from one span to the next
  int64_t slot_bytes;            // of each running task

  Blocking(DType dtype, int64_t m, int64_t n, int64_t k)
      : format(kernels().amx->format[static_cast<int>(dtype)]),
        block(format.depth * format.block_steps),
        span(std::min(round_up(k, format.depth), kSpanBlocks * block)),
        panel_bytes(ceil_div(std::min(span, block), format.depth) * format.bytes),
        narrow(std::min(m, n) <= kNarrow),
        one_span(k <= span),
        rows(round_up(m, kTilePanel)),
        cols(round_up(n, kTilePanel)) {
    narrow ? cut_narrow() : cut_wide();
  }

  void cut_narrow() {
    const int64_t shorter = panels(std::min(rows, cols));
    a_bytes = shorter * blocks() * panel_bytes;
    b_bytes = 0;
    slot_bytes = panel_bytes + shorter * kSumBytes;
    sum_bytes = one_span ? 0 : panels(rows) * panels(cols) * kSumBytes;
  }

  void cut_wide() {
    const int64_t panel = blocks() * panel_bytes;
    rows = std::min(rows, std::max(kRowsOfTask, kPackedA / panel * kTilePanel));
    cols = std::min(cols, std::max(kColsOfTask, kPackedB / panel * kTilePanel));
    task_rows = round_up(ceil_div(rows, ceil_div(rows, kRowsOfTask)), kTilePanel);
    const int64_t share = std::clamp(rows * cols * span / 16, kSmallestTask, kLargestTask);
    task_cols = std::min(cols, kColsOfTask);
    task_cols = std::min(task_cols, round_up(ceil_div(share, task_rows * span), kTilePanel));
    a_bytes = panels(rows) * panel;
    b_bytes = panels(cols) * panel;
    slot_bytes = panels(task_rows) * panels(task_cols) * kSumBytes;
    sum_bytes = one_span ? 0 : ceil_div(rows, task_rows) * ceil_div(cols, task_cols) * slot_bytes;
  }

  int64_t blocks() const { return ceil_div(span, block); }
  int64_t bytes() const { return a_bytes + b_bytes + sum_bytes; }
};

// The tiles' registers are a thread's own.
struct UsingTiles {
  explicit UsingTiles(const AmxTable& table) : amx(table) { amx.begin(); }
  ~UsingTiles() { amx.end(); }
  UsingTiles(const UsingTiles&) = delete;
  UsingTiles& operator=(const UsingTiles&) = delete;
  const AmxTable& amx;
};

// One product, block by block.
class TiledProduct {
 public:
  TiledProduct(const LowProduct& p, const Blocking& cut, char* memory, Slots& slots,
               std::atomic<bool>& nan)
      : p_(p),
        cut_(cut),
        amx_(*kernels().amx),
        a_(memory),
        b_(a_ + cut.a_bytes),
        sums_(b_ + cut.b_bytes),
        slots_(slots),
        nan_(nan) {}

  void run() {
    if (p_.m == 0 || p_.n == 0) return;
    if (p_.k == 0) return clear();
    cut_.narrow ? run_narrow() : run_wide();
  }

 private:
  struct Region {
    int64_t row, rows, col, cols, k, depth;
  };

  void clear() {
    const auto size = static_cast<int64_t>(p_.wide ? 4 : size_of(p_.dtype));
    for (int64_t i = 0; i < p_.m; ++i) {
      for (int64_t j = 0; j < p_.n; j += p_.run) {
        char* c = static_cast<char*>(p_.c) + (i * p_.c_row + j / p_.run * p_.c_run) * size;
        std::memset(c, 0, static_cast<size_t>(std::min(p_.run, p_.n - j) * size));
      }
    }
  }

  // A panel of A or, `columns`, of B: its blocks lie block_bytes apart.
  void pack(bool columns, int64_t first, int64_t end, int64_t k, int64_t depth, char* out,
            int64_t block_bytes) const {
    const StridedLines& lines = columns ? p_.b : p_.a;
    const int64_t count = std::min(kTilePanel, end - first);
    for (int64_t at = 0; at < depth; at += cut_.block, out += block_bytes) {
      const TilePanel panel = {first, count, k + at, std::min(cut_.block, depth - at), columns};
      amx_.pack[static_cast<int>(p_.dtype)](lines, panel, out);
    }
  }

  void multiply(const Region& r, const char* a, int64_t a_block, const char* b, int64_t b_block,
                char* sums) const {
    const TileBlock block = {.rows = r.rows,
                             .cols = r.cols,
                             .depth = r.depth,
                             .a = a,
                             .b = b,
                             .panel = cut_.panel_bytes,
                             .a_block = a_block,
                             .b_block = b_block,
                             .sums = sums,
                             .first = r.k == 0,
                             .last = r.k + r.depth == p_.k,
                             .c = p_.c,
                             .row = r.row,
                             .col = r.col,
                             .c_row = p_.c_row,
                             .run = p_.run,
                             .c_run = p_.c_run,
                             .wide = p_.wide};
    if (amx_.block[static_cast<int>(p_.dtype)](block)) nan_.store(true, std::memory_order_relaxed);
  }

  // ---- narrow

  void run_narrow() {
    const bool columns = p_.n < p_.m;  // the shorter operand is B
    const int64_t longer = std::max(p_.m, p_.n), shorter = std::min(p_.m, p_.n);
    const int64_t work = kTilePanel * cut_.span * std::max(shorter, kTilePanel);
    const int64_t share = std::clamp(panels(longer) * work / 16, kSmallestTask, kLargestTask);
    for (int64_t k = 0; k < p_.k; k += cut_.span) {
      const int64_t depth = std::min(cut_.span, p_.k - k);
      pack_shorter(columns, shorter, k, depth);
      parallel_ranges(panels(longer), ceil_div(share, work), [&](int64_t begin, int64_t end) {
        slots_.with_one([&](char* slot) {
          const UsingTiles tiles(amx_);
          for (int64_t i = begin; i < end; ++i) compute_narrow(columns, i, k, depth, slot);
        });
      });
    }
  }

  void pack_shorter(bool columns, int64_t lines, int64_t k, int64_t depth) {
    const int64_t count = panels(lines), block_bytes = count * cut_.panel_bytes;
    const int64_t grain = ceil_div(kPackTask, block_bytes);
    parallel_ranges(ceil_div(depth, cut_.block), grain, [&](int64_t begin, int64_t end) {
      const int64_t at = begin * cut_.block, part = std::min(end * cut_.block, depth) - at;
      for (int64_t i = 0; i < count; ++i) {
        pack(columns, i * kTilePanel, lines, k + at, part,
             a_ + begin * block_bytes + i * cut_.panel_bytes, block_bytes);
      }
    });
  }

  // The shorter operand with panel i of the longer one.
  void compute_narrow(bool columns, int64_t i, int64_t k, int64_t depth, char* slot) {
    const int64_t at = i * kTilePanel, count = panels(columns ? p_.n : p_.m);
    char* sums = cut_.one_span ? slot + cut_.panel_bytes : sums_ + i * count * kSumBytes;
    Region r = {0, p_.m, 0, p_.n, 0, 0};
    (columns ? r.row : r.col) = at;
    (columns ? r.rows : r.cols) = std::min(kTilePanel, (columns ? p_.m : p_.n) - at);
    const char* shorter = a_;
    for (int64_t done = 0; done < depth; done += cut_.block) {
      r.k = k + done;
      r.depth = std::min(cut_.block, depth - done);
      pack(!columns, at, columns ? p_.m : p_.n, r.k, r.depth, slot, 0);
      multiply(r, columns ? slot : shorter, 0, columns ? shorter : slot, 0, sums);
      shorter += count * cut_.panel_bytes;
    }
  }

  // ---- wide

  void run_wide() {
    for (int64_t j = 0; j < p_.n; j += cut_.cols) {
      for (int64_t i = 0; i < p_.m; i += cut_.rows) {
        for (int64_t k = 0; k < p_.k; k += cut_.span) {
          const Region r = {i, std::min(cut_.rows, p_.m - i), j, std::min(cut_.cols, p_.n - j),
                            k, std::min(cut_.span, p_.k - k)};
          const bool same_a = cut_.one_span && p_.m <= cut_.rows && j > 0;
          pack_wide(r, !same_a, !cut_.one_span || i == 0);
          compute_wide(r);
        }
      }
    }
  }

  void pack_wide(const Region& r, bool with_a, bool with_b) {
    const int64_t a_panels = panels(r.rows), b_panels = panels(r.cols);
    const int64_t a_count = with_a ? a_panels : 0, b_count = with_b ? b_panels : 0;
    const int64_t grain = ceil_div(kPackTask, cut_.blocks() * cut_.panel_bytes);
    parallel_ranges(a_count + b_count, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const bool columns = i >= a_count;
        const int64_t panel = columns ? i - a_count : i;
        const int64_t first = columns ? r.col : r.row, lines = columns ? r.cols : r.rows;
        pack(columns, first + panel * kTilePanel, first + lines, r.k, r.depth,
             (columns ? b_ : a_) + panel * cut_.panel_bytes,
             (columns ? b_panels : a_panels) * cut_.panel_bytes);
      }
    });
  }

  void compute_wide(const Region& r) {
    const int64_t down = ceil_div(r.rows, cut_.task_rows);
    // Down the rows first: the columns' part of B stays in the caches.
    parallel_for(down * ceil_div(r.cols, cut_.task_cols), [&](int64_t task) {
      slots_.with_one([&](char* slot) {
        const int64_t i = task % down * cut_.task_rows, j = task / down * cut_.task_cols;
        const Region part = {r.row + i, std::min(cut_.task_rows, r.rows - i),
                             r.col + j, std::min(cut_.task_cols, r.cols - j),
                             r.k,       r.depth};
        const UsingTiles tiles(amx_);
        multiply(part, a_ + i / kTilePanel * cut_.panel_bytes, panels(r.rows) * cut_.panel_bytes,
                 b_ + j / kTilePanel * cut_.panel_bytes, panels(r.cols) * cut_.panel_bytes,
                 cut_.one_span ? slot : sums_ + task * cut_.slot_bytes);
      });
    });
  }

  const LowProduct& p_;
  const Blocking& cut_;
  const AmxTable& amx_;
  char *a_, *b_, *sums_;
  Slots& slots_;
  std::atomic<bool>& nan_;
};

}  // namespace

bool has_low_units(DType dtype) {
  const AmxTable* amx = kernels().amx;
  return amx != nullptr && amx->block[static_cast<int>(dtype)] != nullptr;
}

bool multiply_low(DType dtype, int64_t count, int64_t m, int64_t n, int64_t k,
                  FunctionRef<void(int64_t, ComputeLow)> body) {
  const Blocking cut(dtype, m, n, k);
  std::atomic<bool> nan{false};
  const auto compute_in = [&](int64_t i, char* memory, Slots& slots) {
    body(i, [&](const LowProduct& p) { TiledProduct(p, cut, memory, slots, nan).run(); });
  };
  const int64_t threads = num_threads(), work = std::max<int64_t>(1, m * n * k);
  if (count > 1 && work * count >= 2 * kSmallestTask && work < kLargeProduct) {
    const int64_t bytes = cut.bytes() + cut.slot_bytes;
    const Scratch memory(bytes * threads);
    Slots workspaces(memory.data(), bytes, threads);
    const int64_t grain = std::clamp<int64_t>(kSmallestTask / work, 1, count);
    parallel_ranges(count, grain, [&](int64_t begin, int64_t end) {
      workspaces.with_one([&](char* workspace) {
        Slots slots(workspace + cut.bytes(), cut.slot_bytes, 1);
        for (int64_t i = begin; i < end; ++i) compute_in(i, workspace, slots);
      });
    });
  } else {
    const Scratch memory(cut.bytes() + cut.slot_bytes * threads);
    Slots slots(memory.data() + cut.bytes(), cut.slot_bytes, threads);
    for (int64_t i = 0; i < count; ++i) compute_in(i, memory.data(), slots);
  }
  return nan.load();
}

}  // namespace tinyt::cpu
