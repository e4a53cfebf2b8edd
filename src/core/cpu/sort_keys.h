// Keys for sorting and selecting: the bits of a value as an unsigned integer that orders as the
// values do, with every NaN last and both zeros equal.
#pragma once

#include <cstdint>

#include "../dtype.h"

namespace tinyt::cpu {

// A key and where its element stood.
template <class K, class I>
struct Entry {
  K key;
  I index;

  // The stable order: of equal values, the one that stood first.
  bool operator<(const Entry& other) const {
    return key < other.key || (key == other.key && index < other.index);
  }
};

enum class KeyKind : uint8_t { Unsigned, Signed, Float };

inline KeyKind key_kind(DType t) {
  if (is_float(t)) return KeyKind::Float;
  return is_bool(t) || t == DType::UInt8 ? KeyKind::Unsigned : KeyKind::Signed;
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

  K operator()(const char* line, int64_t i) const {
    K bits;
    __builtin_memcpy(&bits, line + i * static_cast<int64_t>(sizeof(K)), sizeof(K));
    return static_cast<K>(order(bits) ^ flip_);
  }

  template <class I>
  void load(const char* line, int64_t begin, int64_t end, Entry<K, I>* entries) const {
    for (int64_t i = begin; i < end; ++i) entries[i] = {(*this)(line, i), static_cast<I>(i)};
  }

 private:
  K order(K bits) const {
    constexpr K kSign = static_cast<K>(K{1} << (sizeof(K) * 8 - 1));
    if constexpr (Kind == KeyKind::Unsigned) return bits;
    if constexpr (Kind == KeyKind::Signed) return bits ^ kSign;
    const K magnitude = bits & static_cast<K>(~kSign);
    if (magnitude > infinity_) return kNaN;
    if (magnitude == 0) return kSign;
    return bits & kSign ? static_cast<K>(~bits) : static_cast<K>(bits | kSign);
  }

  K infinity_, flip_;
};

// Calls f.operator()<K, Kind>() for a dtype.
template <class F>
void with_key_of(DType dtype, F&& f) {
  const auto with_kind = [&]<class K>() {
    switch (key_kind(dtype)) {
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
