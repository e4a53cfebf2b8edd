#include "softmax.h"

#include <algorithm>

#include "../parallel.h"
#include "axes.h"
#include "levels.h"
#include "tiles.h"

namespace tinyt::cpu {
namespace {

// Rows that cannot be worked on in the output move through dense buffers: on the stack up to this
// size, and else through a few allocated before the work starts.
constexpr int64_t kBufferBytes = 32768;
constexpr int64_t kLongBuffers = 16;
constexpr int64_t kMaxGroup = 16;  // rows in one buffer
constexpr int64_t kLongGroup = 4;

using RowKernel = void (*)(const void*, int64_t, void*);

// The elements along `dim` as rows, and all other dimensions as the index of a row.
struct Rows {
  Axes index, row;

  Rows(const Tensor& t, size_t dim) {
    const auto item = static_cast<int64_t>(t.itemsize());
    for (size_t d = 0; d < t.shape().size(); ++d) {
      (d == dim ? row : index).add(t.size(d), t.stride(d) * item);
    }
  }
};

class SoftmaxJob {
 public:
  SoftmaxJob(const KernelCall& call, RowKernel const (&table)[kDTypeCount])
      : in_(call.inputs[0]),
        out_(call.outputs[0]),
        dtype_(info(out_.dtype()).compute),
        kernel_(table[static_cast<int>(dtype_)]),
        from_(in_, dim_of(call)),
        to_(out_, dim_of(call)) {
    require(kernel_ != nullptr, ErrorKind::NotImplemented, name_of(call.op), ": no kernel for ",
            name_of(dtype_));
  }

  void run() {
    if (out_.numel() == 0) return;
    if (out_.dtype() == dtype_ && to_.row.dense(out_.itemsize())) {
      run_in_output();
    } else {
      run_buffered();
    }
  }

 private:
  static size_t dim_of(const KernelCall& call) {
    return static_cast<size_t>(AttrReader(call.attrs).integer());
  }

  void load_rows(int64_t first, int64_t rows, char* dense) const;
  void store_rows(const char* dense, int64_t first, int64_t rows) const;
  void run_in_output() const;
  void run_buffered() const;
  void run_group(int64_t first, int64_t rows, char* buffer) const;

  int64_t length() const { return to_.row.size(); }
  int64_t row_bytes() const { return length() * static_cast<int64_t>(size_of(dtype_)); }

  const Tensor& in_;
  const Tensor& out_;
  DType dtype_;
  RowKernel kernel_;
  Rows from_, to_;
};

// body(row, rows, col, cols) for pieces of rows x n that are contiguous in a dense buffer and, if
// `convert`, no larger than a tile.
template <class F>
void for_each_piece(int64_t rows, int64_t n, bool convert, F&& body) {
  const int64_t height = convert ? std::max<int64_t>(1, kTileElements / n) : rows;
  const int64_t width = convert ? std::min(n, kTileElements) : n;
  for (int64_t r = 0; r < rows; r += height) {
    for (int64_t c = 0; c < n; c += width) {
      body(r, std::min(height, rows - r), c, std::min(width, n - c));
    }
  }
}

void SoftmaxJob::load_rows(int64_t first, int64_t rows, char* dense) const {
  const auto item = static_cast<int64_t>(size_of(dtype_));
  for_each_piece(rows, length(), in_.dtype() != dtype_,
                 [&](int64_t r, int64_t height, int64_t c, int64_t width) {
                   load_patch(in_.data(), in_.dtype(),
                              {from_.index, first + r, height, from_.row, c, width}, dtype_,
                              dense + (r * length() + c) * item);
                 });
}

void SoftmaxJob::store_rows(const char* dense, int64_t first, int64_t rows) const {
  const auto item = static_cast<int64_t>(size_of(dtype_));
  for_each_piece(rows, length(), out_.dtype() != dtype_,
                 [&](int64_t r, int64_t height, int64_t c, int64_t width) {
                   store_patch(dense + (r * length() + c) * item, dtype_,
                               {to_.index, first + r, height, to_.row, c, width}, out_.data(),
                               out_.dtype());
                 });
}

// Each row's result is as dense as the kernel needs it: gather there, and go on in place.
void SoftmaxJob::run_in_output() const {
  const bool direct = in_.dtype() == dtype_ && from_.row.dense(in_.itemsize());
  const int64_t grain = std::max<int64_t>(1, kChunkElements / length());
  parallel_ranges(to_.index.size(), grain, [&](int64_t begin, int64_t end) {
    for (int64_t first = begin; first < end; first += kMaxGroup) {
      const int64_t rows = std::min(kMaxGroup, end - first);
      char* out = out_.data() + first * row_bytes();
      if (!direct) load_rows(first, rows, out);
      for (int64_t r = 0; r < rows; ++r) {
        char* row = out + r * row_bytes();
        kernel_(direct ? in_.data() + from_.index.offset(first + r) : row, length(), row);
      }
    }
  });
}

void SoftmaxJob::run_group(int64_t first, int64_t rows, char* buffer) const {
  load_rows(first, rows, buffer);
  for (int64_t r = 0; r < rows; ++r) {
    char* row = buffer + r * row_bytes();
    kernel_(row, length(), row);
  }
  store_rows(buffer, first, rows);
}

void SoftmaxJob::run_buffered() const {
  const int64_t rows = to_.index.size();
  if (row_bytes() <= kBufferBytes) {
    const int64_t group = std::min(kMaxGroup, kBufferBytes / row_bytes());
    const int64_t grain = ceil_div(std::max<int64_t>(1, kChunkElements / length()), group) * group;
    parallel_ranges(rows, grain, [&](int64_t begin, int64_t end) {
      alignas(64) char buffer[kBufferBytes];
      for (int64_t r = begin; r < end; r += group) run_group(r, std::min(group, end - r), buffer);
    });
    return;
  }
  const int64_t groups = ceil_div(rows, kLongGroup), buffers = std::min(groups, kLongBuffers);
  const Tensor memory = Tensor::empty(Dims{buffers, kLongGroup, length()}, dtype_, out_.device());
  parallel_for(buffers, [&](int64_t b) {
    char* buffer = memory.data() + b * kLongGroup * row_bytes();
    for (int64_t g = b; g < groups; g += buffers) {
      const int64_t first = g * kLongGroup;
      run_group(first, std::min(kLongGroup, rows - first), buffer);
    }
  });
}

}  // namespace

void kernel_softmax(const KernelCall& call) { SoftmaxJob(call, kernels().softmax->softmax).run(); }

void kernel_log_softmax(const KernelCall& call) {
  SoftmaxJob(call, kernels().softmax->log_softmax).run();
}

}  // namespace tinyt::cpu
