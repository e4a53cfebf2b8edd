// Exponentials and logarithms of float32 for weights of attention: to 2^-21 of the result, more
// where the number is large.
#pragma once

#include "instructions.cuh"

__device__ inline float lowest() { return __uint_as_float(0xFF800000); }  // -inf

__device__ inline float exponential(float x) { return exp2_near(x * 1.44269504f); }
__device__ inline float logarithm(float x) { return log2_near(x) * 0.693147181f; }
