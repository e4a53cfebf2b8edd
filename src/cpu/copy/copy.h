// Copies between any strides and dtypes, and the ops that are made of copies.
#pragma once

#include "core/ops/kernels.h"

namespace tinyt::cpu {

// Whether a tensor lies dense in a dtype, and the bytes of a dense copy in it, else.
inline bool lies_dense(const Tensor& x, DType dtype) {
  return x.dtype() == dtype && x.is_contiguous();
}
inline int64_t dense_bytes(const Tensor& x, DType dtype) {
  return lies_dense(x, dtype) ? 0 : x.numel() * static_cast<int64_t>(size_of(dtype));
}
inline int64_t dense_bytes(const Tensor& x) { return dense_bytes(x, x.dtype()); }
// A dense tensor without memory; what dense_as returns without its memory.
Tensor dense_geometry(std::span<const int64_t> shape, DType dtype);
inline Tensor dense_geometry(const Tensor& x, DType dtype) {
  return lies_dense(x, dtype) ? x : dense_geometry(x.shape(), dtype);
}

// A result itself where kernels of a dtype can write to it, else memory for `finish` to convert;
// and its bytes.
inline int64_t target_bytes(const Tensor& out, DType dtype) {
  return out.dtype() == dtype ? 0 : out.numel() * static_cast<int64_t>(size_of(dtype));
}
Tensor target(const Tensor& out, DType dtype);
void finish(const Tensor& result, const Tensor& out);

// Writes `from`, broadcast to the shape of `to` and converted to its dtype. Both may have any
// strides; they must not overlap unless they are the same view.
void copy_into(const Tensor& from, const Tensor& to);

// x itself when it is contiguous, else a contiguous copy: dense_bytes.
Tensor as_contiguous(const Tensor& x);
// The same in a dtype.
Tensor dense_as(const Tensor& x, DType dtype);
// `count` rows along the first dimension, from `first` on.
inline Tensor rows_of(const Tensor& x, int64_t first, int64_t count) {
  Dims shape(x.shape());
  shape[0] = count;
  return x.view(shape, x.strides(), x.offset() + first * x.stride(0));
}

void kernel_cast(const KernelCall& call);
void kernel_copy(const KernelCall& call);
void kernel_reshape(const KernelCall& call);  // of an input that needs a copy
void kernel_fill(const KernelCall& call);
void kernel_iota(const KernelCall& call);
void kernel_pad(const KernelCall& call);
int64_t workspace_pad(const KernelCall& call);
void kernel_pad_border(const KernelCall& call);
void kernel_flip(const KernelCall& call);
void kernel_cat(const KernelCall& call);
void kernel_update(const KernelCall& call);

}  // namespace tinyt::cpu
