// What attention and its gradients are made of: rows of operands in shared memory, and scores and
// results of the 16 rows of a warp. What is set in front of this text, by src/cuda/attention.cpp:
//   T        elements of operands: Bfloat16 or Float16, or Float32
//   Result   what results are rounded to; Whole<float> where another kernel joins parts of the keys
//   kHead    features that there is room for, 64 or 128
//   kMask    kNone; kAllowed: bytes, 0 where a key may not be seen; kAdded: numbers
//   Masks    elements of masks: UInt8, Float32 or T
#pragma once

#include "attention_arguments.h"
#include "elements.cuh"
#include "exponentials.cuh"

enum MaskKind { kNone, kAllowed, kAdded };

#include "variant.h"  // which needs what stands above

using Memory = Element<T>::Memory;
using Out = Element<Result>::Memory;
using MaskElement = Element<Masks>;
using Mask = MaskElement::Memory;

constexpr int kThreads = kAttentionThreads, kOfBlock = kAttentionRows;
constexpr int kOfWarp = kOfBlock / (kThreads / 32);
constexpr int kChunk = 16, kOfChunk = kChunk / int(sizeof(Memory));
constexpr int kRowBytes = kHead * int(sizeof(Memory));

__device__ inline int lane() { return int(threadIdx.x) % 32; }

// ---- rows in shared memory: chunks of 16 bytes change places, so that eight rows' chunks of one
// number lie in different banks

__device__ inline int place_of(int row, int chunk) {
  return row * kRowBytes + (chunk ^ (row & 7)) * kChunk;
}

// The chunk that a thread has of some of a tile's rows.
struct OwnChunk {
  static constexpr int kOfRow = kRowBytes / kChunk, kAtOnce = kThreads / kOfRow;
  static_assert(kThreads % kOfRow == 0);
  const int first = int(threadIdx.x) / kOfRow, chunk = int(threadIdx.x) % kOfRow;
};

// The first of `rows` rows there; zeros beyond, and behind the last feature.
template <int kRows>
__device__ void fill(unsigned char* tile, const Memory* from, i64 step, int rows, int features) {
  const OwnChunk own;
  static_assert(kRows % OwnChunk::kAtOnce == 0);
  const int rest = features - own.chunk * kOfChunk;
  const int there = rest <= 0 ? 0 : rest < kOfChunk ? rest * int(sizeof(Memory)) : kChunk;
  const Memory* at = from + own.first * step + own.chunk * kOfChunk;
#pragma unroll 2
  for (int row = own.first; row < kRows; row += own.kAtOnce, at += own.kAtOnce * step) {
    const bool is_there = row < rows && there > 0;
    copy_16(tile + place_of(row, own.chunk), is_there ? at : from, is_there ? there : 0);
  }
}

// What this thread has filled of rows of float32, once it is there, times a number.
template <int kRows>
__device__ void scale_filled(unsigned char* tile, float scale) {
  const OwnChunk own;
#pragma unroll 2
  for (int row = own.first; row < kRows; row += own.kAtOnce) {
    float4& four = *reinterpret_cast<float4*>(tile + place_of(row, own.chunk));
    four = {four.x * scale, four.y * scale, four.z * scale, four.w * scale};
  }
}

// ---- products of a warp's 16 rows: scores with the kWide rows of a tile, and what these add to
// results, weighted by scores
//
// A thread has scores of kRows rows with kColumns rows of tiles, and of each of these rows results
// of kFeatures features, of which kTogether lie side by side. kLanes neighbouring lanes share rows.

template <class Type>
struct Results {  // by products of matrices of a warp: lane 4 g + t has rows g and g + 8
  static constexpr int kFeatures = kHead / 4, kTogether = 2;

  float of[kHead / 8][4];

  static __device__ int feature(int f) { return f / 2 * 8 + lane() % 4 * 2 + f % 2; }
  __device__ float& at(int r, int f) { return of[f / 2][2 * r + f % 2]; }
};

template <class Type, int kWide>
struct Scores {
  static constexpr int kRows = 2, kColumns = kWide / 4, kLanes = 4;
  static constexpr int kExtraBytes = 0;

  // Scores are scaled, not queries, which would have to be rounded.
  static constexpr bool kScalesQueries = false;

  float of[kWide / 8][4];

  static __device__ int row(int r) { return lane() / 4 + 8 * r; }
  static __device__ int column(int c) { return c / 2 * 8 + lane() % 4 * 2 + c % 2; }
  __device__ float& at(int r, int c) { return of[c / 2][2 * r + c % 2]; }

  __device__ void multiply(const unsigned char* rows, const unsigned char* columns, int features) {
#pragma unroll
    for (int j = 0; j < kWide / 8; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e) of[j][e] = 0;
    const int low = lane() % 8, one = lane() / 8 % 2, two = lane() / 16;
#pragma unroll
    for (int step = 0; step < kHead / 16; ++step) {
      if (16 * step >= features) break;
      u32 left[4];
      load_matrices(left, rows + place_of(8 * one + low, 2 * step + two));
#pragma unroll
      for (int j = 0; j < kWide / 8; j += 2) {
        u32 right[4];  // of two products side by side
        load_matrices(right, columns + place_of(8 * (j + two) + low, 2 * step + one));
        multiply_add(Type{}, of[j], left, {right[0], right[1]});
        multiply_add(Type{}, of[j + 1], left, {right[2], right[3]});
      }
    }
  }

  // What a lane has of scores is what it has to have of the left operand.
  __device__ void add_weighted(Results<Type>& results, const unsigned char* values, float*,
                               int width) const {
    const int low = lane() % 8, one = lane() / 8 % 2, two = lane() / 16;
#pragma unroll
    for (int step = 0; step < kWide / 16; ++step) {
      u32 weights[4];
#pragma unroll
      for (int w = 0; w < 4; ++w) {
        const float* const pair = of[2 * step + w / 2] + w % 2 * 2;
        weights[w] = Element<Type>::rounded(pair[0]) | u32(Element<Type>::rounded(pair[1])) << 16;
      }
#pragma unroll
      for (int j = 0; j < kHead / 8; j += 2) {
        if (8 * j >= width) break;
        u32 columns[4];
        load_transposed(columns, values + place_of(16 * step + 8 * one + low, j + two));
        multiply_add(Type{}, results.of[j], weights, {columns[0], columns[1]});
        multiply_add(Type{}, results.of[j + 1], weights, {columns[2], columns[3]});
      }
    }
  }
};

template <>
struct Results<Float32> {  // by single numbers: a lane has every fourth row
  static constexpr int kFeatures = kHead / 8, kTogether = 4;

  float of[4][kFeatures];

  static __device__ int feature(int f) { return f / 4 * 32 + lane() % 8 * 4 + f % 4; }
  __device__ float& at(int r, int f) { return of[r][f]; }
};

template <int kWide>
struct Scores<Float32, kWide> {  // and every eighth row of a tile
  static constexpr int kRows = 4, kColumns = kWide / 8, kLanes = 8;
  // Weights of a warp lie in shared memory; lines of two rows in different banks.
  static constexpr int kPitch = kWide + kWeightGap, kExtraBytes = kOfWarp * kPitch * 4;

  // As generated kernels do, so that scores have the same bits in all, however large.
  static constexpr bool kScalesQueries = true;

  float of[kRows][kColumns];

  static __device__ int row(int r) { return lane() / 8 + 4 * r; }
  static __device__ int column(int c) { return lane() % 8 + 8 * c; }
  __device__ float& at(int r, int c) { return of[r][c]; }

  __device__ void multiply(const unsigned char* rows, const unsigned char* columns, int features) {
#pragma unroll
    for (int r = 0; r < kRows; ++r)
#pragma unroll
      for (int c = 0; c < kColumns; ++c) of[r][c] = 0;
#pragma unroll 2
    for (int chunk = 0; 4 * chunk < features; ++chunk) {
      float4 fours[kRows];
#pragma unroll
      for (int r = 0; r < kRows; ++r) fours[r] = load(rows, row(r), chunk);
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        const float4 other = load(columns, column(c), chunk);
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
          float& sum = of[r][c];
          sum = __fmaf_rn(fours[r].x, other.x, sum);
          sum = __fmaf_rn(fours[r].y, other.y, sum);
          sum = __fmaf_rn(fours[r].z, other.z, sum);
          sum = __fmaf_rn(fours[r].w, other.w, sum);
        }
      }
    }
  }

  __device__ void add_weighted(Results<Float32>& results, const unsigned char* values,
                               float* weights, int width) const {
    __syncwarp();  // nobody reads those that were there before
#pragma unroll
    for (int r = 0; r < kRows; ++r)
#pragma unroll
      for (int c = 0; c < kColumns; ++c) weights[row(r) * kPitch + column(c)] = of[r][c];
    __syncwarp();
#pragma unroll 1
    for (int first = 0; first < kWide; first += 4) {
      float4 fours[kRows];
#pragma unroll
      for (int r = 0; r < kRows; ++r)
        fours[r] = *reinterpret_cast<const float4*>(weights + row(r) * kPitch + first);
#pragma unroll
      for (int k = 0; k < 4; ++k)
#pragma unroll
        for (int f = 0; f < Results<Float32>::kFeatures; f += 4) {
          if (f * 8 >= width) break;
          const float4 value = load(values, first + k, f * 2 + lane() % 8);
#pragma unroll
          for (int r = 0; r < kRows; ++r) {
            const float w = k == 0   ? fours[r].x
                            : k == 1 ? fours[r].y
                            : k == 2 ? fours[r].z
                                     : fours[r].w;
            float* const sums = results.of[r] + f;
            sums[0] = __fmaf_rn(w, value.x, sums[0]);
            sums[1] = __fmaf_rn(w, value.y, sums[1]);
            sums[2] = __fmaf_rn(w, value.z, sums[2]);
            sums[3] = __fmaf_rn(w, value.w, sums[3]);
          }
        }
    }
  }

  static __device__ float4 load(const unsigned char* tile, int row, int chunk) {
    return *reinterpret_cast<const float4*>(tile + place_of(row, chunk));
  }
};

// Row `r` of the thread, times a number, to memory; neighbours at once where that may be.
template <class Type>
__device__ void store_row(Results<Type>& results, int r, float factor, Out* to, int width,
                          bool packs) {
  constexpr int kTogether = Results<Type>::kTogether;
#pragma unroll
  for (int f = 0; f < Results<Type>::kFeatures; f += kTogether) {
    const int feature = Results<Type>::feature(f);
    if (feature >= width) break;
    struct alignas(kTogether * sizeof(Out)) Some {
      Out of[kTogether];
    } some;
#pragma unroll
    for (int e = 0; e < kTogether; ++e)
      some.of[e] = Element<Result>::rounded(results.at(r, f + e) * factor);
    if (packs) {
      *reinterpret_cast<Some*>(to + feature) = some;
    } else {
#pragma unroll
      for (int e = 0; e < kTogether; ++e)
        if (feature + e < width) to[feature + e] = some.of[e];
    }
  }
}
