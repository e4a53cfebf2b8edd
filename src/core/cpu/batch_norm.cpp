#include "batch_norm.h"

#include <algorithm>
#include <cmath>

#include "../parallel.h"
#include "copy.h"
#include "levels.h"

namespace tinyt::cpu {
namespace {

constexpr int64_t kChunk = 16384;  // elements of a unit of parallel work

// x as rows of n elements: row (i, c) starts at (i * channels + c) * n. Without space after the
// channels, the batch takes its place: a channel is one row of a transposed copy.
struct Layout {
  int64_t outer = 1, channels, n = 1;
  DType dtype;
  int64_t size;  // bytes of an element in the kernels
  bool turned;

  explicit Layout(const Tensor& x)
      : channels(x.size(1)),
        dtype(info(x.dtype()).compute),
        size(static_cast<int64_t>(size_of(dtype))),
        turned(x.rank() == 2) {
    for (int64_t d = 2; d < x.rank(); ++d) n *= x.size(d);
    (turned ? n : outer) = x.size(0);
  }

  int64_t count() const { return outer * n; }
  int64_t offset(int64_t i, int64_t c) const { return (i * channels + c) * n * size; }

  // [N, C] seen as [C, N].
  Tensor turn(const Tensor& x) const {
    return turned ? x.view(Dims{x.size(1), x.size(0)}, Dims{x.stride(1), x.stride(0)}, x.offset())
                  : x;
  }
  Tensor dense(const Tensor& x) const {
    const Tensor seen = turn(x);
    if (seen.dtype() == dtype && seen.is_contiguous()) return seen;
    Tensor copy = Tensor::empty(seen.shape(), dtype, x.device());
    copy_into(seen, copy);
    return copy;
  }
  // Where the kernels write; `finish` brings it to the output.
  Tensor target(const Tensor& out) const {
    const Tensor seen = turn(out);
    if (seen.dtype() == dtype && seen.is_contiguous()) return seen;
    return Tensor::empty(seen.shape(), dtype, out.device());
  }
  void finish(const Tensor& result, const Tensor& out) const {
    const Tensor seen = turn(out);
    if (!same_view(result, seen)) copy_into(result, seen);
  }

  template <class F>
  void for_channels(F&& body) const {
    const int64_t grain = std::max<int64_t>(1, kChunk / std::max<int64_t>(count(), 1));
    parallel_ranges(channels, grain, [&](int64_t begin, int64_t end) {
      for (int64_t c = begin; c < end; ++c) body(c);
    });
  }
};

// Per-channel numbers of any dtype; a 0-d tensor stands for none.
class Numbers {
 public:
  Numbers(const Tensor& t, double none) : none_(none) {
    if (t.rank() == 0) return;
    values_ = Tensor::empty(t.shape(), DType::Float64);
    copy_into(t, values_);
  }
  double operator[](int64_t i) const { return values_ ? values_.ptr<double>()[i] : none_; }

 private:
  Tensor values_;
  double none_;
};

// The pairwise tree over the values of rows [first, last).
template <class T, class F>
T sum_rows(int64_t first, int64_t last, const F& value) {
  if (last - first == 1) return value(first);
  const int64_t middle = first + (last - first + 1) / 2;
  const T left = sum_rows<T>(first, middle, value);
  return left + sum_rows<T>(middle, last, value);
}

using Sum = void (*)(const ChannelRow&, void*);

// The sum of a kernel's values over the rows of channel c; `row` holds what they share.
template <class T>
T sum_channel(const Layout& l, int64_t c, ChannelRow row, const char* x, const char* g, Sum sum) {
  if (l.outer == 0) return 0;
  return sum_rows<T>(0, l.outer, [&](int64_t i) {
    row.x = x + l.offset(i, c);
    row.grad = g + l.offset(i, c);
    T value;
    sum(row, &value);
    return value;
  });
}

// The plain sum of a row, as the other sums are called.
template <class T>
void add_up(const ChannelRow& row, void* out) {
  constexpr int kDtype = static_cast<int>(sizeof(T) == 4 ? DType::Float32 : DType::Float64);
  kernels().reduce->row[static_cast<int>(Reduction::Sum)][kDtype](row.x, row.n, out);
}

template <class T>
void forward(const KernelCall& call, const Layout& l, double eps) {
  const Tensor &out = call.outputs[0], x = l.dense(call.inputs[0]), y = l.target(out);
  const Numbers weight(call.inputs[1], 1), bias(call.inputs[2], 0);
  T* stats = call.outputs[1].ptr<T>();
  const int d = static_cast<int>(l.dtype);
  const auto& table = *kernels().batch_norm;
  l.for_channels([&](int64_t c) {
    const T count = static_cast<T>(l.count());
    const T mean = sum_channel<T>(l, c, {.n = l.n}, x.data(), x.data(), add_up<T>) / count;
    const ChannelRow centred{.n = l.n, .mean = mean};
    const T var = sum_channel<T>(l, c, centred, x.data(), x.data(), table.squares[d]) / count;
    const T scale = 1 / std::sqrt(var + static_cast<T>(eps));
    stats[3 * c] = mean;
    stats[3 * c + 1] = scale;
    stats[3 * c + 2] = var;
    for (int64_t i = 0; i < l.outer; ++i) {
      const int64_t at = l.offset(i, c);
      table.forward[d]({.n = l.n,
                        .mean = mean,
                        .scale = scale,
                        .weight = weight[c],
                        .bias = bias[c],
                        .x = x.data() + at},
                       y.data() + at);
    }
  });
  l.finish(y, out);
}

template <class T>
void params(const KernelCall& call, const Layout& l) {
  const Tensor g = l.dense(call.inputs[0]), x = l.dense(call.inputs[1]);
  const Numbers stats(call.inputs[2], 0);
  const Tensor sums = Tensor::empty(Dims{2, l.channels}, l.dtype, x.device());
  const Sum dot = kernels().batch_norm->dot[static_cast<int>(l.dtype)];
  l.for_channels([&](int64_t c) {
    const ChannelRow row{.n = l.n, .mean = stats[3 * c], .scale = stats[3 * c + 1]};
    sums.ptr<T>()[c] = sum_channel<T>(l, c, row, x.data(), g.data(), dot);
    sums.ptr<T>()[l.channels + c] = sum_channel<T>(l, c, row, g.data(), g.data(), add_up<T>);
  });
  for (int i = 0; i < 2; ++i) {
    const Tensor& to = call.outputs[i];
    copy_into(sums.view(to.shape(), to.strides(), i * l.channels), to);
  }
}

}  // namespace

void kernel_batch_norm(const KernelCall& call) {
  const Layout l(call.inputs[0]);
  const double eps = AttrReader(call.attrs).real();
  if (l.dtype == DType::Float32) return forward<float>(call, l, eps);
  forward<double>(call, l, eps);
}

void kernel_batch_norm_params(const KernelCall& call) {
  const Layout l(call.inputs[1]);
  if (l.dtype == DType::Float32) return params<float>(call, l);
  params<double>(call, l);
}

void kernel_batch_norm_input(const KernelCall& call) {
  const Layout l(call.inputs[1]);
  const Tensor& out = call.outputs[0];
  const Tensor g = l.dense(call.inputs[0]), x = l.dense(call.inputs[1]), dx = l.target(out);
  const Numbers stats(call.inputs[2], 0), weight(call.inputs[3], 1);
  const Numbers dw(call.inputs[4], 0), db(call.inputs[5], 0);
  const auto input = kernels().batch_norm->input[static_cast<int>(l.dtype)];
  const auto count = static_cast<double>(l.count());
  l.for_channels([&](int64_t c) {
    ChannelRow row{.n = l.n,
                   .mean = stats[3 * c],
                   .scale = stats[3 * c + 1],
                   .weight = weight[c],
                   .shift = db[c] / count,
                   .slope = dw[c] / count};
    for (int64_t i = 0; i < l.outer; ++i) {
      const int64_t at = l.offset(i, c);
      row.x = x.data() + at;
      row.grad = g.data() + at;
      input(row, dx.data() + at);
    }
  });
  l.finish(dx, out);
}

}  // namespace tinyt::cpu
