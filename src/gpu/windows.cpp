// Windows of images: convolutions as products of columns, and the largest elements.
#include <array>

#include "core/ops/to_device.h"
#include "gpu/convolution.h"
#include "gpu/kernels.h"
#include "gpu/launch.h"
#include "gpu/map_kernel.h"
#include "gpu/matmul.h"
#include "gpu/scalar_source.h"

namespace tinyt::gpu {

namespace {

constexpr int64_t kColumnBytes = 64 << 20;  // of columns at a time, about

Tensor images_of(const Tensor& x, int64_t first, int64_t count) {
  Dims shape(x.shape());
  shape[0] = count;
  return x.view(shape, x.strides(), x.offset() + first * x.stride(0));
}

// What kernels over windows are told of a dimension.
struct Dim {
  std::string kernel, positions, size, stride, padding, dilation;
};

std::vector<Dim> dims_of(MapKernel& kernel, const ConvSizes& c) {
  std::vector<Dim> dims;
  for (size_t d = 0; d < c.rank(); ++d)
    dims.push_back({kernel.word(c.kernel[d]), kernel.word(c.positions[d]), kernel.word(c.source[d]),
                    kernel.word(c.stride[d]), kernel.word(c.padding[d]),
                    kernel.word(c.dilation[d])});
  return dims;
}

// What a thread takes of a row along the last dimension: all of it, or an element, where neighbours
// are other threads'.
int64_t piece_of(int64_t width, Device device) {
  const LaunchModel model = driver_of(device).launch_model(device.index);
  return model.by_element() ? 1 : std::max<int64_t>(1, width);
}

// Which "row" thread "i" takes a piece of, and that piece: from "from_j" up to "to_j".
void print_piece(SourceWriter& write, const std::string& width, const std::string& piece) {
  const ScalarType index = write.dialect().index;
  write.constant(index, "pieces", "(" + width + " + " + piece + " - 1) / " + piece);
  write.constant(index, "row", "i / pieces");
  write.constant(index, "from_j", "i % pieces * " + piece);
  write.limit(index, "to_j", "from_j + " + piece, width);
}

// [image, group, channel and tap, position] of some images, 0 beyond their borders. An element of
// the kernel is a piece of a row of positions along the last dimension.
Tensor columns_of(const Tensor& x, const ConvSizes& c) {
  const Tensor out =
      Tensor::empty(Dims{x.size(0), c.groups, c.rows(), c.places}, x.dtype(), x.device());
  const size_t last = c.rank() - 1;
  const int64_t width = c.positions[last], piece = piece_of(width, x.device());
  MapKernel kernel(x.device(), "columns " + std::to_string(c.rank()));
  const auto from = kernel.reads(x), to = kernel.writes(out);
  const std::string lines = kernel.word(c.places / std::max<int64_t>(1, width)),
                    taps = kernel.word(c.taps), channels = kernel.word(c.groups * c.in),
                    image = kernel.word(x.stride(0)), channel = kernel.word(x.stride(1)),
                    some = kernel.word(piece);
  std::vector<std::string> steps;
  for (size_t d = 0; d < c.rank(); ++d) steps.push_back(kernel.word(x.stride(d + 2)));
  const std::vector<Dim> dims = dims_of(kernel, c);
  const auto print = [&] {
    SourceWriter& write = kernel.write();
    const ScalarType index = kernel.dialect().index, type = held_type(x.dtype());
    print_piece(write, dims[last].positions, some);
    write.variable(index, "position", "row % " + lines);
    write.variable(index, "tap", "row / " + lines + " % " + taps);
    write.constant(index, "plane", "row / " + lines + " / " + taps);
    write.variable(
        index, "place",
        "plane / " + channels + " * " + image + " + plane % " + channels + " * " + channel);
    write.constant(
        index, "first",
        "tap % " + dims[last].kernel + " * " + dims[last].dilation + " - " + dims[last].padding);
    write.assign("tap", "tap / " + dims[last].kernel);
    write.variable(ScalarType::I32, "inside", "1");
    for (size_t d = last; d-- > 0;) {
      const std::string k = numbered("k", static_cast<int64_t>(d));
      write.constant(index, k,
                     "position % " + dims[d].positions + " * " + dims[d].stride + " + tap % " +
                         dims[d].kernel + " * " + dims[d].dilation + " - " + dims[d].padding);
      write.assign("position", "position / " + dims[d].positions);
      write.assign("tap", "tap / " + dims[d].kernel);
      write.open_if(k + " < 0 || " + k + " >= " + dims[d].size);
      write.assign("inside", "0");
      write.close();
      write.line("place += " + k + " * " + steps[d] + ";");
    }
    write.open_count(index, "j", "from_j", "to_j");
    write.constant(index, "k", "first + j * " + dims[last].stride);
    write.variable(type, "value", literal(type, 0, kernel.dialect()));
    write.open_if("inside != 0 && k >= 0 && k < " + dims[last].size);
    write.assign("value", kernel.value(from, "place + k * " + steps[last]));
    write.close();
    kernel.set(to, "row * " + dims[last].positions + " + j", "value");
    write.close();
  };
  kernel.run(width == 0 ? 0 : out.numel() / width * ceil_div(width, piece), print,
             std::max<int64_t>(1, 512 / (piece + 1)));
  return out;
}

// "position" of the columns' row that tap "tap" of the upper dimensions brings to "row", if any is
// "inside".
void print_tap(SourceWriter& write, const std::vector<Dim>& dims, const std::string& lines) {
  const ScalarType index = write.dialect().index;
  write.variable(index, "rest", "row % " + lines);
  write.variable(index, "rest_tap", "tap");
  write.variable(index, "position", "0");
  write.variable(index, "below", dims.back().positions);
  write.variable(ScalarType::I32, "inside", "1");
  for (size_t d = dims.size() - 1; d-- > 0;) {
    const std::string k = numbered("k", static_cast<int64_t>(d));
    write.constant(index, k,
                   "rest % " + dims[d].size + " + " + dims[d].padding + " - rest_tap % " +
                       dims[d].kernel + " * " + dims[d].dilation);
    write.assign("rest", "rest / " + dims[d].size);
    write.assign("rest_tap", "rest_tap / " + dims[d].kernel);
    write.open_if(k + " < 0 || " + k + " % " + dims[d].stride + " != 0 || " + k + " / " +
                  dims[d].stride + " >= " + dims[d].positions);
    write.assign("inside", "0");
    write.close();
    write.line("position += " + k + " / " + dims[d].stride + " * below;");
    write.line("below *= " + dims[d].positions + ";");
  }
}

// Each element of images is the sum of the columns' elements that were taken from it, in the order
// of the taps. An element of the kernel is a piece of a row along the last dimension.
void add_columns(const Tensor& columns, const ConvSizes& c, const Tensor& out) {
  const size_t last = c.rank() - 1;
  const int64_t width = c.source[last], piece = piece_of(width, out.device());
  need_turns(OpId::conv_backward_input, out.device(), c.taps * (piece + 2));
  MapKernel kernel(out.device(), "of columns " + std::to_string(c.rank()));
  const auto from = kernel.reads(columns), to = kernel.writes(out);
  const std::string lines = kernel.word(numel_of(c.source) / width),
                    taps = kernel.word(c.taps / c.kernel[last]), places = kernel.word(c.places),
                    some = kernel.word(piece);
  const std::vector<Dim> dims = dims_of(kernel, c);
  const auto print = [&] {
    SourceWriter& write = kernel.write();
    const ScalarType index = kernel.dialect().index;
    const DType dtype = out.dtype();
    const Dim& row = dims[last];
    const std::string target = "row * " + row.size + " + j";
    print_piece(write, row.size, some);
    write.constant(index, "plane", "row / " + lines);
    write.open_count(index, "j", "from_j", "to_j");
    kernel.set(to, target, literal(held_type(dtype), 0, kernel.dialect()));
    write.close();
    write.open_count(index, "tap", "0", taps);
    print_tap(write, dims, lines);
    write.open_if("inside != 0");
    write.open_count(index, "t", "0", row.kernel);
    write.constant(
        index, "line",
        "((plane * " + taps + " + tap) * " + row.kernel + " + t) * " + places + " + position");
    write.constant(index, "first", row.padding + " - t * " + row.dilation);
    write.open_count(index, "j", "from_j", "to_j");
    write.constant(index, "k", "j + first");
    write.open_if("k >= 0 && k % " + row.stride + " == 0 && k / " + row.stride + " < " +
                  row.positions);
    const std::string item = kernel.value(from, "line + k / " + row.stride);
    kernel.set(to, target,
               kernel.call_op(OpId::add, dtype, kernel.value(to, target) + ", " + item));
    write.close();
    write.close();
    write.close();
    write.close();
    write.close();
  };
  kernel.run(out.numel() / width * ceil_div(width, piece), print,
             std::max<int64_t>(1, 512 / piece));
}

int64_t images_at_once(const ConvSizes& c, DType dtype) {
  const int64_t each = c.groups * c.rows() * c.places * static_cast<int64_t>(size_of(dtype));
  return std::max<int64_t>(1, kColumnBytes / std::max<int64_t>(1, each));
}

// In `dtype`, and then as the result is.
template <class F>
void into(const Tensor& out, DType dtype, const F& make) {
  if (out.dtype() == dtype) return make(out);
  const Tensor wide = Tensor::empty(out.shape(), dtype, out.device());
  make(wide);
  copy_into(wide, out);
}

}  // namespace

void run_conv(const KernelCall& call) {
  const DType dtype = info(call.outputs[0].dtype()).compute;
  const Tensor x = converted(call.inputs[0], dtype), w = contiguous_in(call.inputs[1], dtype);
  AttrReader read(call.attrs);
  const ConvSizes c(x.shape(), w.shape(), call.outputs[0].shape(), read);
  into(call.outputs[0], dtype, [&](const Tensor& out) {
    if (out.numel() == 0) return;
    const int64_t some = images_at_once(c, dtype);
    for (int64_t first = 0; first < c.images; first += some) {
      const int64_t count = std::min(some, c.images - first);
      const Tensor columns = columns_of(images_of(x, first, count), c);
      Product p{.a = w, .b = columns};
      p.m = c.out;
      p.k = c.rows();
      p.n = c.places;
      p.a_row = p.k;
      p.a_sum = 1;
      p.b_sum = c.places;
      p.b_column = 1;
      p.batch = {count, c.groups};
      p.a_batch = {0, c.out * p.k};
      p.b_batch = {c.groups * p.k * p.n, c.groups == 1 ? 0 : p.k * p.n};
      multiply(p, images_of(out, first, count));
    }
  });
}

void run_conv_backward_input(const KernelCall& call) {
  const DType dtype = info(call.outputs[0].dtype()).compute;
  const Tensor g = contiguous_in(call.inputs[0], dtype), w = contiguous_in(call.inputs[1], dtype);
  AttrReader read(call.attrs);
  read.list();
  const ConvSizes c(call.outputs[0].shape(), w.shape(), g.shape(), read);
  into(call.outputs[0], dtype, [&](const Tensor& out) {
    if (out.numel() == 0) return;
    const int64_t some = images_at_once(c, dtype);
    for (int64_t first = 0; first < c.images; first += some) {
      const int64_t count = std::min(some, c.images - first);
      const Tensor columns =
          Tensor::empty(Dims{count, c.groups, c.rows(), c.places}, dtype, out.device());
      Product p{.a = w, .b = images_of(g, first, count)};
      p.m = c.rows();
      p.k = c.out;
      p.n = c.places;
      p.a_row = 1;
      p.a_sum = c.rows();
      p.b_sum = c.places;
      p.b_column = 1;
      p.batch = {count, c.groups};
      p.a_batch = {0, c.out * c.rows()};
      p.b_batch = {g.stride(0), c.groups == 1 ? 0 : c.out * c.places};
      if (columns.numel() > 0) multiply(p, columns);
      add_columns(columns, c, images_of(out, first, count));
    }
  });
}

void run_conv_backward_weight(const KernelCall& call) {
  const DType dtype = info(call.outputs[0].dtype()).compute;
  const Tensor g = converted(call.inputs[0], dtype), x = converted(call.inputs[1], dtype);
  AttrReader read(call.attrs);
  read.list();
  const ConvSizes c(x.shape(), call.outputs[0].shape(), g.shape(), read);
  into(call.outputs[0], dtype, [&](const Tensor& out) {
    if (out.numel() == 0) return;
    if (c.images == 0 || c.places == 0) return copy_into(Tensor::scalar(0.0), out);
    const int64_t some = images_at_once(c, dtype);
    for (int64_t first = 0; first < c.images; first += some) {
      const int64_t count = std::min(some, c.images - first);
      const Tensor columns = columns_of(images_of(x, first, count), c);
      // [group, channel, image, position], in which sums run along two dimensions as one.
      const Tensor grads =
          Tensor::empty(Dims{c.groups * c.out, count, c.places}, dtype, out.device());
      const Tensor part = images_of(contiguous_in(g, dtype), first, count);
      copy_into(part.view(grads.shape(), Dims{c.places, part.stride(0), 1}, part.offset()), grads);
      const Tensor turned =
          Tensor::empty(Dims{c.groups, count, c.places, c.rows()}, dtype, out.device());
      copy_into(columns.view(turned.shape(),
                             Dims{c.rows() * c.places, c.groups * c.rows() * c.places, 1, c.places},
                             columns.offset()),
                turned);
      Product p{.a = grads, .b = turned};
      p.m = c.out;
      p.k = count * c.places;
      p.n = c.rows();
      p.a_row = p.k;
      p.a_sum = 1;
      p.b_sum = p.n;
      p.b_column = 1;
      p.batch = {c.groups};
      p.a_batch = {c.out * p.k};
      p.b_batch = {c.groups == 1 ? 0 : p.k * p.n};
      if (first == 0) {
        multiply(p, out);
        continue;
      }
      const Tensor more = Tensor::empty(out.shape(), dtype, out.device());
      multiply(p, more);
      add_into(out, more);
    }
  });
}

// ---- the largest elements

namespace {

int64_t lowest_of(DType whole) {
  if (is_bool(whole) || whole == DType::UInt8) return 0;
  return static_cast<int64_t>(~uint64_t{0} << (8 * size_of(whole) - 1));
}

}  // namespace

namespace {

class MaxPoolPrinter {
 public:
  // `lists`: where windows begin and end along each dimension, `windows` of them.
  MaxPoolPrinter(MapKernel& kernel, const KernelCall& call, const Tensor& lists, int64_t windows,
                 std::span<const int64_t> step)
      : kernel_(kernel), write_(kernel.write()), dtype_(call.inputs[0].dtype()) {
    const Tensor &x = call.inputs[0], &out = call.outputs[0];
    from_ = kernel.reads(x);
    bounds_ = kernel.reads(lists);
    to_ = kernel.writes(out);
    places_ = kernel.writes(call.outputs[1]);
    count_ = kernel.word(windows);
    channels_ = kernel.word(x.size(1));
    image_ = kernel.word(x.stride(0));
    channel_ = kernel.word(x.stride(1));
    lowest_ = is_integral(dtype_) ? kernel.number_of_bits(dtype_, lowest_of(dtype_))
                                  : kernel.identity(OpId::amax, dtype_);
    int64_t before = 0;
    for (size_t d = 2; d < x.shape().size(); ++d) {
      dims_.push_back({kernel.word(out.size(d)), kernel.word(x.size(d)), kernel.word(x.stride(d)),
                       kernel.word(step[d - 2]), kernel.word(before)});
      before += out.size(d);
    }
  }

  void print() {
    const ScalarType index = kernel_.dialect().index;
    print_window();
    std::string first = "0", place = "plane", number = "0";
    for (size_t d = 0; d < dims_.size(); ++d) {
      // An empty window is where it would begin.
      write_.limit(index, name("first", d), name("begin", d), dims_[d].in + " - 1");
      first = "(" + first + ") * " + dims_[d].in + " + " + name("first", d);
      place += " + " + name("k", d) + " * " + dims_[d].stride;
      number = "(" + number + ") * " + dims_[d].in + " + " + name("k", d);
    }
    write_.variable(held_type(dtype_), "best", lowest_);
    write_.variable(index, "at", first);
    write_.variable(ScalarType::I32, "seen", "0");
    for (size_t d = 0; d < dims_.size(); ++d)
      write_.open_for(index, name("k", d), name("begin", d), name("k", d) + " < " + name("end", d),
                      name("k", d) + " += " + dims_[d].step);
    write_.constant(held_type(dtype_), "item", kernel_.value(from_, place));
    // Of equal ones the first; of NaNs, which count as largest, the last.
    write_.open_if("seen == 0 || " + write_.less(held_type(dtype_), "best", "item") + " || " +
                   kernel_.is_nan(held_type(dtype_), "item"));
    write_.assign("best", "item");
    write_.assign("at", number);
    write_.assign("seen", "1");
    write_.close();
    for (size_t d = 0; d < dims_.size(); ++d) write_.close();
    kernel_.set(to_, "i", "best");
    kernel_.set(places_, "i", kernel_.held_place("at"));
  }

 private:
  struct PoolDim {
    std::string out, in, stride, step, first;
  };
  static std::string name(std::string_view word, size_t d) {
    return numbered(word, static_cast<int64_t>(d));
  }

  // Where the window of element i begins and ends, and its plane.
  void print_window() {
    const ScalarType index = kernel_.dialect().index;
    write_.variable(index, "rest", "i");
    for (size_t d = dims_.size(); d-- > 0;) {
      write_.constant(index, name("w", d), "rest % " + dims_[d].out + " + " + dims_[d].first);
      write_.assign("rest", "rest / " + dims_[d].out);
      const auto bound = [&](const std::string& place) {
        return kernel_.place_of(kernel_.value(bounds_, place));
      };
      write_.constant(index, name("begin", d), bound(name("w", d)));
      write_.constant(index, name("end", d), bound(count_ + " + " + name("w", d)));
    }
    write_.constant(
        index, "plane",
        "rest / " + channels_ + " * " + image_ + " + rest % " + channels_ + " * " + channel_);
  }

  MapKernel& kernel_;
  SourceWriter& write_;
  DType dtype_;
  MapKernel::View from_, bounds_, to_, places_;
  std::string count_, channels_, image_, channel_, lowest_;
  std::vector<PoolDim> dims_;
};

}  // namespace

void run_max_pool(const KernelCall& call) {
  const Tensor &x = call.inputs[0], &out = call.outputs[0];
  if (out.numel() == 0) return;
  AttrReader read(call.attrs);
  read.list();
  const std::span<const int64_t> begin = read.list(), end = read.list(), step = read.list();
  const auto windows = static_cast<int64_t>(begin.size());
  int64_t turns = 1, before = 0;
  for (size_t d = 2; d < out.shape().size(); ++d) {
    int64_t most = 1;
    for (int64_t w = before; w < before + out.size(d); ++w)
      most = std::max(
          most, ceil_div(end[static_cast<size_t>(w)] - begin[static_cast<size_t>(w)], step[d - 2]));
    turns *= most;
    before += out.size(d);
  }
  need_turns(call.op, x.device(), turns);
  const Tensor host = Tensor::empty(Dims{2, windows}, DType::Int64),
               lists = Tensor::empty(Dims{2, windows}, DType::Int64, x.device());
  std::ranges::copy(begin, host.ptr<int64_t>());
  std::ranges::copy(end, host.ptr<int64_t>() + windows);
  copy_between(host, lists);
  MapKernel kernel(x.device(), "max_pool " + std::to_string(x.shape().size()));
  MaxPoolPrinter printer(kernel, call, lists, windows, step);
  const auto print = [&] { printer.print(); };
  kernel.run(out.numel(), print, 64);
}

}  // namespace tinyt::gpu
