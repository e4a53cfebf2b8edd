// Operands that are read from where windows of images are: line and sum give a place along each of
// three dimensions by their sum, and where that is inside there is an element, else a zero. So a
// convolution is a product whose operand is never written out. Places of lines are made once, those
// of sums strip by strip, into tables in shared memory.
#pragma once

#include "convolution_arguments.h"
#include "tiles.cuh"

// Beyond all sizes, whatever is added.
constexpr int kNowhere = -(1 << 30);

// Where a line or a sum is: its part of the element's place in memory, and of the three places.
template <bool kArePlaces>
__device__ int4 window_entry(const Windows& w, const Digits& digits, int number,
                             const int (&step)[3], const int* first, int other_stride) {
  int digit[4];
#pragma unroll
  for (int d = 3; d > 0; --d) {
    digit[d] = number % digits.size[d];
    number /= digits.size[d];
  }
  digit[0] = number;
  const int* const places = digit + (kArePlaces ? 1 : 0);
  int at[3], memory = digit[kArePlaces ? 0 : 3] * other_stride;
#pragma unroll
  for (int d = 0; d < 3; ++d) {
    at[d] = places[d] * step[d] + (first == nullptr ? 0 : first[d]);
    memory += at[d] * w.stride[d];
  }
  return make_int4(memory, at[0], at[1], at[2]);
}

template <class T, int kLines, bool kLinesArePlaces>
struct WindowTables {
  static constexpr bool kHasTable = true, kIsDense = false;
  static constexpr int kBytes = (kLines + 2 * Strip<T>::kSums) * int(sizeof(int4));

  const typename Element<T>::Memory* from;
  const Windows& windows;
  int first_line, lines, sums;  // all lines and sums there are
  int4* table;

  // Once, before all that follows.
  __device__ void begin() const {
    for (int i = int(threadIdx.x); i < kLines; i += int(blockDim.x)) {
      table[i] = make_int4(0, kNowhere, kNowhere, kNowhere);
      if (first_line + i < lines)
        table[i] =
            window_entry<kLinesArePlaces>(windows, windows.lines, first_line + i, windows.line_step,
                                          windows.first, windows.line_other);
    }
  }
  __device__ void prepare(i64 first, int strip) const {
    const int i = int(threadIdx.x);
    if (i >= Strip<T>::kSums) return;
    int4 entry = make_int4(0, kNowhere, kNowhere, kNowhere);
    if (first + i < sums)
      entry = window_entry<!kLinesArePlaces>(windows, windows.sums, int(first) + i,
                                             windows.sum_step, nullptr, windows.sum_other);
    of_sums(strip)[i] = entry;
  }

 protected:
  __device__ int4* of_sums(int strip) const { return table + kLines + strip % 2 * Strip<T>::kSums; }
  __device__ bool place(const int4& line, const int4& sum, i64& at) const {
    at = line.x + sum.x;
    return u32(line.y + sum.y) < u32(windows.inside[0]) &&
           u32(line.z + sum.z) < u32(windows.inside[1]) &&
           u32(line.w + sum.w) < u32(windows.inside[2]);
  }
};

// Elements one by one.
template <class T, int kLines, int kThreads, bool kLinesArePlaces>
struct WindowsByElements : WindowTables<T, kLines, kLinesArePlaces> {
  static constexpr bool kIsByLines = false;

  __device__ void fill(unsigned char* strip, i64, int number) const {
    const int4* const sums = this->of_sums(number);
    fill_by_words<T, kLines, kThreads, kLinesArePlaces>(
        strip, this->from,
        [&](int line, int sum, i64& at) { return this->place(this->table[line], sums[sum], at); });
  }
};

// Channels lie side by side, and are sums: 16 bytes of them at a time, which are of one tap.
template <class T, int kLines, int kThreads, bool kLinesArePlaces>
struct WindowsBySums : WindowTables<T, kLines, kLinesArePlaces> {
  static constexpr bool kIsByLines = false;

  __device__ void fill(unsigned char* strip, i64, int number) const {
    constexpr int kChunks = kLines * kStripBytes / kChunk;
    const int4* const sums = this->of_sums(number);
#pragma unroll
    for (int n = 0; n < kChunks / kThreads; ++n) {
      const int i = n * kThreads + int(threadIdx.x), line = i / 4, chunk = i % 4;
      i64 at = 0;
      const bool there = this->place(this->table[line], sums[chunk * Strip<T>::kOfChunk], at);
      copy_16(strip + chunk_by_sums(line, chunk), this->from + (there ? at : 0),
              there ? kChunk : 0);
    }
  }
};

// The same where channels are lines, elements of 16 bits.
template <class T, int kLines, int kThreads, bool kLinesArePlaces>
struct WindowsByLines : WindowTables<T, kLines, kLinesArePlaces> {
  static constexpr bool kIsByLines = true;
  static_assert(sizeof(typename Element<T>::Memory) == 2);

  __device__ void fill(unsigned char* strip, i64, int number) const {
    constexpr int kOfSum = kLines / 8, kChunks = Strip<T>::kSums * kOfSum;
    const int4* const sums = this->of_sums(number);
#pragma unroll
    for (int n = 0; n < kChunks / kThreads; ++n) {
      const int i = n * kThreads + int(threadIdx.x), sum = i / kOfSum, chunk = i % kOfSum;
      i64 at = 0;
      const bool there = this->place(this->table[chunk * 8], sums[sum], at);
      copy_16(strip + chunk_by_lines<kLines>(sum, chunk), this->from + (there ? at : 0),
              there ? kChunk : 0);
    }
  }
};
