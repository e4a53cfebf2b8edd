// Packing from strided memory, for matmul.simd.cpp: a panel of lines becomes consecutive values for
// each k. Lines that run along memory are transposed in registers.
#pragma once

#include "cpu/reduce/load_convert.h"
#include "cpu/schedule/levels.h"
#include "cpu/simd/simd.h"
#include "cpu/simd/transpose.h"

namespace tinyt::cpu {
namespace {

// Rows of a tile of C. Twelve rows of two vectors fill 24 of 32 registers, six 12 of 16.
#if TINYT_VECTOR_BYTES == 64 || defined(__aarch64__)
constexpr int kRows = 12;
#elif TINYT_VECTOR_BYTES == 32
constexpr int kRows = 6;
#else
constexpr int kRows = 4;
#endif
constexpr int kVectors = 2;

template <class T>
constexpr int kWidth = static_cast<int>(sizeof(Vec<T>) / sizeof(T));
template <class T>
constexpr int kCols = kVectors * kWidth<T>;
static_assert(kRows <= kMaxTileLines && kCols<float> <= kMaxTileLines);

// Pairs of int16: the sum of two products.
TINYT_INLINE U32 fma(U32 a, U32 b, U32 c) {
#if TINYT_VECTOR_BYTES == 64
  return (U32)_mm512_maskz_madd_epi16(0xFFFF, (__m512i)a, (__m512i)b) + c;
#elif TINYT_VECTOR_BYTES == 32
  return (U32)_mm256_madd_epi16((__m256i)a, (__m256i)b) + c;
#elif defined(__SSE4_2__)
  return (U32)_mm_madd_epi16((__m128i)a, (__m128i)b) + c;
#else
  const I32 low = ((I32)(a << 16) >> 16) * ((I32)(b << 16) >> 16);
  return (U32)low + (U32)(((I32)a >> 16) * ((I32)b >> 16)) + c;
#endif
}
TINYT_INLINE U32 broadcast(uint32_t x) { return U32{} + x; }
TINYT_INLINE U64 broadcast(uint64_t x) { return splat(x); }
TINYT_INLINE F32 broadcast(float x) { return splat(x); }
TINYT_INLINE F64 broadcast(double x) { return splat(x); }

// Whether parts of a register are loaded and stored by a mask.
constexpr bool kMasked = TINYT_VECTOR_BYTES >= 32;

// n < kWidth<T> elements, or a whole vector.
template <class T>
TINYT_INLINE Vec<T> load_most(const T* p, int64_t n) {
  return n < kWidth<T> ? load_part<T>(p, n) : load<T>(p);
}

// Lines next to each other: each k is a copy of `Width` values.
template <class T, int Width>
void pack_rows(const T* from, int64_t step, int64_t depth, T* to) {
  for (int64_t k = 0; k < depth; ++k) {
    __builtin_memcpy(to, from, Width * sizeof(T));
    from += step;
    to += Width;
  }
}

// The same of the first `count` lines of a panel of B.
template <class T>
void pack_some_rows(const T* from, int64_t step, const Panel& p, T* to) {
  if (p.count == p.width) return pack_rows<T, kCols<T>>(from, step, p.depth, to);
  const bool wide = p.count > kWidth<T>;
  const int64_t rest = wide ? p.count - kWidth<T> : p.count;
  for (int64_t k = 0; k < p.depth; ++k) {
    const Vec<T> part = load_part<T>(from + (wide ? kWidth<T> : 0), rest);
    store(to, wide ? load<T>(from) : part);
    store(to + kWidth<T>, wide ? part : Vec<T>{});
    from += step;
    to += kCols<T>;
  }
}

// Packs `Side` lines that run along memory: a transposition, as bits. The same lines of the next
// panel are fetched meanwhile (if it is the last, a fetch of anything does no harm).
template <class T, int Side>
void pack_square_lines(const T* lines, int64_t line, const Panel& p, T* out) {
  constexpr int64_t kOfLine = kCacheLine / sizeof(T);
  int64_t k = 0;
  for (; k + Side <= p.depth; k += Side) {
    if (k % kOfLine == 0) {
#pragma GCC unroll 16
      for (int64_t s = 0; s < Side; ++s) __builtin_prefetch(lines + (s + p.width) * line + k);
    }
    Vec<typename RawOf<sizeof(T)>::type, Side> square[Side];
#pragma GCC unroll 16
    for (int64_t s = 0; s < Side; ++s) {
      __builtin_memcpy(&square[s], lines + s * line + k, sizeof square[s]);
    }
    transpose(square);
#pragma GCC unroll 16
    for (int64_t s = 0; s < Side; ++s) {
      __builtin_memcpy(out + (k + s) * p.width, &square[s], sizeof square[s]);
    }
  }
  for (; k < p.depth; ++k) {
    for (int64_t s = 0; s < Side; ++s) out[k * p.width + s] = lines[s * line + k];
  }
}

// The first `count` lines of a square, and zeros for others, turned: `depth` elements of each.
template <class T>
TINYT_INLINE void turn(const T* lines, int64_t line, int64_t count, int64_t depth, T* out,
                       int64_t step) {
  constexpr int kSide = kWidth<T>;
  Vec<typename RawOf<sizeof(T)>::type, kSide> square[kSide];
#pragma GCC unroll 16
  for (int s = 0; s < kSide; ++s) {
    const Vec<T> v = s < count ? load_most(lines + s * line, depth) : Vec<T>{};
    __builtin_memcpy(&square[s], &v, sizeof v);
  }
  transpose(square);
#pragma GCC unroll 16
  for (int s = 0; s < kSide; ++s)
    if (s < depth) __builtin_memcpy(out + s * step, &square[s], sizeof square[s]);
}

// Lines of a panel of B that run along memory, fewer than it has.
template <class T>
void pack_some_lines(const T* from, int64_t line, const Panel& p, T* to) {
  for (int64_t i = 0; i < p.width; i += kWidth<T>)
    for (int64_t k = 0; k < p.depth; k += kWidth<T>)
      turn(from + i * line + k, line, p.count - i, p.depth - k, to + k * p.width + i, p.width);
}

// Lines that run along memory: squares of whole registers, then of 16 bytes, then one by one.
template <class T>
void pack_lines(const T* from, int64_t line, const Panel& p, T* to) {
  constexpr int kSmall = 16 / sizeof(T);
  int64_t i = 0;
  for (; i + kWidth<T> <= p.count; i += kWidth<T>) {
    pack_square_lines<T, kWidth<T>>(from + i * line, line, p, to + i);
  }
  for (; i + kSmall <= p.count; i += kSmall) {
    pack_square_lines<T, kSmall>(from + i * line, line, p, to + i);
  }
  for (; i < p.count; ++i) {
    const T* l = from + i * line;
    for (int64_t k = 0; k < p.depth; ++k) to[k * p.width + i] = l[k];
  }
}

template <class T>
void pack(const void* context, const Panel& p, void* out) {
  const auto& m = *static_cast<const StridedLines*>(context);
  const T* from = static_cast<const T*>(m.data) + p.first * m.line + p.k0 * m.depth;
  T* to = static_cast<T*>(out);
  if (m.line == 1 && p.width == kCols<T>) return pack_some_rows(from, m.depth, p, to);
  if (m.depth == 1 && p.width == kCols<T> && p.count < p.width)
    return pack_some_lines(from, m.line, p, to);
  if (p.count < p.width) {
    for (int64_t k = 0; k < p.depth; ++k) {
      for (int64_t i = p.count; i < p.width; ++i) to[k * p.width + i] = 0;
    }
  }
  if (m.line == 1 && p.count == p.width && p.width == kRows) {
    return pack_rows<T, kRows>(from, m.depth, p.depth, to);
  }
  if (m.depth == 1) return pack_lines(from, m.line, p, to);
  for (int64_t k = 0; k < p.depth; ++k) {
    for (int64_t i = 0; i < p.count; ++i) to[k * p.width + i] = from[i * m.line + k * m.depth];
  }
}

}  // namespace
}  // namespace tinyt::cpu
