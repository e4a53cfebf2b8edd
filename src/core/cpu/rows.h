// The elements along one dimension as contiguous rows of the dtype that kernels compute in,
// whatever the strides and the dtype of the tensors.
#pragma once

#include <algorithm>

#include "../parallel.h"
#include "axes.h"
#include "tiles.h"

namespace tinyt::cpu {

class Rows {
 public:
  // Rows are only read where `out` is empty; else they have the shape of `in`, and are written.
  Rows(const Tensor& in, const Tensor& out, size_t dim, DType dtype)
      : in_(in), out_(out), dtype_(dtype), from_(in, dim), to_(out ? out : in, dim) {}

  int64_t count() const { return from_.index.size(); }
  int64_t length() const { return from_.row.size(); }

  // body(row, in, out) for all rows, which are not empty; `in` may equal `out`.
  template <class F>
  void run(const F& body) const {
    const bool direct = in_.dtype() == dtype_ && from_.row.dense(in_.itemsize());
    if (!out_ ? direct : out_.dtype() == dtype_ && to_.row.dense(out_.itemsize())) {
      run_in_place(direct, body);
    } else if (row_bytes() <= kBufferBytes) {
      run_on_stack(body);
    } else {
      run_long(body);
    }
  }

 private:
  // Rows that cannot be worked on in the output move through dense buffers: on the stack up to this
  // size, and else through a few allocated before the work starts.
  static constexpr int64_t kBufferBytes = 32768;
  static constexpr int64_t kLongBuffers = 16;
  static constexpr int64_t kMaxGroup = 16;  // rows in one buffer
  static constexpr int64_t kLongGroup = 4;

  // The elements along `dim` as rows, and all other dimensions as the index of a row.
  struct Layout {
    Axes index, row;

    Layout(const Tensor& t, size_t dim) {
      const auto item = static_cast<int64_t>(t.itemsize());
      for (size_t d = 0; d < t.shape().size(); ++d) {
        (d == dim ? row : index).add(t.size(d), t.stride(d) * item);
      }
    }
  };

  int64_t row_bytes() const { return length() * static_cast<int64_t>(size_of(dtype_)); }
  int64_t grain() const { return std::max<int64_t>(1, kChunkElements / length()); }
  void load(int64_t first, int64_t rows, char* dense) const;
  void store(const char* dense, int64_t first, int64_t rows) const;

  // Each row's result is as dense as the kernel needs it: gather there, and go on in place.
  template <class F>
  void run_in_place(bool direct, const F& body) const {
    parallel_ranges(count(), grain(), [&](int64_t begin, int64_t end) {
      for (int64_t first = begin; first < end; first += kMaxGroup) {
        const int64_t rows = std::min(kMaxGroup, end - first);
        char* out = out_ ? out_.data() + first * row_bytes() : nullptr;
        if (!direct) load(first, rows, out);
        for (int64_t r = 0; r < rows; ++r) {
          char* row = out_ ? out + r * row_bytes() : nullptr;
          body(first + r, direct ? in_.data() + from_.index.offset(first + r) : row, row);
        }
      }
    });
  }

  template <class F>
  void run_group(int64_t first, int64_t rows, char* buffer, const F& body) const {
    load(first, rows, buffer);
    for (int64_t r = 0; r < rows; ++r) {
      char* row = buffer + r * row_bytes();
      body(first + r, row, row);
    }
    if (out_) store(buffer, first, rows);
  }

  template <class F>
  void run_on_stack(const F& body) const {
    const int64_t group = std::min(kMaxGroup, kBufferBytes / row_bytes());
    parallel_ranges(count(), ceil_div(grain(), group) * group, [&](int64_t begin, int64_t end) {
      alignas(64) char buffer[kBufferBytes];
      for (int64_t r = begin; r < end; r += group) {
        run_group(r, std::min(group, end - r), buffer, body);
      }
    });
  }

  template <class F>
  void run_long(const F& body) const {
    const int64_t groups = ceil_div(count(), kLongGroup), buffers = std::min(groups, kLongBuffers);
    const Tensor memory = Tensor::empty(Dims{buffers, kLongGroup, length()}, dtype_, in_.device());
    parallel_for(buffers, [&](int64_t b) {
      char* buffer = memory.data() + b * kLongGroup * row_bytes();
      for (int64_t g = b; g < groups; g += buffers) {
        const int64_t first = g * kLongGroup;
        run_group(first, std::min(kLongGroup, count() - first), buffer, body);
      }
    });
  }

  const Tensor& in_;
  const Tensor& out_;
  DType dtype_;
  Layout from_, to_;
};

}  // namespace tinyt::cpu
