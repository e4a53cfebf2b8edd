#include "cpu/reduce/reduce.h"

#include <algorithm>
#include <cstring>

#include "core/base/parallel.h"
#include "cpu/copy/gather.h"
#include "cpu/elementwise/complex.h"
#include "cpu/reduce/reduce_parts.h"
#include "cpu/schedule/axes.h"
#include "cpu/schedule/levels.h"
#include "cpu/schedule/tiles.h"
#include "cpu/schedule/workspace.h"

namespace tinyt::cpu {
namespace {

constexpr int64_t kMaxBlocks = kColumnChunk / kProductBlock;  // of a unit of work
constexpr int64_t kDirectCols = 256;                          // columns reduced in place at once
constexpr int64_t kAcross = 128;  // neighbouring results whose lanes run side by side
constexpr int64_t kLongRun = 64;  // neighbouring elements that are worth reducing in place

// Of what a reduction has found so far.
Reduction combination_of(Reduction reduction) {
  switch (reduction) {
    case Reduction::NumberSum:
    case Reduction::AbsSum:
    case Reduction::SquareSum:
      return Reduction::Sum;
    case Reduction::AbsMax:
      return Reduction::Max;
    case Reduction::AbsMin:
      return Reduction::Min;
    default:
      return reduction;
  }
}

// The functions of one reduction for one dtype.
struct Functions {
  using Rows = void (*)(const void*, int64_t, int64_t, int64_t, void*);
  using Columns = void (*)(const void*, int64_t, int64_t, int64_t, void*);

  DType source;        // of the elements they read: the tensor's, or what it is converted to
  DType dtype;         // of values
  int64_t from, item;  // bytes of an element and of a value
  int64_t block;       // elements that a lane or a column takes in order
  Rows rows, rows_of_values;
  Columns columns, accumulate, accumulate_dense, combine;
  char identity[kMaxAccumulator];

  Functions(OpId op, Reduction reduction, DType in, DType compute) : source(in), dtype(compute) {
    const ReduceTable& table = *kernels().reduce;
    const auto r = static_cast<int>(reduction), t = static_cast<int>(dtype);
    const auto values = static_cast<int>(combination_of(reduction));
    if (table.rows[r][static_cast<int>(in)] == nullptr) source = compute;
    const auto s = static_cast<int>(source);
    rows = table.rows[r][s];
    columns = table.columns[r][s];
    accumulate = table.accumulate[r][s];
    accumulate_dense = table.accumulate_dense[r][s];
    require(rows != nullptr, ErrorKind::NotImplemented, name_of(op), ": no kernel for ",
            name_of(compute));
    rows_of_values = table.rows[values][t];
    combine = table.accumulate[values][t];
    from = static_cast<int64_t>(size_of(source));
    item = static_cast<int64_t>(size_of(dtype));
    block = column_block_of(reduction);
    rows(&item, 1, 0, 0, identity);  // of no elements
  }

  int64_t row_block() const { return block * kReduceLanes; }

  void fill_identity(char* values, int64_t n) const {
    const int64_t bytes = n * item;
    std::memcpy(values, identity, item);
    for (int64_t done = item; done < bytes; done *= 2) {
      std::memcpy(values + done, values, std::min(done, bytes - done));
    }
  }

  // Lanes of `width` results each, [lane][result]: the results replace lane 0.
  void fold_lanes(char* lanes, int64_t width) const {
    for (int64_t half = kReduceLanes / 2; half > 0; half /= 2) {
      combine(lanes + half * width * item, 1, half * width, 0, lanes);
    }
  }

  // The tree over `count` neighbouring nodes of `width` values each; the result replaces the first.
  void combine_tree(char* values, int64_t count, int64_t width) const {
    const int64_t node = width * item;
    join_pairwise(count, [&](int64_t i, int64_t k) {
      combine(values + k * node, 1, width, 0, values + i * node);
    });
  }
};

class ReduceJob {
 public:
  ReduceJob(const KernelCall& call, Reduction reduction);
  // `finish` turns each value into the result.
  void run(OpId finish = OpId::kCount);
  // Of the values, where they are not the results.
  int64_t workspace() const { return in_place_ ? 0 : chunks_ * out_.numel() * f_.item; }

 private:
  bool by_rows() const { return cols_.size() == 1; }
  bool direct() const { return in_.dtype() == f_.source; }
  void run_rows(char* values);
  void run_columns(char* values);
  void rows_in_place(int64_t first, int64_t count, int64_t begin, int64_t end, char* values) const;
  void rows_by_runs(int64_t first, int64_t count, int64_t begin, int64_t end, char* values) const;
  void rows_across(int64_t first, int64_t count, int64_t begin, int64_t end, char* values) const;
  void rows_gathered(int64_t first, int64_t count, int64_t begin, int64_t end, char* values) const;
  void columns_gathered(const char* data, int64_t begin, int64_t end, int64_t col, int64_t cols,
                        char* values) const;

  const Tensor& in_;
  const Tensor& out_;
  Functions f_;
  Axes outer_, reduced_, cols_;  // cols_: kept dimensions inside the innermost reduced one
  int64_t chunks_;
  bool in_place_;
  int64_t at_once_ = 1;
};

ReduceJob::ReduceJob(const KernelCall& call, Reduction reduction)
    : in_(call.inputs[0]),
      out_(call.outputs[0]),
      f_(call.op, reduction, in_.dtype(), info(out_.dtype()).compute) {
  const ReduceAxes axes(in_, AttrReader(call.attrs).list());
  outer_ = axes.outer;
  reduced_ = axes.reduced;
  cols_ = axes.cols;
  chunks_ = std::max<int64_t>(1, ceil_div(reduced_.size(), by_rows() ? kRowChunk : kColumnChunk));
  in_place_ = chunks_ == 1 && f_.dtype == out_.dtype();
}

void ReduceJob::run(OpId finish) {
  const int64_t results = out_.numel();
  if (results == 0) return;
  const Workspace partial(workspace());
  char* values = in_place_ ? out_.host_data() : partial.data();
  if (reduced_.size() == 0) {
    f_.fill_identity(values, results);
  } else if (by_rows()) {
    run_rows(values);
  } else {
    run_columns(values);
  }
  f_.combine_tree(values, chunks_, results);
  if (finish != OpId::kCount) map_elements(finish, f_.dtype, values, results);
  if (in_place_) return;
  cast_elements(values, f_.dtype, out_.host_data(), out_.dtype(), results);
}

// values[chunk][result]
void ReduceJob::run_rows(char* values) {
  const int64_t results = outer_.size();
  auto body = &ReduceJob::rows_gathered;
  if (direct() && reduced_.dense(in_.itemsize())) {
    body = &ReduceJob::rows_in_place;
    at_once_ = 1;
  } else if (direct() && reduced_.stride() == f_.from && reduced_.run() >= kLongRun) {
    body = &ReduceJob::rows_by_runs;
    at_once_ = 1;
  } else if (direct() && outer_.stride() == f_.from && outer_.run() >= kAcross / 16 &&
             reduced_.single()) {
    body = &ReduceJob::rows_across;
    at_once_ = std::min(kAcross, outer_.run());
  } else {
    at_once_ = rows_at_once(outer_, reduced_);
  }
  for_row_parts(results, reduced_.size(), chunks_, at_once_, [&](const RowPart& p) {
    (this->*body)(p.first, p.count, p.begin, p.end,
                  values + (p.chunk * results + p.first) * f_.item);
  });
}

void ReduceJob::rows_in_place(int64_t first, int64_t count, int64_t begin, int64_t end,
                              char* values) const {
  outer_.runs(first, count, [&](int64_t at, int64_t position, int64_t length) {
    f_.rows(in_.host_data() + at + begin * f_.from, length, outer_.stride(), end - begin,
            values + position * f_.item);
  });
}

// The elements of a result are several long runs. A run may start at any lane: up to the next lane
// 0 its elements join one by one, and then a whole row of lanes at a time.
void ReduceJob::rows_by_runs(int64_t first, int64_t count, int64_t begin, int64_t end,
                             char* values) const {
  alignas(64) char lanes[kReduceLanes * kMaxAccumulator];
  alignas(64) char blocks[kMaxBlocks * kMaxAccumulator];
  const int64_t step = kReduceLanes * f_.from;
  for (int64_t r = 0; r < count; ++r) {
    const char* data = in_.host_data() + outer_.offset(first + r);
    int64_t block = 0;
    for (int64_t k = begin; k < end; k += f_.row_block(), ++block) {
      f_.fill_identity(lanes, kReduceLanes);
      reduced_.runs(
          k, std::min(end - k, f_.row_block()), [&](int64_t at, int64_t position, int64_t n) {
            const char* p = data + at;
            const int64_t lane = position % kReduceLanes;
            const int64_t head = std::min(n, lane == 0 ? 0 : kReduceLanes - lane);
            const int64_t whole = (n - head) / kReduceLanes, rest = (n - head) % kReduceLanes;
            f_.accumulate(p, 1, head, 0, lanes + lane * f_.item);
            f_.accumulate(p + head * f_.from, whole, kReduceLanes, step, lanes);
            f_.accumulate(p + head * f_.from + whole * step, 1, rest, 0, lanes);
          });
      f_.rows_of_values(lanes, 1, 0, kReduceLanes, blocks + block * f_.item);
    }
    f_.combine_tree(blocks, block, 1);
    std::memcpy(values + r * f_.item, blocks, f_.item);
  }
}

// Neighbouring results lie side by side, the elements of one far apart: lane by lane, the rows of
// one lane are columns to accumulate.
void ReduceJob::rows_across(int64_t first, int64_t count, int64_t begin, int64_t end,
                            char* values) const {
  alignas(64) char lanes[kReduceLanes * kAcross * kMaxAccumulator];
  alignas(64) char blocks[kMaxBlocks * kAcross * kMaxAccumulator];
  const int64_t stride = reduced_.stride();
  for (int64_t done = 0; done < count;) {
    const int64_t run = outer_.run() - (first + done) % outer_.run();
    const int64_t width = std::min({kAcross, run, count - done});
    const char* data = in_.host_data() + outer_.offset(first + done);
    int64_t block = 0;
    for (int64_t k = begin; k < end; k += f_.row_block(), ++block) {
      const int64_t n = std::min(end - k, f_.row_block());
      f_.fill_identity(lanes, kReduceLanes * width);
      for (int64_t lane = 0; lane < std::min<int64_t>(n, kReduceLanes); ++lane) {
        f_.accumulate(data + (k + lane) * stride, ceil_div(n - lane, kReduceLanes), width,
                      kReduceLanes * stride, lanes + lane * width * f_.item);
      }
      f_.fold_lanes(lanes, width);
      std::memcpy(blocks + block * width * f_.item, lanes, width * f_.item);
    }
    f_.combine_tree(blocks, block, width);
    std::memcpy(values + done * f_.item, blocks, width * f_.item);
    done += width;
  }
}

void ReduceJob::rows_gathered(int64_t first, int64_t count, int64_t begin, int64_t end,
                              char* values) const {
  Gathered tile;
  alignas(64) char lanes[kGatherRows * kReduceLanes * kMaxAccumulator];
  alignas(64) char blocks[kMaxBlocks * kGatherRows * kMaxAccumulator];
  const int64_t width = gather_limit(!direct()) / at_once_ / kReduceLanes * kReduceLanes;
  const int64_t lanes_bytes = kReduceLanes * f_.item;
  for (int64_t done = 0; done < count; done += at_once_) {
    const int64_t rows = std::min(at_once_, count - done);
    int64_t block = 0;
    for (int64_t k = begin; k < end; k += f_.row_block(), ++block) {
      const int64_t block_end = std::min(end, k + f_.row_block());
      f_.fill_identity(lanes, rows * kReduceLanes);
      for (int64_t c = k; c < block_end; c += width) {
        const int64_t n = std::min(width, block_end - c), full = n / kReduceLanes;
        load_patch(in_.host_data(), in_.dtype(), {outer_, first + done, rows, reduced_, c, n},
                   f_.source, tile.bytes);
        for (int64_t r = 0; r < rows; ++r) {
          const char* from = tile.bytes + r * n * f_.from;
          char* to = lanes + r * lanes_bytes;
          f_.accumulate(from, full, kReduceLanes, kReduceLanes * f_.from, to);
          f_.accumulate(from + full * kReduceLanes * f_.from, 1, n - full * kReduceLanes, 0, to);
        }
      }
      f_.rows_of_values(lanes, rows, lanes_bytes, kReduceLanes, blocks + block * rows * f_.item);
    }
    f_.combine_tree(blocks, block, rows);
    std::memcpy(values + done * f_.item, blocks, static_cast<size_t>(rows * f_.item));
  }
}

// values[chunk][outer][column]
void ReduceJob::run_columns(char* values) {
  const int64_t outer = outer_.size(), all = cols_.size();
  const bool direct = this->direct() && cols_.dense(in_.itemsize()) && reduced_.single();
  const int64_t width = std::min(all, direct ? kDirectCols : kTileCols);
  for_column_parts(outer, reduced_.size(), all, chunks_, width, [&](const ColumnPart& p) {
    const char* data = in_.host_data() + outer_.offset(p.node % outer);
    char* to = values + (p.node * all + p.col) * f_.item;
    if (direct) {
      f_.columns(data + p.begin * reduced_.stride() + p.col * f_.from, p.end - p.begin, p.cols,
                 reduced_.stride(), to);
    } else {
      columns_gathered(data, p.begin, p.end, p.col, p.cols, to);
    }
  });
}

void ReduceJob::columns_gathered(const char* data, int64_t begin, int64_t end, int64_t col,
                                 int64_t cols, char* values) const {
  Gathered tile;
  alignas(64) char blocks[kMaxBlocks * kTileCols * kMaxAccumulator];
  const int64_t height = std::min(gather_limit(!direct()) / cols, f_.block);
  const bool dense =
      direct() && f_.accumulate_dense && reduced_.dense(in_.itemsize()) && cols_.single();
  int64_t block = 0;
  for (int64_t k = begin; k < end; k += f_.block, ++block) {
    const int64_t block_end = std::min(end, k + f_.block);
    char* sums = blocks + block * cols * f_.item;
    f_.fill_identity(sums, cols);
    if (dense) {
      f_.accumulate_dense(data + k * f_.from + cols_.offset(col), block_end - k, cols,
                          cols_.stride(), sums);
      continue;
    }
    for (int64_t r = k; r < block_end; r += height) {
      const int64_t rows = std::min(height, block_end - r);
      load_patch(data, in_.dtype(), {reduced_, r, rows, cols_, col, cols}, f_.source, tile.bytes);
      f_.accumulate(tile.bytes, rows, cols, cols * f_.from, sums);
    }
  }
  f_.combine_tree(blocks, block, cols);
  std::memcpy(values, blocks, static_cast<size_t>(cols * f_.item));
}

}  // namespace

void add_parts(DType dtype, void* parts, int64_t count, int64_t n) {
  constexpr int64_t kNoRows[3] = {};
  constexpr uint8_t kInner[] = {1, 1, 1};
  const auto size = static_cast<int64_t>(size_of(dtype));
  const auto add =
      kernels().elementwise->kernel[static_cast<int>(OpId::add)][static_cast<int>(dtype)];
  parallel_ranges(n, kPassesChunk, [&](int64_t begin, int64_t end) {
    char* const at = static_cast<char*>(parts) + begin * size;
    join_pairwise(count, [&](int64_t i, int64_t k) {
      char* const to = at + i * n * size;
      char* const operands[] = {to, to, at + k * n * size};
      add({operands, 1, end - begin, kNoRows, kInner});
    });
  });
}

Reduction reduction_of(OpId op) {
  switch (op) {
    case OpId::prod:
      return Reduction::Prod;
    case OpId::amax:
      return Reduction::Max;
    case OpId::amin:
      return Reduction::Min;
    default:
      return Reduction::Sum;
  }
}

void kernel_reduce(const KernelCall& call) {
  if (is_complex(call.compute)) return complex_reduce(call);
  ReduceJob(call, reduction_of(call.op)).run();
}

void kernel_nansum(const KernelCall& call) { ReduceJob(call, Reduction::NumberSum).run(); }

namespace {

Reduction reduction_of_norm(const KernelCall& call) {
  AttrReader read(call.attrs);
  read.list();
  read.flag();  // keepdim
  const double p = read.real();
  if (p == 2) return Reduction::SquareSum;
  return p == 1 ? Reduction::AbsSum : p > 0 ? Reduction::AbsMax : Reduction::AbsMin;
}

}  // namespace

void kernel_norm(const KernelCall& call) {
  const Reduction reduction = reduction_of_norm(call);
  ReduceJob(call, reduction).run(reduction == Reduction::SquareSum ? OpId::sqrt : OpId::kCount);
}

int64_t workspace_reduce(const KernelCall& call) {
  if (is_complex(call.compute)) return workspace_complex_reduce(call);
  const Reduction reduction = call.op == OpId::norm     ? reduction_of_norm(call)
                              : call.op == OpId::nansum ? Reduction::NumberSum
                                                        : reduction_of(call.op);
  return ReduceJob(call, reduction).workspace();
}

}  // namespace tinyt::cpu
