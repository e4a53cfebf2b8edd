// A line of the output is made in two steps: the input's lines it depends on are summed, with the
// weights of the outer dimensions, into one line as long as the input's; then the last dimension's
// matrix is applied to that. Sums of many terms go by blocks of kBlock.
#include "cpu/conv/resample.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "core/base/parallel.h"
#include "cpu/conv/spatial.h"
#include "cpu/copy/copy.h"
#include "cpu/schedule/levels.h"
#include "cpu/schedule/workspace.h"

namespace tinyt::cpu {
namespace {

constexpr int64_t kBlock = 64;  // terms: the order of a sum

template <class T>
struct Entry {
  int64_t index;
  T weight;
};

// The rows of one dimension's matrix.
template <class T>
struct Matrix {
  std::vector<size_t> first;  // of each row in `entries`, and their count at the end
  std::vector<Entry<T>> entries;

  std::span<const Entry<T>> row(int64_t i) const {
    const auto at = static_cast<size_t>(i);
    return std::span(entries).subspan(first[at], first[at + 1] - first[at]);
  }
  int64_t rows() const { return static_cast<int64_t>(first.size()) - 1; }
  bool is_identity(int64_t columns) const {
    if (rows() != columns || static_cast<int64_t>(entries.size()) != columns) return false;
    for (int64_t i = 0; i < columns; ++i) {
      if (row(i).size() != 1 || row(i)[0].index != i || row(i)[0].weight != 1) return false;
    }
    return true;
  }
};

template <class T>
Matrix<T> matrix_of(std::span<const int64_t> taps, std::span<const int64_t> index,
                    const T* weight) {
  Matrix<T> m;
  m.first.push_back(0);
  for (const int64_t n : taps) m.first.push_back(m.first.back() + static_cast<size_t>(n));
  for (size_t i = 0; i < index.size(); ++i) m.entries.push_back({index[i], weight[i]});
  return m;
}

// The entries of a column, in the order of the rows, become a row.
template <class T>
Matrix<T> transposed_matrix(const Matrix<T>& m, int64_t columns) {
  Matrix<T> t;
  t.first.assign(static_cast<size_t>(columns) + 1, 0);
  t.entries.resize(m.entries.size());
  for (const Entry<T>& e : m.entries) ++t.first[static_cast<size_t>(e.index) + 1];
  for (size_t i = 1; i < t.first.size(); ++i) t.first[i] += t.first[i - 1];
  std::vector<size_t> at(t.first);
  for (int64_t r = 0; r < m.rows(); ++r) {
    for (const Entry<T>& e : m.row(r)) {
      t.entries[at[static_cast<size_t>(e.index)]++] = {r, e.weight};
    }
  }
  return t;
}

// Neighbouring rows with equally many entries, stored entry by entry, for ResampleTable::gather.
struct ResampleRun {
  int64_t first, rows, taps;
  size_t offset;  // in index and weight
};

template <class T>
class LineMatrix {
 public:
  LineMatrix(const Matrix<T>& m, int64_t columns) : identity_(m.is_identity(columns)) {
    for (int64_t i = 0; i < m.rows();) {
      const auto taps = static_cast<int64_t>(m.row(i).size());
      int64_t end = i + 1;
      while (end < m.rows() && static_cast<int64_t>(m.row(end).size()) == taps) ++end;
      runs_.push_back({i, end - i, taps, index_.size()});
      for (int64_t k = 0; k < taps; ++k) {
        for (int64_t r = i; r < end; ++r) {
          index_.push_back(static_cast<int32_t>(m.row(r)[static_cast<size_t>(k)].index));
          weight_.push_back(m.row(r)[static_cast<size_t>(k)].weight);
        }
      }
      i = end;
    }
  }
  bool identity() const { return identity_; }

  void apply(DType dtype, const T* line, T* out) const {
    const auto gather = kernels().resample->gather[static_cast<int>(dtype)];
    for (const ResampleRun& run : runs_) {
      if (run.taps == 0) {
        std::fill_n(out + run.first, run.rows, T{0});
      } else if (run.taps <= kBlock) {
        gather(line, index_.data() + run.offset, weight_.data() + run.offset, run.taps, run.rows,
               out + run.first);
      } else {
        for (int64_t i = 0; i < run.rows; ++i) out[run.first + i] = long_sum(run, i, line);
      }
    }
  }

 private:
  T long_sum(const ResampleRun& run, int64_t row, const T* line) const {
    T total{0};
    for (int64_t k = 0; k < run.taps; k += kBlock) {
      T sum{0};
      for (int64_t j = k; j < std::min(k + kBlock, run.taps); ++j) {
        const size_t at = run.offset + static_cast<size_t>(j * run.rows + row);
        sum += weight_[at] * line[index_[at]];
      }
      total += sum;
    }
    return total;
  }

  bool identity_;
  std::vector<ResampleRun> runs_;
  std::vector<int32_t> index_;
  std::vector<T> weight_;
};

// The weighted sum of lines, blocks of kBlock at a time. The result is in `to`, or a single line
// with weight 1 where it lies.
template <class T>
class LineSum {
 public:
  LineSum(DType dtype, int64_t length, T* to, T* block)
      : combine_(kernels().resample->combine[static_cast<int>(dtype)]),
        length_(length),
        to_(to),
        block_(block) {}

  void add(const T* line, T weight) {
    if (count_ == kBlock) flush();
    line_[count_] = line;
    weight_[count_++] = weight;
  }
  const T* finish() {
    if (!started_ && count_ == 0) std::fill_n(to_, length_, T{0});
    if (!started_ && count_ == 1 && weight_[0] == 1) return static_cast<const T*>(line_[0]);
    if (count_ > 0) flush();
    return to_;
  }

 private:
  void flush() {
    combine_(line_, weight_, count_, length_, started_ ? block_ : to_);
    if (started_) {
      const void* both[] = {to_, block_};
      const T ones[] = {1, 1};
      combine_(both, ones, 2, length_, to_);
    }
    started_ = true;
    count_ = 0;
  }

  void (*combine_)(const void* const*, const void*, int64_t, int64_t, void*);
  int64_t length_;
  T *to_, *block_;
  int64_t count_ = 0;
  bool started_ = false;
  const void* line_[kBlock];
  T weight_[kBlock];
};

// The sizes of a call, and of each dimension's matrix the entries; `taps` and `index` of those that
// are listed.
struct ResampleSizes {
  bool transposed;
  int first;  // listed dimension
  Sizes in, out;
  std::span<const int64_t> taps[kSpatial], index[kSpatial];
  int64_t entries[kSpatial] = {1, 1, 1};

  ResampleSizes(const Attrs& attrs, const Tensor& x, const Tensor& y)
      : in(spatial(std::span(x.shape()).subspan(2), 1)),
        out(spatial(std::span(y.shape()).subspan(2), 1)) {
    AttrReader read(attrs);
    first = kSpatial - static_cast<int>(read.list().size());
    std::span<const int64_t> all = read.list(), indices = read.list();
    transposed = read.flag();
    for (int d = first; d < kSpatial; ++d) {
      taps[d] = all.first(static_cast<size_t>(transposed ? in[d] : out[d]));
      entries[d] = 0;
      for (const int64_t n : taps[d]) entries[d] += n;
      index[d] = indices.first(static_cast<size_t>(entries[d]));
      all = all.subspan(taps[d].size());
      indices = indices.subspan(index[d].size());
    }
  }
};

// How its lines are shared out, and the bytes of a thread's.
struct ResampleLines {
  int64_t lines, grain, bytes;
  int threads;

  ResampleLines(const ResampleSizes& s, int64_t elements, size_t item)
      : lines(elements / s.out[2]) {
    const int64_t rows = s.entries[0] * s.entries[1] / (s.out[0] * s.out[1]) + 1;  // about
    grain = std::max<int64_t>(1, kChunkElements / (rows * s.in[2] + s.entries[2] + 1));
    bytes = 2 * s.in[2] * static_cast<int64_t>(item) + memory::kAlignment;
    threads = lines > grain ? num_threads() : 1;
  }
  int64_t workspace() const { return bytes * threads; }
};

template <class T>
void resample(DType dtype, const ResampleSizes& sizes, const Matrix<T> (&matrix)[kSpatial],
              const Tensor& x, const Tensor& y) {
  const Sizes &in = sizes.in, &out = sizes.out;
  const LineMatrix<T> across(matrix[2], in[2]);
  const ResampleLines plan(sizes, y.numel(), sizeof(T));
  const Workspace memory(plan.workspace());
  Slots buffers(memory.data(), plan.bytes, plan.threads);
  parallel_ranges(plan.lines, plan.grain, [&](int64_t begin, int64_t end) {
    buffers.with_one([&](char* buffer) {
      T* scratch = reinterpret_cast<T*>(buffer);
      for (int64_t i = begin; i < end; ++i) {
        const T* plane = x.ptr<T>() + i / (out[0] * out[1]) * product(in);
        T* to = y.ptr<T>() + i * out[2];
        LineSum<T> sum(dtype, in[2], across.identity() ? to : scratch, scratch + in[2]);
        for (const Entry<T>& z : matrix[0].row(i / out[1] % out[0])) {
          for (const Entry<T>& row : matrix[1].row(i % out[1])) {
            sum.add(plane + (z.index * in[1] + row.index) * in[2], z.weight * row.weight);
          }
        }
        const T* line = sum.finish();
        if (!across.identity()) {
          across.apply(dtype, line, to);
        } else if (line != to) {
          std::memcpy(to, line, static_cast<size_t>(out[2]) * sizeof(T));
        }
      }
    });
  });
}

template <class T>
void run(const Attrs& attrs, DType dtype, const Tensor& x, const Tensor& weight, const Tensor& y) {
  const ResampleSizes sizes(attrs, x, y);
  const T* weights = weight.ptr<T>();
  Matrix<T> matrix[kSpatial];
  for (int d = 0; d < kSpatial; ++d) {
    if (d < sizes.first) {
      matrix[d] = {{0, 1}, {{0, 1}}};
      continue;
    }
    matrix[d] = matrix_of<T>(sizes.taps[d], sizes.index[d], weights);
    if (sizes.transposed) matrix[d] = transposed_matrix(matrix[d], sizes.out[d]);
    weights += sizes.entries[d];
  }
  resample<T>(dtype, sizes, matrix, x, y);
}

DType resample_dtype(DType dtype) { return is_bool(dtype) ? DType::Int64 : info(dtype).compute; }

}  // namespace

void kernel_resample(const KernelCall& call) {
  const Tensor& out = call.outputs[0];
  if (out.numel() == 0) return;
  const DType work = resample_dtype(call.compute);
  const Tensor x = dense_as(call.inputs[0], work), weight = dense_as(call.inputs[1], work);
  const Tensor y = target(out, work);
  if (work == DType::Float32) {
    run<float>(call.attrs, work, x, weight, y);
  } else if (work == DType::Float64) {
    run<double>(call.attrs, work, x, weight, y);
  } else {
    run<uint64_t>(call.attrs, work, x, weight, y);
  }
  finish(y, out);
}

int64_t workspace_resample(const KernelCall& call) {
  const Tensor &x = call.inputs[0], &out = call.outputs[0];
  if (out.numel() == 0) return 0;
  const DType work = resample_dtype(call.compute);
  const ResampleSizes sizes(call.attrs, x, out);
  return dense_bytes(x, work) + dense_bytes(call.inputs[1], work) + target_bytes(out, work) +
         ResampleLines(sizes, out.numel(), size_of(work)).workspace();
}

}  // namespace tinyt::cpu
