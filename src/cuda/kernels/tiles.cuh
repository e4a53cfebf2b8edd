// Tiles of operands in shared memory. An operand has lines, which are rows of the left one and
// columns of the right one, and sums, over which products are added up. A strip of a tile is 64
// bytes of the sums of each line; a ring of strips is filled while others are multiplied.
//
// Chunks of 16 bytes change places so that the eight chunks that a warp reads at once lie in
// different banks, whichever way the operand lies:
//   by sums:  line, then sums; chunk c of line l is at place c ^ (l / 2 % 4) of the line's four;
//   by lines: sum, then lines (elements of 16 bits); chunk c of sum s is at c ^ (s % 8).
#pragma once

#include "elements.cuh"
#include "tile_sizes.h"

constexpr int kChunk = 16;

template <class T>
struct Strip {
  using Memory = typename Element<T>::Memory;
  static constexpr int kSums = kStripBytes / int(sizeof(Memory));
  static constexpr int kOfChunk = kChunk / int(sizeof(Memory));
};

// Where a chunk is in a strip, in bytes.
__device__ inline int chunk_by_sums(int line, int chunk) {
  return line * kStripBytes + ((chunk ^ (line >> 1 & 3)) * kChunk);
}
template <int kLines>
__device__ inline int chunk_by_lines(int sum, int chunk) {
  return sum * kLines * 2 + ((chunk ^ (sum & 7)) * kChunk);
}

// ---- operands, which fill strips: `fill` by all threads of a block, from sum `first` on

// What all have: the tile's first line, and how many lines and sums there are from there on.
template <class T>
struct Lines {
  const typename Element<T>::Memory* from;
  i64 line_step, sum_step;
  int lines;
  i64 sums;
};

// Sums lie side by side, and each line begins at a multiple of 16 bytes.
template <class T, int kLines, int kThreads>
struct BySums : Lines<T> {
  static constexpr bool kIsByLines = false, kHasTable = false, kIsDense = true;

  __device__ void fill(unsigned char* strip, i64 first, int) const {
    constexpr int kChunks = kLines * kStripBytes / kChunk;
    static_assert(kChunks % kThreads == 0);
#pragma unroll
    for (int n = 0; n < kChunks / kThreads; ++n) {
      const int i = n * kThreads + int(threadIdx.x), line = i / 4, chunk = i % 4;
      const i64 sum = first + chunk * Strip<T>::kOfChunk, rest = this->sums - sum;
      const int there = line >= this->lines || rest <= 0 ? 0
                        : rest < Strip<T>::kOfChunk      ? int(rest) * int(sizeof(*this->from))
                                                         : kChunk;
      copy_16(strip + chunk_by_sums(line, chunk),
              there == 0 ? this->from : this->from + line * this->line_step + sum, there);
    }
  }
};

// Lines lie side by side, elements of 16 bits, and each sum begins at a multiple of 16 bytes.
template <class T, int kLines, int kThreads>
struct ByLines : Lines<T> {
  static constexpr bool kIsByLines = true, kHasTable = false, kIsDense = true;
  static_assert(sizeof(typename Element<T>::Memory) == 2);

  __device__ void fill(unsigned char* strip, i64 first, int) const {
    constexpr int kOfSum = kLines / 8, kChunks = Strip<T>::kSums * kOfSum;
    static_assert(kChunks % kThreads == 0 && kOfSum >= 8);
#pragma unroll
    for (int n = 0; n < kChunks / kThreads; ++n) {
      const int i = n * kThreads + int(threadIdx.x), sum = i / kOfSum, chunk = i % kOfSum;
      const int rest = this->lines - chunk * 8;
      const int there = first + sum >= this->sums || rest <= 0 ? 0 : rest < 8 ? 2 * rest : kChunk;
      copy_16(strip + chunk_by_lines<kLines>(sum, chunk),
              there == 0 ? this->from : this->from + (first + sum) * this->sum_step + chunk * 8,
              there);
    }
  }
};

// Elements one by one, a word of 32 bits of a strip at a time, so that it lies by sums: `element`
// gives the place of an element in memory, and whether there is one. Neighbouring threads take
// neighbouring lines, or sums.
template <class T, int kLines, int kThreads, bool kNeighboursAreLines, class F>
__device__ void fill_by_words(unsigned char* strip, const typename Element<T>::Memory* from,
                              const F& element) {
  using Memory = typename Element<T>::Memory;
  constexpr int kOfWord = 4 / int(sizeof(Memory)), kWords = kStripBytes / 4;
  constexpr int kTurns = kLines * kWords / kThreads, kMost = kOfWord == 4 ? 2 : 4;
  constexpr int kAtOnce = kTurns < kMost ? kTurns : kMost;
  static_assert(kLines * kWords % kThreads == 0 && kTurns % kAtOnce == 0);
  const auto line_of = [](int i) { return kNeighboursAreLines ? i % kLines : i / kWords; };
  const auto word_of = [](int i) { return kNeighboursAreLines ? i / kLines : i % kWords; };
  const auto place = [&](int i) {
    return strip + chunk_by_sums(line_of(i), word_of(i) / 4) + word_of(i) % 4 * 4;
  };
#pragma unroll 1
  for (int begin = 0; begin < kTurns; begin += kAtOnce) {
    if constexpr (kOfWord == 1) {
#pragma unroll
      for (int n = 0; n < kAtOnce; ++n) {
        const int i = (begin + n) * kThreads + int(threadIdx.x);
        i64 at = 0;
        const bool there = element(line_of(i), word_of(i), at);
        copy_4(place(i), from + (there ? at : 0), there);
      }
    } else {
      u32 words[kAtOnce];  // all are asked for before one is needed
#pragma unroll
      for (int n = 0; n < kAtOnce; ++n) {
        const int i = (begin + n) * kThreads + int(threadIdx.x);
        words[n] = 0;
#pragma unroll
        for (int e = 0; e < kOfWord; ++e) {
          i64 at = 0;
          if (!element(line_of(i), word_of(i) * kOfWord + e, at)) continue;
          const u32 bits =
              sizeof(Memory) == 2 ? u32(u16(from[at])) : u32((unsigned char)(from[at]));
          words[n] |= bits << (e * 8 * int(sizeof(Memory)));
        }
      }
#pragma unroll
      for (int n = 0; n < kAtOnce; ++n)
        *reinterpret_cast<u32*>(place((begin + n) * kThreads + int(threadIdx.x))) = words[n];
    }
  }
}

// Any strides.
template <class T, int kLines, int kThreads, bool kNeighboursAreLines>
struct Strided : Lines<T> {
  static constexpr bool kIsByLines = false, kHasTable = false, kIsDense = false;

  __device__ void fill(unsigned char* strip, i64 first, int) const {
    fill_by_words<T, kLines, kThreads, kNeighboursAreLines>(
        strip, this->from, [&](int line, int sum, i64& at) {
          at = line * this->line_step + (first + sum) * this->sum_step;
          return line < this->lines && first + sum < this->sums;
        });
  }
};
