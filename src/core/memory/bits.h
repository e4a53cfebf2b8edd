// A fixed array of bits with fast runs.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace tinyt::memory {

template <size_t N>
class Bits {
 public:
  static_assert(N % 64 == 0);

  void fill(size_t first, size_t last, bool value) {
    for (size_t i = first; i < last;) {
      const size_t n = std::min(64 - i % 64, last - i);
      const uint64_t mask = (n == 64 ? ~uint64_t{0} : (uint64_t{1} << n) - 1) << (i % 64);
      if (value) {
        words_[i / 64] |= mask;
      } else {
        words_[i / 64] &= ~mask;
      }
      i += n;
    }
  }

  // The first bit from `i` on that is `value`, or N.
  size_t find(size_t i, bool value) const {
    while (i < N) {
      const uint64_t word = (value ? words_[i / 64] : ~words_[i / 64]) >> (i % 64);
      if (word != 0) return i + static_cast<size_t>(std::countr_zero(word));
      i = (i / 64 + 1) * 64;
    }
    return N;
  }

  size_t count(size_t first, size_t last) const {
    size_t n = 0;
    for (size_t i = first; i < last;) {
      const size_t width = std::min(64 - i % 64, last - i);
      const uint64_t mask = width == 64 ? ~uint64_t{0} : (uint64_t{1} << width) - 1;
      n += static_cast<size_t>(std::popcount(words_[i / 64] >> (i % 64) & mask));
      i += width;
    }
    return n;
  }

 private:
  uint64_t words_[N / 64];
};

}  // namespace tinyt::memory
