// The gradients of attention, from the logarithms of sums that the forward pass has kept (Dao,
// "FlashAttention-2", 2023): each weight is made anew, and no score is in memory.
//
//   w[i, j] = exp(scale * query[i] . key[j] + mask[i, j] - sums[i])
//   slope[i, j] = w[i, j] * (gradient[i] . value[j] - dots[i]), dots[i] = gradient[i] . out[i]
//   of query[i]: scale * sum over j of slope[i, j] * key[j]
//   of key[j]: scale * sum over i of slope[i, j] * query[i]
//   of value[j]: sum over i of w[i, j] * gradient[i]
//
// What is set in front of this text is in attention_warps.cuh, and
//   kByKeys  false: gradients of queries, over the keys; true: those of keys and values, over the
//            queries of all heads that read them, in their order
//   kColumns of these so many lie in shared memory at once
//
// No two blocks write to one place, so the order of sums is fixed. Rows are queries or keys, 64 of
// a block, 16 of a warp; columns the other ones, a tile of them at a time. Each has two operands:
// the left one is that of scores, queries or keys, the right one that of their gradients, gradients
// or values. While one of the columns' tiles is multiplied the other comes. Bfloat16 and float16
// are multiplied by mma.sync, weights and slopes rounded to the operands' type, as its operands
// have to be; float32 by fused multiply-adds, in the forward kernel's order.
//
// By calculation, as no GPU has run this: 6 * features + 4 * width operations a score by queries
// and by keys together, as scores and their gradients are made twice, which is what gradients of
// queries without atomic additions cost. With kHead = 128 a thread has 64 results and 64 scores and
// slopes in registers by queries, 128 results and 32 of these by keys, which takes 32 queries at a
// time for that; 64 and 48 KB of shared memory a block (85 KB of float32).
#include "attention_warps.cuh"

using Own = Scores<T, kColumns>;

// Two operands of a head, from row `at` on.
struct Operands {
  const Memory *left, *right;
  i64 left_step, right_step;

  __device__ Operands from(i64 at) const {
    return {left + at * left_step, right + at * right_step, left_step, right_step};
  }
};

// Of what head columns are, and from which column on.
struct Tile {
  i64 head, at;
};

// A warp's rows; of queries what belongs to them.
struct OwnRows {
  i64 first, rows;
  float sums[Own::kRows], dots[Own::kRows];

  // Scores become weights, products of gradients and values slopes. Columns from `at` on, of which
  // `count` are there; `mask` is that of the head's first query and key.
  __device__ void weigh(Own& scores, Own& slopes, const AttentionGradientArguments& p, i64 at,
                        int count, const Mask* mask, const float* column_sums,
                        const float* column_dots) const {
    // The column that the warp's first row is the number of, as far as that counts.
    const i64 ahead = first - at;
    const int diagonal = ahead < -kOfWarp ? -kOfWarp : ahead > kColumns ? kColumns : int(ahead);
    const i64 row_step = p.mask_step[kByKeys ? 3 : 2], step = p.mask_step[kByKeys ? 2 : 3];
#pragma unroll
    for (int r = 0; r < Own::kRows; ++r) {
      const int row = Own::row(r), same = diagonal + row;
      const int begin = kByKeys && p.is_causal ? same : 0;
      const int end = !kByKeys && p.is_causal && same + 1 < count ? same + 1 : count;
      const bool is_masked = kMask != kNone && first + row < rows;
      const Mask* const line = mask + (first + row) * row_step + at * step;
#pragma unroll
      for (int c = 0; c < Own::kColumns; ++c) {
        const int column = Own::column(c);
        float score = scores.at(r, c);
        if constexpr (!Own::kScalesQueries) score *= p.scale;
        bool is_seen = column >= begin && column < end;
        if (is_masked && is_seen) {
          const Mask x = line[column * step];
          if constexpr (kMask == kAdded)
            score += MaskElement::value(x);
          else
            is_seen = x != 0;
        }
        const float all = kByKeys ? column_sums[column] : sums[r];
        const float dot = kByKeys ? column_dots[column] : dots[r];
        // A key that a query may not see has no weight, whatever its value is, unless all that the
        // query gets is NaN.
        const bool counts = (is_seen && score != lowest()) || all != all;
        const float below = score - all;  // but for their rounding; a NaN stays
        const float weight = counts ? exponential(below > 0 ? 0 : below) : 0;
        scores.at(r, c) = weight;
        slopes.at(r, c) = counts ? weight * (slopes.at(r, c) - dot) : 0;
      }
    }
  }
};

extern "C" __global__ void __launch_bounds__(kThreads, 2)
    tt_kernel(const Memory* __restrict__ gradient, const Memory* __restrict__ query,
              const Memory* __restrict__ key, const Memory* __restrict__ value,
              const Mask* __restrict__ mask, const float* __restrict__ sums,
              const float* __restrict__ dots, Out* __restrict__ of_left, Out* __restrict__ of_right,
              const __grid_constant__ AttentionGradientArguments p) {
  const i64 rows = kByKeys ? p.keys : p.queries, columns = kByKeys ? p.queries : p.keys;
  const i64 heads = kByKeys ? p.heads / p.of_group : p.heads;
  // Blocks with most columns that may be seen begin first.
  const i64 nth = blockIdx.x % p.blocks, matrix = blockIdx.x / p.blocks;
  const i64 head = matrix % heads, batch = matrix / heads;
  const i64 row = (kByKeys ? nth : p.blocks - 1 - nth) * kOfBlock;

  const auto queries_of = [&](i64 h) {
    return Operands{
        query + p.query_first + batch * p.query_step[0] + h * p.query_step[1],
        gradient + p.gradient_first + batch * p.gradient_step[0] + h * p.gradient_step[1],
        p.query_step[2], p.gradient_step[2]};
  };
  const auto keys_of = [&](i64 g) {
    return Operands{key + p.key_first + batch * p.key_step[0] + g * p.key_step[1],
                    value + p.value_first + batch * p.value_step[0] + g * p.value_step[1],
                    p.key_step[2], p.value_step[2]};
  };
  const auto columns_of = [&](const Tile& tile) {
    return (kByKeys ? queries_of(tile.head) : keys_of(tile.head / p.of_group)).from(tile.at);
  };
  const auto row_of_query = [&](i64 h, i64 i) { return (batch * p.heads + h) * p.queries + i; };
  sums += p.sums_first;
  dots += p.dots_first;

  constexpr int kRowsBytes = kOfBlock * kRowBytes, kColumnsBytes = kColumns * kRowBytes;
  unsigned char* const left_rows = shared_memory();
  unsigned char* const right_rows = left_rows + kRowsBytes;
  unsigned char* const left = right_rows + kRowsBytes;
  unsigned char* const right = left + kColumnsBytes;
  float* const column_sums = reinterpret_cast<float*>(right + kColumnsBytes);
  float* const column_dots = column_sums + kColumns;
  const int warp = int(threadIdx.x) / 32;
  float* const weights = column_dots + kColumns + warp * (Own::kExtraBytes / int(sizeof(float)));
  const unsigned char* const own_left = left_rows + warp * kOfWarp * kRowBytes;
  const unsigned char* const own_right = right_rows + warp * kOfWarp * kRowBytes;

  OwnRows own;
  own.first = row + warp * kOfWarp;
  own.rows = rows;
#pragma unroll
  for (int r = 0; r < Own::kRows; ++r) {
    const i64 i = own.first + Own::row(r);
    const bool is_there = !kByKeys && i < rows;
    own.sums[r] = is_there ? sums[row_of_query(head, i)] : 0;
    own.dots[r] = is_there ? dots[row_of_query(head, i)] : 0;
  }

  // Columns that some row of the block may see, of each head.
  const i64 first = kByKeys && p.is_causal ? row : 0;
  const i64 end = !kByKeys && p.is_causal && row + kOfBlock < columns ? row + kOfBlock : columns;
  const i64 first_head = kByKeys ? head * p.of_group : head;
  const i64 end_head = first >= end ? first_head : kByKeys ? first_head + p.of_group : head + 1;
  const auto count_of = [&](const Tile& tile) {
    return end - tile.at < kColumns ? int(end - tile.at) : kColumns;
  };
  const auto fill_left = [&](const Tile& tile) {
    const Operands from = columns_of(tile);
    fill<kColumns>(left, from.left, from.left_step, count_of(tile), p.features);
    if (const int i = int(threadIdx.x); kByKeys && i < kColumns) {
      const i64 at = row_of_query(tile.head, tile.at) + (i < count_of(tile) ? i : 0);
      copy_4(column_sums + i, sums + at, i < count_of(tile));
      copy_4(column_dots + i, dots + at, i < count_of(tile));
    }
    end_copies();
  };
  const auto fill_right = [&](const Tile& tile) {
    const Operands from = columns_of(tile);
    fill<kColumns>(right, from.right, from.right_step, count_of(tile), p.width);
    end_copies();
  };

  Own scores, slopes;
  Results<T> to_left{}, to_right{};  // what is of keys alone is nothing by queries
  const bool is_live = own.first < rows;
  const Operands from = (kByKeys ? keys_of(head) : queries_of(head)).from(row);
  const int there = rows - row < kOfBlock ? int(rows - row) : kOfBlock;
  fill<kOfBlock>(left_rows, from.left, from.left_step, there, p.features);
  fill<kOfBlock>(right_rows, from.right, from.right_step, there, p.width);
  Tile tile{first_head, first};
  if (tile.head < end_head) fill_right(tile);
  wait_for_copies<0>();
  if constexpr (Own::kScalesQueries && !kByKeys) scale_filled<kOfBlock>(left_rows, p.scale);
  __syncthreads();
#pragma unroll 1
  while (tile.head < end_head) {
    fill_left(tile);
    if (is_live) slopes.multiply(own_right, right, p.width);
    wait_for_copies<0>();
    if constexpr (Own::kScalesQueries && kByKeys) scale_filled<kColumns>(left, p.scale);
    __syncthreads();  // the left operand is there
    if (is_live) {
      scores.multiply(own_left, left, p.features);
      own.weigh(scores, slopes, p, tile.at, count_of(tile),
                mask + p.mask_first + batch * p.mask_step[0] + tile.head * p.mask_step[1],
                column_sums, column_dots);
      if constexpr (kByKeys) scores.add_weighted(to_right, right, weights, p.width);
    }
    __syncthreads();  // nobody reads the right one any more
    tile.at += kColumns;
    if (tile.at >= end) tile = {tile.head + 1, first};
    if (tile.head < end_head) fill_right(tile);
    if (is_live) slopes.add_weighted(to_left, left, weights, p.features);
    wait_for_copies<0>();
    __syncthreads();
  }
#pragma unroll
  for (int r = 0; r < Own::kRows; ++r) {
    const i64 i = own.first + Own::row(r), to = matrix * rows + i;
    if (i >= rows) continue;
    // Queries that were scaled have made what is the keys'.
    const float factor = Own::kScalesQueries && kByKeys ? 1 : p.scale;
    store_row(to_left, r, factor, of_left + p.left_first + to * p.features, p.features, p.packs);
    if constexpr (kByKeys)
      store_row(to_right, r, 1, of_right + p.right_first + to * p.width, p.width, p.packs);
  }
}
