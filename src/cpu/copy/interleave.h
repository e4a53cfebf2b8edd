// Lines of a few items side by side, to columns and back: pixels to planes. One shuffle for every
// register but the first that an item may come from.
#pragma once

#include <utility>

#include "cpu/reduce/load_convert.h"
#include "cpu/simd/simd.h"

namespace tinyt::cpu {
namespace {  // internal linkage, see levels.h

inline constexpr int kMostInterleaved = 4;  // items a line; of more, squares are as good

// `K` registers of whole lines of K items each, or of one column each.
template <int Size, int K>
struct Interleaved {
  // Items of which the level has no shuffle across its lanes take registers of 16 bytes.
  static constexpr int kBytes = Size * TINYT_VECTOR_BYTES >= 128 ? TINYT_VECTOR_BYTES : 16;
  static constexpr int kLines = kBytes / Size;  // and items of a register
  using V = Vec<typename RawOf<Size>::type, kLines>;

  V part[K];

  // Lane i, to which lane `lane` of register `of` belongs, when register s is shuffled in: from
  // there (counted from kLines on) if that is the one, else what is there already. The first
  // shuffle, of registers 0 and 1, places the lanes of both.
  static constexpr int source(int s, int of, int lane, int i) {
    if (of == s) return kLines + lane;
    return s == 1 && of == 0 ? lane : i;
  }
  template <int To, int S, size_t... I>
  static TINYT_INLINE V column_with(V so_far, V next, std::index_sequence<I...>) {
    return __builtin_shufflevector(so_far, next,
                                   source(S, (I * K + To) / kLines, (I * K + To) % kLines, I)...);
  }
  template <int To, int S, size_t... I>
  static TINYT_INLINE V lines_with(V so_far, V next, std::index_sequence<I...>) {
    return __builtin_shufflevector(so_far, next,
                                   source(S, (To * kLines + I) % K, (To * kLines + I) / K, I)...);
  }
  // Column (or register of lines) `To` of all registers.
  template <bool Columns, int To, int S = 1>
  TINYT_INLINE V made_of(V so_far) const {
    if constexpr (S == K) {
      return so_far;
    } else {
      constexpr auto kIndex = std::make_index_sequence<kLines>{};
      if constexpr (Columns) {
        return made_of<Columns, To, S + 1>(column_with<To, S>(so_far, part[S], kIndex));
      } else {
        return made_of<Columns, To, S + 1>(lines_with<To, S>(so_far, part[S], kIndex));
      }
    }
  }

  template <bool Stream>
  static TINYT_INLINE void put(char* to, V v) {
    if constexpr (Stream && kBytes == TINYT_VECTOR_BYTES) {
      stream(to, v);
    } else {
      store(to, v);
    }
  }

  // Whole registers of n lines, `step` bytes from one column to the next; how many lines.
  template <bool Stream, size_t... J>
  static TINYT_INLINE int64_t split(const char* lines, char* columns, int64_t step, int64_t n,
                                    std::index_sequence<J...>) {
    int64_t i = 0;
    for (; i + kLines <= n; i += kLines) {
      Interleaved in;
      ((__builtin_memcpy(&in.part[J], lines + i * K * Size + J * kBytes, kBytes)), ...);
      (put<Stream>(columns + J * step + i * Size, in.template made_of<true, J>(in.part[0])), ...);
    }
    return i;
  }
  template <bool Stream, size_t... J>
  static TINYT_INLINE int64_t join(const char* columns, int64_t step, char* lines, int64_t n,
                                   std::index_sequence<J...>) {
    int64_t i = 0;
    for (; i + kLines <= n; i += kLines) {
      Interleaved in;
      ((__builtin_memcpy(&in.part[J], columns + J * step + i * Size, kBytes)), ...);
      (put<Stream>(lines + i * K * Size + J * kBytes, in.template made_of<false, J>(in.part[0])),
       ...);
    }
    return i;
  }
};

// Calls f.operator()<K>() for a K in [2, kMostInterleaved]; else 0.
template <class F>
TINYT_INLINE int64_t with_interleaved(int64_t k, F f) {
  if (k == 2) return f.template operator()<2>();
  if (k == 3) return f.template operator()<3>();
  if (k == 4) return f.template operator()<4>();
  return 0;
}

}  // namespace
}  // namespace tinyt::cpu
