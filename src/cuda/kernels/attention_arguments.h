// What kernels/attention.cu and kernels/attention_parts.cu are told. Read by the host's compiler
// and by NVRTC. Places and steps are in elements.
#pragma once

// Of a block; keys that lie in shared memory at once, of 16 bits and of float32.
constexpr int kAttentionThreads = 128, kAttentionQueries = 64;
constexpr int kAttentionKeys = 64, kAttentionFloatKeys = 32;
// Numbers from a row of weights of float32 to the next one, in shared memory.
constexpr int kWeightPitch = kAttentionFloatKeys + 4;

struct AttentionArguments {
  long long queries, keys, heads, of_group;  // so many heads of queries read one of keys
  long long blocks, matrices;                // of queries; batch times heads
  long long keys_of_part;                    // some parts of the keys are gone over side by side
  long long query_first, key_first, value_first, mask_first, out_first, sums_first;
  long long query_step[3], key_step[3], value_step[3], mask_step[4];  // batch, head, row(, key)
  int features, width;  // of queries and keys, of values
  int is_causal;        // key j is for queries i >= j
  int packs;            // whether neighbouring features of results may be written at once
  float scale;
};

struct AttentionPartsArguments {
  long long rows, parts, parts_first, part_sums_first, out_first, sums_first;
  int width;
};
