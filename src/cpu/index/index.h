// Reading and writing at computed positions: gather, scatter and its reductions, nonzero, masks.
#pragma once

#include "core/ops/kernels.h"

namespace tinyt::cpu {

void kernel_gather(const KernelCall& call);
void kernel_linear_index(const KernelCall& call);
void kernel_scatter(const KernelCall& call);
void kernel_scatter_add(const KernelCall& call);
void kernel_scatter_reduce(const KernelCall& call);

int64_t workspace_gather(const KernelCall& call);  // of gather or scatter
int64_t workspace_linear_index(const KernelCall& call);
int64_t workspace_scatter_combine(const KernelCall& call);  // of scatter_add or scatter_reduce

int64_t count_nonzero(const Tensor& x);
int64_t nonzero_bytes(const Tensor& x);  // that it takes
int64_t workspace_nonzero(const KernelCall& call);
int64_t workspace_masked_select(const KernelCall& call);
void kernel_nonzero(const KernelCall& call);
void kernel_masked_select(const KernelCall& call);

// Fails with IndexError unless every element of an int64 index lies in [0, size).
void check_index(OpId op, const Tensor& index, int64_t dim, int64_t size);
int64_t check_index_bytes(const Tensor& index);  // that it takes

inline int64_t load_index(const char* at) {
  int64_t value;
  __builtin_memcpy(&value, at, sizeof value);
  return value;
}

// 0-d tensors take part as ones of a single element.
inline Tensor at_least_1d(const Tensor& t) {
  constexpr int64_t kOne[] = {1};
  return t.rank() > 0 ? t : t.view(kOne, kOne, t.offset());
}

}  // namespace tinyt::cpu
