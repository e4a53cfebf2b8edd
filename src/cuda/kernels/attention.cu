// Attention without the scores in memory: of a block of queries the largest score so far, the sum
// of exp(score - largest) and of these times the values are kept, and scaled when a larger score
// comes (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018; Dao,
// "FlashAttention-2", 2023).
//
//   out[i] = sum over j of w[i, j] * value[j], w[i] the softmax of scale * query[i] . key[j] + mask
//   sums[i] = log(sum over j of exp(scale * query[i] . key[j] + mask[i, j])), for the gradients
//
// A query that may see no key gets zeros, and -inf as its sum. What is set in front of this text is
// in attention_warps.cuh.
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
#include "attention_warps.cuh"

constexpr int kKeys = sizeof(Memory) == 4 ? kAttentionFloatKeys : kAttentionKeys;
constexpr int kBlocks = sizeof(Memory) == 4 || kHead > 64 || kMask != kNone ? 2 : 3;
using Own = Scores<T, kKeys>;
using OwnResults = Results<T>;

// ---- the softmax, of the rows of a warp

// Calls f(row of the thread) for each.
template <class F>
__device__ void each_row(const F& f) {
#pragma unroll
  for (int r = 0; r < Own::kRows; ++r) f(r);
}

template <class F>
__device__ float joined(float x, const F& f) {
#pragma unroll
  for (int lanes = 1; lanes < Own::kLanes; lanes *= 2)
    x = f(x, __shfl_xor_sync(0xFFFFFFFFu, x, lanes));
  return x;
}
__device__ inline float sum_of(float x) {
  return joined(x, [](float a, float b) { return a + b; });
}

// What is known of a warp's queries so far, and where they are.
struct Softmax {
  float top[Own::kRows], sum[Own::kRows];  // the sum: of this lane's keys alone
  i64 first_row;
  const Mask* mask;  // of query 0 and key 0

  // Scores of keys from `first` on, of which `keys` are there.
  __device__ void mask_scores(Own& scores, const AttentionArguments& p, i64 first, int keys) const {
    // How many of them the warp's first query may see.
    const i64 before = first_row + 1 - first;
    const int seen = !p.is_causal || before >= kKeys ? kKeys : int(before);
    const bool is_inside = seen >= kKeys && keys >= kKeys;
    each_row([&](int r) {
      const int row = Own::row(r), own = seen + (p.is_causal ? row : 0);
      const int end = own < keys ? own : keys;
      const bool is_masked = kMask != kNone && first_row + row < p.queries;
      const Mask* const at = mask + (first_row + row) * p.mask_step[2] + first * p.mask_step[3];
#pragma unroll
      for (int c = 0; c < Own::kColumns; ++c) {
        const int key = Own::column(c);
        float& score = scores.at(r, c);
        if constexpr (!Own::kScalesQueries) score *= p.scale;
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
  __device__ void weigh(Own& scores, OwnResults& results) {
    each_row([&](int r) {
      float most = top[r];
#pragma unroll
      for (int c = 0; c < Own::kColumns; ++c) most = fmaxf(most, scores.at(r, c));
      most = joined(most, [](float a, float b) { return fmaxf(a, b); });
      const float base = most == lowest() ? 0 : most;  // it has seen no key so far
      const float fade = exponential(top[r] - base);
      top[r] = most;
      sum[r] *= fade;
#pragma unroll
      for (int f = 0; f < OwnResults::kFeatures; ++f) results.at(r, f) *= fade;
#pragma unroll
      for (int c = 0; c < Own::kColumns; ++c) {
        float& score = scores.at(r, c);
        score = exponential(score - base);
        sum[r] += score;
      }
    });
  }

  __device__ void store(OwnResults& results, const AttentionArguments& p, Out* out, float* sums) {
    each_row([&](int r) {
      const i64 row = first_row + Own::row(r);
      const float total = sum_of(sum[r]);
      if (row >= p.queries) return;
      if (lane() % Own::kLanes == 0) sums[row] = top[r] + logarithm(total);
      store_row(results, r, total == 0 ? 1 : 1 / total, out + row * p.width, p.width, p.packs);
    });
  }
};

extern "C" __global__ void __launch_bounds__(kThreads, kBlocks)
    tt_kernel(const Memory* __restrict__ query, const Memory* __restrict__ key,
              const Memory* __restrict__ value, const Mask* __restrict__ mask,
              Out* __restrict__ out, float* __restrict__ sums,
              const __grid_constant__ AttentionArguments p) {
  // Where keys are those up to a query, blocks with most of them begin first.
  const i64 block = p.blocks - 1 - blockIdx.x % p.blocks;
  const i64 matrix = blockIdx.x / p.blocks % p.matrices, part = blockIdx.x / p.blocks / p.matrices;
  const i64 head = matrix % p.heads, batch = matrix / p.heads, group = head / p.of_group;
  const i64 row = block * kOfBlock, rest = p.queries - row;
  query += p.query_first + batch * p.query_step[0] + head * p.query_step[1] + row * p.query_step[2];
  key += p.key_first + batch * p.key_step[0] + group * p.key_step[1];
  value += p.value_first + batch * p.value_step[0] + group * p.value_step[1];

  unsigned char* const queries = shared_memory();
  unsigned char* const keys = queries + kOfBlock * kRowBytes;
  unsigned char* const values = keys + kKeys * kRowBytes;
  const int warp = int(threadIdx.x) / 32;
  float* const weights =
      reinterpret_cast<float*>(values + kKeys * kRowBytes + warp * Own::kExtraBytes);
  const unsigned char* const own_queries = queries + warp * kOfWarp * kRowBytes;

  Own scores;
  OwnResults results{};
  Softmax softmax;
  softmax.first_row = row + warp * kOfWarp;
  softmax.mask = mask + p.mask_first + batch * p.mask_step[0] + head * p.mask_step[1];
  each_row([&](int r) {
    softmax.top[r] = lowest();
    softmax.sum[r] = 0;
  });

  const i64 first = part * p.keys_of_part;
  i64 end = first + p.keys_of_part < p.keys ? first + p.keys_of_part : p.keys;
  if (p.is_causal && row + kOfBlock < end) end = row + kOfBlock;
  const bool is_live = softmax.first_row < p.queries;
  const auto keys_from = [&](i64 at) { return end - at < kKeys ? int(end - at) : kKeys; };
  const auto fill_keys = [&](i64 at) {
    fill<kKeys>(keys, key + at * p.key_step[2], p.key_step[2], keys_from(at), p.features);
    end_copies();
  };
  fill<kOfBlock>(queries, query, p.query_step[2], rest < kOfBlock ? int(rest) : kOfBlock,
                 p.features);
  if (first < end) fill_keys(first);
  wait_for_copies<0>();
  if constexpr (Own::kScalesQueries) scale_filled<kOfBlock>(queries, p.scale);
  __syncthreads();
#pragma unroll 1
  for (i64 at = first; at < end; at += kKeys) {
    fill<kKeys>(values, value + at * p.value_step[2], p.value_step[2], keys_from(at), p.width);
    end_copies();
    if (is_live) {
      scores.multiply(own_queries, keys, p.features);
      softmax.mask_scores(scores, p, at, keys_from(at));
      softmax.weigh(scores, results);
    }
    wait_for_copies<0>();
    __syncthreads();  // values are there, and nobody reads these keys any more
    if (at + kKeys < end) fill_keys(at + kKeys);
    if (is_live) scores.add_weighted(results, values, weights, p.width);
    wait_for_copies<0>();
    __syncthreads();
  }
  const i64 first_result = (part * p.matrices + matrix) * p.queries;
  if (is_live)
    softmax.store(results, p, out + p.out_first + first_result * p.width,
                  sums + p.sums_first + first_result);
}
