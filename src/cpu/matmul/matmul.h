// Matrix products: the blocked driver that matmul and the convolutions share, and the matmul op.
#pragma once

#include <cstdint>

#include "core/base/parallel.h"
#include "core/ops/kernels.h"
#include "cpu/schedule/levels.h"

namespace tinyt::cpu {

struct Packer {
  PackKernel pack;
  const void* context;
};

// What is added to the finished sums: element (i, j) is data[i * row + j * col], in elements; of a
// Product col is 0 or 1.
struct Addend {
  const void* data = nullptr;
  int64_t row = 0, col = 0;
};

// Is told which rows and columns of a product are final.
using Done = FunctionRef<void(int64_t row, int64_t rows, int64_t col, int64_t cols)>;

// C = A B (+ addend), with A [m, k] and B [k, n] read through packers, which may compute what they
// deliver. Each element of C is the sum, in order, of the chains of fma over fixed blocks of k: its
// bits depend on its own row and column and on k alone.
struct Product {
  // Of C and of what the packers write: Float32, Float64, Int64, or Int32 from pairs of int16.
  DType dtype;
  int64_t m, n, k;
  Packer a, b;
  // Where the operands lie in memory as they are: they are read there when that is faster.
  const StridedLines* a_lines = nullptr;
  const StridedLines* b_lines = nullptr;
  // Element (i, j) of C is c[i * c_row + (j / run) * c_run + j % run], in elements.
  void* c;
  int64_t c_row, run, c_run;
  Addend add = {};
  const Done* done = nullptr;  // where k > 0
};

inline constexpr int64_t kDepth = 4096;  // most bytes of k in one chain of fma

// Bytes of a B, or of a block of it, that is read where it is by more rows than a tile has.
inline constexpr int64_t kNearB = kL2Bytes / 4;

// Which operands all products of a batch have lines of. Of B neighbouring columns are next to each
// other then. Of an A whose rows are, `a_step` is from one k to the next, in elements.
struct InMemory {
  bool a = false;
  bool b = false;
  int64_t a_step = 0;
};

// Computes `count` products of one size (k is the most, they may have less): body(i, compute)
// builds product i and calls compute(product). Many small products are spread over the threads,
// large ones run one by one.
using Compute = FunctionRef<void(const Product&)>;
void multiply_batch(DType dtype, int64_t count, int64_t m, int64_t n, int64_t k,
                    FunctionRef<void(int64_t, Compute)> body, InMemory memory = {});

// What it takes for itself.
int64_t batch_workspace(DType dtype, int64_t count, int64_t m, int64_t n, int64_t k,
                        InMemory memory = {});
// Into how many tasks a single product is cut.
int64_t tasks_of_product(int64_t m, int64_t n, int64_t k);

// Products so small that setting each one up would cost more than computing it, in a batch of any
// shape: strides of an operand along it are in elements.
struct SmallBatch {
  DType dtype;
  int64_t m, n, k;
  StridedLines a, b;
  Dims batch, a_batch, b_batch;
  void* c;
};
bool is_small(DType dtype, int64_t m, int64_t n, int64_t k);
// A tail, or null, is told of the products.
void multiply_small(SmallBatch s, Epilogue* tail);
int64_t small_tasks(DType dtype, int64_t count, int64_t m, int64_t n, int64_t k);

// out[i * n + j] = the dot product of x and line j of batch i (+ addend), in the order of a
// reduction (ADR 0003). Both are read from dtype `from` as `work`.
struct VectorSizes {
  DType from, work;
  int64_t count, n, k;
  int64_t x_step, line, step;  // in elements
  bool adds;                   // whether there is an addend, the same for every batch
};
struct VectorMatmul : VectorSizes {
  FunctionRef<const char*(int64_t)> x, lines;  // where those of batch i start
  void* out;
  Addend add;
};
void multiply_vectors(const VectorMatmul& p);
int64_t vectors_workspace(const VectorSizes& p);

// out[j] = the sum of parts[i * n + j] over i < count, in order (+ add.data[j * add.col]).
void sum_parts(DType dtype, const void* parts, int64_t count, int64_t n, const Addend& add,
               void* out);

// torch.matmul: vectors, matrices and broadcast batches of them, any strides.
void kernel_matmul(const KernelCall& call);
// The same plus a third input that broadcasts to the product, with the bits of two operations.
void kernel_matmul_add(const KernelCall& call);
bool adds_in_place(const KernelCall& call);
int64_t workspace_matmul(const KernelCall& call);
int64_t workspace_matmul_add(const KernelCall& call);
int64_t workspace_int_mm(const KernelCall& call);
// Two matrices of bytes into int32.
void kernel_int_mm(const KernelCall& call);

}  // namespace tinyt::cpu
