// Convolutions of which each result's channel reads one channel of images, and both gradients. They
// are bound by memory: neighbouring threads make neighbouring elements, and read what their
// neighbours have brought into the L1 cache.
//
//   kPass      result      a           b
//   kForward   outputs     images      weights     a thread an element
//   kImages    of images   gradients   weights     the same, by all taps that meet it
//   kWeights   of weights  gradients   images      a block a tap of a channel, of one part of the
//                                                  positions; its threads' sums are added as a tree
//
// What is set in front of this text, by src/cuda/depthwise.cpp: T, Result and kPass. Sums are in
// float32, those of taps in their order.
#include "depthwise_arguments.h"
#include "elements.cuh"

enum Pass { kForward, kImages, kWeights };

#include "variant.h"  // which needs what stands above

using Memory = Element<T>::Memory;
using Out = Element<Result>::Memory;

// Of a number: its digits by three places, and what is left.
struct Digits {
  int at[3], rest;
  __device__ Digits(i64 number, const int (&size)[3]) {
    at[2] = int(number % size[2]);
    number /= size[2];
    at[1] = int(number % size[1]);
    number /= size[1];
    at[0] = int(number % size[0]);
    rest = int(number / size[0]);
  }
};

// Calls f(tap, place 0, place 1, place 2) for each tap for which `place(dimension, tap's place)` is
// one of `size`.
template <class P, class F>
__device__ void for_taps(const DepthwiseArguments& p, const int (&size)[3], const P& place,
                         const F& f) {
  int tap = 0;
  for (int i = 0; i < p.kernel[0]; ++i) {
    const int z = place(0, i);
    for (int j = 0; j < p.kernel[1]; ++j) {
      const int y = place(1, j);
      for (int k = 0; k < p.kernel[2]; ++k, ++tap) {
        const int x = place(2, k);
        if (u32(z) < u32(size[0]) && u32(y) < u32(size[1]) && u32(x) < u32(size[2]))
          f(tap, z, y, x);
      }
    }
  }
}

__device__ inline int place_of(const int (&step)[5], int image, int channel, int z, int y, int x) {
  return image * step[0] + channel * step[1] + z * step[2] + y * step[3] + x * step[4];
}

__device__ inline float forward(const Memory* images, const Memory* weights, i64 i,
                                const DepthwiseArguments& p) {
  const Digits of(i, p.positions);
  const int channel = of.rest % p.channels, image = of.rest / p.channels;
  const int taps = p.kernel[0] * p.kernel[1] * p.kernel[2];
  const auto place = [&](int d, int t) {
    return of.at[d] * p.stride[d] - p.padding[d] + t * p.dilation[d];
  };
  float sum = 0;
  for_taps(p, p.source, place, [&](int tap, int z, int y, int x) {
    const Memory image_x = images[place_of(p.image_step, image, channel / p.of_group, z, y, x)];
    sum = __fmaf_rn(Element<T>::value(image_x), Element<T>::value(weights[channel * taps + tap]),
                    sum);
  });
  return sum;
}

__device__ inline float of_image(const Memory* gradients, const Memory* weights, i64 i,
                                 const DepthwiseArguments& p) {
  const Digits of(i, p.source);
  const int groups = p.channels / p.of_group, group = of.rest % groups, image = of.rest / groups;
  const int taps = p.kernel[0] * p.kernel[1] * p.kernel[2];
  const auto place = [&](int d, int t) {
    const int at = of.at[d] + p.padding[d] - t * p.dilation[d];
    return at < 0 || at % p.stride[d] != 0 ? -1 : at / p.stride[d];
  };
  float sum = 0;
  for (int channel = group * p.of_group; channel < (group + 1) * p.of_group; ++channel)
    for_taps(p, p.positions, place, [&](int tap, int z, int y, int x) {
      const Memory g = gradients[place_of(p.gradient_step, image, channel, z, y, x)];
      sum = __fmaf_rn(Element<T>::value(g), Element<T>::value(weights[channel * taps + tap]), sum);
    });
  return sum;
}

// Of the thread's own positions: every kDepthwiseThreads-th of the part.
__device__ inline float of_weight(const Memory* gradients, const Memory* images, i64 block,
                                  const DepthwiseArguments& p) {
  const Digits tap(block, p.kernel);
  const int channel = tap.rest % p.channels;
  const i64 first = tap.rest / p.channels * p.sums_of_part, last = first + p.sums_of_part;
  const i64 end = last < p.sums ? last : p.sums;
  float sum = 0;
  for (i64 i = first + threadIdx.x; i < end; i += kDepthwiseThreads) {
    const Digits of(i, p.positions);
    int at[3];
    bool inside = true;
    for (int d = 0; d < 3; ++d) {
      at[d] = of.at[d] * p.stride[d] - p.padding[d] + tap.at[d] * p.dilation[d];
      inside = inside && u32(at[d]) < u32(p.source[d]);
    }
    if (!inside) continue;
    const Memory g =
        gradients[place_of(p.gradient_step, of.rest, channel, of.at[0], of.at[1], of.at[2])];
    const Memory x =
        images[place_of(p.image_step, of.rest, channel / p.of_group, at[0], at[1], at[2])];
    sum = __fmaf_rn(Element<T>::value(g), Element<T>::value(x), sum);
  }
  return sum;
}

// Of all threads' sums, in the first one.
__device__ inline float added(float sum) {
  float* const sums = reinterpret_cast<float*>(shared_memory());
  sums[threadIdx.x] = sum;
  for (int half = kDepthwiseThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (int(threadIdx.x) < half) sums[threadIdx.x] += sums[threadIdx.x + half];
  }
  return sums[0];
}

extern "C" __global__ void __launch_bounds__(kDepthwiseThreads, 4)
    tt_kernel(const Memory* __restrict__ a, const Memory* __restrict__ b, Out* __restrict__ out,
              const __grid_constant__ DepthwiseArguments p) {
  a += p.first_a;
  b += p.first_b;
  out += p.first_out;
  if (kPass == kWeights) {
    const float sum = added(of_weight(a, b, blockIdx.x, p));
    if (threadIdx.x != 0) return;
    // Parts one behind another; taps of a channel side by side in each.
    out[blockIdx.x] = Element<Result>::rounded(sum);
    return;
  }
  const i64 i = i64(blockIdx.x) * kDepthwiseThreads + threadIdx.x;
  if (i >= p.count) return;
  out[i] = Element<Result>::rounded(kPass == kForward ? forward(a, b, i, p) : of_image(a, b, i, p));
}
