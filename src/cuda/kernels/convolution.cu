// Convolutions and both of their gradients, as products of which an operand is read from windows of
// images (windows.cuh). A block makes a tile of the result of a group, of one part of the sums.
//
//   result     rows           columns             sums                a             b
//   output     channels out   images, positions   taps, channels in   weights       images
//   of images  channels in    images, positions   taps, channels out  weights       gradients
//   of weights channels out   taps, channels in   images, positions   gradients     images
//
// Gradients of images are products for each remainder of positions by the stride: only taps that
// meet such positions are in them, so that no product is with a zero that stands for "none".
//
// What is set in front of this text, by src/cuda/convolution.cpp: T, Result, Products, kStages, A
// and B, which are windows; A may be BySums or ByLines as well.
//
//   out[o, n, p] = rounded(sum over t, c of weight[o, t, c] * image[n, c, p * stride + t * dilation
//                  - padding])
#include "convolution_arguments.h"
#include "products.cuh"
#include "windows.cuh"

#include "variant.h"  // which needs what stands above

using Out = typename Element<Result>::Memory;

struct Store {
  const ConvolutionArguments& p;
  Out* out;  // the first one of the tile's rows
  i64 rows;  // from there on
  int first_column;

  // -1: nothing is stored.
  __device__ i64 place(int column) const {
    i64 at = 0;
    if (column % p.out_columns.size[3] >= p.out_last) return -1;
#pragma unroll
    for (int d = 3; d > 0; --d) {
      at += column % p.out_columns.size[d] * p.out_step[d];
      column /= p.out_columns.size[d];
    }
    return at + column * p.out_step[0];
  }
  template <class S>
  __device__ void operator()(int row, int column, const S* sums) const {
    column += first_column;
    if (row >= rows) return;
    Out* const to = out + row * p.out_row;
    if (p.packs && column + 4 <= p.columns) {
      struct alignas(4 * sizeof(Out)) Four {
        Out of[4];
      } four;
#pragma unroll
      for (int i = 0; i < 4; ++i) four.of[i] = Element<Result>::rounded(sums[i]);
      *reinterpret_cast<Four*>(to + place(column)) = four;
      return;
    }
#pragma unroll 1
    for (int i = 0; i < 4; ++i) {
      const i64 at = column + i < p.columns ? place(column + i) : -1;
      if (at >= 0) to[at] = Element<Result>::rounded(sums[i]);
    }
  }
};

// An operand of a tile whose first line that is: of windows, with a table in shared memory, or of a
// matrix.
template <class Operand, int kTile, class M>
__device__ Operand operand_of(const M* from, const Windows& windows, i64 line_step, i64 sum_step,
                              i64 line, i64 lines, i64 end, unsigned char* table) {
  if constexpr (Operand::kHasTable) {
    const Operand operand{
        {from, windows, int(line), int(lines), int(end), reinterpret_cast<int4*>(table)}};
    operand.begin();
    return operand;
  } else {
    const i64 rest = lines - line;
    return {{from + line * line_step, line_step, sum_step, int(rest < kTile ? rest : kTile), end}};
  }
}

extern "C" __global__ void __launch_bounds__(Products::kThreads, kBlocksOf<Products, B>)
    tt_kernel(const Element<T>::Memory* __restrict__ a, const Element<T>::Memory* __restrict__ b,
              Out* __restrict__ out, const __grid_constant__ ConvolutionArguments p) {
  const i64 tiles = p.down * p.across, tile = blockIdx.x % tiles;
  const i64 group = blockIdx.x / tiles % p.groups, part = blockIdx.x / tiles / p.groups;
  const i64 row = tile % p.down * Products::kRows, column = tile / p.down * Products::kColumns;
  const i64 first = part * p.sums_of_part, last = first + p.sums_of_part;
  const i64 end = last < p.sums ? last : p.sums;
  unsigned char* const strips = shared_memory();
  unsigned char* const tables =
      strips + kStages * (Products::kRows + Products::kColumns) * kStripBytes;

  const B from_b = operand_of<B, Products::kColumns>(b + p.b_first + group * p.b_group, p.b, 0, 0,
                                                     column, p.columns, end, tables);
  const A from_a = operand_of<A, Products::kRows>(a + p.a_first + group * p.a_group, p.a, p.a_line,
                                                  p.a_sum, row, p.rows, end, tables + B::kBytes);
  Products products;
  add_strips<T, kStages>(products, from_a, from_b, strips, first, end);
  each_four(products, strips,
            Store{p, out + p.out_first + part * p.out_part + group * p.out_group + row * p.out_row,
                  p.rows - row, int(column)});
}
