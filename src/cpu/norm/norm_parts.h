// What the normalisations share: operands and results as their kernels take them.
#pragma once

#include <algorithm>

#include "cpu/copy/copy.h"
#include "cpu/schedule/axes.h"
#include "cpu/schedule/levels.h"
#include "cpu/schedule/tiles.h"

namespace tinyt::cpu {

inline constexpr int64_t kShortest = 16;  // elements of a channel that is worked on as one row

// How many pieces of so many elements make a unit of parallel work.
inline int64_t norm_grain(int64_t elements) {
  return std::max<int64_t>(1, kPassesChunk / std::max<int64_t>(elements, 1));
}

// Whether a result, which is `out` itself, is written past the caches, in runs of so many bytes.
inline bool streams(const Tensor& result, const Tensor& out, int64_t run) {
  return result.dtype() == out.dtype() &&
         streams(out.numel() * static_cast<int64_t>(out.itemsize()), run);
}
inline void end_streams(bool stream) {
  if (stream) kernels().copy->fence();
}

// Of a weight or bias; a 0-d tensor stands for none.
inline bool given(const Tensor& part) { return part.rank() != 0; }

// What per_channel takes: values, which go once they are repeated, and those.
struct ChannelBytes {
  int64_t most, left;
};
inline ChannelBytes channel_bytes(const Tensor& part, DType dtype, int64_t channels,
                                  int64_t repeat = 1) {
  const int64_t one = channels * static_cast<int64_t>(size_of(dtype));
  const int64_t values = given(part) ? dense_bytes(part, dtype) : one;
  return repeat == 1 ? ChannelBytes{values, values}
                     : ChannelBytes{values + one * repeat, one * repeat};
}

// One value of `part` for each channel, each `repeat` times.
template <class T>
Tensor per_channel(const Tensor& part, DType dtype, int64_t channels, T none, int64_t repeat = 1) {
  Tensor values = given(part) ? dense_as(part, dtype) : Tensor::empty(Dims{channels}, dtype);
  if (!given(part)) std::fill_n(values.ptr<T>(), channels, none);
  if (repeat == 1) return values;
  Tensor repeated = Tensor::empty(Dims{channels * repeat}, dtype);
  for (int64_t c = 0; c < channels; ++c) {
    std::fill_n(repeated.ptr<T>() + c * repeat, repeat, values.ptr<const T>()[c]);
  }
  return repeated;
}

}  // namespace tinyt::cpu
