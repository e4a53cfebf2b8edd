#include "cpu/reduce/moments.h"

#include <algorithm>
#include <cmath>

#include "core/base/parallel.h"
#include "cpu/copy/gather.h"
#include "cpu/reduce/moment_merge.h"
#include "cpu/reduce/reduce_parts.h"
#include "cpu/schedule/levels.h"
#include "cpu/schedule/tiles.h"
#include "cpu/schedule/workspace.h"

namespace tinyt::cpu {
namespace {

constexpr int64_t kMomentCols = 128;  // columns reduced in place at once

// ---- joining the pairs of neighbouring parts

struct MomentPart {
  double *first, *second;  // of `width` results
};

// Of na and nb elements.
void join_moments(const MomentPart& a, int64_t na, const MomentPart& b, int64_t nb, int64_t width) {
  const auto count = static_cast<double>(na), more = static_cast<double>(nb);
  for (int64_t i = 0; i < width; ++i) {
    const auto both = Moments<double>{count, a.first[i], a.second[i]} +
                      Moments<double>{more, b.first[i], b.second[i]};
    a.first[i] = both.mean;
    a.second[i] = both.squares;
  }
}

// What exponentials are taken below: the maximum, where that is a number.
double shift_of(double top) { return std::isfinite(top) ? top : 0; }

// exp(from - to) turns sums below one maximum into sums below another; of nothing but -inf there is
// none.
double rescaling(double from, double to) {
  return from == -HUGE_VAL ? from : shift_of(from) - shift_of(to);
}

void join_exponentials(const MomentPart& a, const MomentPart& b, int64_t width) {
  double factors[2 * kTileElements];
  for (int64_t done = 0; done < width; done += kTileElements) {
    const int64_t n = std::min(kTileElements, width - done);
    double *top = a.first + done, *sum = a.second + done;
    const double *other = b.first + done, *other_sum = b.second + done;
    for (int64_t i = 0; i < n; ++i) {
      const double before = top[i];
      if (other[i] > before || std::isnan(other[i])) top[i] = other[i];
      factors[i] = rescaling(before, top[i]);
      factors[n + i] = rescaling(other[i], top[i]);
    }
    map_elements(OpId::exp, DType::Float64, factors, 2 * n);
    for (int64_t i = 0; i < n; ++i) {
      sum[i] = sum[i] * factors[i] + other_sum[i] * factors[n + i];
    }
  }
}

void join(PairReduction reduction, const MomentPart& a, int64_t na, const MomentPart& b, int64_t nb,
          int64_t width) {
  reduction == PairReduction::Moments ? join_moments(a, na, b, nb, width)
                                      : join_exponentials(a, b, width);
}

// The tree over `count` neighbouring parts of `length` of the n elements, [part][result]; the
// result replaces the first part.
void join_tree(PairReduction reduction, const MomentPart& parts, int64_t count, int64_t length,
               int64_t n, int64_t width) {
  const auto part = [&](int64_t i) {
    return MomentPart{parts.first + i * width, parts.second + i * width};
  };
  join_pairwise(count, [&](int64_t i, int64_t k) {
    const int64_t before = (k - i) * length, middle = k * length;
    join(reduction, part(i), before, part(k), std::min(n - middle, before), width);
  });
}

// ---- all results

class PairJob {
 public:
  PairJob(const KernelCall& call, PairReduction reduction);
  void run(double correction, bool root = false);
  int64_t workspace() const { return parts_bytes() + (by_rows_ ? slots_ * room_ : 0); }

 private:
  using Row = void (*)(const void*, int64_t, double*, double*);
  using Columns = void (*)(const void*, int64_t, int64_t, int64_t, double*, double*);

  // Two numbers of each chunk of each result.
  int64_t parts_bytes() const {
    return 2 * chunks_ * out_.numel() * static_cast<int64_t>(sizeof(double));
  }
  void run_rows(const MomentPart& parts) const;
  void run_columns(const MomentPart& parts) const;
  void chunk_of_row(const char* row, int64_t begin, int64_t end, double* first,
                    double* second) const;
  void rows_gathered(int64_t first, int64_t count, int64_t begin, int64_t end, char* tile,
                     const MomentPart& found) const;
  void finish(const MomentPart& found, int64_t results, double correction, bool root) const;

  const Tensor& in_;
  const Tensor& out_;
  PairReduction reduction_;
  Row row_;
  Columns columns_;
  int64_t item_;
  ReduceAxes axes_;
  bool by_rows_;
  int64_t chunks_;
  int64_t at_once_;       // rows gathered side by side
  int64_t room_, slots_;  // bytes for them, and how often
};

PairJob::PairJob(const KernelCall& call, PairReduction reduction)
    : in_(call.inputs[0]),
      out_(call.outputs[0]),
      reduction_(reduction),
      item_(static_cast<int64_t>(in_.itemsize())),
      axes_(in_, AttrReader(call.attrs).list()) {
  const auto r = static_cast<int>(reduction), t = static_cast<int>(in_.dtype());
  row_ = kernels().pairs->row[r][t];
  columns_ = kernels().pairs->columns[r][t];
  const int64_t n = axes_.reduced.size();
  by_rows_ = axes_.cols.size() == 1;
  chunks_ = std::max<int64_t>(1, ceil_div(n, by_rows_ ? kRowChunk : kColumnChunk));
  at_once_ = rows_at_once(axes_.outer, axes_.reduced);
  const bool direct = n == 0 || out_.numel() == 0 || axes_.reduced.dense(in_.itemsize());
  room_ = direct ? 0 : at_once_ * std::min(n, kRowBlock) * item_;
  slots_ = direct ? 1 : num_threads();
}

void PairJob::run(double correction, bool root) {
  const int64_t results = out_.numel(), n = axes_.reduced.size();
  if (results == 0) return;
  const int64_t chunk = by_rows_ ? kRowChunk : kColumnChunk, size = chunks_ * results;
  const Workspace scratch(parts_bytes());
  auto* memory = reinterpret_cast<double*>(scratch.data());
  const MomentPart parts{memory, memory + size};  // [chunk][result]
  if (n == 0) {
    std::fill_n(parts.first, results, reduction_ == PairReduction::Moments ? 0 : -HUGE_VAL);
    std::fill_n(parts.second, results, 0.0);
  } else {
    by_rows_ ? run_rows(parts) : run_columns(parts);
  }
  join_tree(reduction_, parts, chunks_, chunk, n, results);
  finish(parts, results, correction, root);
}

// The root of a variance; of one that float32 holds that of its rounded value.
double deviation(double variance, DType dtype) {
  const auto narrow = static_cast<float>(variance);
  return dtype == DType::Float32 && std::isnormal(narrow) ? std::sqrt(narrow) : std::sqrt(variance);
}

void PairJob::finish(const MomentPart& found, int64_t results, double correction, bool root) const {
  const double freedom = static_cast<double>(axes_.reduced.size()) - correction;
  const double divisor = freedom < 0 ? 0 : freedom;
  parallel_ranges(results, kChunkElements, [&](int64_t begin, int64_t end) {
    const int64_t n = end - begin;
    double* values = found.second + begin;
    if (reduction_ == PairReduction::Moments) {
      for (int64_t i = 0; i < n; ++i) values[i] /= divisor;
      for (int64_t i = 0; root && i < n; ++i) values[i] = deviation(values[i], out_.dtype());
    } else {
      map_elements(OpId::log, DType::Float64, values, n);
      for (int64_t i = 0; i < n; ++i) values[i] += shift_of(found.first[begin + i]);
    }
    cast_elements(reinterpret_cast<const char*>(values), DType::Float64,
                  out_.host_data() + begin * static_cast<int64_t>(out_.itemsize()), out_.dtype(),
                  n);
  });
}

// ---- rows

void PairJob::run_rows(const MomentPart& parts) const {
  const int64_t results = axes_.outer.size();
  const bool direct = axes_.reduced.dense(in_.itemsize());
  const Workspace scratch(slots_ * room_);
  Slots tiles(scratch.data(), room_, slots_);
  for_row_parts(results, axes_.reduced.size(), chunks_, 1, [&](const RowPart& p) {
    const int64_t at = p.chunk * results + p.first;
    const MomentPart found{parts.first + at, parts.second + at};
    if (!direct) {
      return tiles.with_one(
          [&](char* tile) { rows_gathered(p.first, p.count, p.begin, p.end, tile, found); });
    }
    axes_.outer.runs(p.first, p.count, [&](int64_t offset, int64_t position, int64_t length) {
      for (int64_t i = 0; i < length; ++i) {
        const char* row = in_.host_data() + offset + i * axes_.outer.stride() + p.begin * item_;
        chunk_of_row(row, p.begin, p.end, found.first + position + i, found.second + position + i);
      }
    });
  });
}

// One result's elements [begin, end), which lie at `row`.
void PairJob::chunk_of_row(const char* row, int64_t begin, int64_t end, double* first,
                           double* second) const {
  const int64_t n = end - begin;
  if (n <= kRowBlock) return row_(row, n, first, second);
  double firsts[kChunkBlocks], seconds[kChunkBlocks];
  int64_t blocks = 0;
  for (int64_t k = 0; k < n; k += kRowBlock, ++blocks) {
    row_(row + k * item_, std::min(kRowBlock, n - k), firsts + blocks, seconds + blocks);
  }
  join_tree(reduction_, {firsts, seconds}, blocks, kRowBlock, n, 1);
  *first = firsts[0];
  *second = seconds[0];
}

// Rows that do not lie dense, block by block.
void PairJob::rows_gathered(int64_t first, int64_t count, int64_t begin, int64_t end, char* tile,
                            const MomentPart& found) const {
  double firsts[kGatherRows * kChunkBlocks], seconds[kGatherRows * kChunkBlocks];
  const int64_t n = end - begin;
  for (int64_t r = 0; r < count; r += at_once_) {
    const int64_t rows = std::min(at_once_, count - r);
    int64_t blocks = 0;
    for (int64_t k = 0; k < n; k += kRowBlock, ++blocks) {
      const int64_t length = std::min(kRowBlock, n - k);
      load_patch(in_.host_data(), in_.dtype(),
                 {axes_.outer, first + r, rows, axes_.reduced, begin + k, length}, in_.dtype(),
                 tile);
      for (int64_t i = 0; i < rows; ++i) {
        const int64_t to = blocks * rows + i;
        row_(tile + i * length * item_, length, firsts + to, seconds + to);
      }
    }
    join_tree(reduction_, {firsts, seconds}, blocks, kRowBlock, n, rows);
    std::copy_n(firsts, rows, found.first + r);
    std::copy_n(seconds, rows, found.second + r);
  }
}

// ---- columns

void PairJob::run_columns(const MomentPart& parts) const {
  const Axes &outer = axes_.outer, &reduced = axes_.reduced, &cols = axes_.cols;
  const int64_t all = cols.size();
  const bool direct = cols.dense(in_.itemsize()) && reduced.single();
  const int64_t width = std::min(all, direct ? kMomentCols : kTileCols);
  for_column_parts(outer.size(), reduced.size(), all, chunks_, width, [&](const ColumnPart& p) {
    Gathered tile;
    double firsts[kChunkBlocks * kMomentCols], seconds[kChunkBlocks * kMomentCols];
    const char* data = in_.host_data() + outer.offset(p.node % outer.size());
    int64_t blocks = 0;
    for (int64_t k = p.begin; k < p.end; k += kColumnBlock, ++blocks) {
      const int64_t rows = std::min(kColumnBlock, p.end - k);
      const char* block = data + k * reduced.stride() + p.col * item_;
      if (!direct) {
        load_patch(data, in_.dtype(), {reduced, k, rows, cols, p.col, p.cols}, in_.dtype(),
                   tile.bytes);
        block = tile.bytes;
      }
      columns_(block, rows, p.cols, direct ? reduced.stride() : p.cols * item_,
               firsts + blocks * p.cols, seconds + blocks * p.cols);
    }
    join_tree(reduction_, {firsts, seconds}, blocks, kColumnBlock, p.end - p.begin, p.cols);
    std::copy_n(firsts, p.cols, parts.first + p.node * all + p.col);
    std::copy_n(seconds, p.cols, parts.second + p.node * all + p.col);
  });
}

}  // namespace

void kernel_var(const KernelCall& call) {
  AttrReader read(call.attrs);
  read.list();  // dims, of which PairJob takes care
  read.flag();  // keepdim
  const double correction = read.real();
  PairJob(call, PairReduction::Moments).run(correction, read.flag());
}

void kernel_logsumexp(const KernelCall& call) { PairJob(call, PairReduction::Exponentials).run(0); }

int64_t workspace_moments(const KernelCall& call) {
  const bool squares = call.op == OpId::var;
  return PairJob(call, squares ? PairReduction::Moments : PairReduction::Exponentials).workspace();
}

}  // namespace tinyt::cpu
