// Attention without the scores in memory: of a block of queries the largest score so far, the sum
// of exp(score - largest) and of these times the values are kept, and scaled when a larger score
// comes (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018; Dao,
// "FlashAttention-2", 2023).
//
//   out[i] = sum over j of w[i, j] * value[j], w[i] the softmax of scale * query[i] . key[j] + mask
//   sums[i] = log(sum over j of exp(scale * query[i] . key[j] + mask[i, j])), for the gradients
//
// A query that may see no key gets zeros, and -inf as its sum. What is set in front of this text,
// by src/cuda/attention.cpp:
//   T        elements of operands: Bfloat16 or Float16, or Float32
//   Result   what results are rounded to; Whole<float> where another kernel joins parts of the keys
//   kHead    features that there is room for, 64 or 128
//   kMask    kNone; kAllowed: bytes, 0 where a key may not be seen; kAdded: numbers
//   Masks    elements of masks: UInt8, Float32 or T
//
// A block is four warps, of 16 queries each; 64 keys and their values (32 of float32) lie in shared
// memory, and while one is multiplied the other comes. Bfloat16 and float16 are multiplied by
// mma.sync; weights are rounded to the operands' type for the second product, as its operands have
// to be, and their sum is of those that are not. Float32 is multiplied by fused multiply-adds.
//
// By calculation, as no GPU has run this: 2 * (features + width) operations a score. With kHead =
// 128 a thread has 64 results and 32 (16) scores in registers, of the 255 of which a processor has
// enough for two blocks, 8 warps; 48 KB (73 KB) of shared memory a block are no limit. With 64
// features and without a mask there are three blocks of 168 registers and 24 KB. For 64 x 64 scores
// of 128 features the warps of a block do 2.1 M operations, 1024 cycles of a processor's tensor
// cores at 2048 a cycle (compute capability 8.0); they read 128 KB of keys and values as fragments
// of matrices and 16 KB of queries, 1152 cycles at 128 bytes; exponentials are 256 cycles. That is
// what bounds it: keys that a warp reads serve 16 queries alone. From memory a key or a value of
// two bytes serves 64 queries: 64 operations a byte, most of which the L2 cache has, since
// neighbouring blocks take neighbouring queries of one head.
#include "attention_arguments.h"
#include "elements.cuh"
#include "exponentials.cuh"

enum MaskKind { kNone, kAllowed, kAdded };

#include "variant.h"  // which needs what stands above

using Memory = Element<T>::Memory;
using Out = Element<Result>::Memory;
using MaskElement = Element<Masks>;
using Mask = MaskElement::Memory;

constexpr int kThreads = kAttentionThreads, kQueries = kAttentionQueries;
constexpr int kOfWarp = kQueries / (kThreads / 32);
constexpr int kChunk = 16, kOfChunk = kChunk / int(sizeof(Memory));
constexpr int kRowBytes = kHead * int(sizeof(Memory));

// ---- rows in shared memory: chunks of 16 bytes change places, so that eight rows' chunks of one
// number lie in different banks

__device__ inline int place_of(int row, int chunk) {
  return row * kRowBytes + (chunk ^ (row & 7)) * kChunk;
}

// The first of `rows` rows there; zeros beyond, and behind the last feature.
template <int kRows>
__device__ void fill(unsigned char* tile, const Memory* from, i64 step, int rows, int features) {
  constexpr int kOfRow = kRowBytes / kChunk, kAtOnce = kThreads / kOfRow;
  static_assert(kThreads % kOfRow == 0 && kRows % kAtOnce == 0);
  const int first = int(threadIdx.x) / kOfRow, chunk = int(threadIdx.x) % kOfRow;
  const int rest = features - chunk * kOfChunk;
  const int there = rest <= 0 ? 0 : rest < kOfChunk ? rest * int(sizeof(Memory)) : kChunk;
  const Memory* at = from + first * step + chunk * kOfChunk;
#pragma unroll 2
  for (int row = first; row < kRows; row += kAtOnce, at += kAtOnce * step) {
    const bool is_there = row < rows && there > 0;
    copy_16(tile + place_of(row, chunk), is_there ? at : from, is_there ? there : 0);
  }
}

// ---- scores and results of a warp's 16 queries
//
// A thread has scores of kRows queries with kColumns keys, and of each of these queries results of
// kFeatures features, of which kTogether lie side by side. kLanes neighbouring lanes share queries.

template <class Type>
struct WarpRows {  // by products of matrices of a warp: lane 4 g + t has queries g and g + 8
  static constexpr int kKeys = kAttentionKeys, kRows = 2, kColumns = 16, kFeatures = kHead / 4;
  static constexpr int kLanes = 4, kTogether = 2, kExtraBytes = 0;
  static constexpr int kBlocks = kHead > 64 || kMask != kNone ? 2 : 3;

  float of_scores[kKeys / 8][4], of_results[kHead / 8][4];

  // Scores are scaled, not queries, which would have to be rounded.
  static constexpr bool kScalesQueries = false;

  static __device__ int row(int r) { return lane() / 4 + 8 * r; }
  static __device__ int column(int c) { return c / 2 * 8 + lane() % 4 * 2 + c % 2; }
  static __device__ int feature(int f) { return column(f); }
  __device__ float& score(int r, int c) { return of_scores[c / 2][2 * r + c % 2]; }
  __device__ float& result(int r, int f) { return of_results[f / 2][2 * r + f % 2]; }

  __device__ void multiply(const unsigned char* queries, const unsigned char* keys, int features) {
#pragma unroll
    for (int j = 0; j < kKeys / 8; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e) of_scores[j][e] = 0;
    const int low = lane() % 8, one = lane() / 8 % 2, two = lane() / 16;
#pragma unroll
    for (int step = 0; step < kHead / 16; ++step) {
      if (16 * step >= features) break;
      u32 rows[4];
      load_matrices(rows, queries + place_of(8 * one + low, 2 * step + two));
#pragma unroll
      for (int j = 0; j < kKeys / 8; j += 2) {
        u32 columns[4];  // of two products side by side
        load_matrices(columns, keys + place_of(8 * (j + two) + low, 2 * step + one));
        multiply_add(Type{}, of_scores[j], rows, {columns[0], columns[1]});
        multiply_add(Type{}, of_scores[j + 1], rows, {columns[2], columns[3]});
      }
    }
  }

  // What a lane has of scores is what it has to have of the left operand.
  __device__ void add_weighted(const unsigned char* values, float*, int width) {
    const int low = lane() % 8, one = lane() / 8 % 2, two = lane() / 16;
#pragma unroll
    for (int step = 0; step < kKeys / 16; ++step) {
      u32 weights[4];
#pragma unroll
      for (int w = 0; w < 4; ++w) {
        const float* const pair = of_scores[2 * step + w / 2] + w % 2 * 2;
        weights[w] = Element<Type>::rounded(pair[0]) | u32(Element<Type>::rounded(pair[1])) << 16;
      }
#pragma unroll
      for (int j = 0; j < kHead / 8; j += 2) {
        if (8 * j >= width) break;
        u32 columns[4];
        load_transposed(columns, values + place_of(16 * step + 8 * one + low, j + two));
        multiply_add(Type{}, of_results[j], weights, {columns[0], columns[1]});
        multiply_add(Type{}, of_results[j + 1], weights, {columns[2], columns[3]});
      }
    }
  }

  static __device__ int lane() { return int(threadIdx.x) % 32; }
};

template <>
struct WarpRows<Float32> {  // by single numbers: a lane has every fourth query, every eighth key
  static constexpr int kKeys = kAttentionFloatKeys, kRows = 4, kColumns = 4, kFeatures = kHead / 8;
  static constexpr int kLanes = 8, kTogether = 4, kBlocks = 2;
  // Weights of a warp lie in shared memory; lines of two queries in different banks.
  static constexpr int kPitch = kWeightPitch, kExtraBytes = kOfWarp * kPitch * 4;

  float of_scores[kRows][kColumns], of_results[kRows][kFeatures];

  // As the generated kernels of gradients do, so that scores have the same bits, however large.
  static constexpr bool kScalesQueries = true;

  static __device__ int row(int r) { return lane() / 8 + 4 * r; }
  static __device__ int column(int c) { return lane() % 8 + 8 * c; }
  static __device__ int feature(int f) { return f / 4 * 32 + lane() % 8 * 4 + f % 4; }
  __device__ float& score(int r, int c) { return of_scores[r][c]; }
  __device__ float& result(int r, int f) { return of_results[r][f]; }

  __device__ void multiply(const unsigned char* queries, const unsigned char* keys, int features) {
#pragma unroll
    for (int r = 0; r < kRows; ++r)
#pragma unroll
      for (int c = 0; c < kColumns; ++c) of_scores[r][c] = 0;
#pragma unroll 2
    for (int chunk = 0; 4 * chunk < features; ++chunk) {
      float4 rows[kRows];
#pragma unroll
      for (int r = 0; r < kRows; ++r) rows[r] = load(queries, row(r), chunk);
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        const float4 key = load(keys, column(c), chunk);
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
          float& sum = of_scores[r][c];
          sum = __fmaf_rn(rows[r].x, key.x, sum);
          sum = __fmaf_rn(rows[r].y, key.y, sum);
          sum = __fmaf_rn(rows[r].z, key.z, sum);
          sum = __fmaf_rn(rows[r].w, key.w, sum);
        }
      }
    }
  }

  __device__ void add_weighted(const unsigned char* values, float* weights, int width) {
    __syncwarp();  // nobody reads those of the keys before
#pragma unroll
    for (int r = 0; r < kRows; ++r)
#pragma unroll
      for (int c = 0; c < kColumns; ++c) weights[row(r) * kPitch + column(c)] = of_scores[r][c];
    __syncwarp();
#pragma unroll 1
    for (int first = 0; first < kKeys; first += 4) {
      float4 fours[kRows];
#pragma unroll
      for (int r = 0; r < kRows; ++r)
        fours[r] = *reinterpret_cast<const float4*>(weights + row(r) * kPitch + first);
#pragma unroll
      for (int k = 0; k < 4; ++k)
#pragma unroll
        for (int f = 0; f < kFeatures; f += 4) {
          if (f * 8 >= width) break;
          const float4 value = load(values, first + k, f * 2 + lane() % 8);
#pragma unroll
          for (int r = 0; r < kRows; ++r) {
            const float w = k == 0   ? fours[r].x
                            : k == 1 ? fours[r].y
                            : k == 2 ? fours[r].z
                                     : fours[r].w;
            float* const sums = of_results[r] + f;
            sums[0] = __fmaf_rn(w, value.x, sums[0]);
            sums[1] = __fmaf_rn(w, value.y, sums[1]);
            sums[2] = __fmaf_rn(w, value.z, sums[2]);
            sums[3] = __fmaf_rn(w, value.w, sums[3]);
          }
        }
    }
  }

  static __device__ int lane() { return int(threadIdx.x) % 32; }
  static __device__ float4 load(const unsigned char* tile, int row, int chunk) {
    return *reinterpret_cast<const float4*>(tile + place_of(row, chunk));
  }
};

using Rows = WarpRows<T>;
constexpr int kKeys = Rows::kKeys;

// ---- the softmax, of the rows of a warp

// Calls f(row of the thread) for each; for each row and feature.
template <class F>
__device__ void each_row(const F& f) {
#pragma unroll
  for (int r = 0; r < Rows::kRows; ++r) f(r);
}

template <class F>
__device__ float joined(float x, const F& f) {
#pragma unroll
  for (int lanes = 1; lanes < Rows::kLanes; lanes *= 2)
    x = f(x, __shfl_xor_sync(0xFFFFFFFFu, x, lanes));
  return x;
}
__device__ inline float sum_of(float x) {
  return joined(x, [](float a, float b) { return a + b; });
}

// What is known of a warp's queries so far, and where they are.
struct Softmax {
  float top[Rows::kRows], sum[Rows::kRows];  // the sum: of this lane's keys alone
  i64 first_row;
  const Mask* mask;  // of query 0 and key 0

  // Scores of keys from `first` on, of which `keys` are there.
  __device__ void mask_scores(Rows& rows, const AttentionArguments& p, i64 first, int keys) const {
    // How many of them the warp's first query may see.
    const i64 before = first_row + 1 - first;
    const int seen = !p.is_causal || before >= kKeys ? kKeys : int(before);
    const bool is_inside = seen >= kKeys && keys >= kKeys;
    each_row([&](int r) {
      const int row = Rows::row(r), own = seen + (p.is_causal ? row : 0);
      const int end = own < keys ? own : keys;
      const bool is_masked = kMask != kNone && first_row + row < p.queries;
      const Mask* const at = mask + (first_row + row) * p.mask_step[2] + first * p.mask_step[3];
#pragma unroll
      for (int c = 0; c < Rows::kColumns; ++c) {
        const int key = Rows::column(c);
        float& score = rows.score(r, c);
        if constexpr (!Rows::kScalesQueries) score *= p.scale;
        if (!is_inside && key >= end) {
          score = lowest();
        } else if (is_masked) {
          const Mask x = at[key * p.mask_step[3]];
          if constexpr (kMask == kAdded)
            score += MaskElement::value(x);
          else if (x == 0)
            score = lowest();
        }
      }
    });
  }

  // Scores become weights, and what was added up before is scaled.
  __device__ void weigh(Rows& rows) {
    each_row([&](int r) {
      float most = top[r];
#pragma unroll
      for (int c = 0; c < Rows::kColumns; ++c) most = fmaxf(most, rows.score(r, c));
      most = joined(most, [](float a, float b) { return fmaxf(a, b); });
      const float base = most == lowest() ? 0 : most;  // it has seen no key so far
      const float fade = exponential(top[r] - base);
      top[r] = most;
      sum[r] *= fade;
#pragma unroll
      for (int f = 0; f < Rows::kFeatures; ++f) rows.result(r, f) *= fade;
#pragma unroll
      for (int c = 0; c < Rows::kColumns; ++c) {
        float& score = rows.score(r, c);
        score = exponential(score - base);
        sum[r] += score;
      }
    });
  }

  __device__ void store(Rows& rows, const AttentionArguments& p, Out* out, float* sums) {
    each_row([&](int r) {
      const i64 row = first_row + Rows::row(r);
      const float total = sum_of(sum[r]);
      if (row >= p.queries) return;
      if (int(threadIdx.x) % Rows::kLanes == 0) sums[row] = top[r] + logarithm(total);
      const float whole = total == 0 ? 1 : 1 / total;
      constexpr int kTogether = Rows::kTogether;
#pragma unroll
      for (int f = 0; f < Rows::kFeatures; f += kTogether) {
        const int feature = Rows::feature(f);
        if (feature >= p.width) break;
        struct alignas(kTogether * sizeof(Out)) Some {
          Out of[kTogether];
        } some;
#pragma unroll
        for (int e = 0; e < kTogether; ++e)
          some.of[e] = Element<Result>::rounded(rows.result(r, f + e) * whole);
        Out* const to = out + row * p.width + feature;
        if (p.packs) {
          *reinterpret_cast<Some*>(to) = some;
        } else {
#pragma unroll
          for (int e = 0; e < kTogether; ++e)
            if (feature + e < p.width) to[e] = some.of[e];
        }
      }
    });
  }
};

extern "C" __global__ void __launch_bounds__(kThreads, Rows::kBlocks)
    tt_kernel(const Memory* __restrict__ query, const Memory* __restrict__ key,
              const Memory* __restrict__ value, const Mask* __restrict__ mask,
              Out* __restrict__ out, float* __restrict__ sums,
              const __grid_constant__ AttentionArguments p) {
  // Where keys are those up to a query, blocks with most of them begin first.
  const i64 block = p.blocks - 1 - blockIdx.x % p.blocks;
  const i64 matrix = blockIdx.x / p.blocks % p.matrices, part = blockIdx.x / p.blocks / p.matrices;
  const i64 head = matrix % p.heads, batch = matrix / p.heads, group = head / p.of_group;
  const i64 row = block * kQueries, rest = p.queries - row;
  query += p.query_first + batch * p.query_step[0] + head * p.query_step[1] + row * p.query_step[2];
  key += p.key_first + batch * p.key_step[0] + group * p.key_step[1];
  value += p.value_first + batch * p.value_step[0] + group * p.value_step[1];

  unsigned char* const queries = shared_memory();
  unsigned char* const keys = queries + kQueries * kRowBytes;
  unsigned char* const values = keys + kKeys * kRowBytes;
  const int warp = int(threadIdx.x) / 32;
  float* const weights =
      reinterpret_cast<float*>(values + kKeys * kRowBytes + warp * Rows::kExtraBytes);
  const unsigned char* const own_queries = queries + warp * kOfWarp * kRowBytes;

  Rows rows;
  Softmax softmax;
  softmax.first_row = row + warp * kOfWarp;
  softmax.mask = mask + p.mask_first + batch * p.mask_step[0] + head * p.mask_step[1];
  each_row([&](int r) {
    softmax.top[r] = lowest();
    softmax.sum[r] = 0;
#pragma unroll
    for (int f = 0; f < Rows::kFeatures; ++f) rows.result(r, f) = 0;
  });

  const i64 first = part * p.keys_of_part;
  i64 end = first + p.keys_of_part < p.keys ? first + p.keys_of_part : p.keys;
  if (p.is_causal && row + kQueries < end) end = row + kQueries;
  const bool is_live = softmax.first_row < p.queries;
  const auto keys_from = [&](i64 at) { return end - at < kKeys ? int(end - at) : kKeys; };
  const auto fill_keys = [&](i64 at) {
    fill<kKeys>(keys, key + at * p.key_step[2], p.key_step[2], keys_from(at), p.features);
    end_copies();
  };
  fill<kQueries>(queries, query, p.query_step[2], rest < kQueries ? int(rest) : kQueries,
                 p.features);
  if (first < end) fill_keys(first);
  wait_for_copies<0>();
  __syncthreads();
  if constexpr (Rows::kScalesQueries) {
    for (int i = int(threadIdx.x); i < kQueries * kHead; i += kThreads)
      reinterpret_cast<float*>(queries)[i] *= p.scale;
    __syncthreads();
  }
#pragma unroll 1
  for (i64 at = first; at < end; at += kKeys) {
    fill<kKeys>(values, value + at * p.value_step[2], p.value_step[2], keys_from(at), p.width);
    end_copies();
    if (is_live) {
      rows.multiply(own_queries, keys, p.features);
      softmax.mask_scores(rows, p, at, keys_from(at));
      softmax.weigh(rows);
    }
    wait_for_copies<0>();
    __syncthreads();  // values are there, and nobody reads these keys any more
    if (at + kKeys < end) fill_keys(at + kKeys);
    if (is_live) rows.add_weighted(values, weights, p.width);
    wait_for_copies<0>();
    __syncthreads();
  }
  const i64 first_result = (part * p.matrices + matrix) * p.queries;
  if (is_live)
    softmax.store(rows, p, out + p.out_first + first_result * p.width,
                  sums + p.sums_first + first_result);
}
