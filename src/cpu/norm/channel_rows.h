// The rows of a batch norm's channels: how they lie, and one channel at a time as the kernels take
// it.
#pragma once

#include "core/base/parallel.h"
#include "cpu/norm/norm_parts.h"
#include "cpu/schedule/workspace.h"

namespace tinyt::cpu {

// x as rows of n elements: row (i, c) starts at (i * channels + c) * n. Where those are short, x is
// `outer` rows of channels * n columns, each with the numbers of its channel.
struct ChannelLayout {
  int64_t outer, channels, n = 1;
  DType dtype;
  int64_t size;  // bytes of an element in the kernels

  explicit ChannelLayout(const Tensor& x)
      : outer(x.size(0)),
        channels(x.size(1)),
        dtype(info(x.dtype()).compute),
        size(static_cast<int64_t>(size_of(dtype))) {
    for (int64_t d = 2; d < x.rank(); ++d) n *= x.size(d);
  }
  bool columns() const { return n > 0 && n < kShortest; }
  int64_t width() const { return channels * n; }
  int64_t count() const { return outer * n; }
  int64_t offset(int64_t i, int64_t c) const { return (i * channels + c) * n * size; }
  int index() const { return static_cast<int>(dtype); }

  // body(channel, memory) with so many bytes; what it takes for them.
  int64_t workspace(int64_t bytes) const { return bytes * num_threads(); }
  template <class F>
  void for_channels(int64_t bytes, F&& body) const {
    const int64_t threads = num_threads();
    const Workspace memory(workspace(bytes));
    Slots slots(memory.data(), bytes, threads);
    parallel_ranges(channels, norm_grain(count()), [&](int64_t begin, int64_t end) {
      slots.with_one([&](char* own) {
        for (int64_t c = begin; c < end; ++c) body(c, own);
      });
    });
  }
};

// A channel's rows as the kernels take them.
struct ChannelRows {
  char* first;
  int64_t step;  // in bytes

  char* row(int64_t i) const { return first + i * step; }
};

// A tensor of which one channel at a time is converted, where the kernels take another dtype.
class ByChannel {
 public:
  ByChannel(const ChannelLayout& l, const Tensor& x) : l_(l), x_(as_contiguous(x)) {}

  // Of memory for a channel of a dtype; the constructor takes dense_bytes(x).
  static int64_t bytes_of(const ChannelLayout& l, DType dtype) {
    return dtype == l.dtype ? 0 : round_up(l.count() * l.size, memory::kAlignment);
  }
  int64_t bytes() const { return bytes_of(l_, x_.dtype()); }
  ChannelRows rows(int64_t c, char* memory) const {
    if (same()) return {x_.host_data() + l_.offset(0, c), l_.width() * l_.size};
    return {memory, l_.n * l_.size};
  }
  ChannelRows read(int64_t c, char* memory) const {
    const ChannelRows to = rows(c, memory);
    for (int64_t i = 0; !same() && i < l_.outer; ++i) {
      cast_elements(stored(i, c), x_.dtype(), to.row(i), l_.dtype, l_.n);
    }
    return to;
  }
  void write(int64_t c, const ChannelRows& from) const {
    for (int64_t i = 0; !same() && i < l_.outer; ++i) {
      cast_elements(from.row(i), l_.dtype, stored(i, c), x_.dtype(), l_.n);
    }
  }

 private:
  bool same() const { return x_.dtype() == l_.dtype; }
  char* stored(int64_t i, int64_t c) const {
    return x_.host_data() + l_.offset(i, c) / l_.size * static_cast<int64_t>(x_.itemsize());
  }

  const ChannelLayout& l_;
  Tensor x_;
};

}  // namespace tinyt::cpu
