// Transposing copies, and copies past the caches.
#include <utility>

#include "levels.h"
#include "simd.h"

namespace tinyt::cpu {
namespace {

constexpr int64_t kLineBytes = 64;  // of a cache
constexpr int kLaneBytes = 16;      // within which registers interleave
constexpr int kGroups = TINYT_VECTOR_BYTES / kLaneBytes;

template <int Size>
struct ItemOf;
template <>
struct ItemOf<1> {
  using type = uint8_t;
};
template <>
struct ItemOf<2> {
  using type = uint16_t;
};
template <>
struct ItemOf<4> {
  using type = uint32_t;
};
template <>
struct ItemOf<8> {
  using type = uint64_t;
};
template <int Size>
using Items = Vec<typename ItemOf<Size>::type>;

// The items of the lower (upper) halves of every lane of a and b in turn.
template <class V, bool Upper, size_t... I>
TINYT_INLINE V interleave(V a, V b, std::index_sequence<I...>) {
  constexpr size_t kItems = sizeof...(I) / kGroups, kFirst = Upper ? kItems / 2 : 0;
  return __builtin_shufflevector(
      a, b, (I / kItems * kItems + kFirst + I % kItems / 2 + I % 2 * sizeof...(I))...);
}
// The even (odd) lanes of a, then those of b.
template <class V, size_t Odd, size_t... I>
TINYT_INLINE V alternate(V a, V b, std::index_sequence<I...>) {
  constexpr size_t kItems = sizeof...(I) / kGroups;
  return __builtin_shufflevector(a, b, ((I / kItems * 2 + Odd) * kItems + I % kItems)...);
}

// Registers of `Side` lines, Side items each, to those of their columns.
template <int Size>
struct Square {
  static constexpr int kSide = TINYT_VECTOR_BYTES / Size;
  static constexpr int kItems = kLaneBytes / Size;  // of a lane
  using V = Items<Size>;
  static constexpr auto kIndex = std::make_index_sequence<kSide>{};

  V line[kSide];

  // The k-by-k squares of lines [first, first + k), a lane each: log2(k) perfect shuffles.
  TINYT_INLINE void transpose_lanes(int first) {
#pragma GCC unroll 4
    for (int step = 1; step < kItems; step *= 2) {
      V next[kItems];
#pragma GCC unroll 8
      for (int i = 0; i < kItems / 2; ++i) {
        const V a = line[first + i], b = line[first + i + kItems / 2];
        next[2 * i] = interleave<V, false>(a, b, kIndex);
        next[2 * i + 1] = interleave<V, true>(a, b, kIndex);
      }
#pragma GCC unroll 16
      for (int i = 0; i < kItems; ++i) line[first + i] = next[i];
    }
  }

  // Lane g of line (group l, item j) to lane l of line (group g, item j).
  TINYT_INLINE void transpose_groups(int j) {
    if constexpr (kGroups == 2) {
      const V a = line[j], b = line[kItems + j];
      line[j] = alternate<V, 0>(a, b, kIndex);
      line[kItems + j] = alternate<V, 1>(a, b, kIndex);
    } else if constexpr (kGroups == 4) {
      V &l0 = line[j], &l1 = line[kItems + j], &l2 = line[2 * kItems + j],
        &l3 = line[3 * kItems + j];
      const V even = alternate<V, 0>(l0, l1, kIndex), odd = alternate<V, 1>(l0, l1, kIndex);
      const V even2 = alternate<V, 0>(l2, l3, kIndex), odd2 = alternate<V, 1>(l2, l3, kIndex);
      l0 = alternate<V, 0>(even, even2, kIndex);
      l1 = alternate<V, 0>(odd, odd2, kIndex);
      l2 = alternate<V, 1>(even, even2, kIndex);
      l3 = alternate<V, 1>(odd, odd2, kIndex);
    }
  }

  TINYT_INLINE void transpose() {
#pragma GCC unroll 4
    for (int g = 0; g < kGroups; ++g) transpose_lanes(g * kItems);
#pragma GCC unroll 16
    for (int j = 0; j < kItems; ++j) transpose_groups(j);
  }
};

template <int Size, bool Stream>
TINYT_INLINE void whole_square(const Transposition& t, int64_t line, int64_t item) {
  Square<Size> s;
  const char* in = t.from + line * t.from_step + item * Size;
  char* out = t.to + item * t.to_step + line * Size;
#pragma GCC unroll 64
  for (int i = 0; i < s.kSide; ++i)
    s.line[i] = load<typename ItemOf<Size>::type>(in + i * t.from_step);
  s.transpose();
#pragma GCC unroll 64
  for (int i = 0; i < s.kSide; ++i) {
    if constexpr (Stream) stream(out + i * t.to_step, s.line[i]);
    if constexpr (!Stream) store(out + i * t.to_step, s.line[i]);
  }
}

// At the ends, where less than a square is left.
template <int Size>
void part_square(const Transposition& t, int64_t line, int64_t item, int64_t lines, int64_t items) {
  const char* in = t.from + line * t.from_step + item * Size;
  char* out = t.to + item * t.to_step + line * Size;
#if TINYT_VECTOR_BYTES == 64  // which has masked loads and stores
  Square<Size> s;
#pragma GCC unroll 64
  for (int i = 0; i < s.kSide; ++i) {
    const B8 line = i < lines ? load_part<uint8_t>(in + i * t.from_step, items * Size) : B8{};
    s.line[i] = bit_cast<Items<Size>>(line);
  }
  s.transpose();
  for (int64_t i = 0; i < items; ++i) {
    store_part(out + i * t.to_step, bit_cast<B8>(s.line[i]), lines * Size);
  }
#else
  for (int64_t i = 0; i < lines; ++i) {
    for (int64_t j = 0; j < items; ++j) {
      __builtin_memcpy(out + j * t.to_step + i * Size, in + i * t.from_step + j * Size, Size);
    }
  }
#endif
}

template <int Size, bool Stream>
TINYT_INLINE void transpose_as(const Transposition& t) {
  constexpr int64_t kSide = Square<Size>::kSide;
  for (int64_t item = 0; item < t.items; item += kSide) {
    const int64_t items = t.items - item < kSide ? t.items - item : kSide;
    for (int64_t line = 0; line < t.lines; line += kSide) {
      const int64_t lines = t.lines - line < kSide ? t.lines - line : kSide;
      if (lines == kSide && items == kSide) {
        whole_square<Size, Stream>(t, line, item);
      } else {
        part_square<Size>(t, line, item, lines, items);
      }
    }
  }
}

template <int Size>
void transpose(const Transposition& t) {
  const auto to = reinterpret_cast<uint64_t>(t.to) | static_cast<uint64_t>(t.to_step);
  if (t.stream && to % kLineBytes == 0) {
    transpose_as<Size, true>(t);
  } else {
    transpose_as<Size, false>(t);
  }
}

// Whole cache lines past the caches, the ends through them.
void stream_bytes(const void* from, void* to, int64_t bytes) {
  const auto* in = static_cast<const char*>(from);
  auto* out = static_cast<char*>(to);
  const auto past = static_cast<int64_t>(reinterpret_cast<uint64_t>(to) % kLineBytes);
  const int64_t head = past == 0 ? 0 : kLineBytes - past;
  if (bytes < head + kLineBytes) {
    __builtin_memcpy(out, in, static_cast<size_t>(bytes));
    return;
  }
  __builtin_memcpy(out, in, static_cast<size_t>(head));
  int64_t i = head;
  for (; i + kLineBytes <= bytes; i += kLineBytes) {
#pragma GCC unroll 4
    for (int64_t k = 0; k < kLineBytes; k += TINYT_VECTOR_BYTES) {
      stream(out + i + k, load<uint8_t>(in + i + k));
    }
  }
  __builtin_memcpy(out + i, in + i, static_cast<size_t>(bytes - i));
}

}  // namespace

extern "C" constinit const CopyTable TINYT_TABLE(copy) = {
    .transpose = {transpose<1>, transpose<2>, transpose<4>, transpose<8>},
    .stream = stream_bytes,
    .fence = stream_fence,
};

}  // namespace tinyt::cpu
