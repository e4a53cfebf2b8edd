// What attention.cu, attention_parts.cu and attention_backward.cu are told. Read by the host's
// compiler and by NVRTC. Places and steps are in elements.
#pragma once

// Of a block, rows of which it makes the results; keys that lie in shared memory at once, of 16
// bits and of float32.
constexpr int kAttentionThreads = 128, kAttentionRows = 64;
constexpr int kAttentionKeys = 64, kAttentionFloatKeys = 32;
// Numbers between two rows of weights of float32, in shared memory.
constexpr int kWeightGap = 4;

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

struct AttentionGradientArguments {
  long long queries, keys, heads, of_group;  // so many heads of queries read one of keys
  long long blocks;                          // of rows: of queries, or of keys
  long long query_first, key_first, value_first, gradient_first, mask_first;
  long long sums_first, dots_first, left_first, right_first;
  long long query_step[3], key_step[3], value_step[3], gradient_step[3], mask_step[4];
  int features, width;  // of queries and keys, of values
  int is_causal;
  int packs;  // whether neighbouring features of results may be written at once
  float scale;
};

struct AttentionPartsArguments {
  long long rows, parts, parts_first, part_sums_first, out_first, sums_first;
  int width;
};
