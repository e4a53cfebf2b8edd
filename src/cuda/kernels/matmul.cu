// Products of matrices in batches. A block makes a tile of the result, of one part of the sums.
//
// What is set in front of this text, by src/cuda/matmul.cpp:
//   T         elements: Bfloat16, Float16, Tfloat32, Int8, UInt8, by products of a warp; Float32
//   Result    those of the result: T, or Whole<Sum of T>
//   Products  a tile: WarpProducts<T, ...> of 64 x 64, 128 x 128 or 128 x 256; ThreadProducts of 64
//             or 128 a side
//   A, B      how operands lie: BySums, ByLines, or Strided
//   kStages   strips in shared memory
//   kAdds     whether something is added to the product before it is rounded
//
// For c = a @ b, with sums in float32 (int32 of bytes), it is
//   c[i, j] = rounded(sum over k of a[i, k] * b[k, j] + addend[i, j]).
#include "matmul_arguments.h"
#include "products.cuh"

#include "variant.h"  // which needs what stands above

// Neighbouring blocks take tiles of eight rows of tiles, so that the operands of those that run at
// once lie in the L2 cache.
struct TilePlace {
  i64 part, batch;
  i64 row, column;  // of tiles

  __device__ TilePlace(const MatmulArguments& p, i64 block) {
    const i64 tiles = p.down * p.across;
    part = block / tiles / p.batches;
    batch = block / tiles % p.batches;
    const i64 tile = block % tiles, of_group = 8 * p.across, first = tile / of_group * 8;
    const i64 height = p.down - first < 8 ? p.down - first : 8;
    row = first + tile % of_group % height;
    column = tile % of_group / height;
  }
};

__device__ inline i64 place_of_batch(const MatmulArguments& p, i64 batch,
                                     const long long (&steps)[3]) {
  i64 at = batch % p.batch[2] * steps[2];
  batch /= p.batch[2];
  return at + batch % p.batch[1] * steps[1] + batch / p.batch[1] * steps[0];
}

using Out = typename Element<Result>::Memory;

struct Store {
  const MatmulArguments& p;
  Out* out;           // the tile's first element
  const Out* addend;  // that of the same place
  i64 rows, columns;  // from there on

  template <class S>
  __device__ Out rounded(int row, int column, S sum) const {
    if constexpr (kAdds)
      sum += Element<Result>::value(addend[row * p.addend_row + column * p.addend_column]);
    return Element<Result>::rounded(sum);
  }
  template <class S>
  __device__ void operator()(int row, int column, const S* sums) const {
    if (row >= rows) return;
    Out* const to = out + row * p.columns + column;
    if (p.packs && column + 4 <= columns) {
      struct alignas(4 * sizeof(Out)) Four {
        Out of[4];
      } four;
#pragma unroll
      for (int i = 0; i < 4; ++i) four.of[i] = rounded(row, column + i, sums[i]);
      *reinterpret_cast<Four*>(to) = four;
      return;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (column + i < columns) to[i] = rounded(row, column + i, sums[i]);
  }
};

extern "C" __global__ void __launch_bounds__(Products::kThreads, kBlocksOf<Products, A, B>)
    tt_kernel(const Element<T>::Memory* __restrict__ a, const Element<T>::Memory* __restrict__ b,
              const Out* __restrict__ addend, Out* __restrict__ out,
              const __grid_constant__ MatmulArguments p) {
  const TilePlace place(p, blockIdx.x);
  const i64 row = place.row * Products::kRows, column = place.column * Products::kColumns;
  const i64 rows = p.rows - row, columns = p.columns - column;
  const i64 first = place.part * p.sums_of_part, last = first + p.sums_of_part;
  const i64 end = last < p.sums ? last : p.sums;
  const auto within = [](i64 rest, int tile) { return int(rest < tile ? rest : tile); };

  const A from_a{{a + p.a_first + place_of_batch(p, place.batch, p.a_batch) + row * p.a_row,
                  p.a_row, p.a_sum, within(rows, Products::kRows), end}};
  const B from_b{{b + p.b_first + place_of_batch(p, place.batch, p.b_batch) + column * p.b_column,
                  p.b_column, p.b_sum, within(columns, Products::kColumns), end}};
  Products products;
  add_strips<T, kStages>(products, from_a, from_b, shared_memory(), first, end);

  const i64 matrix = (place.part * p.batches + place.batch) * p.rows * p.columns;
  const Store store{p, out + p.out_first + matrix + row * p.columns + column,
                    kAdds
                        ? addend + p.addend_first + place_of_batch(p, place.batch, p.addend_batch) +
                              row * p.addend_row + column * p.addend_column
                        : nullptr,
                    rows, columns};
  each_four(products, shared_memory(), store);
}
