// Copies of contiguous rows, of single items in even steps, at computed places or by a mask,
// transposing copies, and copies past the caches.
#include <utility>

#include "cpu/copy/interleave.h"
#include "cpu/reduce/load_convert.h"
#include "cpu/schedule/levels.h"
#include "cpu/simd/simd.h"

namespace tinyt::cpu {
namespace {

constexpr int kLaneBytes = 16;  // within which registers interleave
constexpr int kGroups = TINYT_VECTOR_BYTES / kLaneBytes;

template <int Size>
using Item = typename RawOf<Size>::type;
template <int Size>
using Items = Vec<Item<Size>>;

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
  for (int i = 0; i < s.kSide; ++i) s.line[i] = load<Item<Size>>(in + i * t.from_step);
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

// A few items a line, or lines, that lie side by side; what is left are less than a register's.
template <int Size>
bool transpose_interleaved(const Transposition& t) {
  const auto to = reinterpret_cast<uint64_t>(t.to);
  const bool split = t.from_step == t.items * Size && t.items <= kMostInterleaved;
  const bool join = t.to_step == t.lines * Size && t.lines <= kMostInterleaved;
  if (!split && !join) return false;
  const bool past =
      t.stream && (split ? to | static_cast<uint64_t>(t.to_step) : to) % kCacheLine == 0;
  const int64_t done = with_interleaved(split ? t.items : t.lines, [&]<int K>() {
    constexpr auto kParts = std::make_index_sequence<K>{};
    using I = Interleaved<Size, K>;
    if (split && past) return I::template split<true>(t.from, t.to, t.to_step, t.lines, kParts);
    if (split) return I::template split<false>(t.from, t.to, t.to_step, t.lines, kParts);
    if (past) return I::template join<true>(t.from, t.from_step, t.to, t.items, kParts);
    return I::template join<false>(t.from, t.from_step, t.to, t.items, kParts);
  });
  Transposition rest = t;
  rest.from += done * (split ? t.from_step : Size);
  rest.to += done * (split ? Size : t.to_step);
  (split ? rest.lines : rest.items) -= done;
  transpose_as<Size, false>(rest);
  return true;
}

template <int Size>
void transpose(const Transposition& t) {
  const auto to = reinterpret_cast<uint64_t>(t.to) | static_cast<uint64_t>(t.to_step);
  if (transpose_interleaved<Size>(t)) return;
  if (t.stream && to % kCacheLine == 0) {
    transpose_as<Size, true>(t);
  } else {
    transpose_as<Size, false>(t);
  }
}

// Between one and two items of T, which may overlap.
template <class T>
TINYT_INLINE void copy_ends(const char* in, char* out, int64_t bytes) {
  T first, last;
  __builtin_memcpy(&first, in, sizeof(T));
  __builtin_memcpy(&last, in + bytes - sizeof(T), sizeof(T));
  __builtin_memcpy(out, &first, sizeof(T));
  __builtin_memcpy(out + bytes - sizeof(T), &last, sizeof(T));
}

// Fewer bytes than a register has.
TINYT_INLINE void copy_short(const char* in, char* out, int64_t bytes) {
#if TINYT_VECTOR_BYTES == 64
  store_part(out, load_part<uint8_t>(in, bytes), bytes);
#else
  if (bytes >= 16) return copy_ends<Vec<uint8_t, 16>>(in, out, bytes);
  if (bytes >= 8) return copy_ends<uint64_t>(in, out, bytes);
  if (bytes >= 4) return copy_ends<uint32_t>(in, out, bytes);
  if (bytes >= 2) return copy_ends<uint16_t>(in, out, bytes);
  if (bytes == 1) *out = *in;
#endif
}

// The last register may copy what the one before it does too. Rows are rarely a multiple of a
// register apart, and to align each in the target took another number of steps, which is
// mispredicted.
TINYT_INLINE void copy_run(const char* in, char* out, int64_t bytes) {
  if (bytes < TINYT_VECTOR_BYTES) return copy_short(in, out, bytes);
  int64_t i = 0;
  for (; i + TINYT_VECTOR_BYTES <= bytes; i += TINYT_VECTOR_BYTES) {
    store(out + i, load<uint8_t>(in + i));
  }
  const int64_t last = bytes - TINYT_VECTOR_BYTES;
  if (i < bytes) store(out + last, load<uint8_t>(in + last));
}

// Rows that lie apart are no stream that the processor would see coming.
void copy_rows(const RowCopy& c) {
  const bool apart = c.from_step != c.bytes && c.bytes >= kCacheLine;
  const int64_t ahead = apart ? kRowsAheadBytes / c.bytes : 0;
  int64_t r = 0;
  for (; ahead > 0 && r + ahead < c.rows; ++r) {
    const char* next = c.from + (r + ahead) * c.from_step;
    for (int64_t k = 0; k < c.bytes; k += kCacheLine) __builtin_prefetch(next + k);
    __builtin_prefetch(next + c.bytes - 1);
    copy_run(c.from + r * c.from_step, c.to + r * c.to_step, c.bytes);
  }
  for (; r < c.rows; ++r) {
    copy_run(c.from + r * c.from_step, c.to + r * c.to_step, c.bytes);
  }
}

TINYT_INLINE int64_t index_at(const char* index) {
  int64_t i;
  __builtin_memcpy(&i, index, sizeof i);
  return i;
}

// Rows at computed places are no stream that the processor would see coming.
void gather_rows(const RowCopy& c, const char* index, int64_t index_step) {
  const int64_t fetch = c.bytes < kIndexedAheadBytes ? c.bytes : kIndexedAheadBytes;
  for (int64_t r = 0; r < c.rows; ++r) {
    if (r + kIndexedRowsAhead < c.rows) {
      const char* next =
          c.from + index_at(index + (r + kIndexedRowsAhead) * index_step) * c.from_step;
      for (int64_t k = 0; k < fetch; k += kCacheLine) __builtin_prefetch(next + k);
    }
    copy_run(c.from + index_at(index + r * index_step) * c.from_step, c.to + r * c.to_step,
             c.bytes);
  }
}

// Every row after those before it: an index may come again.
template <class T>
void add_rows(const RowCopy& c, const char* index, int64_t index_step) {
  constexpr int64_t kItems = kLanes<Vec<T>>;
  const int64_t n = c.bytes / static_cast<int64_t>(sizeof(T));
  const int64_t fetch = c.bytes < kIndexedAheadBytes ? c.bytes : kIndexedAheadBytes;
  for (int64_t r = 0; r < c.rows; ++r) {
    if (r + kIndexedRowsAhead < c.rows) {
      const char* next = c.to + index_at(index + (r + kIndexedRowsAhead) * index_step) * c.to_step;
      const char* source = c.from + (r + kIndexedRowsAhead) * c.from_step;
      for (int64_t k = 0; k < fetch; k += kCacheLine) {
        __builtin_prefetch(next + k, 1);
        __builtin_prefetch(source + k);
      }
    }
    const char* from = c.from + r * c.from_step;
    char* to = c.to + index_at(index + r * index_step) * c.to_step;
    int64_t i = 0;
    for (; i + kItems <= n; i += kItems, from += TINYT_VECTOR_BYTES, to += TINYT_VECTOR_BYTES) {
      store(to, load<T>(to) + load<T>(from));
    }
    if (i < n) store_part(to, load_part<T>(to, n - i) + load_part<T>(from, n - i), n - i);
  }
}

// to[i] = from[i col + index[i] step], all in bytes but the index.
template <int Size>
void gather_items(const char* from, int64_t col, int64_t step, const char* index, char* to,
                  int64_t n) {
#pragma GCC unroll 4
  for (int64_t i = 0; i < n; ++i) {
    __builtin_memcpy(to + i * Size, from + i * col + index_at(index + i * 8) * step, Size);
  }
}

template <class V, size_t... I>
TINYT_INLINE V even_items(V a, V b, std::index_sequence<I...>) {
  return __builtin_shufflevector(a, b, (2 * I)...);
}

template <class V, size_t... I>
TINYT_INLINE V reversed(V v, std::index_sequence<I...>) {
  return __builtin_shufflevector(v, v, (sizeof...(I) - 1 - I)...);
}

// Every `step` bytes an item; backwards with whole registers, and every second one too, but for the
// last, beyond which nothing may be read.
template <int Size>
void pick_items(const char* from, int64_t step, char* to, int64_t n) {
  constexpr int64_t kItems = TINYT_VECTOR_BYTES / Size;
  using T = Item<Size>;
  int64_t i = 0;
  if (step == -Size) {
    for (; i + kItems <= n; i += kItems) {
      store(to + i * Size,
            reversed(load<T>(from - (i + kItems - 1) * Size), std::make_index_sequence<kItems>{}));
    }
  } else if (step == 2 * Size) {
    for (; i + kItems < n; i += kItems) {
      const char* in = from + i * step;
      store(to + i * Size, even_items(load<T>(in), load<T>(in + TINYT_VECTOR_BYTES),
                                      std::make_index_sequence<kItems>{}));
    }
  }
#pragma GCC unroll 4
  for (; i < n; ++i) __builtin_memcpy(to + i * Size, from + i * step, Size);
}

// Items side by side in the target, of Size bytes or, where that is 0, of any.
template <int Size>
TINYT_INLINE void copy_border(const char* from, int64_t item, int64_t step, char* to, int64_t n) {
  if constexpr (Size == 0) {
    for (int64_t i = 0; i < n; ++i) copy_run(from + i * step, to + i * item, item);
  } else if (n >= TINYT_VECTOR_BYTES / Size) {
    if (step == Size) return copy_run(from, to, n * Size);
    pick_items<Size>(from, step, to, n);
  } else {
#pragma GCC unroll 1
    for (int64_t i = 0; i < n; ++i) __builtin_memcpy(to + i * Size, from + i * step, Size);
  }
}

// In the order in which they lie in the target.
template <int Size>
void bordered_rows(const RowCopy& c, int64_t item, int64_t step, const RowBorder& before,
                   const RowBorder& after) {
  for (int64_t r = 0; r < c.rows; ++r) {
    const char* from = c.from + r * c.from_step;
    char* to = c.to + r * c.to_step;
    copy_border<Size>(from + before.from, item, step, to, before.count);
    to += before.count * item;
    copy_run(from, to, c.bytes);
    copy_border<Size>(from + after.from, item, step, to + c.bytes, after.count);
  }
}

#if defined(TINYT_COMPRESS)
// The places of the ones, eight at a time.
int64_t find_set(const uint8_t* set, int64_t n, int64_t first, int64_t* found) {
  constexpr int64_t kItems = TINYT_VECTOR_BYTES / 8;
  U64 place = U64{0, 1, 2, 3, 4, 5, 6, 7} + static_cast<uint64_t>(first);
  int64_t count = 0;
  for (int64_t i = 0; i < n; i += kItems, place += static_cast<uint64_t>(kItems)) {
    const auto mask = set_bytes(set + i, n - i < kItems ? n - i : kItems);
    const int64_t here = __builtin_popcount(mask);
    store_part(found + count, bit_cast<B8>(compress(place, mask)), here * 8);
    count += here;
  }
  return count;
}
#else
int64_t find_set(const uint8_t* set, int64_t n, int64_t first, int64_t* found) {
  int64_t count = 0;
  for (int64_t i = 0; i < n; count += set[i++]) found[count] = first + i;  // no branch to miss
  return count;
}
#endif

template <int Size>
int64_t compress_items(const char* from, const uint8_t* set, int64_t n, char* to) {
#if defined(TINYT_COMPRESS)
  if constexpr (Size >= 4) {
    constexpr int64_t kItems = TINYT_VECTOR_BYTES / Size;
    int64_t count = 0;
    for (int64_t i = 0; i < n; i += kItems) {
      const int64_t items = n - i < kItems ? n - i : kItems;
      const auto mask = set_bytes(set + i, items);
      const B8 all = load_part<uint8_t>(from + i * Size, items * Size);
      const int64_t here = __builtin_popcount(mask);
      const B8 kept = bit_cast<B8>(compress(bit_cast<Items<Size>>(all), mask));
      store_part(to + count * Size, kept, here * Size);
      count += here;
    }
    return count;
  }
#endif
  int64_t found[kMaskItems];
  const int64_t count = find_set(set, n, 0, found);
  gather_items<Size>(from, 0, Size, reinterpret_cast<const char*>(found), to, count);
  return count;
}

// Whether all are in [0, size).
bool within(const int64_t* index, int64_t n, int64_t size) {
  uint64_t wrong = 0;
  for (int64_t i = 0; i < n; ++i) {
    wrong |= static_cast<uint64_t>(static_cast<uint64_t>(index[i]) >= static_cast<uint64_t>(size));
  }
  return wrong == 0;
}

template <bool First>
TINYT_INLINE bool add_places(const int64_t* index, int64_t n, int64_t size, int64_t* sum) {
  const auto places = static_cast<uint64_t>(size);  // unsigned: sums of wrong ones may overflow
  uint64_t wrong = 0;
  for (int64_t i = 0; i < n; ++i) {
    const uint64_t at = static_cast<uint64_t>(index[i]) + (index[i] < 0 ? places : 0);
    wrong |= static_cast<uint64_t>(at >= places);
    sum[i] = static_cast<int64_t>(First ? at : static_cast<uint64_t>(sum[i]) * places + at);
  }
  return wrong == 0;
}
bool add_index(const int64_t* index, int64_t n, int64_t size, bool first, int64_t* sum) {
  return first ? add_places<true>(index, n, size, sum) : add_places<false>(index, n, size, sum);
}

// Whole cache lines past the caches, the ends through them.
void stream_bytes(const void* from, void* to, int64_t bytes) {
  const auto* in = static_cast<const char*>(from);
  auto* out = static_cast<char*>(to);
  const auto past = static_cast<int64_t>(reinterpret_cast<uint64_t>(to) % kCacheLine);
  const int64_t head = past == 0 ? 0 : kCacheLine - past;
  if (bytes < head + kCacheLine) {
    __builtin_memcpy(out, in, static_cast<size_t>(bytes));
    return;
  }
  __builtin_memcpy(out, in, static_cast<size_t>(head));
  int64_t i = head;
  for (; i + kCacheLine <= bytes; i += kCacheLine) {
#pragma GCC unroll 4
    for (int64_t k = 0; k < kCacheLine; k += TINYT_VECTOR_BYTES) {
      stream(out + i + k, load<uint8_t>(in + i + k));
    }
  }
  __builtin_memcpy(out + i, in + i, static_cast<size_t>(bytes - i));
}

}  // namespace

extern "C" constinit const CopyTable TINYT_TABLE(copy) = {
    .transpose = {transpose<1>, transpose<2>, transpose<4>, transpose<8>},
    .rows = copy_rows,
    .bordered = {bordered_rows<1>, bordered_rows<2>, bordered_rows<4>, bordered_rows<8>,
                 bordered_rows<0>},
    .gather_rows = gather_rows,
    .add_rows = TINYT_BY_DTYPE(add_rows),
    .gather = {gather_items<1>, gather_items<2>, gather_items<4>, gather_items<8>},
    .pick = {pick_items<1>, pick_items<2>, pick_items<4>, pick_items<8>},
    .find = find_set,
    .compress = {compress_items<1>, compress_items<2>, compress_items<4>, compress_items<8>},
    .within = within,
    .add_index = add_index,
    .stream = stream_bytes,
    .fence = stream_fence,
};

}  // namespace tinyt::cpu
