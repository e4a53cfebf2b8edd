// Kernels of rows of the op table that every GPU backend shares.
#pragma once

#include "core/ops/kernels.h"

namespace tinyt::gpu {

// Elementwise operations, one fused kernel of one operation each.
void run_elementwise(const KernelCall& call);

// Copies of any strides, and what is made of them.
void copy_into(const Tensor& from, const Tensor& to);
// The elements in a dtype: the tensor itself, or a contiguous copy; contiguous in any case.
Tensor converted(const Tensor& x, DType dtype);
Tensor contiguous_in(const Tensor& x, DType dtype);
void run_copy(const KernelCall& call);
void run_reshape(const KernelCall& call);
void run_fill(const KernelCall& call);
void run_flip(const KernelCall& call);
void run_cat(const KernelCall& call);
void run_update(const KernelCall& call);
void run_pad(const KernelCall& call);

// A 0-d tensor as one of one element; any other as it is.
Tensor at_least_1d(const Tensor& x);
// Truth values as the bytes that they are, of which any but 0 is true, so that they share kernels
// with others; any other tensor as it is.
Tensor as_bytes(const Tensor& x);

// The real (0) or imaginary (1) parts of complex numbers, as elements of that dtype.
Tensor part_of(const Tensor& x, DType dtype, int64_t part);

// Counters; random bits, uniform and normal numbers; draws with parameters, by the CPU.
void run_iota(const KernelCall& call);
void run_draw(const KernelCall& call);
void run_variate(const KernelCall& call);

void run_gather(const KernelCall& call);
void run_scatter(const KernelCall& call);
void run_scatter_add(const KernelCall& call);
void run_scatter_reduce(const KernelCall& call);
void run_linear_index(const KernelCall& call);
void run_pad_border(const KernelCall& call);
// Sums, products, largest and smallest elements up to each along a dimension; places of the latter.
void run_scan(const KernelCall& call);
void run_argmax(const KernelCall& call);
// Values in order along a dimension, in the CPU's stable order, and where they stood; the first or
// one of them; places in lines that are in order.
void run_sort(const KernelCall& call);
void run_topk(const KernelCall& call);
void run_kthvalue(const KernelCall& call);
void run_median(const KernelCall& call);
void run_searchsorted(const KernelCall& call);
// Elements that are not zero: how many, which waits for the device; their places; rows there.
int64_t count_nonzero(const Tensor& x);
void run_nonzero(const KernelCall& call);
void run_masked_select(const KernelCall& call);
void run_max_pool(const KernelCall& call);

void run_matmul(const KernelCall& call);
// Where threads share memory.
void run_attention(const KernelCall& call);
void run_attention_backward(const KernelCall& call);
// Products of gradient and output, of each query: what slopes of scores are reduced by.
Tensor attention_dots(const Tensor& gradient, const Tensor& output);
void run_conv(const KernelCall& call);
void run_conv_backward_input(const KernelCall& call);
void run_conv_backward_weight(const KernelCall& call);
// Sums of a few elements with weights, along each dimension.
void run_resample(const KernelCall& call);
// Factors of matrices and triangular systems, in batches.
void run_cholesky(const KernelCall& call);
void run_solve_triangular(const KernelCall& call);

// Sums, products, largest and smallest elements, in the CPU's order (core/ops/row_order.h).
void run_reduction(const KernelCall& call);

}  // namespace tinyt::gpu
