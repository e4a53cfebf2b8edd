// Keys for sorting and selecting: the bits of a value as an unsigned integer that orders as the
// values do, with every NaN last and both zeros equal.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/base/dtype.h"
#include "cpu/schedule/levels.h"

namespace tinyt::cpu {

// A key and where its element stood.
template <class K, class I>
struct Entry {
  K key;
  I index;

  // The stable order: of equal values, the one that stood first.
  bool operator<(const Entry& other) const {
    if constexpr (sizeof(Entry) <= sizeof(uint64_t)) return packed() < other.packed();
    return key < other.key || (key == other.key && index < other.index);
  }

 private:
  uint64_t packed() const { return static_cast<uint64_t>(key) << 32 | index; }
};

// What a radix sort orders by: a key with its position below it, or the key of an entry.
inline uint64_t sort_key(uint64_t packed) { return packed; }
template <class K, class I>
uint64_t sort_key(const Entry<K, I>& entry) {
  return entry.key;
}

enum class KeyKind : uint8_t { Bool, Unsigned, Signed, Float };

inline KeyKind key_kind(DType t) {
  if (is_float(t)) return KeyKind::Float;
  if (is_bool(t)) return KeyKind::Bool;
  return t == DType::UInt8 ? KeyKind::Unsigned : KeyKind::Signed;
}

// The bits of +infinity; anything above it, sign aside, is a NaN.
inline uint64_t infinity_bits(DType t) {
  switch (t) {
    case DType::Float16:
      return 0x7c00;
    case DType::BFloat16:
      return 0x7f80;
    case DType::Float32:
      return 0x7f800000;
    default:
      return 0x7ff0000000000000;
  }
}

// Loads keys of one dtype from one line; descending order inverts them.
template <class K, KeyKind Kind>
class KeyReader {
 public:
  static constexpr bool kFloat = Kind == KeyKind::Float;
  static constexpr K kNaN = static_cast<K>(~K{0});

  KeyReader(DType dtype, bool descending)
      : infinity_(static_cast<K>(infinity_bits(dtype))), flip_(descending ? kNaN : K{0}) {}

  K operator()(const char* line, int64_t i) const { return of(bits_at(line, i)); }

  // The key of an element of these bits.
  K of(K bits) const { return static_cast<K>(order(bits) ^ flip_); }

  // The bits of element i, from its key where that says them.
  K bits_of(K key, const char* line, int64_t i) const {
    const K ordered = static_cast<K>(key ^ flip_);
    if constexpr (Kind <= KeyKind::Unsigned) return ordered;
    if constexpr (Kind == KeyKind::Signed) return static_cast<K>(ordered ^ kSign);
    if (ordered == kSign || ordered == kNaN) return bits_at(line, i);
    return static_cast<K>(ordered & kSign ? ordered ^ kSign : ~ordered);
  }

  template <class I>
  void load(const char* line, int64_t begin, int64_t end, Entry<K, I>* entries) const {
    for (int64_t i = begin; i < end; ++i) entries[i] = {(*this)(line, i), static_cast<I>(i)};
  }

 private:
  static constexpr K kSign = static_cast<K>(K{1} << (sizeof(K) * 8 - 1));

  static K bits_at(const char* line, int64_t i) {
    K bits;
    __builtin_memcpy(&bits, line + i * static_cast<int64_t>(sizeof(K)), sizeof(K));
    return bits;
  }

  // A zero has the key kSign, a NaN kNaN, whatever their bits. No branches: signs are random.
  K order(K bits) const {
    if constexpr (Kind == KeyKind::Bool) return bits != 0;
    if constexpr (Kind == KeyKind::Unsigned) return bits;
    if constexpr (Kind == KeyKind::Signed) return bits ^ kSign;
    using S = std::make_signed_t<K>;  // which all processors compare
    const K negative = static_cast<K>(-static_cast<K>(bits >> (sizeof(K) * 8 - 1)));
    const bool nan = static_cast<S>(bits & static_cast<K>(~kSign)) > static_cast<S>(infinity_);
    const K ordered = static_cast<K>((bits ^ (negative | kSign)) + (bits == kSign));
    return static_cast<K>(ordered | static_cast<K>(-static_cast<K>(nan)));
  }

  K infinity_, flip_;
};

// How many elements of a line of at most kMaxRanked stand before each in the stable order.
template <class K>
using Rank = std::conditional_t<sizeof(K) == 8, int64_t, int32_t>;
template <class K, KeyKind Kind>
void rank_line(const KeyReader<K, Kind>& key, const char* line, int64_t n, Rank<K>* ranks) {
  // The kernels compare signed integers.
  constexpr bool kSameSize = sizeof(K) == sizeof(Rank<K>);
  constexpr K kFlip = kSameSize ? static_cast<K>(K{1} << (8 * sizeof(K) - 1)) : K{0};
  const auto key_of = [&](K bits) { return static_cast<Rank<K>>(key.of(bits) ^ kFlip); };
  constexpr int64_t kAtOnce = 16;  // a number of elements that compilers make registers of
  Rank<K> keys[kMaxRanked];
  int64_t i = 0;
  for (; i + kAtOnce <= n; i += kAtOnce) {
    K bits[kAtOnce];
    __builtin_memcpy(bits, line + i * static_cast<int64_t>(sizeof(K)), sizeof bits);
    for (int64_t k = 0; k < kAtOnce; ++k) keys[i + k] = key_of(bits[k]);
  }
  for (; i < n; ++i) keys[i] = static_cast<Rank<K>>(key(line, i) ^ kFlip);
  const SortTable& table = *kernels().sort;
  if constexpr (sizeof(Rank<K>) == 8) {
    table.ranks64(keys, n, ranks);
  } else {
    table.ranks32(keys, n, ranks);
  }
}

// Calls f.operator()<K, Kind>() for a dtype.
template <class F>
void with_key_of(DType dtype, F&& f) {
  const auto with_kind = [&]<class K>() {
    switch (key_kind(dtype)) {
      case KeyKind::Bool:
        if constexpr (sizeof(K) == 1) return f.template operator()<K, KeyKind::Bool>();
        break;
      case KeyKind::Unsigned:
        return f.template operator()<K, KeyKind::Unsigned>();
      case KeyKind::Signed:
        return f.template operator()<K, KeyKind::Signed>();
      case KeyKind::Float:
        return f.template operator()<K, KeyKind::Float>();
    }
  };
  switch (size_of(dtype)) {
    case 1:
      return with_kind.template operator()<uint8_t>();
    case 2:
      return with_kind.template operator()<uint16_t>();
    case 4:
      return with_kind.template operator()<uint32_t>();
    default:
      return with_kind.template operator()<uint64_t>();
  }
}

}  // namespace tinyt::cpu
