#include "cpu/norm/cross_entropy.h"

#include <algorithm>
#include <vector>

#include "cpu/copy/copy.h"
#include "cpu/reduce/line_iterator.h"
#include "cpu/schedule/levels.h"

namespace tinyt::cpu {
namespace {

constexpr int64_t kSumBlock = 4096;  // losses summed one after another

enum LossReduction { kNone = 0, kMean = 1, kSum = 2 };

// The classes, targets and weights of one call.
struct ClassSizes {
  size_t dim;
  int64_t classes, ignored, reduction;
  DType dtype;  // that the kernels compute in

  ClassSizes(const KernelCall& call, const Tensor& x)
      : dim(x.rank() > 1 ? 1 : 0), classes(x.size(dim)), dtype(info(x.dtype()).compute) {
    AttrReader read(call.attrs);
    ignored = read.integer();
    reduction = read.integer();
  }
  int64_t bytes(const Tensor& target, const Tensor& weight) const {
    return dense_bytes(target) + (weight.rank() == 0 ? 0 : dense_bytes(weight, dtype));
  }
};

struct Classes : ClassSizes {
  Tensor target, weight;

  Classes(const KernelCall& call, const Tensor& x, const Tensor& target_, const Tensor& weight_)
      : ClassSizes(call, x),
        target(as_contiguous(target_)),
        weight(weight_.rank() == 0 ? Tensor() : dense_as(weight_, dtype)) {
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

// The losses and statistics of columns [first, first + count).
template <class T>
void forward_strip(const Classes& at, int64_t first, int64_t count, const Source& x, char* tile,
                   T* stats, T* losses) {
  alignas(64) T top[kStripColumns], log_sum[kStripColumns];
  const int64_t step = count * static_cast<int64_t>(sizeof(T));
  kernels().softmax->strip_log_sum[static_cast<int>(at.dtype)]({.n = at.classes,
                                                                .count = count,
                                                                .in = x.data,
                                                                .step = x.step,
                                                                .work = tile,
                                                                .work_step = step,
                                                                .top = top,
                                                                .log_sum = log_sum});
  for (int64_t i = 0; i < count; ++i) {
    const int64_t row = first + i;
    if (!at.used(row)) continue;
    stats[2 * row] = top[i];
    stats[2 * row + 1] = log_sum[i];
    const T value = reinterpret_cast<const T*>(tile + at.class_of(row) * step)[i];
    losses[row] = (log_sum[i] - (value - top[i])) * at.template weight_of<T>(row);
  }
}

// The gradients of columns [first, first + count).
template <class T, class F>
void backward_strip(const Classes& at, int64_t first, int64_t count, const Source& x,
                    const Target& out, const T* stats, const F& share) {
  alignas(64) T top[kStripColumns] = {}, log_sum[kStripColumns] = {}, scale[kStripColumns] = {};
  for (int64_t i = 0; i < count; ++i) {
    const int64_t row = first + i;
    top[i] = stats[2 * row];
    log_sum[i] = stats[2 * row + 1];
    scale[i] = at.used(row) ? share(row) : T{0};
  }
  kernels().softmax->strip_slopes[static_cast<int>(at.dtype)]({.n = at.classes,
                                                               .count = count,
                                                               .in = x.data,
                                                               .step = x.step,
                                                               .top = top,
                                                               .log_sum = log_sum,
                                                               .scale = scale,
                                                               .out = out.data,
                                                               .out_step = out.step});
  for (int64_t i = 0; i < count; ++i) {
    const auto slope = [&](int64_t k) -> T& {
      return reinterpret_cast<T*>(out.data + k * out.step)[i];
    };
    if (at.used(first + i)) {
      slope(at.class_of(first + i)) -= scale[i];
    } else {
      for (int64_t k = 0; k < at.classes; ++k) slope(k) = 0;
    }
  }
}

// The lines of either direction, and the bytes of a tile for each of their elements.
struct LossLines {
  LineCut cut;
  Lines lines;
  int64_t item;

  LossLines(const Tensor& x, size_t dim, DType dtype)
      : cut({&x}, dim), lines(x, dim, dtype, cut), item(static_cast<int64_t>(size_of(dtype))) {}
  int64_t room() const { return !cut.columns() && lines.in_place() ? 0 : item; }
};
struct SlopeLines {
  LineCut cut;
  Lines from, to;
  int64_t item;

  SlopeLines(const Tensor& x, const Tensor& out, size_t dim, DType dtype)
      : cut({&x, &out}, dim),
        from(x, dim, dtype, cut),
        to(out, dim, dtype, cut),
        item(static_cast<int64_t>(size_of(dtype))) {}
  int64_t room() const { return from.in_place() && to.in_place() ? 0 : item; }
};

// Whether losses are results as they are.
bool is_direct(int64_t reduction, const Tensor& out, DType dtype) {
  return reduction == kNone && out.dtype() == dtype;
}

// The losses and statistics of all rows.
template <class T>
void forward_lines(const Tensor& x, const Classes& at, T* stats, T* losses) {
  const LossLines job(x, at.dim, at.dtype);
  const LineCut& cut = job.cut;
  const Lines& lines = job.lines;
  const auto log_sum = kernels().softmax->log_sum[static_cast<int>(at.dtype)];
  cut.run(job.room(), [&](int64_t first, int64_t count, char* tile) {
    const Source in(lines, first, count, tile);
    if (cut.columns()) return forward_strip<T>(at, first, count, in, tile, stats, losses);
    for (int64_t row = first; row < first + count; ++row) {
      if (!at.used(row)) continue;
      const auto* logits = reinterpret_cast<const T*>(in.data + (row - first) * in.step);
      T* of_row = stats + 2 * row;
      log_sum({.n = at.classes, .in = logits, .out = of_row});
      losses[row] =
          (of_row[1] - (logits[at.class_of(row)] - of_row[0])) * at.template weight_of<T>(row);
    }
  });
}

template <class T>
void forward(const KernelCall& call, const Classes& at) {
  const Tensor &x = call.inputs[0], &out = call.outputs[0];
  const int64_t rows = at.target.numel();
  T* stats = call.outputs[1].ptr<T>();
  std::fill_n(stats, 2 * rows, T{0});  // without rows a pointer may be null
  const bool direct = is_direct(at.reduction, out, at.dtype);
  const Tensor each = direct ? out : Tensor::empty(Dims{rows}, at.dtype, out.device());
  T* losses = each.ptr<T>();
  std::fill_n(losses, rows, T{0});
  if (x.numel() != 0) forward_lines<T>(x, at, stats, losses);
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
void backward(const KernelCall& call, const Classes& at) {
  const Tensor &x = call.inputs[1], &out = call.outputs[0];
  const Tensor grad = dense_as(call.inputs[0], at.dtype), kept = dense_as(call.inputs[4], at.dtype);
  const T *g = grad.ptr<const T>(), *stats = kept.ptr<const T>();
  const T total = stats[2 * at.target.numel()];
  const auto share = [&](int64_t row) {
    const T weighted = g[at.reduction == kNone ? row : 0] * at.template weight_of<T>(row);
    return at.reduction == kMean ? weighted / total : weighted;
  };
  const auto slopes = kernels().softmax->slopes[static_cast<int>(at.dtype)];
  const SlopeLines job(x, out, at.dim, at.dtype);
  const LineCut& cut = job.cut;
  const Lines &from = job.from, &to = job.to;
  cut.run(job.room(), [&](int64_t first, int64_t count, char* tile) {
    const Source in(from, first, count, tile);
    const Target target(to, first, count, tile);
    if (cut.columns()) {
      backward_strip<T>(at, first, count, in, target, stats, share);
    } else {
      for (int64_t row = first; row < first + count; ++row) {
        auto* slope = reinterpret_cast<T*>(target.data + (row - first) * target.step);
        if (!at.used(row)) {
          std::fill_n(slope, at.classes, T{0});
          continue;
        }
        slopes({.n = at.classes,
                .in = in.data + (row - first) * in.step,
                .sums = stats + 2 * row,
                .wanted = at.class_of(row),
                .scale = double{share(row)},
                .out = slope,
                .stream = target.stream});
      }
    }
    target.finish();
  });
}

}  // namespace

void kernel_softmax_nll(const KernelCall& call) {
  const Classes at(call, call.inputs[0], call.inputs[1], call.inputs[2]);
  at.dtype == DType::Float64 ? forward<double>(call, at) : forward<float>(call, at);
}

void kernel_softmax_nll_input(const KernelCall& call) {
  if (call.outputs[0].numel() == 0) return;
  const Classes at(call, call.inputs[1], call.inputs[2], call.inputs[3]);
  at.dtype == DType::Float64 ? backward<double>(call, at) : backward<float>(call, at);
}

int64_t workspace_softmax_nll(const KernelCall& call) {
  const Tensor &x = call.inputs[0], &target = call.inputs[1];
  const ClassSizes at(call, x);
  const auto item = static_cast<int64_t>(size_of(at.dtype));
  const int64_t each =
      is_direct(at.reduction, call.outputs[0], at.dtype) ? 0 : target.numel() * item;
  const LossLines job(x, at.dim, at.dtype);
  const int64_t result = at.reduction == kNone ? 0 : item;
  return at.bytes(target, call.inputs[2]) + each +
         std::max(x.numel() == 0 ? 0 : job.cut.workspace(job.room()), result);
}

int64_t workspace_softmax_nll_input(const KernelCall& call) {
  const Tensor &x = call.inputs[1], &out = call.outputs[0];
  if (out.numel() == 0) return 0;
  const ClassSizes at(call, x);
  const SlopeLines job(x, out, at.dim, at.dtype);
  return at.bytes(call.inputs[2], call.inputs[3]) + dense_bytes(call.inputs[0], at.dtype) +
         dense_bytes(call.inputs[4], at.dtype) + job.cut.workspace(job.room());
}

}  // namespace tinyt::cpu
