#include "cpu/norm/batch_norm.h"

#include <cmath>
#include <limits>

#include "cpu/norm/channel_rows.h"
#include "cpu/norm/norm_parts.h"
#include "cpu/reduce/moment_merge.h"
#include "cpu/reduce/reduce.h"

namespace tinyt::cpu {
namespace {

constexpr int64_t kColumnsOfTask = 256;  // of kColumnBlock rows

// The statistics of a call, one of each for every channel: mean, 1 / sqrt(var + eps) and var.
template <class T>
struct Stats {
  T *means, *scales, *variances;
  T eps;

  T mean(int64_t c) const { return means[c]; }
  T scale(int64_t c) const { return scales[c]; }
  void set(int64_t c, T mean, T var) const {
    means[c] = mean;
    scales[c] = 1 / std::sqrt(var + eps);
    variances[c] = var;
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

// The sum of a kernel's values over the rows of a channel; `row` holds what they share.
template <class V>
V sum_channel(const ChannelLayout& l, ChannelRow row, const ChannelRows& x, const ChannelRows& g,
              void (*sum)(const ChannelRow&, void*)) {
  if (l.outer == 0) return {};
  return sum_rows<V>(0, l.outer, [&](int64_t i) {
    row.x = x.row(i);
    row.grad = g.row(i);
    V value;
    sum(row, &value);
    return value;
  });
}

template <class T>
void forward_rows(const ChannelLayout& l, const ByChannel& all_x, const T* weight, const T* bias,
                  bool training, const Stats<T>& stats, const ByChannel& all_y, bool stream) {
  const auto& table = *kernels().batch_norm;
  const T count = static_cast<T>(l.count());
  l.for_channels(all_x.bytes() + all_y.bytes(), [&](int64_t c, char* memory) {
    const ChannelRows x = all_x.read(c, memory), y = all_y.rows(c, memory + all_x.bytes());
    if (training) {
      const auto found = sum_channel<Moments<T>>(l, {.n = l.n}, x, x, table.moments[l.index()]);
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
      row.x = x.row(i);
      table.forward[l.index()](row, y.row(i));
    }
    all_y.write(c, y);
    end_streams(stream);
  });
}

// `all_dx` may not be wanted. Where the statistics are given, x does not move it: it is g scaled as
// the forward kernel scales, by two numbers, less a mean of 0; adding -0.0 leaves the bits.
template <class T>
void backward_rows(const ChannelLayout& l, const ByChannel& all_x, const ByChannel& all_g,
                   const T* weight, bool training, const Stats<T>& stats, const ByChannel& all_dx,
                   bool wanted, bool stream, T* of_weight, T* of_bias) {
  const auto& table = *kernels().batch_norm;
  const T count = static_cast<T>(l.count());
  l.for_channels(all_x.bytes() + all_g.bytes() + all_dx.bytes(), [&](int64_t c, char* memory) {
    const ChannelRows x = all_x.read(c, memory), g = all_g.read(c, memory += all_x.bytes());
    ChannelRow row{.n = l.n,
                   .mean = stats.mean(c),
                   .scale = stats.scale(c),
                   .weight = weight[c],
                   .stream = stream};
    const auto sums = sum_channel<Sums<T>>(l, row, x, g, table.sums[l.index()]);
    of_weight[c] = sums.dot;
    of_bias[c] = sums.total;
    if (!wanted) return;
    if (training) {
      row.shift = weight[c] * (sums.total / count);
      row.slope = weight[c] * (sums.dot / count);
    } else {
      row = {.n = l.n, .scale = weight[c], .weight = row.scale, .bias = -0.0, .stream = stream};
    }
    const ChannelRows dx = all_dx.rows(c, memory + all_g.bytes());
    const auto kernel = training ? table.input[l.index()] : table.forward[l.index()];
    for (int64_t i = 0; i < l.outer; ++i) {
      row.x = (training ? x : g).row(i);
      row.grad = g.row(i);
      kernel(row, dx.row(i));
    }
    all_dx.write(c, dx);
    end_streams(stream);
  });
}

// ---- columns

template <class T>
class ColumnsOfChannels {
 public:
  using Kernel = void (*)(const ChannelColumns&);

  explicit ColumnsOfChannels(const ChannelLayout& l) : l_(l) {}

  // What spread and sums take.
  static int64_t spread_bytes(const ChannelLayout& l) { return l.width() * l.size; }
  static int64_t sums_bytes(const ChannelLayout& l) { return rows_of_sums(l) * l.width() * l.size; }

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
    const Tensor found = Tensor::empty(Dims{rows_of_sums(l_), width}, l_.dtype);
    T* values = found.ptr<T>();
    if (blocks() == 0) std::fill_n(values, width, T{0});
    for_each_block([&](int64_t block, int64_t row, int64_t rows, int64_t col, int64_t cols) {
      ChannelColumns part = cut(all, row, rows, col, cols);
      part.out = values + block * width + col;
      kernel(part);
    });
    add_parts(l_.dtype, values, blocks(), width);
    for (int64_t c = 0; c < l_.channels && l_.n > 1; ++c) {
      T total = values[c * l_.n];
      for (int64_t i = 1; i < l_.n; ++i) total += values[c * l_.n + i];
      values[c] = total;
    }
    return found;
  }

 private:
  int64_t blocks() const { return ceil_div(l_.outer, kColumnBlock); }
  static int64_t rows_of_sums(const ChannelLayout& l) {
    return std::max<int64_t>(1, ceil_div(l.outer, kColumnBlock));
  }

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

  const ChannelLayout& l_;
};

template <class T>
void forward_columns(const ChannelLayout& l, const char* x, const T* weight, const T* bias,
                     bool training, const Stats<T>& stats, char* y) {
  const auto& table = *kernels().batch_norm;
  const ColumnsOfChannels<T> columns(l);
  ChannelColumns all{.step = l.width(), .x = x, .out = y};
  Tensor mean;
  if (training) {
    const T count = static_cast<T>(l.count());
    const Tensor sums = columns.sums(all, table.column_sums[l.index()]);
    mean = columns.spread([&](int64_t c) { return sums.ptr<const T>()[c] / count; });
    all.mean = mean.host_data();
    const Tensor squares = columns.sums(all, table.column_squares[l.index()]);
    for (int64_t c = 0; c < l.channels; ++c) {
      stats.set(c, mean.ptr<const T>()[c * l.n], squares.ptr<const T>()[c] / count);
    }
  } else {
    mean = columns.spread([&](int64_t c) { return stats.mean(c); });
    all.mean = mean.host_data();
  }
  const Tensor scale = columns.spread([&](int64_t c) { return stats.scale(c); });
  const Tensor w = columns.spread([&](int64_t c) { return weight[c]; });
  const Tensor b = columns.spread([&](int64_t c) { return bias[c]; });
  all.scale = scale.host_data();
  all.weight = w.host_data();
  all.bias = b.host_data();
  columns.run(all, table.column_forward[l.index()]);
}

template <class T>
void backward_columns(const ChannelLayout& l, const char* x, const char* g, const T* weight,
                      bool training, const Stats<T>& stats, char* dx, T* of_weight, T* of_bias) {
  const auto& table = *kernels().batch_norm;
  const ColumnsOfChannels<T> columns(l);
  const Tensor mean = columns.spread([&](int64_t c) { return stats.mean(c); });
  const Tensor scale = columns.spread([&](int64_t c) { return stats.scale(c); });
  const Tensor w = columns.spread([&](int64_t c) { return weight[c]; });
  ChannelColumns all{.step = l.width(),
                     .mean = mean.host_data(),
                     .scale = scale.host_data(),
                     .weight = w.host_data(),
                     .x = x,
                     .grad = g,
                     .out = dx};
  const Tensor dots = columns.sums(all, table.column_dots[l.index()]);
  ChannelColumns plain{.step = l.width(), .x = g};
  const Tensor totals = columns.sums(plain, table.column_sums[l.index()]);
  std::copy_n(dots.ptr<const T>(), l.channels, of_weight);
  std::copy_n(totals.ptr<const T>(), l.channels, of_bias);
  if (dx == nullptr) return;
  if (!training) {
    const Tensor none = columns.spread([](int64_t) { return T{0}; });
    const Tensor bias = columns.spread([](int64_t) { return -T{0}; });
    all = {.step = l.width(),
           .mean = none.host_data(),
           .scale = w.host_data(),
           .weight = scale.host_data(),
           .bias = bias.host_data(),
           .x = g,
           .out = dx};
    return columns.run(all, table.column_forward[l.index()]);
  }
  const T count = static_cast<T>(l.count());
  const auto share = [&](T sum, int64_t c) { return weight[c] * (sum / count); };
  const Tensor shift = columns.spread([&](int64_t c) { return share(of_bias[c], c); });
  const Tensor slope = columns.spread([&](int64_t c) { return share(of_weight[c], c); });
  all.shift = shift.host_data();
  all.slope = slope.host_data();
  columns.run(all, table.column_input[l.index()]);
}

// ---- both

// Whether a result is written past the caches, row by row.
bool streams_rows(const ChannelLayout& l, const Tensor& out) {
  return streams(out, out, l.n * l.size);
}

template <class T>
void forward(const KernelCall& call, const ChannelLayout& l) {
  const Tensor &out = call.outputs[0], &x = call.inputs[0];
  const Tensor weight = per_channel<T>(call.inputs[1], l.dtype, l.channels, 1);
  const Tensor bias = per_channel<T>(call.inputs[2], l.dtype, l.channels, 0);
  const bool training = !given(call.inputs[3]);
  const Stats<T> stats{call.outputs[1].ptr<T>(), call.outputs[2].ptr<T>(), call.outputs[3].ptr<T>(),
                       static_cast<T>(AttrReader(call.attrs).real())};
  if (!training) {
    const Tensor mean = dense_as(call.inputs[3], l.dtype), var = dense_as(call.inputs[4], l.dtype);
    for (int64_t c = 0; c < l.channels; ++c) {
      stats.set(c, mean.ptr<const T>()[c], var.ptr<const T>()[c]);
    }
  }
  const T *w = weight.ptr<const T>(), *b = bias.ptr<const T>();
  if (!l.columns()) {
    const bool stream = out.dtype() == l.dtype && streams_rows(l, out);
    return forward_rows<T>(l, {l, x}, w, b, training, stats, {l, out}, stream);
  }
  const Tensor y = target(out, l.dtype);
  forward_columns<T>(l, dense_as(x, l.dtype).host_data(), w, b, training, stats, y.host_data());
  finish(y, out);
}

template <class T>
void backward(const KernelCall& call, const ChannelLayout& l) {
  const Tensor &out = call.outputs[0], &g = call.inputs[0], &x = call.inputs[1];
  const Tensor mean = dense_as(call.inputs[2], l.dtype), scale = dense_as(call.inputs[3], l.dtype);
  const Tensor weight = per_channel<T>(call.inputs[4], l.dtype, l.channels, 1);
  const Stats<T> stats{mean.ptr<T>(), scale.ptr<T>(), nullptr, 0};
  AttrReader read(call.attrs);
  const bool training = read.flag(), wanted = read.flag();
  const T* w = weight.ptr<const T>();
  T *of_weight = call.outputs[1].ptr<T>(), *of_bias = call.outputs[2].ptr<T>();
  if (!l.columns()) {
    const bool stream = out.dtype() == l.dtype && streams_rows(l, out);
    return backward_rows<T>(l, {l, x}, {l, g}, w, training, stats, {l, out}, wanted, stream,
                            of_weight, of_bias);
  }
  const Tensor dx = target(out, l.dtype);
  const Tensor dense_x = dense_as(x, l.dtype), dense_g = dense_as(g, l.dtype);
  backward_columns<T>(l, dense_x.host_data(), dense_g.host_data(), w, training, stats,
                      wanted ? dx.host_data() : nullptr, of_weight, of_bias);
  finish(dx, out);
}

}  // namespace

void kernel_batch_norm(const KernelCall& call) {
  const ChannelLayout l(call.inputs[0]);
  if (l.dtype == DType::Float32) return forward<float>(call, l);
  forward<double>(call, l);
}

void kernel_batch_norm_backward(const KernelCall& call) {
  const ChannelLayout l(call.inputs[1]);
  if (l.dtype == DType::Float32) return backward<float>(call, l);
  backward<double>(call, l);
}

int64_t workspace_batch_norm(const KernelCall& call) {
  using Columns = ColumnsOfChannels<float>;  // their bytes are of the layout's dtype
  const Tensor &out = call.outputs[0], &x = call.inputs[0];
  const ChannelLayout l(x);
  const bool training = !given(call.inputs[3]);
  const int64_t parts = channel_bytes(call.inputs[1], l.dtype, l.channels).left +
                        channel_bytes(call.inputs[2], l.dtype, l.channels).left;
  const int64_t stats =
      training ? 0 : dense_bytes(call.inputs[3], l.dtype) + dense_bytes(call.inputs[4], l.dtype);
  int64_t bytes = 0;
  if (!l.columns()) {
    bytes = dense_bytes(x) + dense_bytes(out) +
            l.workspace(ByChannel::bytes_of(l, x.dtype()) + ByChannel::bytes_of(l, out.dtype()));
  } else {
    const int64_t one = Columns::spread_bytes(l);
    const int64_t found = training ? one + 2 * Columns::sums_bytes(l) : 0;
    bytes = target_bytes(out, l.dtype) + dense_bytes(x, l.dtype) + std::max(4 * one, found);
  }
  return parts + std::max(stats, bytes);
}

int64_t workspace_batch_norm_backward(const KernelCall& call) {
  using Columns = ColumnsOfChannels<float>;
  const Tensor &out = call.outputs[0], &g = call.inputs[0], &x = call.inputs[1];
  const ChannelLayout l(x);
  AttrReader read(call.attrs);
  read.flag();  // training
  const bool wanted = read.flag();
  const int64_t parts = dense_bytes(call.inputs[2], l.dtype) +
                        dense_bytes(call.inputs[3], l.dtype) +
                        channel_bytes(call.inputs[4], l.dtype, l.channels).left;
  if (!l.columns()) {
    int64_t room = 0, copies = 0;
    for (const Tensor* t : {&x, &g, &out}) {
      room += ByChannel::bytes_of(l, t->dtype());
      copies += dense_bytes(*t);
    }
    return parts + copies + l.workspace(room);
  }
  return parts + target_bytes(out, l.dtype) + dense_bytes(x, l.dtype) + dense_bytes(g, l.dtype) +
         (wanted ? 5 : 3) * Columns::spread_bytes(l) + 2 * Columns::sums_bytes(l);
}

}  // namespace tinyt::cpu
