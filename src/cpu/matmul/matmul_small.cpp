// Batches of small products: cut into runs of products that lie at equal distances.
#include <algorithm>

#include "cpu/matmul/matmul.h"

namespace tinyt::cpu {
namespace {

constexpr int64_t kBytes = kL1Bytes / 2;  // of one product: its operands and C stay in L1
constexpr int64_t kStart = 4;  // instructions of a row's tile, besides those of its depth

// Neighbouring dimensions that both operands walk through in equal steps become one.
void merge_dims(SmallBatch& s) {
  Dims batch, a, b;
  for (size_t d = 0; d < s.batch.size(); ++d) {
    const int64_t size = s.batch[d];
    if (size == 1) continue;
    if (!batch.empty() && a.back() == size * s.a_batch[d] && b.back() == size * s.b_batch[d]) {
      batch.back() *= size;
      a.back() = s.a_batch[d];
      b.back() = s.b_batch[d];
    } else {
      batch.push_back(size);
      a.push_back(s.a_batch[d]);
      b.push_back(s.b_batch[d]);
    }
  }
  s.batch = batch;
  s.a_batch = a;
  s.b_batch = b;
}

// Products [begin, end), run by run of the last dimension.
void multiply_runs(const SmallBatch& s, int64_t begin, int64_t end) {
  const auto item = static_cast<int64_t>(size_of(s.dtype));
  const auto at = [&](const void* data, int64_t offset) {
    return static_cast<const char*>(data) + offset * item;
  };
  const int64_t length = s.batch.empty() ? 1 : s.batch.back();
  while (begin < end) {
    const int64_t count = std::min(length - begin % length, end - begin);
    int64_t a = 0, b = 0, i = begin;
    for (size_t d = s.batch.size(); d-- > 0; i /= s.batch[d]) {
      a += i % s.batch[d] * s.a_batch[d];
      b += i % s.batch[d] * s.b_batch[d];
    }
    kernels().gemm->small[static_cast<int>(s.dtype)](
        {.count = count,
         .m = s.m,
         .n = s.n,
         .k = s.k,
         .a = {at(s.a.data, a), s.a.line, s.a.depth},
         .b = {at(s.b.data, b), s.b.line, s.b.depth},
         .a_next = s.batch.empty() ? 0 : s.a_batch.back(),
         .b_next = s.batch.empty() ? 0 : s.b_batch.back(),
         .c = static_cast<char*>(s.c) + begin * s.m * s.n * item});
    begin += count;
  }
}

int64_t small_grain(DType dtype, int64_t m, int64_t n, int64_t k) {
  const int64_t width = kernels().gemm->tile[static_cast<int>(dtype)].cols / 2;
  return ceil_div(kChunkElements, m * ceil_div(n, width) * (k + kStart));
}

}  // namespace

bool is_small(DType dtype, int64_t m, int64_t n, int64_t k) {
  const auto size = static_cast<int64_t>(size_of(dtype));
  return k > 0 && k * size <= kDepth && std::max(m, n) <= kBytes && n * k * size <= kSmallB &&
         (m * k + n * k + m * n) * size <= kBytes &&
         kernels().gemm->small[static_cast<int>(dtype)] != nullptr;
}

int64_t small_tasks(DType dtype, int64_t count, int64_t m, int64_t n, int64_t k) {
  return ceil_div(count, small_grain(dtype, m, n, k));
}

void multiply_small(SmallBatch s, Epilogue* tail) {
  merge_dims(s);
  const int64_t count = numel_of(s.batch), grain = small_grain(s.dtype, s.m, s.n, s.k);
  parallel_ranges(count, grain, [&](int64_t begin, int64_t end) {
    multiply_runs(s, begin, end);
    if (tail) tail->run(begin * s.m, (end - begin) * s.m, 0, s.n);
  });
}

}  // namespace tinyt::cpu
