// What the forms of a convolution share: its sizes, and the product of matrices that each is.
#pragma once

#include <span>

#include "core/ops/kernels.h"
#include "cpu/conv/im2col.h"
#include "cpu/copy/copy.h"

namespace tinyt::cpu {

// Sizes of a convolution of x with w that gives y.
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

// Runs body(result), with result in the compute dtype, and rounds it to `out`.
template <class F>
void in_compute_dtype(const Tensor& out, DType work, F&& body) {
  if (out.numel() == 0) return;
  const Tensor result = target(out, work);
  body(result);
  finish(result, out);
}

// y [images, channels, positions] = lines (one row per channel, in memory) times the columns, of
// which `ins` channels belong to each group. A tail takes y as rows of channels.
void multiply_columns(DType work, int64_t groups, const Tensor& lines, const Columns& columns,
                      int64_t ins, const Tensor& y, Epilogue* tail = nullptr);
int64_t columns_workspace(DType work, int64_t groups, const Tensor& lines, const Columns& columns,
                          int64_t ins, const Tensor& y, Epilogue* tail = nullptr);

}  // namespace tinyt::cpu
