// SIMD values for kernels: F32, F64, I32, I64, U32, U64 and B8 (bools) fill one register of the
// level. Arithmetic, comparisons and bit operations are the language's own operators; a comparison
// gives a lane mask (-1 or 0). This header adds what the operators lack. Everything has internal
// linkage (see levels.h).
//
//   load<T>, store, load_part<T>, store_part   unaligned, whole or the first n lanes
//   stream, stream_fence                       stores past the caches
//   load_between<T>                            lanes first to last of a register, unaligned
//   splat, select, any, bit_cast               broadcast, blend, "is any lane set"
//   any_above                                  whether a lane is larger than a number
//   has_nan                                    whether a lane of two registers is a NaN
//   sum_bytes                                  sums of neighbouring bytes, by eights
//   load_mask<V>, store_mask                   lane masks from and to bools in memory
//   fma                                        a * b + c, rounded once where kHasFma, else twice
//   sqrt, floor, ceil, trunc, round_even, abs, copysign, maximum, minimum
//   at_least, at_most                          a limit on one side; a NaN stays
//   widen, narrow, nearest, to_float           conversions
//   pick                                       lanes of two registers by number
//   set_bytes, compress                        lanes of a mask side by side (if TINYT_COMPRESS)
//   repeat, each_lane                          turns of a loop; a function of one lane
//
// What math*.h uses of it there is for simd_trace.h's values, too: they make scalar definitions.
#pragma once

#if defined(TINYT_TRACE)
#include "cpu/simd/simd_trace.h"
#else

#include "cpu/simd/simd_types.h"
#if defined(__SSE4_2__)
#include "cpu/simd/simd_x86.h"
#else
#include "cpu/simd/simd_portable.h"
#endif

namespace tinyt::cpu {
namespace {

// Whether F64 is made of two float32 values: in a trace, see simd_trace.h.
inline constexpr bool kDoubleWords = false;

// ---- the first n lanes, 0 <= n <= lanes; the others read as zero. Touches no memory beyond.

#if TINYT_VECTOR_BYTES == 16  // wider registers have masked loads and stores
template <class T>
TINYT_INLINE Vec<T> load_part(const void* p, int64_t n) {
  Vec<T> v = {};
  __builtin_memcpy(&v, p, static_cast<size_t>(n) * sizeof(T));
  return v;
}
template <class V>
TINYT_INLINE void store_part(void* p, V v, int64_t n) {
  __builtin_memcpy(p, &v, static_cast<size_t>(n) * sizeof(Element<V>));
}
// Lanes [first, last) of 4 bytes each; the others read as zero. Touches no memory beside them.
template <class T>
TINYT_INLINE Vec<T> load_between(const T* p, int64_t first, int64_t last) {
  if (last - first == kLanes<Vec<T>>) return load<T>(p);
  Vec<T> v = {};
  for (int64_t i = first; i < last; ++i) v[i] = p[i];
  return v;
}
#endif

#if TINYT_VECTOR_BYTES < 64  // there one instruction
TINYT_INLINE bool any_above(F32 x, float limit) { return any((I32)(x > limit)); }
template <class V>
TINYT_INLINE bool has_nan(V a, V b) {
  return any((Mask<V>)((a != a) | (b != b)));
}
#endif

// Lane i of the result is lane index[i] of a and b side by side.
#if TINYT_VECTOR_BYTES == 16
template <class V>
TINYT_INLINE V pick(V a, V b, Mask<V> index) {
  V both[2] = {a, b};
  Element<V> lanes[2 * kLanes<V>];
  __builtin_memcpy(lanes, both, sizeof lanes);
  V out{};
  for (int i = 0; i < kLanes<V>; ++i) out[i] = lanes[index[i]];
  return out;
}
#else  // of others than signed integers: as bits
template <class V>
TINYT_INLINE V pick(V a, V b, Mask<V> index) {
  return bit_cast<V>(pick(bit_cast<Mask<V>>(a), bit_cast<Mask<V>>(b), index));
}
#endif

// ---- lane masks of V from bools in memory, one byte a lane, and back

template <class V>
TINYT_INLINE Mask<V> load_mask(const void* p) {
  if constexpr (sizeof(Element<V>) == 1) {
    return (Mask<V>)(load<uint8_t>(p) != 0);
  } else {
    return bytes_to_mask(p, static_cast<Mask<V>*>(nullptr));
  }
}
template <class V>
TINYT_INLINE Mask<V> load_mask_part(const void* p, int64_t n) {
  uint8_t bytes[kLanes<V>] = {};
  __builtin_memcpy(bytes, p, static_cast<size_t>(n));
  return load_mask<V>(bytes);
}
template <class M>
TINYT_INLINE void store_mask(void* p, M mask) {
  if constexpr (sizeof(mask[0]) == 1) {
    store(p, mask & 1);
  } else {
    mask_to_bytes(p, mask);
  }
}
template <class M>
TINYT_INLINE void store_mask_part(void* p, M mask, int64_t n) {
  uint8_t bytes[sizeof(M) / sizeof(mask[0])];
  store_mask(bytes, mask);
  __builtin_memcpy(p, bytes, static_cast<size_t>(n));
}

TINYT_INLINE F32 to_float(I32 k) { return __builtin_convertvector(k, F32); }

// ---- functions of one lane

TINYT_INLINE uint64_t high_product(uint64_t a, uint64_t b) {
  return static_cast<uint64_t>(static_cast<unsigned __int128>(a) * b >> 64);
}
TINYT_INLINE uint64_t leading_zeros(uint64_t x) {  // x > 0
  return static_cast<uint64_t>(__builtin_clzll(x));
}
TINYT_INLINE double to_double(uint64_t x) { return static_cast<double>(x); }
// Towards 0. By 0: 0; of INT64_MIN by -1: itself.
TINYT_INLINE int64_t quotient(int64_t a, int64_t b) {
  if (b == 0) return 0;
  return b == -1 ? static_cast<int64_t>(-static_cast<uint64_t>(a)) : a / b;
}
TINYT_INLINE int64_t rest(int64_t a, int64_t b) { return b == 0 || b == -1 ? 0 : a % b; }
TINYT_INLINE uint64_t quotient(uint64_t a, uint64_t b) { return b == 0 ? 0 : a / b; }
TINYT_INLINE uint64_t rest(uint64_t a, uint64_t b) { return b == 0 ? 0 : a % b; }
template <size_t N>
TINYT_INLINE uint64_t lookup(const uint64_t (&table)[N], uint64_t index) {
  return table[index];
}

// ---- turns and lanes

TINYT_INLINE bool any(bool condition) { return condition; }  // of a function of one lane

// What the turns of a loop change; the trace needs to know.
struct Carried {};
template <class... V>
TINYT_INLINE Carried carried(V&...) {
  return {};
}
// Turns as long as more() has a lane set, at most so many, each of them turn(more()).
template <class More, class Turn>
TINYT_INLINE void repeat(int most, Carried, const More& more, const Turn& turn) {
  for (int k = 0; k < most; ++k) {
    const auto lanes = more();
    if (!any(lanes)) break;
    turn(lanes);
  }
}
// f of each lane, where there is no vector form of it.
template <class F, class V, class... More>
TINYT_INLINE V each_lane(const F& f, V x, More... y) {
  for (int i = 0; i < kLanes<V>; ++i) x[i] = f(x[i], y[i]...);
  return x;
}

}  // namespace
}  // namespace tinyt::cpu

#include "cpu/simd/simd_values.h"
#endif  // TINYT_TRACE
