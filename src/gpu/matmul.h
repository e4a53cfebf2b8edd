// Batches of products of matrices, for kernels that are made of them.
#pragma once

#include "core/tensor/tensor.h"

namespace tinyt::gpu {

// [batch, m, k] times [batch, k, n]: operands of one dtype, with strides in elements.
struct Product {
  Tensor a, b;
  int64_t m = 0, n = 0, k = 0;
  int64_t a_row = 0, a_sum = 0, b_sum = 0, b_column = 0;
  Dims batch{}, a_batch{}, b_batch{};  // sizes, and strides; 0 repeats

  // Of some of the sums.
  Product from(int64_t first, int64_t count) const {
    const auto moved = [first](const Tensor& x, int64_t step) {
      return x.view(x.shape(), x.strides(), x.offset() + first * step);
    };
    Product some = *this;
    some.a = moved(a, a_sum);
    some.b = moved(b, b_sum);
    some.k = count;
    return some;
  }
};

// Into dense memory [batch, m, n] of the dtype that sums are made in; halves may be operands where
// threads share memory.
void multiply(const Product& product, const Tensor& out);
// Sums of [part, result] over the parts, into a dense tensor of as many elements.
void add_parts(const Tensor& parts, const Tensor& out);
// The product of two tensors, as `matmul` has it; the same, into such memory, of operands of any
// dtype.
Product product_of(const Tensor& a, const Tensor& b);
void multiply_tensors(const Tensor& a, const Tensor& b, const Tensor& out);

}  // namespace tinyt::gpu
