#include "cpu/norm/group_norm.h"

#include "core/base/parallel.h"
#include "cpu/norm/norm_parts.h"

namespace tinyt::cpu {
namespace {

// x as rows of n elements, `groups` of them a sample; a row is `members` channels of `space`
// elements each. Where those are few, weight and bias are repeated for every element of a channel.
struct Groups {
  int64_t batch, channels, groups, members, space = 1, n;
  DType dtype;
  int64_t size;  // bytes of an element in the kernels

  Groups(const Tensor& x, int64_t groups_)
      : batch(x.size(0)),
        channels(x.size(1)),
        groups(groups_),
        members(channels / groups),
        dtype(info(x.dtype()).compute),
        size(static_cast<int64_t>(size_of(dtype))) {
    for (int64_t d = 2; d < x.rank(); ++d) space *= x.size(d);
    n = members * space;
  }
  bool by_channel() const { return space >= kShortest; }
  int64_t repeat() const { return by_channel() ? 1 : space; }
  int64_t run() const { return by_channel() ? space : n; }  // of elements written at once
  int index() const { return static_cast<int>(dtype); }
  // Two sums of each channel of each sample.
  Dims sums() const { return {batch, channels, 2}; }
  int64_t sum_bytes() const { return numel_of(sums()) * size; }

  // body(row, channel): all rows, and the first channel of each.
  template <class F>
  void for_rows(F&& body) const {
    parallel_ranges(batch * groups, norm_grain(n), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) body(r, r % groups * members);
    });
  }
};

template <class T>
void forward(const KernelCall& call, const Groups& s, double eps) {
  const Tensor &out = call.outputs[0], x = dense_as(call.inputs[0], s.dtype);
  const Tensor y = target(out, s.dtype);
  const Tensor weight = per_channel<T>(call.inputs[1], s.dtype, s.channels, 1, s.repeat());
  const Tensor bias = per_channel<T>(call.inputs[2], s.dtype, s.channels, 0, s.repeat());
  const T *w = weight.ptr<const T>(), *b = bias.ptr<const T>();
  const auto& norm = *kernels().norm;
  const auto scale_channel = kernels().batch_norm->forward[s.index()];
  const bool stream = streams(y, out, s.run() * s.size);
  s.for_rows([&](int64_t r, int64_t channel) {
    T *mean = call.outputs[1].ptr<T>() + r, *scale = call.outputs[2].ptr<T>() + r;
    const T* in = x.ptr<const T>() + r * s.n;
    T* to = y.ptr<T>() + r * s.n;
    NormRow row{
        .n = s.n, .eps = eps, .x = in, .mean = mean, .scale = scale, .out = to, .stream = stream};
    if (!s.by_channel()) {
      row.weight = w + channel * s.space;
      row.bias = b + channel * s.space;
      norm.forward[s.index()](row);
      return end_streams(stream);
    }
    norm.stats[s.index()](row);
    for (int64_t c = 0; c < s.members; ++c) {
      scale_channel({.n = s.space,
                     .mean = *mean,
                     .scale = *scale,
                     .weight = w[channel + c],
                     .bias = b[channel + c],
                     .x = in + c * s.space,
                     .stream = stream},
                    to + c * s.space);
    }
    end_streams(stream);
  });
  finish(y, out);
}

// One row's gradients: dx, and for each of its channels the sums of g h and of g.
template <class T>
struct RowGradient {
  const Groups& s;
  bool stream;
  const T *x, *g, *weight;
  T *mean, *scale;  // read alone
  T *dx, *sums;     // dx null: not asked for

  // Channel by channel: their sums make those of the row.
  void by_channel() const {
    const auto& table = *kernels().batch_norm;
    ChannelRow row{.n = s.space, .mean = *mean, .scale = *scale, .stream = stream};
    double total = 0, dot = 0;
    for (int64_t c = 0; c < s.members; ++c) {
      row.x = x + c * s.space;
      row.grad = g + c * s.space;
      table.sums[s.index()](row, sums + 2 * c);
      dot += double{weight[c]} * double{sums[2 * c]};
      total += double{weight[c]} * double{sums[2 * c + 1]};
    }
    if (dx == nullptr) return;
    const auto count = static_cast<double>(s.n);
    row.slope = dot / count;
    row.shift = total / count;
    for (int64_t c = 0; c < s.members; ++c) {
      row.weight = weight[c];
      row.x = x + c * s.space;
      row.grad = g + c * s.space;
      table.input[s.index()](row, dx + c * s.space);
    }
  }

  void by_element() const {
    if (dx != nullptr) {
      kernels().norm->backward[s.index()]({.n = s.n,
                                           .x = x,
                                           .grad = g,
                                           .weight = weight,
                                           .mean = mean,
                                           .scale = scale,
                                           .out = dx,
                                           .stream = stream});
    }
    for (int64_t c = 0; c < s.members; ++c) {
      T dot = 0, total = 0;
      for (int64_t i = c * s.space; i < (c + 1) * s.space; ++i) {
        dot += g[i] * ((x[i] - *mean) * *scale);
        total += g[i];
      }
      sums[2 * c] = dot;
      sums[2 * c + 1] = total;
    }
  }
};

template <class T>
void backward(const KernelCall& call, const Groups& s, bool wanted) {
  const Tensor& out = call.outputs[0];
  const Tensor g = dense_as(call.inputs[0], s.dtype), x = dense_as(call.inputs[1], s.dtype);
  const Tensor mean = dense_as(call.inputs[2], s.dtype), scale = dense_as(call.inputs[3], s.dtype);
  const Tensor dx = target(out, s.dtype);
  const Tensor weight = per_channel<T>(call.inputs[4], s.dtype, s.channels, 1, s.repeat());
  const Tensor sums = Tensor::empty(s.sums(), s.dtype);
  const bool stream = streams(dx, out, s.run() * s.size);
  s.for_rows([&](int64_t r, int64_t channel) {
    const RowGradient<T> row{.s = s,
                             .stream = stream,
                             .x = x.ptr<const T>() + r * s.n,
                             .g = g.ptr<const T>() + r * s.n,
                             .weight = weight.ptr<const T>() + channel * s.repeat(),
                             .mean = mean.ptr<T>() + r,
                             .scale = scale.ptr<T>() + r,
                             .dx = wanted ? dx.ptr<T>() + r * s.n : nullptr,
                             .sums = sums.ptr<T>() + 2 * r * s.members};
    s.by_channel() ? row.by_channel() : row.by_element();
    end_streams(stream);
  });
  finish(dx, out);
  T *of_weight = call.outputs[1].ptr<T>(), *of_bias = call.outputs[2].ptr<T>();
  for (int64_t c = 0; c < s.channels; ++c) {
    double dot = 0, total = 0;
    for (int64_t i = 0; i < s.batch; ++i) {
      const T* found = sums.ptr<const T>() + 2 * (i * s.channels + c);
      dot += double{found[0]};
      total += double{found[1]};
    }
    of_weight[c] = static_cast<T>(dot);
    of_bias[c] = static_cast<T>(total);
  }
}

}  // namespace

void kernel_group_norm(const KernelCall& call) {
  AttrReader read(call.attrs);
  const Groups s(call.inputs[0], read.integer());
  const double eps = read.real();
  if (s.dtype == DType::Float32) return forward<float>(call, s, eps);
  forward<double>(call, s, eps);
}

void kernel_group_norm_backward(const KernelCall& call) {
  AttrReader read(call.attrs);
  const Groups s(call.inputs[1], read.integer());
  const bool wanted = read.flag();
  if (s.dtype == DType::Float32) return backward<float>(call, s, wanted);
  backward<double>(call, s, wanted);
}

int64_t workspace_group_norm(const KernelCall& call) {
  const Groups s(call.inputs[0], AttrReader(call.attrs).integer());
  const auto weight = channel_bytes(call.inputs[1], s.dtype, s.channels, s.repeat());
  const auto bias = channel_bytes(call.inputs[2], s.dtype, s.channels, s.repeat());
  return dense_bytes(call.inputs[0], s.dtype) + target_bytes(call.outputs[0], s.dtype) +
         std::max(weight.most, weight.left + bias.most);
}

int64_t workspace_group_norm_backward(const KernelCall& call) {
  const Groups s(call.inputs[1], AttrReader(call.attrs).integer());
  const auto weight = channel_bytes(call.inputs[4], s.dtype, s.channels, s.repeat());
  int64_t bytes = target_bytes(call.outputs[0], s.dtype);
  for (const Tensor& x : call.inputs.first(4)) bytes += dense_bytes(x, s.dtype);
  return bytes + std::max(weight.most, weight.left + s.sum_bytes());
}

}  // namespace tinyt::cpu
