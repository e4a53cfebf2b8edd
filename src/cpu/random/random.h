// Random draws. All take their words from the counters that core/base/random.h describes, so a draw
// depends on seed, offset and size alone.
#pragma once

#include "core/ops/kernels.h"

namespace tinyt::cpu {

// 64 random bits as int64.
void kernel_random_bits(const KernelCall& call);
// Multiples of 2^-24 (float32), 2^-53 (float64), 2^-11 (float16) or 2^-8 (bfloat16) in [0, 1).
void kernel_uniform(const KernelCall& call);
// Mean 0, variance 1, by Box and Muller's transform of neighbouring uniform draws.
void kernel_normal(const KernelCall& call);

}  // namespace tinyt::cpu
