// Sizes along the spatial dimensions of convolutions and pools.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

namespace tinyt::cpu {

inline constexpr int kSpatial = 3;  // fewer dimensions are padded in front
using Sizes = std::array<int64_t, kSpatial>;

inline Sizes spatial(std::span<const int64_t> list, int64_t fill) {
  Sizes s;
  s.fill(fill);
  std::copy(list.begin(), list.end(), s.end() - static_cast<int64_t>(list.size()));
  return s;
}

inline int64_t product(const Sizes& s) { return s[0] * s[1] * s[2]; }

}  // namespace tinyt::cpu
