// Matrix products: the blocked driver that matmul and the convolutions share, and the matmul op.
#pragma once

#include <cstdint>

#include "../backend.h"
#include "../parallel.h"
#include "levels.h"

namespace tinyt::cpu {

struct Packer {
  PackKernel pack;
  const void* context;
};

// C = A B, with A [m, k] and B [k, n] read through packers, which may compute what they deliver.
// Each element of C is the sum, in order, of the chains of fma over fixed blocks of k: its bits
// depend on its own row and column and on k alone.
struct Product {
  DType dtype;  // of C and of what the packers write: Float32, Float64 or Int64
  int64_t m, n, k;
  Packer a, b;
  // Where B lies in memory as it is, with neighbouring columns next to each other: a product of
  // few rows reads it there.
  const StridedLines* b_lines = nullptr;
  // Element (i, j) of C is c[i * c_row + (j / run) * c_run + j % run], in elements.
  void* c;
  int64_t c_row, run, c_run;
};

// Computes `count` products of one size (k is the most, they may have less): body(i, compute)
// builds product i and calls compute(product). Many small products are spread over the threads,
// large ones run one by one.
using Compute = FunctionRef<void(const Product&)>;
void multiply_batch(DType dtype, int64_t count, int64_t m, int64_t n, int64_t k,
                    FunctionRef<void(int64_t, Compute)> body);

// torch.matmul: vectors, matrices and broadcast batches of them, any strides.
void kernel_matmul(const KernelCall& call);

}  // namespace tinyt::cpu
