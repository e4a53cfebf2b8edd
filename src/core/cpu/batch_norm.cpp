#include "batch_norm.h"

#include <cmath>
#include <limits>

#include "../parallel.h"
#include "moments.h"
#include "norm_parts.h"

namespace tinyt::cpu {
namespace {

constexpr int64_t kColumnsOfTask = 256;  // of kColumnBlock rows

// x as rows of n elements: row (i, c) starts at (i * channels + c) * n. Where those are short, x is
// `outer` rows of channels * n columns, each with the numbers of its channel.
struct Layout {
  int64_t outer, channels, n = 1;
  DType dtype;
  int64_t size;  // bytes of an element in the kernels

  explicit Layout(const Tensor& x)
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

  template <class F>
  void for_channels(F&& body) const {
    parallel_ranges(channels, norm_grain(count()), [&](int64_t begin, int64_t end) {
      for (int64_t c = begin; c < end; ++c) body(c);
    });
  }
};

// The statistics [channels, 3] of a call: mean, 1 / sqrt(var + eps) and var.
template <class T>
struct Stats {
  T* values;
  T eps;

  T mean(int64_t c) const { return values[3 * c]; }
  T scale(int64_t c) const { return values[3 * c + 1]; }
  void set(int64_t c, T mean, T var) const {
    values[3 * c] = mean;
    values[3 * c + 1] = 1 / std::sqrt(var + eps);
    values[3 * c + 2] = var;
  }
};

// ---- rows

// Sums of g h and of g.
template <class T>
struct Sums {
  T dot, total;
  Sums operator+(const Sums& other) const { return {dot + other.dot, total + other.total}; }
};

// The pairwise tree over the values of rows [first, last).
template <class V, class F>
V sum_rows(int64_t first, int64_t last, const F& value) {
  if (last - first == 1) return value(first);
  const int64_t middle = first + (last - first + 1) / 2;
  const V left = sum_rows<V>(first, middle, value);
  return left + sum_rows<V>(middle, last, value);
}

// The sum of a kernel's values over the rows of channel c; `row` holds what they share.
template <class V>
V sum_channel(const Layout& l, int64_t c, ChannelRow row, const char* x, const char* g,
              void (*sum)(const ChannelRow&, void*)) {
  if (l.outer == 0) return {};
  return sum_rows<V>(0, l.outer, [&](int64_t i) {
    row.x = x + l.offset(i, c);
    row.grad = g + l.offset(i, c);
    V value;
    sum(row, &value);
    return value;
  });
}

template <class T>
void forward_rows(const Layout& l, const char* x, const T* weight, const T* bias, bool training,
                  const Stats<T>& stats, char* y, bool stream) {
  const auto& table = *kernels().batch_norm;
  const T count = static_cast<T>(l.count());
  l.for_channels([&](int64_t c) {
    if (training) {
      const auto found = sum_channel<Moments<T>>(l, c, {.n = l.n}, x, x, table.moments[l.index()]);
      const T none = std::numeric_limits<T>::quiet_NaN();
      stats.set(c, count > 0 ? found.mean : none, found.squares / count);
    }
    ChannelRow row{.n = l.n,
                   .mean = stats.mean(c),
                   .scale = stats.scale(c),
                   .weight = weight[c],
                   .bias = bias[c],
                   .stream = stream};
    for (int64_t i = 0; i < l.outer; ++i) {
      row.x = x + l.offset(i, c);
      table.forward[l.index()](row, y + l.offset(i, c));
    }
    end_streams(stream);
  });
}

template <class T>
void backward_rows(const Layout& l, const char* x, const char* g, const T* weight, bool training,
                   const Stats<T>& stats, char* dx, bool stream, T* params) {
  const auto& table = *kernels().batch_norm;
  const T count = static_cast<T>(l.count());
  l.for_channels([&](int64_t c) {
    ChannelRow row{.n = l.n,
                   .mean = stats.mean(c),
                   .scale = stats.scale(c),
                   .weight = weight[c],
                   .stream = stream};
    const auto sums = sum_channel<Sums<T>>(l, c, row, x, g, table.sums[l.index()]);
    params[c] = sums.dot;
    params[l.channels + c] = sums.total;
    if (training) {
      row.shift = weight[c] * (sums.total / count);
      row.slope = weight[c] * (sums.dot / count);
    }
    for (int64_t i = 0; i < l.outer && dx != nullptr; ++i) {
      row.x = x + l.offset(i, c);
      row.grad = g + l.offset(i, c);
      table.input[l.index()](row, dx + l.offset(i, c));
    }
    end_streams(stream);
  });
}

// ---- columns

template <class T>
class Columns {
 public:
  using Kernel = void (*)(const ChannelColumns&);

  explicit Columns(const Layout& l) : l_(l) {}

  // One value of each channel for its columns.
  template <class F>
  Tensor spread(const F& value) const {
    Tensor values = Tensor::empty(Dims{l_.width()}, l_.dtype);
    for (int64_t c = 0; c < l_.channels; ++c) {
      std::fill_n(values.ptr<T>() + c * l_.n, l_.n, value(c));
    }
    return values;
  }

  // The kernel on all rows and columns of `all`.
  void run(const ChannelColumns& all, Kernel kernel) const {
    for_each_block([&](int64_t, int64_t row, int64_t rows, int64_t col, int64_t cols) {
      ChannelColumns part = cut(all, row, rows, col, cols);
      part.out = static_cast<T*>(all.out) + row * all.step + col;
      kernel(part);
    });
  }

  // The kernel's sums over all rows and the columns of each channel.
  Tensor sums(const ChannelColumns& all, Kernel kernel) const {
    const int64_t width = l_.width();
    const Tensor found = Tensor::empty(Dims{std::max<int64_t>(1, blocks()), width}, l_.dtype);
    T* values = found.ptr<T>();
    if (blocks() == 0) std::fill_n(values, width, T{0});
    for_each_block([&](int64_t block, int64_t row, int64_t rows, int64_t col, int64_t cols) {
      ChannelColumns part = cut(all, row, rows, col, cols);
      part.out = values + block * width + col;
      kernel(part);
    });
    add_blocks(values, blocks(), width);
    for (int64_t c = 0; c < l_.channels && l_.n > 1; ++c) {
      T total = values[c * l_.n];
      for (int64_t i = 1; i < l_.n; ++i) total += values[c * l_.n + i];
      values[c] = total;
    }
    return found;
  }

 private:
  int64_t blocks() const { return ceil_div(l_.outer, kColumnBlock); }

  // body(block, row, rows, col, cols) for blocks of rows and parts of the columns.
  template <class F>
  void for_each_block(const F& body) const {
    const int64_t width = l_.width(), parts = ceil_div(width, kColumnsOfTask);
    const int64_t work = std::min(l_.outer, kColumnBlock) * std::min(width, kColumnsOfTask);
    parallel_ranges(blocks() * parts, norm_grain(work), [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        const int64_t block = task / parts, row = block * kColumnBlock;
        const int64_t col = task % parts * kColumnsOfTask;
        body(block, row, std::min(kColumnBlock, l_.outer - row), col,
             std::min(kColumnsOfTask, width - col));
      }
    });
  }

  ChannelColumns cut(ChannelColumns part, int64_t row, int64_t rows, int64_t col,
                     int64_t cols) const {
    const auto move = [](const void*& p, int64_t by) {
      if (p != nullptr) p = static_cast<const T*>(p) + by;
    };
    part.rows = rows;
    part.cols = cols;
    for (const void** p :
         {&part.mean, &part.scale, &part.weight, &part.bias, &part.shift, &part.slope}) {
      move(*p, col);
    }
    move(part.x, row * part.step + col);
    move(part.grad, row * part.step + col);
    return part;
  }

  const Layout& l_;
};

template <class T>
void forward_columns(const Layout& l, const char* x, const T* weight, const T* bias, bool training,
                     const Stats<T>& stats, char* y) {
  const auto& table = *kernels().batch_norm;
  const Columns<T> columns(l);
  ChannelColumns all{.step = l.width(), .x = x, .out = y};
  Tensor mean;
  if (training) {
    const T count = static_cast<T>(l.count());
    const Tensor sums = columns.sums(all, table.column_sums[l.index()]);
    mean = columns.spread([&](int64_t c) { return sums.ptr<const T>()[c] / count; });
    all.mean = mean.data();
    const Tensor squares = columns.sums(all, table.column_squares[l.index()]);
    for (int64_t c = 0; c < l.channels; ++c) {
      stats.set(c, mean.ptr<const T>()[c * l.n], squares.ptr<const T>()[c] / count);
    }
  } else {
    mean = columns.spread([&](int64_t c) { return stats.mean(c); });
    all.mean = mean.data();
  }
  const Tensor scale = columns.spread([&](int64_t c) { return stats.scale(c); });
  const Tensor w = columns.spread([&](int64_t c) { return weight[c]; });
  const Tensor b = columns.spread([&](int64_t c) { return bias[c]; });
  all.scale = scale.data();
  all.weight = w.data();
  all.bias = b.data();
  columns.run(all, table.column_forward[l.index()]);
}

template <class T>
void backward_columns(const Layout& l, const char* x, const char* g, const T* weight, bool training,
                      const Stats<T>& stats, char* dx, T* params) {
  const auto& table = *kernels().batch_norm;
  const Columns<T> columns(l);
  const Tensor mean = columns.spread([&](int64_t c) { return stats.mean(c); });
  const Tensor scale = columns.spread([&](int64_t c) { return stats.scale(c); });
  const Tensor w = columns.spread([&](int64_t c) { return weight[c]; });
  ChannelColumns all{.step = l.width(),
                     .mean = mean.data(),
                     .scale = scale.data(),
                     .weight = w.data(),
                     .x = x,
                     .grad = g,
                     .out = dx};
  const Tensor dots = columns.sums(all, table.column_dots[l.index()]);
  ChannelColumns plain{.step = l.width(), .x = g};
  const Tensor totals = columns.sums(plain, table.column_sums[l.index()]);
  std::copy_n(dots.ptr<const T>(), l.channels, params);
  std::copy_n(totals.ptr<const T>(), l.channels, params + l.channels);
  if (dx == nullptr) return;
  const T count = static_cast<T>(l.count());
  const auto share = [&](T sum, int64_t c) { return training ? weight[c] * (sum / count) : T{0}; };
  const Tensor shift = columns.spread([&](int64_t c) { return share(params[l.channels + c], c); });
  const Tensor slope = columns.spread([&](int64_t c) { return share(params[c], c); });
  all.shift = shift.data();
  all.slope = slope.data();
  columns.run(all, table.column_input[l.index()]);
}

// ---- both

template <class T>
void forward(const KernelCall& call, const Layout& l) {
  const Tensor &out = call.outputs[0], x = dense_as(call.inputs[0], l.dtype);
  const Tensor y = target(out, l.dtype);
  const Tensor weight = per_channel<T>(call.inputs[1], l.dtype, l.channels, 1);
  const Tensor bias = per_channel<T>(call.inputs[2], l.dtype, l.channels, 0);
  const bool training = !given(call.inputs[3]);
  const Stats<T> stats{call.outputs[1].ptr<T>(), static_cast<T>(AttrReader(call.attrs).real())};
  if (!training) {
    const Tensor mean = dense_as(call.inputs[3], l.dtype), var = dense_as(call.inputs[4], l.dtype);
    for (int64_t c = 0; c < l.channels; ++c) {
      stats.set(c, mean.ptr<const T>()[c], var.ptr<const T>()[c]);
    }
  }
  const T *w = weight.ptr<const T>(), *b = bias.ptr<const T>();
  if (l.columns()) {
    forward_columns<T>(l, x.data(), w, b, training, stats, y.data());
  } else {
    const bool stream = streams(y, out, l.n * l.size);
    forward_rows<T>(l, x.data(), w, b, training, stats, y.data(), stream);
  }
  finish(y, out);
}

template <class T>
void backward(const KernelCall& call, const Layout& l) {
  const Tensor& out = call.outputs[0];
  const Tensor g = dense_as(call.inputs[0], l.dtype), x = dense_as(call.inputs[1], l.dtype);
  const Tensor kept = dense_as(call.inputs[2], l.dtype), dx = target(out, l.dtype);
  const Tensor weight = per_channel<T>(call.inputs[3], l.dtype, l.channels, 1);
  const Stats<T> stats{kept.ptr<T>(), 0};
  AttrReader read(call.attrs);
  const bool training = read.flag(), wanted = read.flag();
  char* to = wanted ? dx.data() : nullptr;
  const T* w = weight.ptr<const T>();
  T* params = call.outputs[1].ptr<T>();
  if (l.columns()) {
    backward_columns<T>(l, x.data(), g.data(), w, training, stats, to, params);
  } else {
    const bool stream = streams(dx, out, l.n * l.size);
    backward_rows<T>(l, x.data(), g.data(), w, training, stats, to, stream, params);
  }
  finish(dx, out);
}

}  // namespace

void kernel_batch_norm(const KernelCall& call) {
  const Layout l(call.inputs[0]);
  if (l.dtype == DType::Float32) return forward<float>(call, l);
  forward<double>(call, l);
}

void kernel_batch_norm_backward(const KernelCall& call) {
  const Layout l(call.inputs[1]);
  if (l.dtype == DType::Float32) return backward<float>(call, l);
  backward<double>(call, l);
}

}  // namespace tinyt::cpu
