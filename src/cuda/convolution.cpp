// Convolutions and their gradients by kernels/convolution.cu: which of its variants, and what it is
// told.
#include <algorithm>
#include <array>
#include <numeric>

#include "core/base/parallel.h"
#include "cuda/convolution.h"
#include "cuda/hand_kernels.h"
#include "cuda/kernels/convolution_arguments.h"
#include "cuda/matmul.h"
#include "cuda/tiles.h"
#include "gpu/kernels.h"
#include "gpu/launch.h"

namespace tinyt::cuda {

namespace {

// With channels side by side, of each group as many as fill chunks of 16 bytes: zeros behind them.
Images channels_last(const Images& from, const Sizes& c, int64_t channels, const Spatial& places,
                     int64_t pitch) {
  const int64_t step = c.groups * pitch;
  const Tensor made =
      Tensor::empty(Dims{c.images * count_of(places) * step}, from.x.dtype(), from.x.device());
  if (pitch != channels) gpu::copy_into(Tensor::scalar(0.0), made);
  Images to = from;
  to.x = made;
  to.image = count_of(places) * step;
  to.group = pitch;
  to.channel = 1;
  to.stride = {places[1] * places[2] * step, places[2] * step, step};
  const Dims shape{c.images, places[0], places[1], places[2], c.groups, channels};
  const auto strides = [](const Images& i) {
    return Dims{i.image, i.stride[0], i.stride[1], i.stride[2], i.group, i.channel};
  };
  gpu::copy_into(from.x.view(shape, strides(from), from.x.offset()),
                 made.view(shape, strides(to), made.offset()));
  return to;
}

// Of a gradient's positions with one remainder by the stride, along each dimension: how many, which
// is the first, and the taps that meet them, from `tap` on, `tap_step` apart. The first position
// and tap read the place `begin`, the next tap `move` further.
struct Remainder {
  Spatial positions, first, taps, tap, tap_step, begin, move;

  Remainder(const Sizes& c, const Spatial& remainder) : first(remainder) {
    for (size_t d = 0; d < kSpatial; ++d) {
      const int64_t s = c.stride[d], common = std::gcd(c.dilation[d], s);
      positions[d] = ceil_div(c.source[d] - remainder[d], s);
      tap_step[d] = s / common;
      move[d] = -c.dilation[d] / common;
      const auto at = [&](int64_t t) { return remainder[d] + c.padding[d] - t * c.dilation[d]; };
      tap[d] = 0;
      while (tap[d] < std::min(tap_step[d], c.kernel[d]) && at(tap[d]) % s != 0) ++tap[d];
      const bool meets = tap[d] < c.kernel[d] && at(tap[d]) % s == 0;
      taps[d] = meets ? ceil_div(c.kernel[d] - tap[d], tap_step[d]) : 0;
      begin[d] = meets ? at(tap[d]) / s : 0;
    }
  }
};

Digits places_of(int64_t images, const Spatial& s) {
  return {{static_cast<int>(images), static_cast<int>(s[0]), static_cast<int>(s[1]),
           static_cast<int>(s[2])}};
}
Digits taps_of(const Spatial& s, int64_t channels) {
  return {{static_cast<int>(s[0]), static_cast<int>(s[1]), static_cast<int>(s[2]),
           static_cast<int>(channels)}};
}

constexpr std::string_view kByElements = "WindowsByElements", kBySums = "WindowsBySums",
                           kByLines = "WindowsByLines";

class Convolution {
 public:
  Convolution(const gpu::ConvSizes& sizes, const Tensor& out)
      : c_(sizes),
        dtype_(out.dtype()),
        out_(out),
        element_(is_float(dtype_) ? element_of(dtype_) : ""),
        chunk_(static_cast<int64_t>(16 / size_of(dtype_))) {}

  // False where it is another kernel's.
  bool run_forward(const Tensor& x, const Tensor& w);
  bool run_backward_input(const Tensor& g, const Tensor& w);
  bool run_backward_weight(const Tensor& g, const Tensor& x);

 private:
  // Whether the kernel has such elements, and counts so far; few rows of many groups would be tiles
  // that are empty for the most part.
  bool takes(int64_t rows, std::initializer_list<Tensor> operands) const {
    constexpr int64_t kFewRows = 8, kMostPlaces = int64_t{1} << 30;
    int64_t most = std::max(c_.images * count_of(c_.positions), c_.images * count_of(c_.source));
    for (const Tensor& t : operands) {
      int64_t last = 0;
      for (size_t d = 0; d < t.shape().size(); ++d) last += (t.size(d) - 1) * std::abs(t.stride(d));
      most = std::max({most, last, 2 * t.numel()});
    }
    return !element_.empty() && (c_.groups == 1 || is_depthwise(c_) || rows > kFewRows) &&
           most < kMostPlaces;
  }
  // Channels of a group as they are counted in sums: of many, whole chunks of 16 bytes are read, of
  // few most of these would be zeros.
  bool has_chunks(int64_t channels) const { return channels >= chunk_; }
  int64_t pitch_of(int64_t channels) const { return ceil_div(channels, chunk_) * chunk_; }
  int64_t counted(int64_t channels) const {
    return has_chunks(channels) ? pitch_of(channels) : channels;
  }

  bool multiply_pointwise(const Tensor& w, int64_t row_step, int64_t sum_step, int64_t rows,
                          int64_t sums, const Tensor& x);
  // Reads `a` as a matrix of each group: lines of taps, for each of these channels.
  void set_weights(const Tensor& w, int64_t lines, int64_t line_step, int64_t channels,
                   int64_t channel_step, const Remainder* some);
  // Reads `b` where `w` says, of images as they are, or by chunks of channels.
  void set_images(const Tensor& x, int64_t channels, const Spatial& places);
  // Positions of results as one digit, where all of them are there.
  void join_positions();
  // `may_split`: whether all of the result is made, so that it may be of parts.
  void launch(int64_t rows, int64_t columns, int64_t sums, bool may_split);

  const Sizes c_;
  const DType dtype_;
  const Tensor& out_;
  const std::string_view element_;
  const int64_t chunk_;
  ConvolutionArguments args_{};
  Tensor a_, b_;
  std::string text_a_, text_b_;
  bool is_matrix_ = true;
};

std::string operand(std::string_view type, std::string_view side, std::string_view behind = "") {
  return std::string(type) + "<T, Products::" + std::string(side) + ", Products::kThreads" +
         std::string(behind) + ">";
}

void Convolution::set_weights(const Tensor& w, int64_t lines, int64_t line_step, int64_t channels,
                              int64_t channel_step, const Remainder* some) {
  const Spatial steps = spatial(std::span<const int64_t>(w.strides()).subspan(2), 0);
  Spatial taps = c_.kernel, stride = steps;
  int64_t first = w.offset();
  for (size_t d = 0; some != nullptr && d < kSpatial; ++d) {
    taps[d] = some->taps[d];
    first += some->tap[d] * steps[d];
    stride[d] = some->tap_step[d] * steps[d];
  }
  const int64_t of_tap = counted(channels), pitch = pitch_of(count_of(taps) * of_tap);
  a_ = Tensor::empty(Dims{c_.groups * lines * pitch}, dtype_, w.device());
  if (of_tap != channels) gpu::copy_into(Tensor::scalar(0.0), a_);
  const Dims shape{c_.groups, lines, taps[0], taps[1], taps[2], channels};
  gpu::copy_into(
      w.view(shape,
             Dims{c_.out * w.stride(0), line_step, stride[0], stride[1], stride[2], channel_step},
             first),
      a_.view(shape,
              Dims{lines * pitch, pitch, taps[1] * taps[2] * of_tap, taps[2] * of_tap, of_tap,
                   int64_t{1}},
              a_.offset()));
  args_.a_group = lines * pitch;
  args_.a_line = pitch;
  args_.a_sum = 1;
  text_a_ = operand("BySums", "kRows");
}

void Convolution::set_images(const Tensor& x, int64_t channels, const Spatial& places) {
  Images from(x, channels);
  if (has_chunks(channels)) from = channels_last(from, c_, channels, places, pitch_of(channels));
  b_ = from.x;
  args_.b_group = from.group;
  args_.b.line_other = static_cast<int>(from.image);
  args_.b.sum_other = static_cast<int>(from.channel);
  set(args_.b.stride, from.stride);
  set(args_.b.inside, places);
  text_b_ = operand(has_chunks(channels) ? kBySums : kByElements, "kColumns", ", true");
}

bool Convolution::multiply_pointwise(const Tensor& w, int64_t row_step, int64_t sum_step,
                                     int64_t rows, int64_t sums, const Tensor& x) {
  Images from(x, sums);
  const Spatial& s = c_.source;
  const bool is_line = (s[1] == 1 || s[0] == 1 || from.stride[0] == s[1] * from.stride[1]) &&
                       (s[2] == 1 || s[1] == 1 || from.stride[1] == s[2] * from.stride[2]) &&
                       (s[0] == 1 || s[1] > 1 || s[2] == 1);
  if (!is_line) from = Images(gpu::contiguous_in(x, dtype_), sums);
  gpu::Product p{.a = w, .b = from.x};
  p.m = rows;
  p.k = sums;
  p.n = count_of(s);
  p.a_row = row_step;
  p.a_sum = sum_step;
  p.b_sum = from.channel;
  p.b_column = s[2] > 1 ? from.stride[2] : s[1] > 1 ? from.stride[1] : from.stride[0];
  p.batch = {c_.images, c_.groups};
  p.a_batch = {0, c_.groups == 1 ? 0 : c_.out * w.stride(0)};
  p.b_batch = {c_.images == 1 ? 0 : from.image, c_.groups == 1 ? 0 : from.group};
  return multiply(p, nullptr, out_);
}

void Convolution::join_positions() {
  int (&size)[4] = args_.out_columns.size;
  size[3] *= size[1] * size[2];
  size[1] = size[2] = 1;
  args_.out_last = size[3];
  args_.out_step[1] = args_.out_step[2] = 0;
}

void Convolution::launch(int64_t rows, int64_t columns, int64_t sums, bool may_split) {
  const Device device = out_.device();
  Tiling tiling = Tiling::of(rows, columns, sums, c_.groups, element_,
                             cuda_driver(device).processors(device.index));
  if (!may_split) tiling = tiling.whole(sums);
  const bool in_parts = tiling.parts > 1;
  const Tensor to =
      in_parts ? Tensor::empty(Dims{tiling.parts, out_.numel()}, DType::Float32, device) : out_;
  const bool is_whole = to.dtype() == DType::Float32;
  args_.rows = rows;
  args_.columns = columns;
  args_.sums = sums;
  args_.sums_of_part = tiling.sums_of_part;
  args_.down = tiling.down(rows);
  args_.across = tiling.across(columns);
  args_.groups = c_.groups;
  args_.a_first = gpu::first_element(a_) + args_.a_first;
  args_.b_first = gpu::first_element(b_) + args_.b_first;
  args_.out_first = gpu::first_element(to) + args_.out_first;
  args_.out_part = out_.numel();
  args_.packs = args_.out_step[3] == 1 && args_.out_columns.size[3] % 4 == 0 &&
                args_.out_last == args_.out_columns.size[3];
  for (const long long step : {args_.out_first, args_.out_row, args_.out_group, args_.out_part,
                               args_.out_step[0], args_.out_step[1], args_.out_step[2]})
    args_.packs = args_.packs && step % 4 == 0;
  const std::string variant =
      tiling.text(element_) + "using Result = " +
      std::string(is_whole ? whole_element_of(DType::Float32) : element_of(dtype_)) +
      ";\nusing A = " + text_a_ + ";\nusing B = " + text_b_ + ";\n";
  const Buffer* const memory[] = {&a_.storage().buffer, &b_.storage().buffer, &to.storage().buffer};
  cuda_driver(device).launch_blocks(
      hand_kernel(device, "convolution.cu", variant), device.index,
      {tiling.parts * c_.groups * args_.down * args_.across, tiling.threads(),
       tiling.shared_bytes() + tiling.table_bytes(is_matrix_ ? 1 : 2)},
      memory, &args_);
  if (in_parts) gpu::add_parts(to, out_);
}

bool Convolution::run_forward(const Tensor& x, const Tensor& w) {
  if (!takes(c_.out, {x, w, out_})) return false;
  if (is_depthwise(c_)) return run_depthwise(Pass::Forward, c_, x, w, out_), true;
  if (c_.is_pointwise()) return multiply_pointwise(w, w.stride(0), w.stride(1), c_.out, c_.in, x);
  set_weights(w, c_.out, w.stride(0), c_.in, w.stride(1), nullptr);
  set_images(x, c_.in, c_.source);
  args_.b.lines = places_of(c_.images, c_.positions);
  args_.b.sums = taps_of(c_.kernel, counted(c_.in));
  set(args_.b.line_step, c_.stride);
  set(args_.b.sum_step, c_.dilation);
  set(args_.b.first, {-c_.padding[0], -c_.padding[1], -c_.padding[2]});
  const int64_t places = count_of(c_.positions);
  args_.out_row = places;
  args_.out_group = c_.out * places;
  args_.out_columns = places_of(c_.images, c_.positions);
  args_.out_step[0] = c_.groups * c_.out * places;
  args_.out_step[3] = 1;
  join_positions();
  launch(c_.out, c_.images * places, count_of(c_.kernel) * counted(c_.in), true);
  return true;
}

bool Convolution::run_backward_input(const Tensor& g, const Tensor& w) {
  if (!takes(c_.in, {g, w, out_})) return false;
  if (is_depthwise(c_)) return run_depthwise(Pass::Images, c_, g, w, out_), true;
  if (c_.is_pointwise()) return multiply_pointwise(w, w.stride(1), w.stride(0), c_.in, c_.out, g);
  // Products for each remainder of positions; of many of these each would be next to nothing.
  std::vector<Remainder> remainders;
  const Spatial &s = c_.stride, &source = c_.source;
  Spatial some_of;  // those beyond the images have no positions
  for (size_t d = 0; d < kSpatial; ++d) some_of[d] = std::min(s[d], source[d]);
  constexpr int64_t kMostRemainders = 16;
  if (count_of(some_of) > kMostRemainders) return false;
  for (int64_t i = 0; i < count_of(some_of); ++i)
    remainders.emplace_back(
        c_, Spatial{i / some_of[2] / some_of[1], i / some_of[2] % some_of[1], i % some_of[2]});
  const auto has_taps = [](const Remainder& some) { return count_of(some.taps) > 0; };
  if (!std::ranges::all_of(remainders, has_taps)) gpu::copy_into(Tensor::scalar(0.0), out_);
  set_images(g, c_.out, c_.positions);
  const int64_t places = count_of(source);
  const ConvolutionArguments images = args_;
  for (const Remainder& some : remainders) {
    if (!has_taps(some)) continue;
    args_ = images;
    set_weights(w, c_.in, w.stride(1), c_.out, w.stride(0), &some);
    args_.b.lines = places_of(c_.images, some.positions);
    args_.b.sums = taps_of(some.taps, counted(c_.out));
    set(args_.b.line_step, {1, 1, 1});
    set(args_.b.sum_step, some.move);
    set(args_.b.first, some.begin);
    args_.out_row = places;
    args_.out_group = c_.in * places;
    args_.out_first = (some.first[0] * source[1] + some.first[1]) * source[2] + some.first[2];
    args_.out_columns = places_of(c_.images, some.positions);
    args_.out_step[0] = c_.groups * c_.in * places;
    args_.out_step[1] = s[0] * source[1] * source[2];
    args_.out_step[2] = s[1] * source[2];
    args_.out_step[3] = s[2];
    args_.out_last = args_.out_columns.size[3];
    if (count_of(s) == 1) join_positions();
    launch(c_.in, c_.images * count_of(some.positions), count_of(some.taps) * counted(c_.out),
           count_of(s) == 1);
  }
  return true;
}

bool Convolution::run_backward_weight(const Tensor& g, const Tensor& x) {
  if (!takes(c_.out, {g, x, out_})) return false;
  if (is_depthwise(c_)) return run_depthwise(Pass::Weights, c_, g, x, out_), true;
  const int64_t taps = count_of(c_.kernel), places = count_of(c_.positions);
  // By chunks of channels, which are lines: of elements whose fragments the hardware transposes.
  const bool by_chunks = size_of(dtype_) == 2 && has_chunks(c_.in) && has_chunks(c_.out);
  Images gradients(g, c_.out), images(x, c_.in);
  if (by_chunks) {
    gradients = channels_last(gradients, c_, c_.out, c_.positions, pitch_of(c_.out));
    images = channels_last(images, c_, c_.in, c_.source, pitch_of(c_.in));
  }
  a_ = gradients.x;
  b_ = images.x;
  args_.a_group = gradients.group;
  args_.b_group = images.group;
  args_.a_line = 1;
  args_.a_sum = gradients.stride[2];
  is_matrix_ = by_chunks;
  text_a_ = by_chunks ? operand("ByLines", "kRows") : operand(kByElements, "kRows", ", false");
  text_b_ = operand(by_chunks ? kByLines : kByElements, "kColumns", ", false");

  const int64_t channels = by_chunks ? pitch_of(c_.in) : c_.in;
  args_.a.lines = taps_of({1, 1, 1}, c_.out);
  args_.b.lines = taps_of(c_.kernel, channels);
  args_.a.sums = args_.b.sums = places_of(c_.images, c_.positions);
  set(args_.a.sum_step, {1, 1, 1});
  set(args_.b.line_step, c_.dilation);
  set(args_.b.sum_step, c_.stride);
  set(args_.b.first, {-c_.padding[0], -c_.padding[1], -c_.padding[2]});
  set(args_.a.inside, c_.positions);
  set(args_.b.inside, c_.source);
  set(args_.a.stride, gradients.stride);
  set(args_.b.stride, images.stride);
  args_.a.line_other = static_cast<int>(gradients.channel);
  args_.a.sum_other = static_cast<int>(gradients.image);
  args_.b.line_other = static_cast<int>(images.channel);
  args_.b.sum_other = static_cast<int>(images.image);
  args_.out_row = c_.in * taps;
  args_.out_group = c_.out * c_.in * taps;
  args_.out_columns = args_.b.lines;
  args_.out_last = static_cast<int>(c_.in);
  args_.out_step[0] = c_.kernel[1] * c_.kernel[2];
  args_.out_step[1] = c_.kernel[2];
  args_.out_step[2] = 1;
  args_.out_step[3] = taps;
  launch(c_.out, taps * channels, c_.images * places, true);
  return true;
}

// What may be empty is not the kernels'; the shapes of images, weights and results.
template <class F>
bool run_by_hand(const KernelCall& call, const Dims& images, const Dims& weights,
                 const Dims& results, bool skips_shape, const F& run) {
  AttrReader read(call.attrs);
  if (skips_shape) read.list();
  const gpu::ConvSizes sizes(images, weights, results, read);
  for (const Tensor& t : {call.inputs[0], call.inputs[1], call.outputs[0]})
    if (t.numel() == 0) return false;
  Convolution convolution(sizes, call.outputs[0]);
  return run(convolution);
}

}  // namespace

void run_conv(const KernelCall& call) {
  const Tensor &x = call.inputs[0], &w = call.inputs[1], &out = call.outputs[0];
  if (!run_by_hand(call, x.shape(), w.shape(), out.shape(), false,
                   [&](Convolution& c) { return c.run_forward(x, w); }))
    gpu::run_conv(call);
}

void run_conv_backward_input(const KernelCall& call) {
  const Tensor &g = call.inputs[0], &w = call.inputs[1], &out = call.outputs[0];
  if (!run_by_hand(call, out.shape(), w.shape(), g.shape(), true,
                   [&](Convolution& c) { return c.run_backward_input(g, w); }))
    gpu::run_conv_backward_input(call);
}

void run_conv_backward_weight(const KernelCall& call) {
  const Tensor &g = call.inputs[0], &x = call.inputs[1], &out = call.outputs[0];
  if (!run_by_hand(call, x.shape(), out.shape(), g.shape(), true,
                   [&](Convolution& c) { return c.run_backward_weight(g, x); }))
    gpu::run_conv_backward_weight(call);
}

}  // namespace tinyt::cuda
