// Attention to all keys from that to parts of them: results of parts are weighted by exp(sum), of
// which a part has the logarithm. Parts are added in their order.
//
// What is set in front of this text, by src/cuda/attention.cpp: Result. A thread an element.
#include "attention_arguments.h"
#include "elements.cuh"
#include "exponentials.cuh"

#include "variant.h"  // which needs what stands above

using Out = Element<Result>::Memory;
constexpr int kThreads = kAttentionThreads;

extern "C" __global__ void __launch_bounds__(kThreads)
    tt_kernel(const float* __restrict__ parts, const float* __restrict__ part_sums,
              Out* __restrict__ out, float* __restrict__ sums,
              const __grid_constant__ AttentionPartsArguments p) {
  const i64 i = i64(blockIdx.x) * kThreads + threadIdx.x, count = p.rows * p.width;
  if (i >= count) return;
  const i64 row = i / p.width;
  parts += p.parts_first + i;
  part_sums += p.part_sums_first + row;
  float top = lowest();
  for (i64 n = 0; n < p.parts; ++n) top = fmaxf(top, part_sums[n * p.rows]);
  const float base = top == lowest() ? 0 : top;  // no part has a key that may be seen
  float total = 0, sum = 0;
  for (i64 n = 0; n < p.parts; ++n) {
    const float weight = exponential(part_sums[n * p.rows] - base);
    total += weight;
    sum = __fmaf_rn(weight, parts[n * count], sum);
  }
  out[p.out_first + i] = Element<Result>::rounded(total == 0 ? 0 : sum / total);
  if (i % p.width == 0) sums[p.sums_first + row] = top + logarithm(total);
}
