#include "cross_entropy.h"

#include <algorithm>
#include <vector>

#include "copy.h"
#include "levels.h"
#include "rows.h"

namespace tinyt::cpu {
namespace {

constexpr int64_t kSumBlock = 4096;  // losses summed one after another

enum Reduction { kNone = 0, kMean = 1, kSum = 2 };

Tensor dense(const Tensor& x, DType dtype) {
  if (x.dtype() == dtype && x.is_contiguous()) return x;
  Tensor copy = Tensor::empty(x.shape(), dtype, x.device());
  copy_into(x, copy);
  return copy;
}

// The classes, targets and weights of one call.
struct Classes {
  size_t dim;
  int64_t classes, ignored, reduction;
  DType dtype;  // that the kernels compute in
  Tensor target, weight;

  Classes(const KernelCall& call, const Tensor& x, const Tensor& target_, const Tensor& weight_)
      : dim(x.rank() > 1 ? 1 : 0),
        classes(x.size(dim)),
        dtype(info(x.dtype()).compute),
        target(as_contiguous(target_)),
        weight(weight_.rank() == 0 ? Tensor() : dense(weight_, dtype)) {
    AttrReader read(call.attrs);
    ignored = read.integer();
    reduction = read.integer();
    for (int64_t i = 0; i < target.numel(); ++i) {
      require(!used(i) || (class_of(i) >= 0 && class_of(i) < classes), ErrorKind::Index,
              name_of(call.op), ": index ", class_of(i), " is out of range for dimension ", dim,
              " of size ", classes);
    }
  }
  int64_t class_of(int64_t row) const { return target.ptr<const int64_t>()[row]; }
  bool used(int64_t row) const { return class_of(row) != ignored; }
  template <class T>
  T weight_of(int64_t row) const {
    return weight ? weight.ptr<const T>()[class_of(row)] : T{1};
  }
};

// The sum of value(row) for all rows: blocks in order, each in float64.
template <class F>
double sum_rows(int64_t rows, const F& value) {
  std::vector<double> parts(static_cast<size_t>(ceil_div(rows, kSumBlock)));
  parallel_ranges(static_cast<int64_t>(parts.size()), 4, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      double sum = 0;
      const int64_t last = std::min(rows, (b + 1) * kSumBlock);
      for (int64_t i = b * kSumBlock; i < last; ++i) sum += value(i);
      parts[static_cast<size_t>(b)] = sum;
    }
  });
  double total = 0;
  for (double part : parts) total += part;
  return total;
}

// Rows whose neighbours lie side by side, such as those of pixels: all dimensions but that of the
// classes, and the bytes from one class to the next.
struct Strips {
  Axes index;
  int64_t step;
  bool valid;

  Strips(const Tensor& x, const Classes& at)
      : step(x.stride(at.dim) * static_cast<int64_t>(x.itemsize())) {
    const auto item = static_cast<int64_t>(x.itemsize());
    for (size_t d = 0; d < x.shape().size(); ++d) {
      if (d != at.dim) index.add(x.size(d), x.stride(d) * item);
    }
    valid = x.dtype() == at.dtype && at.classes <= kRowBlock && index.stride() == item;
  }

  // body(row, count, byte offset): strips of rows [row, row + count).
  template <class F>
  void run(int64_t classes, int64_t item, const F& body) const {
    const int64_t grain = std::max<int64_t>(1, kChunkElements / classes / kStripRows) * kStripRows;
    parallel_ranges(index.size(), grain, [&](int64_t begin, int64_t end) {
      index.runs(begin, end - begin, [&](int64_t offset, int64_t position, int64_t length) {
        for (int64_t i = 0; i < length; i += kStripRows) {
          body(begin + position + i, std::min(kStripRows, length - i), offset + i * item);
        }
      });
    });
  }
};

// The losses and statistics of all rows, strip by strip.
template <class T>
void forward_strips(const Tensor& x, const Strips& strips, const Classes& at, T* stats, T* losses) {
  const auto kernel = kernels().softmax->log_sums[static_cast<int>(at.dtype)];
  strips.run(at.classes, sizeof(T), [&](int64_t row, int64_t count, int64_t offset) {
    alignas(64) T top[kStripRows], log_sum[kStripRows];
    const char* in = x.data() + offset;
    kernel({.n = at.classes,
            .count = count,
            .in = in,
            .step = strips.step,
            .top = top,
            .log_sum = log_sum});
    for (int64_t i = 0; i < count; ++i) {
      if (!at.used(row + i)) continue;
      stats[2 * (row + i)] = top[i];
      stats[2 * (row + i) + 1] = log_sum[i];
      const T value = reinterpret_cast<const T*>(in + at.class_of(row + i) * strips.step)[i];
      losses[row + i] = (log_sum[i] - (value - top[i])) * at.template weight_of<T>(row + i);
    }
  });
}

// The gradients of all rows, which lie side by side in both tensors.
template <class T, class F>
void backward_strips(const Tensor& x, const Strips& strips, const Tensor& out, const Strips& to,
                     const Classes& at, const T* stats, const F& share) {
  const auto kernel = kernels().softmax->strip_slopes[static_cast<int>(at.dtype)];
  strips.run(at.classes, sizeof(T), [&](int64_t first, int64_t total, int64_t offset) {
    to.index.runs(first, total, [&](int64_t to_offset, int64_t position, int64_t count) {
      alignas(64) T top[kStripRows] = {}, log_sum[kStripRows] = {}, scale[kStripRows] = {};
      const int64_t row = first + position;
      for (int64_t i = 0; i < count; ++i) {
        top[i] = stats[2 * (row + i)];
        log_sum[i] = stats[2 * (row + i) + 1];
        scale[i] = at.used(row + i) ? share(row + i) : T{0};
      }
      char* into = out.data() + to_offset;
      kernel({.n = at.classes,
              .count = count,
              .in = x.data() + offset + position * static_cast<int64_t>(sizeof(T)),
              .step = strips.step,
              .top = top,
              .log_sum = log_sum,
              .scale = scale,
              .out = into,
              .out_step = to.step});
      for (int64_t i = 0; i < count; ++i) {
        const auto slope = [&](int64_t k) -> T& {
          return reinterpret_cast<T*>(into + k * to.step)[i];
        };
        if (at.used(row + i)) {
          slope(at.class_of(row + i)) -= scale[i];
        } else {
          for (int64_t k = 0; k < at.classes; ++k) slope(k) = 0;
        }
      }
    });
  });
}

template <class T>
void forward(const KernelCall& call, const Classes& at,
             void (*log_sum)(const void*, int64_t, void*)) {
  const Tensor &x = call.inputs[0], &out = call.outputs[0];
  const int64_t rows = at.target.numel();
  T* stats = call.outputs[1].ptr<T>();
  std::fill_n(stats, 2 * rows, T{0});  // without rows a pointer may be null
  const bool direct = at.reduction == kNone && out.dtype() == at.dtype;
  const Tensor each = direct ? out : Tensor::empty(Dims{rows}, at.dtype, out.device());
  T* losses = each.ptr<T>();
  std::fill_n(losses, rows, T{0});
  const Tensor none;
  const Strips strips(x, at);
  if (x.numel() != 0 && strips.valid) {
    forward_strips(x, strips, at, stats, losses);
  } else if (x.numel() != 0) {
    Rows(x, none, at.dim, at.dtype).run([&](int64_t row, const void* in, void*) {
      if (!at.used(row)) return;
      T* of_row = stats + 2 * row;
      log_sum(in, at.classes, of_row);
      const T value = static_cast<const T*>(in)[at.class_of(row)];
      losses[row] = (of_row[1] - (value - of_row[0])) * at.template weight_of<T>(row);
    });
  }
  const double weights = sum_rows(
      rows, [&](int64_t i) { return at.used(i) ? double{at.template weight_of<T>(i)} : 0.0; });
  stats[2 * rows] = static_cast<T>(weights);
  if (at.reduction == kNone) {
    if (!direct) copy_into(each.view(out.shape(), out.strides(), 0), out);
    return;
  }
  const double total = sum_rows(rows, [losses](int64_t i) { return double{losses[i]}; });
  const Tensor result = Tensor::empty(Dims{}, at.dtype, out.device());
  *result.ptr<T>() = static_cast<T>(at.reduction == kMean ? total / weights : total);
  copy_into(result, out);
}

template <class T>
void backward(const KernelCall& call, const Classes& at,
              void (*slopes)(const void*, int64_t, const void*, double, void*)) {
  const Tensor &x = call.inputs[1], &out = call.outputs[0];
  const Tensor grad = dense(call.inputs[0], at.dtype), kept = dense(call.inputs[4], at.dtype);
  const T *g = grad.ptr<const T>(), *stats = kept.ptr<const T>();
  const T total = stats[2 * at.target.numel()];
  const auto share = [&](int64_t row) {
    const T weighted = g[at.reduction == kNone ? row : 0] * at.template weight_of<T>(row);
    return at.reduction == kMean ? weighted / total : weighted;
  };
  const Strips strips(x, at), to(out, at);
  if (strips.valid && to.valid) return backward_strips(x, strips, out, to, at, stats, share);
  Rows(x, out, at.dim, at.dtype).run([&](int64_t row, const void* in, void* to) {
    auto* slope = static_cast<T*>(to);
    if (!at.used(row)) {
      std::fill_n(slope, at.classes, T{0});
      return;
    }
    const T of_row = share(row);
    slopes(in, at.classes, stats + 2 * row, double{of_row}, to);
    slope[at.class_of(row)] -= of_row;
  });
}

}  // namespace

void kernel_softmax_nll(const KernelCall& call) {
  const Classes at(call, call.inputs[0], call.inputs[1], call.inputs[2]);
  const auto kernel = kernels().softmax->log_sum[static_cast<int>(at.dtype)];
  at.dtype == DType::Float64 ? forward<double>(call, at, kernel) : forward<float>(call, at, kernel);
}

void kernel_softmax_nll_input(const KernelCall& call) {
  if (call.outputs[0].numel() == 0) return;
  const Classes at(call, call.inputs[1], call.inputs[2], call.inputs[3]);
  const auto kernel = kernels().softmax->slopes[static_cast<int>(at.dtype)];
  at.dtype == DType::Float64 ? backward<double>(call, at, kernel)
                             : backward<float>(call, at, kernel);
}

}  // namespace tinyt::cpu
