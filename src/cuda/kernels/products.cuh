// Blocks of sums that the threads of a block keep in registers, and the loop over strips that adds
// products to them. What is added to what, and in which order, is the same for all shapes of tiles
// and all ways in which operands lie.
#pragma once

#include "tiles.cuh"

// ---- by the hardware's products of matrices: a warp has kWarpRows x kWarpColumns sums
//
// 64 x 64 of a warp take 128 registers of a thread, and for 32 products of matrices it reads eight
// times four fragments. Products of a strip are two steps of 32 bytes of each line.
template <class T, int kTileRows, int kTileColumns, int kWarpRows, int kWarpColumns>
struct WarpProducts {
  using Sum = typename Element<T>::Sum;
  static constexpr int kRows = kTileRows, kColumns = kTileColumns;
  static constexpr int kWarpsAcross = kColumns / kWarpColumns;
  static constexpr int kThreads = 32 * kWarpsAcross * (kRows / kWarpRows);
  static constexpr int kDown = kWarpRows / 16, kAcross = kWarpColumns / 8;
  // Blocks that a processor has registers for.
  static constexpr int kBlocks = 65536 / kThreads / (kWarpRows * kWarpColumns > 2048 ? 256 : 128);
  static_assert(kRows % kWarpRows == 0 && kColumns % kWarpColumns == 0 && kAcross % 2 == 0);

  Sum sums[kDown][kAcross][4];

  __device__ WarpProducts() {
    for_each([](Sum& s) { s = 0; });
  }

  template <class A, class B>
  __device__ void add(const unsigned char* a, const unsigned char* b) {
#pragma unroll
    for (int step = 0; step < 2; ++step) {
      u32 rows[kDown][4];
#pragma unroll
      for (int i = 0; i < kDown; ++i)
        load_fragments<A, kRows, false>(rows[i], a, first_row() + 16 * i, step);
#pragma unroll
      for (int j = 0; j < kAcross; j += 2) {
        u32 columns[4];  // of two products side by side
        load_fragments<B, kColumns, true>(columns, b, first_column() + 8 * j, step);
#pragma unroll
        for (int i = 0; i < kDown; ++i) {
          multiply_add(T{}, sums[i][j], rows[i], {columns[0], columns[1]});
          multiply_add(T{}, sums[i][j + 1], rows[i], {columns[2], columns[3]});
        }
      }
    }
  }

  // A slice is 16 rows of each warp.
  static constexpr int kSlices = kDown, kSliceRows = kRows / kDown;
  static __device__ int row_of(int slice, int row) {
    return row / 16 * kWarpRows + 16 * slice + row % 16;
  }
  template <int kPitch>
  __device__ void put(int slice, Sum* memory) const {
    const int g = lane() / 4, t = lane() % 4;
    Sum* const to = memory + (warp() / kWarpsAcross * 16 + g) * kPitch + first_column() + 2 * t;
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int j = 0; j < kAcross; ++j)
#pragma unroll
        for (int e = 0; e < 2; ++e)
          to[8 * half * kPitch + 8 * j + e] = sums[slice][j][2 * half + e];
  }

 private:
  template <class F>
  __device__ void for_each(const F& f) {
#pragma unroll
    for (int i = 0; i < kDown; ++i)
#pragma unroll
      for (int j = 0; j < kAcross; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e) f(sums[i][j][e]);
  }

  static __device__ int lane() { return int(threadIdx.x) % 32; }
  static __device__ int warp() { return int(threadIdx.x) / 32; }
  static __device__ int first_row() { return warp() / kWarpsAcross * kWarpRows; }
  static __device__ int first_column() { return warp() % kWarpsAcross * kWarpColumns; }

  // Fragments of 16 lines and 32 bytes of sums from line `first` on, of rows in the order of their
  // product's words; `kOfColumns`: of two products, eight lines each.
  template <class Operand, int kLines, bool kOfColumns>
  static __device__ void load_fragments(u32 (&words)[4], const unsigned char* strip, int first,
                                        int step) {
    const int l = lane(), low = l % 8, one = l / 8 % 2, two = l / 16;
    const int line = kOfColumns ? two : one, sum = kOfColumns ? one : two;  // which half
    if constexpr (Operand::kIsByLines)
      load_transposed(words,
                      strip + chunk_by_lines<kLines>(16 * step + 8 * sum + low, first / 8 + line));
    else
      load_matrices(words, strip + chunk_by_sums(first + 8 * line + low, 2 * step + sum));
    round_words(T{}, words);
  }
  template <class Other>
  static __device__ void round_words(Other, u32 (&)[4]) {}
  static __device__ void round_words(Tfloat32, u32 (&words)[4]) {
#pragma unroll
    for (u32& word : words) word = to_tfloat32(__uint_as_float(word));
  }
};

// ---- by single numbers, float32 alone: a thread has kSide x kSide sums
//
// Neighbouring threads read neighbouring lines; a thread's own are 16 apart.
template <int kSide>
struct ThreadProducts {
  using Sum = float;
  static constexpr int kThreads = kProductThreads, kRows = 16 * kSide, kColumns = 16 * kSide;
  static constexpr int kBlocks = kSide > 4 ? 1 : 2;

  float sums[kSide][kSide];

  __device__ ThreadProducts() {
#pragma unroll
    for (int i = 0; i < kSide; ++i)
#pragma unroll
      for (int j = 0; j < kSide; ++j) sums[i][j] = 0;
  }

  template <class A, class B>
  __device__ void add(const unsigned char* a, const unsigned char* b) {
#pragma unroll 2
    for (int chunk = 0; chunk < 4; ++chunk) {
      float4 rows[kSide];
#pragma unroll
      for (int i = 0; i < kSide; ++i) rows[i] = load(a, row() + 16 * i, chunk);
#pragma unroll
      for (int j = 0; j < kSide; ++j) {
        const float4 column = load(b, ThreadProducts::column() + 16 * j, chunk);
#pragma unroll
        for (int i = 0; i < kSide; ++i) {
          sums[i][j] = __fmaf_rn(rows[i].x, column.x, sums[i][j]);
          sums[i][j] = __fmaf_rn(rows[i].y, column.y, sums[i][j]);
          sums[i][j] = __fmaf_rn(rows[i].z, column.z, sums[i][j]);
          sums[i][j] = __fmaf_rn(rows[i].w, column.w, sums[i][j]);
        }
      }
    }
  }

  static constexpr int kSlices = kSide, kSliceRows = 16;
  static __device__ int row_of(int slice, int row) { return 16 * slice + row; }
  template <int kPitch>
  __device__ void put(int slice, float* memory) const {
#pragma unroll
    for (int j = 0; j < kSide; ++j) memory[row() * kPitch + column() + 16 * j] = sums[slice][j];
  }

 private:
  // Of a warp 4 rows and 8 columns, of a block's 8 warps 4 x 2.
  static __device__ int row() { return int(threadIdx.x) / 64 * 4 + int(threadIdx.x) % 32 / 8; }
  static __device__ int column() { return int(threadIdx.x) / 32 % 2 * 8 + int(threadIdx.x) % 8; }
  static __device__ float4 load(const unsigned char* strip, int line, int chunk) {
    return *reinterpret_cast<const float4*>(strip + chunk_by_sums(line, chunk));
  }
};

// Blocks of a processor that there are to be registers for: places of single elements take some.
template <class Products, class... Operands>
constexpr int kBlocksOf =
    Products::kBlocks == 1 || (Operands::kIsDense && ...) ? Products::kBlocks
                                                          : Products::kBlocks / 2;

// ---- the loop over strips

// Adds the products of sums `first` up to `end`. kStages strips of both operands lie in `memory`:
// while one is multiplied, the next ones come. Operands with tables make each strip's before it is
// filled.
template <class T, int kStages, class Products, class A, class B>
__device__ void add_strips(Products& products, const A& a, const B& b, unsigned char* memory,
                           i64 first, i64 end) {
  constexpr int kBytesOfA = Products::kRows * kStripBytes;
  constexpr int kBytes = kBytesOfA + Products::kColumns * kStripBytes;
  constexpr bool kHasTables = A::kHasTable || B::kHasTable;
  const int strips = int((end - first + Strip<T>::kSums - 1) / Strip<T>::kSums);
  const auto sum_of = [&](int strip) { return first + i64(strip) * Strip<T>::kSums; };
  const auto prepare = [&](int strip) {
    if constexpr (A::kHasTable) a.prepare(sum_of(strip), strip);
    if constexpr (B::kHasTable) b.prepare(sum_of(strip), strip);
  };
  const auto fill = [&](int strip) {
    if (strip < strips) {
      unsigned char* const to = memory + strip % kStages * kBytes;
      a.fill(to, sum_of(strip), strip);
      b.fill(to + kBytesOfA, sum_of(strip), strip);
    }
    end_copies();
  };
#pragma unroll 1
  for (int strip = 0; strip < kStages - 1; ++strip) {
    prepare(strip);
    if constexpr (kHasTables) __syncthreads();
    fill(strip);
  }
  prepare(kStages - 1);
#pragma unroll 1
  for (int strip = 0; strip < strips; ++strip) {
    wait_for_copies<kStages - 2>();
    __syncthreads();  // all copies are there, and nobody reads the strip that is filled next
    fill(strip + kStages - 1);
    prepare(strip + kStages);
    const unsigned char* const from = memory + strip % kStages * kBytes;
    products.template add<A, B>(from, from + kBytesOfA);
  }
  wait_for_copies<0>();
}

// ---- results, slice by slice through shared memory, so that neighbouring threads write neighbours

// Columns of a slice's row in shared memory: rows of two threads lie in different banks.
template <class Products>
constexpr int kSlicePitch = Products::kColumns + 8;

// Calls f(row, column, four sums from that column on) for all of a tile.
template <class Products, class F>
__device__ void each_four(const Products& products, unsigned char* memory, const F& f) {
  using Sum = typename Products::Sum;
  constexpr int kPitch = kSlicePitch<Products>, kFours = Products::kColumns / 4;
  Sum* const slice_sums = reinterpret_cast<Sum*>(memory);
#pragma unroll
  for (int slice = 0; slice < Products::kSlices; ++slice) {
    __syncthreads();
    products.template put<kPitch>(slice, slice_sums);
    __syncthreads();
#pragma unroll 1
    for (int i = int(threadIdx.x); i < Products::kSliceRows * kFours; i += Products::kThreads) {
      const int row = i / kFours, column = i % kFours * 4;
      f(Products::row_of(slice, row), column, slice_sums + row * kPitch + column);
    }
  }
}
