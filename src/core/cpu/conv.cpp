// Every form is one product of matrices per group. One operand is a tensor in memory; the other,
// "columns", holds for each (channel, kernel tap) the elements of a tensor that the tap meets at
// each (image, position). Columns are computed while they are packed and never stored whole.
#include "conv.h"

#include <algorithm>
#include <cstring>

#include "copy.h"
#include "matmul.h"

namespace tinyt::cpu {
namespace {

constexpr int kSpatial = 3;               // fewer dimensions are padded in front with ones
constexpr int64_t kMaxPieces = 64;        // positions looked up at a time
constexpr int64_t kMaxImageBlocks = 16;   // partial sums of a weight gradient
constexpr int64_t kMinBlockDepth = 2048;  // positions in one of them

using Sizes = std::array<int64_t, kSpatial>;

Sizes spatial(std::span<const int64_t> list, int64_t fill) {
  Sizes s;
  s.fill(fill);
  std::copy(list.begin(), list.end(), s.end() - static_cast<int64_t>(list.size()));
  return s;
}

int64_t product(const Sizes& s) { return s[0] * s[1] * s[2]; }

struct Geometry {
  int64_t images, in_channels, out_channels, groups;
  Sizes in, out, kernel, stride, padding, dilation;

  Geometry(std::span<const int64_t> x, std::span<const int64_t> w, std::span<const int64_t> y,
           AttrReader& attrs)
      : images(x[0]),
        in_channels(x[1]),
        out_channels(w[0]),
        in(spatial(x.subspan(2), 1)),
        out(spatial(y.subspan(2), 1)),
        kernel(spatial(w.subspan(2), 1)),
        stride(spatial(attrs.list(), 1)),
        padding(spatial(attrs.list(), 0)),
        dilation(spatial(attrs.list(), 1)) {
    groups = attrs.integer();
    constexpr Sizes kOnes = {1, 1, 1};
    if (kernel == kOnes && stride == kOnes && in == out) {  // pointwise: a position is a position
      in = out = {1, 1, product(in)};
    }
  }
  int64_t taps() const { return product(kernel); }
  int64_t in_size() const { return product(in); }
  int64_t out_size() const { return product(out); }
  int64_t group_in() const { return in_channels / groups; }
  int64_t group_out() const { return out_channels / groups; }
};

// Where a tap meets the source: along each dimension, position p and tap t read element
// (p * multiply + t * tap_step + offset) / divide, or zero where that is no element.
struct Columns {
  const char* data;  // of the group's first channel
  int64_t image_stride, channel_stride;
  Sizes source, positions, kernel;
  Sizes multiply, divide, offset, tap_step;
};

Columns columns_of_input(const Geometry& g, const char* data) {
  Columns c{data,        g.in_channels * g.in_size(),
            g.in_size(), g.in,
            g.out,       g.kernel,
            g.stride,    {1, 1, 1},
            {},          g.dilation};
  for (int d = 0; d < kSpatial; ++d) c.offset[d] = -g.padding[d];
  return c;
}

Columns columns_of_gradient(const Geometry& g, const char* data) {
  Columns c{data,         g.out_channels * g.out_size(),
            g.out_size(), g.out,
            g.in,         g.kernel,
            {1, 1, 1},    g.stride,
            g.padding,    {}};
  for (int d = 0; d < kSpatial; ++d) c.tap_step[d] = -g.dilation[d];
  return c;
}

// Positions next to each other along the last dimension, of one image.
struct Piece {
  int64_t image;  // offset of the image in the source
  Sizes at;       // of the first position, times Columns::multiply
  int64_t count;
};

// Cuts [first, first + count) into pieces; count <= kMaxPieces.
int64_t cut_pieces(const Columns& c, int64_t first, int64_t count, Piece* pieces) {
  int64_t x = first % c.positions[2], rest = first / c.positions[2];
  int64_t y = rest % c.positions[1];
  rest /= c.positions[1];
  int64_t z = rest % c.positions[0], image = rest / c.positions[0];
  int64_t n = 0;
  while (count > 0) {
    const int64_t run = std::min(count, c.positions[2] - x);
    pieces[n++] = {
        image * c.image_stride, {z * c.multiply[0], y * c.multiply[1], x * c.multiply[2]}, run};
    count -= run;
    x = 0;
    if (++y == c.positions[1]) y = 0, ++z;
    if (z == c.positions[0]) z = 0, ++image;
  }
  return n;
}

// Copies of a few elements, too short for a call of memcpy each.
template <class T>
void copy_run(const T* from, T* to, int64_t n) {
  for (; n >= 8; n -= 8, from += 8, to += 8) __builtin_memcpy(to, from, 8 * sizeof(T));
  if (n >= 4) {
    __builtin_memcpy(to, from, 4 * sizeof(T));
    n -= 4, from += 4, to += 4;
  }
  for (int64_t i = 0; i < n; ++i) to[i] = from[i];
}

template <class T>
void zero_run(T* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = 0;
}

int64_t steps_over(int64_t distance, int64_t step) {
  return step == 1 ? distance : (distance + step - 1) / step;
}

// What one tap reads at some positions: the same elements of every channel.
class TapReader {
 public:
  TapReader(const Columns& c, const Piece* pieces, int64_t n, int64_t positions, int64_t tap)
      : from_step_(c.multiply[2]), to_step_(c.divide[2]), positions_(positions) {
    Sizes shift;
    for (int d = kSpatial - 1; d >= 0; --d) {
      shift[d] = tap % c.kernel[d] * c.tap_step[d] + c.offset[d];
      tap /= c.kernel[d];
    }
    int64_t covered = 0;
    for (int64_t i = 0, to = 0; i < n; to += pieces[i++].count) {
      covered += add_piece(c, pieces[i], shift, to);
    }
    clear_ = covered < positions;
  }

  template <class T>
  void read(const T* channel, T* out) const {
    if (clear_) zero_run(out, positions_);
    for (int64_t i = 0; i < copies_; ++i) {
      const Copy& c = copy_[i];
      if (from_step_ == 1 && to_step_ == 1) {
        copy_run(channel + c.from, out + c.to, c.count);
      } else {
        for (int64_t k = 0; k < c.count; ++k) {
          out[c.to + k * to_step_] = channel[c.from + k * from_step_];
        }
      }
    }
    for (int64_t i = 0; i < holes_; ++i) out[hole_[i]] = 0;
  }

 private:
  struct Copy {
    int64_t from, to, count;
  };

  // The index along one dimension, or -1 when there is no such element.
  static int64_t locate(int64_t at, int64_t divide, int64_t size) {
    if (divide != 1) {
      if (at % divide != 0) return -1;
      at /= divide;
    }
    return at >= 0 && at < size ? at : -1;
  }

  // Returns how many positions it covers.
  int64_t add_piece(const Columns& c, const Piece& p, const Sizes& shift, int64_t to) {
    const int64_t z = locate(p.at[0] + shift[0], c.divide[0], c.source[0]);
    const int64_t y = locate(p.at[1] + shift[1], c.divide[1], c.source[1]);
    if (z < 0 || y < 0) return 0;
    const int64_t at = p.at[2] + shift[2];
    int64_t first = 0, x = at;
    if (to_step_ != 1) {  // the first position that meets an element, or would before the line
      const int64_t rest = at % to_step_;
      first = rest > 0 ? to_step_ - rest : -rest;
      x = (at + first) / to_step_;
    }
    if (x < 0) {
      const int64_t skip = steps_over(-x, from_step_);
      first += skip * to_step_;
      x += skip * from_step_;
    }
    const int64_t count =
        std::min(steps_over(p.count - first, to_step_), steps_over(c.source[2] - x, from_step_));
    if (count <= 0) return 0;
    return add_copy({p.image + (z * c.source[1] + y) * c.source[2] + x, to + first, count});
  }

  // A copy that goes on where the last one stopped but for a few elements (the padding between
  // two lines) becomes one with it; what it reads in between is zeroed again.
  int64_t add_copy(const Copy& next) {
    if (copies_ > 0 && from_step_ == 1 && to_step_ == 1) {
      Copy& last = copy_[copies_ - 1];
      const int64_t gap = next.to - (last.to + last.count);
      if (gap <= kMaxGap && next.from - (last.from + last.count) == gap) {
        for (int64_t i = 0; i < gap; ++i) hole_[holes_++] = last.to + last.count + i;
        last.count += gap + next.count;
        return gap + next.count;
      }
    }
    copy_[copies_++] = next;
    return next.count;
  }

  static constexpr int64_t kMaxGap = 4;
  int64_t from_step_, to_step_, positions_;
  int64_t copies_ = 0, holes_ = 0;
  bool clear_;  // some positions meet no element
  Copy copy_[kMaxPieces];
  int64_t hole_[kMaxPieces];
};

// Rows [row, row + rows) of the columns, one per (channel, tap), at positions
// [first, first + positions), written `step` apart; positions <= kMaxPieces.
template <class T>
void read_rows(const Columns& c, int64_t row, int64_t rows, int64_t first, int64_t positions,
               T* out, int64_t step) {
  Piece pieces[kMaxPieces];
  const int64_t n = cut_pieces(c, first, positions, pieces), taps = product(c.kernel);
  for (int64_t i = 0; i < std::min(taps, rows); ++i) {
    const TapReader reader(c, pieces, n, positions, (row + i) % taps);
    const T* channel = reinterpret_cast<const T*>(c.data) + (row + i) / taps * c.channel_stride;
    for (int64_t k = i; k < rows; k += taps, channel += c.channel_stride) {
      reader.read(channel, out + k * step);
    }
  }
}

// Columns as B: the lines of a panel are positions, its depth is (channel, tap).
template <class T>
void pack_positions(const void* context, const Panel& p, void* out) {
  const auto& c = *static_cast<const Columns*>(context);
  T* to = static_cast<T*>(out);
  read_rows(c, p.k0, p.depth, p.first, p.count, to, p.width);
  if (p.count == p.width) return;
  for (int64_t k = 0; k < p.depth; ++k) zero_run(to + k * p.width + p.count, p.width - p.count);
}

// Packing moves bits, so one kernel serves all dtypes of a size.
template <class T>
PackKernel pack_strided() {
  constexpr DType kDType = sizeof(T) == 4 ? DType::Float32 : DType::Int64;
  return kernels().gemm->pack[static_cast<int>(kDType)];
}

// Columns transposed, as B of a weight gradient: the lines are (channel, tap), the depth is
// positions.
template <class T>
void pack_taps(const void* context, const Panel& p, void* out) {
  const auto& c = *static_cast<const Columns*>(context);
  T rows[kMaxTileLines * kMaxPieces];
  for (int64_t k = 0; k < p.depth; k += kMaxPieces) {
    const int64_t depth = std::min(kMaxPieces, p.depth - k);
    read_rows(c, p.first, p.count, p.k0 + k, depth, rows, kMaxPieces);
    const StridedLines dense = {rows, kMaxPieces, 1};
    pack_strided<T>()(&dense, {0, p.count, 0, depth, p.width}, static_cast<T*>(out) + k * p.width);
  }
}

// A gradient as A of a weight gradient: the lines are channels, the depth is (image, position).
struct ImageLines {
  const char* data;  // of the group's first channel in the first image
  int64_t image_stride, size;
};

template <class T>
void pack_images(const void* context, const Panel& p, void* out) {
  const auto& c = *static_cast<const ImageLines*>(context);
  T* to = static_cast<T*>(out);
  for (int64_t k = p.k0, end = p.k0 + p.depth; k < end;) {
    const int64_t at = k % c.size, depth = std::min(c.size - at, end - k);
    const StridedLines image = {reinterpret_cast<const T*>(c.data) + k / c.size * c.image_stride,
                                c.size, 1};
    pack_strided<T>()(&image, {p.first, p.count, at, depth, p.width}, to);
    to += depth * p.width;
    k += depth;
  }
}

struct PackKernels {
  PackKernel positions, taps, images;
};

PackKernels pack_kernels(DType work) {
  if (size_of(work) == 4) {
    return {pack_positions<uint32_t>, pack_taps<uint32_t>, pack_images<uint32_t>};
  }
  return {pack_positions<uint64_t>, pack_taps<uint64_t>, pack_images<uint64_t>};
}

Tensor dense_as(const Tensor& t, DType work) {
  if (t.dtype() == work) return as_contiguous(t);
  const Tensor converted = Tensor::empty(t.shape(), work);
  copy_into(t, converted);
  return converted;
}

// Runs body(result), with result in the compute dtype, and rounds it to `out`.
template <class F>
void in_compute_dtype(const Tensor& out, DType work, F&& body) {
  if (out.numel() == 0) return;
  const Tensor result = out.dtype() == work ? out : Tensor::empty(out.shape(), work);
  body(result);
  if (out.dtype() != work) copy_into(result, out);
}

// y [images, channels, positions] = lines (one row per channel, in memory) times columns, for
// each group.
void multiply_columns(DType work, const Geometry& g, const Tensor& lines, const Tensor& source,
                      Columns (*columns)(const Geometry&, const char*), int64_t source_channels,
                      const Tensor& y) {
  const auto size = static_cast<int64_t>(size_of(work));
  const int64_t channels = y.size(1) / g.groups, positions = y.numel() / (y.size(0) * y.size(1));
  const int64_t depth = source_channels * g.taps();
  const int64_t plane =
      source.numel() == 0 ? 0 : source.numel() / (source.size(0) * source.size(1));
  const PackKernels pack = pack_kernels(work);
  const PackKernel pack_lines = kernels().gemm->pack[static_cast<int>(work)];
  multiply_batch(work, g.groups, channels, g.images * positions, depth,
                 [&](int64_t i, Compute compute) {
                   const StridedLines a = {lines.data() + i * channels * depth * size, depth, 1};
                   const Columns b = columns(g, source.data() + i * source_channels * plane * size);
                   compute({.dtype = work,
                            .m = channels,
                            .n = g.images * positions,
                            .k = depth,
                            .a = {pack_lines, &a},
                            .b = {pack.positions, &b},
                            .c = y.data() + i * channels * positions * size,
                            .c_row = positions,
                            .run = positions,
                            .c_run = y.size(1) * positions});
                 });
}

// w [groups * O, C, taps] as [groups * C, O, taps]: the weights each input channel meets.
Tensor swap_channels(const Geometry& g, const Tensor& w) {
  const int64_t o = g.group_out(), c = g.group_in(), taps = g.taps();
  return as_contiguous(
      w.view(Dims{g.groups, c, o, taps}, Dims{o * c * taps, taps, c * taps, 1}, w.offset()));
}

// parts[0] += parts[1] + ... in a fixed tree: neighbours first.
template <class T>
void add_parts(T* parts, int64_t count, int64_t n) {
  parallel_ranges(n, int64_t{1} << 14, [&](int64_t begin, int64_t end) {
    for (int64_t step = 1; step < count; step *= 2) {
      for (int64_t p = 0; p + step < count; p += 2 * step) {
        T* to = parts + p * n;
        const T* from = parts + (p + step) * n;
        for (int64_t i = begin; i < end; ++i) to[i] += from[i];
      }
    }
  });
}

void add_parts(const Tensor& parts) {
  const int64_t count = parts.size(0), n = parts.numel() / count;
  if (parts.dtype() == DType::Float32) return add_parts(parts.ptr<float>(), count, n);
  if (parts.dtype() == DType::Float64) return add_parts(parts.ptr<double>(), count, n);
  add_parts(parts.ptr<uint64_t>(), count, n);
}

// The images are cut into fixed blocks, each with a partial sum of its own.
void weight_gradient(DType work, const Geometry& g, const Tensor& grad, const Tensor& x,
                     const Tensor& result) {
  const auto size = static_cast<int64_t>(size_of(work));
  const int64_t m = g.group_out(), n = g.group_in() * g.taps(), positions = g.out_size();
  const int64_t enough = kMinBlockDepth / std::max<int64_t>(1, positions) + 1;
  const int64_t per_block = std::max((g.images + kMaxImageBlocks - 1) / kMaxImageBlocks, enough);
  const int64_t blocks = std::max<int64_t>(1, (g.images + per_block - 1) / per_block);
  const Tensor parts = blocks == 1 ? result : Tensor::empty(Dims{blocks, result.numel()}, work);
  const PackKernels pack = pack_kernels(work);
  multiply_batch(
      work, blocks * g.groups, m, n, std::min(per_block, g.images) * positions,
      [&](int64_t i, Compute compute) {
        const int64_t group = i % g.groups, first = i / g.groups * per_block;
        const int64_t images = std::min(per_block, g.images - first);
        const int64_t out_image = g.out_channels * positions;
        const int64_t in_image = g.in_channels * g.in_size();
        const ImageLines a = {grad.data() + (first * out_image + group * m * positions) * size,
                              out_image, positions};
        const Columns b = columns_of_input(
            g, x.data() + (first * in_image + group * g.group_in() * g.in_size()) * size);
        compute({.dtype = work,
                 .m = m,
                 .n = n,
                 .k = images * positions,
                 .a = {pack.images, &a},
                 .b = {pack.taps, &b},
                 .c = parts.data() + i * m * n * size,
                 .c_row = n,
                 .run = n,
                 .c_run = 0});
      });
  if (blocks == 1) return;
  add_parts(parts);
  std::memcpy(result.data(), parts.data(), static_cast<size_t>(result.numel() * size));
}

}  // namespace

void kernel_conv(const KernelCall& call) {
  const Tensor &x = call.inputs[0], &w = call.inputs[1], &out = call.outputs[0];
  const DType work = info(call.compute).compute;
  AttrReader attrs(call.attrs);
  const Geometry g(x.shape(), w.shape(), out.shape(), attrs);
  in_compute_dtype(out, work, [&](const Tensor& y) {
    multiply_columns(work, g, dense_as(w, work), dense_as(x, work), columns_of_input, g.group_in(),
                     y);
  });
}

void kernel_conv_input(const KernelCall& call) {
  const Tensor &grad = call.inputs[0], &w = call.inputs[1], &out = call.outputs[0];
  const DType work = info(call.compute).compute;
  AttrReader attrs(call.attrs);
  const auto size = attrs.list();
  const Geometry g(size, w.shape(), grad.shape(), attrs);
  in_compute_dtype(out, work, [&](const Tensor& dx) {
    multiply_columns(work, g, swap_channels(g, dense_as(w, work)), dense_as(grad, work),
                     columns_of_gradient, g.group_out(), dx);
  });
}

void kernel_conv_weight(const KernelCall& call) {
  const Tensor &grad = call.inputs[0], &x = call.inputs[1], &out = call.outputs[0];
  const DType work = info(call.compute).compute;
  AttrReader attrs(call.attrs);
  const auto size = attrs.list();
  const Geometry g(x.shape(), size, grad.shape(), attrs);
  in_compute_dtype(out, work, [&](const Tensor& dw) {
    weight_gradient(work, g, dense_as(grad, work), dense_as(x, work), dw);
  });
}

}  // namespace tinyt::cpu
