#include "cpu/matmul/matmul_lowp.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "cpu/schedule/workspace.h"

namespace tinyt::cpu {
namespace {

constexpr int64_t kSpanBytes = kL2Bytes / 4;  // of a panel: the depth packed at a time
// Packed lines that pass again and again and stay in L2: bytes of a whole operand; of a task, so
// many blocks as the one that stays in L1.
constexpr int64_t kNarrow = 5 * kL2Bytes / 4;
constexpr int64_t kResidentBlocks = 32;
constexpr int64_t kLinesOfTask = 16 * kTilePanel;  // beside their sums by a panel
constexpr int64_t kLowpTasks = 4;                  // at least, along the longer operand
constexpr int64_t kMostTasks = 64;                 // so that all threads end together
constexpr int64_t kLinesOfSums = 64 * kTilePanel;  // at a time, where there are several spans
constexpr int64_t kPackedBytes = kL3Bytes / 2;     // by all threads at a time
constexpr int64_t kSumBytes = 4 * kTilePanel * kTilePanel;  // of one panel by another
constexpr int64_t kLowpPackTask = kPackChunk;               // bytes
// Panels whose lines are neighbours in memory are packed side by side, a step of depth at a time:
// each by itself would take one line of the cache of every row, and rows a power of two apart share
// a few sets of it (2048 columns of bfloat16: half of the time of an 8x2048 by 2048x2048).
constexpr int64_t kMostTogether = 8;
constexpr int64_t kTogetherBytes = kL2Bytes / 4;  // with their sums: beside the rest in L2
constexpr int64_t kLargestLowpTask = 64 * kLowpTaskProducts;
constexpr int64_t kLargeLowpProduct = 16 * kLowpTaskProducts;  // uses all threads by itself

int64_t panels(int64_t lines) { return ceil_div(lines, kTilePanel); }

// How one product is cut, which does not show in the results, and the memory it needs.
//   narrow: the shorter operand fits into L2 and is packed whole; a task packs panels of the longer
//     one and uses each at once.
//   wide: the shorter operand is packed by all threads; a task packs some lines of the longer one
//     that fit into L2. C is written along its rows where A is the shared one, which is faster.
struct LowpBlocking {
  TileFormat format;
  int64_t steps, block;  // of depth in a block
  int64_t span;          // depth packed at a time: whole blocks, or all
  int64_t panel_bytes;   // of a panel over one block
  bool narrow;
  bool short_b;             // the shorter operand is B; wide: much shorter, else it is A
  int64_t shorter, longer;  // lines at a time, in whole panels
  bool one_span;
  int64_t together = 1;    // narrow: panels of the longer operand
  int64_t task_lines = 0;  // wide: of the longer operand
  int64_t packed_bytes;    // by all threads
  int64_t sum_bytes;       // of C, from one span to the next
  int64_t slot_bytes;      // of each running task: what it packs, and sums

  LowpBlocking(DType dtype, int64_t m, int64_t n, int64_t k)
      : format(kernels().low->format[static_cast<int>(dtype)]),
        steps(k <= format.depth * format.most_steps ? format.most_steps : format.block_steps),
        block(format.depth * steps),
        span(std::min(round_up(k, format.depth), kSpanBytes / (format.bytes * steps) * block)),
        panel_bytes(ceil_div(std::min(span, block), format.depth) * format.bytes),
        narrow(panels(std::min(m, n)) * panel_span() <= kNarrow),
        short_b(narrow ? n < m : 2 * n < m),
        shorter(round_up(short_b ? n : m, kTilePanel)),
        longer(round_up(short_b ? m : n, kTilePanel)),
        one_span(k <= span) {
    if (narrow) {
      const int64_t each = panel_bytes + panels(shorter) * kSumBytes;
      const int64_t share = panels(longer) / (2 * num_threads());  // of a thread, twice
      together = std::clamp(std::min(share, kTogetherBytes / each), int64_t{1}, kMostTogether);
      slot_bytes = together * each;
    } else {
      if (!one_span) longer = std::min(longer, kLinesOfSums);
      shorter = std::min(shorter, kPackedBytes / panel_span() * kTilePanel);
      const int64_t resident = kResidentBlocks * format.block_steps * format.bytes;
      const int64_t fit = std::max<int64_t>(1, resident / panel_span()) * kTilePanel;
      const int64_t least = std::max(ceil_div(longer, std::min(fit, kLinesOfTask)), kLowpTasks);
      const int64_t tasks = round_up(least, num_threads());  // the same number for each
      task_lines = panels(ceil_div(longer, tasks)) * kTilePanel;
      slot_bytes = panels(task_lines) * (panel_span() + kSumBytes);
    }
    packed_bytes = panels(shorter) * panel_span();
    sum_bytes = one_span ? 0 : panels(shorter) * panels(longer) * kSumBytes;
  }

  int64_t panel_span() const { return ceil_div(span, block) * panel_bytes; }
  int64_t bytes() const { return packed_bytes + sum_bytes; }
};

// How a batch is shared out among the threads, as in matmul_blocks.cpp.
struct LowpBatch {
  LowpBlocking cut;
  int64_t work, threads;
  bool spread;

  LowpBatch(DType dtype, int64_t count, int64_t m, int64_t n, int64_t k)
      : cut(dtype, m, n, k),
        work(std::max<int64_t>(1, m * n * k)),
        threads(num_threads()),
        spread(count > 1 && work * count >= 2 * kLowpTaskProducts && work < kLargeLowpProduct) {}
  int64_t workspace() const {
    return spread ? (cut.bytes() + cut.slot_bytes) * threads
                  : cut.bytes() + cut.slot_bytes * threads;
  }
};

// One product, block by block.
class TiledProduct {
 public:
  TiledProduct(const LowProduct& p, const LowpBlocking& cut, char* memory, Slots& slots,
               std::atomic<bool>& nan)
      : p_(p),
        cut_(cut),
        low_(*kernels().low),
        packed_(memory),
        sums_(memory + cut.packed_bytes),
        slots_(slots),
        nan_(nan) {}

  void run() {
    if (p_.m == 0 || p_.n == 0) return;
    if (p_.k == 0) return clear();
    cut_.narrow ? run_narrow() : run_wide();
  }

 private:
  struct Lines {
    int64_t first, count;
  };
  struct Region {
    Lines shorter, longer;
    int64_t k, depth;
  };

  void clear() {
    const int64_t size = p_.wide ? 4 : static_cast<int64_t>(size_of(p_.dtype));
    for (int64_t i = 0; i < p_.m; ++i) {
      for (int64_t j = 0; j < p_.n; j += p_.run) {
        char* c = static_cast<char*>(p_.c) + (i * p_.c_row + j / p_.run * p_.c_run) * size;
        std::memset(c, 0, static_cast<size_t>(std::min(p_.run, p_.n - j) * size));
      }
    }
  }

  const StridedLines& lines_of(bool of_shorter) const {
    return of_shorter == cut_.short_b ? p_.b : p_.a;
  }
  bool are_neighbours(bool of_shorter) const {
    const StridedLines& from = lines_of(of_shorter);
    return from.line == 1 && from.depth != 1;
  }

  // Depth [at, at + depth) of panel i of some lines of an operand.
  void pack_part(bool of_shorter, const Region& r, int64_t i, int64_t at, int64_t depth,
                 char* out) const {
    const Lines lines = of_shorter ? r.shorter : r.longer;
    const int64_t count = std::min(kTilePanel, lines.count - i * kTilePanel);
    low_.pack[static_cast<int>(p_.dtype)](
        lines_of(of_shorter),
        {lines.first + i * kTilePanel, count, r.k + at, depth, of_shorter == cut_.short_b}, out);
  }

  // Panels [begin, end) of some lines of an operand, one after the other: their blocks of depth lie
  // block_bytes apart.
  void pack(bool of_shorter, const Region& r, int64_t begin, int64_t end, char* out,
            int64_t block_bytes) const {
    const bool side_by_side = end - begin > 1 && are_neighbours(of_shorter);
    const int64_t group = side_by_side ? kMostTogether : 1;
    const int64_t step = side_by_side ? cut_.format.depth : cut_.block;
    for (int64_t first = begin; first < end; first += group) {
      const int64_t last = std::min(end, first + group);
      for (int64_t at = 0; at < r.depth; at += step) {
        const int64_t steps = at % cut_.block / cut_.format.depth;
        char* to = out + at / cut_.block * block_bytes + steps * cut_.format.bytes;
        for (int64_t i = first; i < last; ++i) {
          pack_part(of_shorter, r, i, at, std::min(step, r.depth - at),
                    to + (i - begin) * cut_.panel_bytes);
        }
      }
    }
  }

  // Packed panels of an operand.
  struct Packed {
    const char* data;
    int64_t block;  // bytes from one block of depth to the next
  };

  // `sums_panel`: bytes from the sums of one panel that stays in L1 to the next. That is one of the
  // operand that is not in L2.
  void multiply(const Region& r, Packed shorter, Packed longer, char* sums, int64_t sums_panel,
                const Coming& coming = {}) const {
    const Lines& rows = cut_.short_b ? r.longer : r.shorter;
    const Lines& cols = cut_.short_b ? r.shorter : r.longer;
    const Packed& a = cut_.short_b ? longer : shorter;
    const Packed& b = cut_.short_b ? shorter : longer;
    const TileBlock block = {.rows = rows.count,
                             .cols = cols.count,
                             .depth = r.depth,
                             .by_rows = cut_.narrow == cut_.short_b,
                             .steps = cut_.steps,
                             .a = a.data,
                             .b = b.data,
                             .panel = cut_.panel_bytes,
                             .a_block = a.block,
                             .b_block = b.block,
                             .sums = sums,
                             .sums_panel = sums_panel,
                             .first = r.k == 0,
                             .last = r.k + r.depth == p_.k,
                             .c = p_.c,
                             .row = rows.first,
                             .col = cols.first,
                             .c_row = p_.c_row,
                             .run = p_.run,
                             .c_run = p_.c_run,
                             .wide = p_.wide,
                             .add = p_.add.data,
                             .add_row = p_.add.row,
                             .add_col = p_.add.col,
                             .coming = coming};
    if (low_.block[static_cast<int>(p_.dtype)](block)) nan_.store(true, std::memory_order_relaxed);
  }

  int64_t shorter() const { return cut_.short_b ? p_.n : p_.m; }
  int64_t longer() const { return cut_.short_b ? p_.m : p_.n; }

  // ---- narrow

  void run_narrow() {
    const int64_t count = panels(longer()), work = kTilePanel * cut_.span * cut_.shorter;
    const int64_t share =
        std::clamp(count * work / kMostTasks, kLowpTaskProducts, kLargestLowpTask);
    const int64_t together = are_neighbours(false) ? cut_.together : 1;
    const int64_t grain = round_up(ceil_div(share, work), together);
    for (int64_t k = 0; k < p_.k; k += cut_.span) {
      const Region r = {{0, shorter()}, {0, longer()}, k, std::min(cut_.span, p_.k - k)};
      pack_blocks(r);
      parallel_ranges(count, grain, [&](int64_t begin, int64_t end) {
        slots_.with_one([&](char* slot) {
          const UsingTiles tiles(low_);
          for (int64_t i = begin; i < end; i += together) {
            compute_narrow(r, i, std::min(end, i + together), slot);
          }
        });
      });
    }
  }

  // The shorter operand, block of depth by block of depth.
  void pack_blocks(const Region& r) const {
    const int64_t count = panels(r.shorter.count), blocks = ceil_div(r.depth, cut_.block);
    const int64_t grain = ceil_div(kLowpPackTask, cut_.panel_bytes);
    parallel_ranges(blocks * count, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end;) {
        const int64_t first = i % count, last = std::min(count, first + end - i);
        Region part = r;
        part.k += i / count * cut_.block;
        part.depth = std::min(cut_.block, r.k + r.depth - part.k);
        pack(true, part, first, last, packed_ + i * cut_.panel_bytes, 0);
        i += last - first;
      }
    });
  }

  // The shorter operand with panels [begin, end) of the longer one.
  void compute_narrow(const Region& r, int64_t begin, int64_t end, char* slot) const {
    const int64_t count = panels(r.shorter.count);
    char* sums =
        cut_.one_span ? slot + cut_.together * cut_.panel_bytes : sums_ + begin * count * kSumBytes;
    const char* packed = packed_;
    for (int64_t done = 0; done < r.depth; done += cut_.block) {
      Region part = r;
      part.k = r.k + done;
      part.depth = std::min(cut_.block, r.depth - done);
      pack(false, part, begin, end, slot, 0);
      for (int64_t i = begin; i < end; ++i) {
        part.longer = {i * kTilePanel, std::min(kTilePanel, r.longer.count - i * kTilePanel)};
        multiply(part, {packed, 0}, {slot + (i - begin) * cut_.panel_bytes, 0},
                 sums + (i - begin) * count * kSumBytes, 0, coming(r, i + 1, done, part.depth));
      }
      packed += count * cut_.panel_bytes;
    }
  }

  // Of panel i of the longer operand the share for a block of depth: some of its lines, where they
  // run along memory.
  Coming coming(const Region& r, int64_t i, int64_t done, int64_t depth) const {
    const StridedLines& from = lines_of(false);
    const int64_t count = std::min(kTilePanel, r.longer.count - i * kTilePanel);
    if (count <= 0 || from.depth != 1) return {};
    const int64_t begin = count * done / r.depth, runs = count * (done + depth) / r.depth - begin;
    const auto item = static_cast<int64_t>(size_of(p_.dtype));
    const int64_t first = (i * kTilePanel + begin) * from.line + r.k;
    const char* at = static_cast<const char*>(from.data) + first * item;
    const int64_t lines = ceil_div(r.depth * item, kCacheLine);
    if (from.line == r.depth) return {at, lines * runs, 1, 0};
    return {at, lines, runs, from.line * item};
  }

  // ---- wide

  void run_wide() {
    for (int64_t i = 0; i < shorter(); i += cut_.shorter) {
      for (int64_t j = 0; j < longer(); j += cut_.longer) {
        for (int64_t k = 0; k < p_.k; k += cut_.span) {
          const Region r = {{i, std::min(cut_.shorter, shorter() - i)},
                            {j, std::min(cut_.longer, longer() - j)},
                            k,
                            std::min(cut_.span, p_.k - k)};
          pack_panels(r);
          compute_wide(r);
        }
      }
    }
  }

  // The shorter operand, panel by panel.
  void pack_panels(const Region& r) const {
    const int64_t count = panels(r.shorter.count),
                  grain = ceil_div(kLowpPackTask, cut_.panel_span());
    parallel_ranges(count, grain, [&](int64_t begin, int64_t end) {
      pack(true, r, begin, end, packed_ + begin * cut_.panel_bytes, count * cut_.panel_bytes);
    });
  }

  void compute_wide(const Region& r) {
    const int64_t all = panels(r.shorter.count), all_block = all * cut_.panel_bytes;
    parallel_ranges(r.longer.count, cut_.task_lines, [&](int64_t begin, int64_t end) {
      slots_.with_one([&](char* slot) {
        const int64_t count = panels(end - begin), block = count * cut_.panel_bytes;
        Region part = r;
        part.longer = {r.longer.first + begin, end - begin};
        pack(false, part, 0, count, slot, block);
        char* sums = cut_.one_span ? slot + panels(cut_.task_lines) * cut_.panel_span()
                                   : sums_ + panels(begin) * all * kSumBytes;
        const UsingTiles tiles(low_);
        multiply(part, {packed_, all_block}, {slot, block}, sums,
                 cut_.one_span ? 0 : count * kSumBytes);
      });
    });
  }

  const LowProduct& p_;
  const LowpBlocking& cut_;
  const LowTable& low_;
  char *packed_, *sums_;
  Slots& slots_;
  std::atomic<bool>& nan_;
};

}  // namespace

bool has_low_units(DType dtype) {
  const LowTable* low = kernels().low;
  return low != nullptr && low->block[static_cast<int>(dtype)] != nullptr;
}

bool multiply_lowp(DType dtype, int64_t count, int64_t m, int64_t n, int64_t k,
                   FunctionRef<void(int64_t, ComputeLowp)> body) {
  const LowpBatch batch(dtype, count, m, n, k);
  const LowpBlocking& cut = batch.cut;
  const Workspace memory(batch.workspace());
  std::atomic<bool> nan{false};
  const auto compute_in = [&](int64_t i, char* memory, Slots& slots) {
    body(i, [&](const LowProduct& p) { TiledProduct(p, cut, memory, slots, nan).run(); });
  };
  if (batch.spread) {
    Slots workspaces(memory.data(), cut.bytes() + cut.slot_bytes, batch.threads);
    const int64_t grain = std::clamp<int64_t>(kLowpTaskProducts / batch.work, 1, count);
    parallel_ranges(count, grain, [&](int64_t begin, int64_t end) {
      workspaces.with_one([&](char* workspace) {
        Slots slots(workspace + cut.bytes(), cut.slot_bytes, 1);
        for (int64_t i = begin; i < end; ++i) compute_in(i, workspace, slots);
      });
    });
  } else {
    Slots slots(memory.data() + cut.bytes(), cut.slot_bytes, batch.threads);
    for (int64_t i = 0; i < count; ++i) compute_in(i, memory.data(), slots);
  }
  return nan.load();
}

int64_t lowp_workspace(DType dtype, int64_t count, int64_t m, int64_t n, int64_t k) {
  return LowpBatch(dtype, count, m, n, k).workspace();
}

}  // namespace tinyt::cpu
