// Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", 2011).
//
// Key: the seed, low word first. Counter: word 0 and 1 hold the stream offset, low word first;
// word 2 is 0; word 3 is 0 for the words of a 32-bit draw and for the high words of a 64-bit draw,
// 1 for the low words. Element i of a draw takes word i % 4 of counter `offset + i / 4`, so a draw
// of n elements consumes counters_of(n) counters whatever its dtype.
#pragma once

#include <array>
#include <cstdint>

namespace tinyt::philox {

inline constexpr uint32_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
inline constexpr uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
inline constexpr int kRounds = 10;
inline constexpr int kWords = 4;  // of one counter

inline constexpr int64_t counters_of(int64_t elements) {
  return elements / kWords + (elements % kWords != 0);
}

// Internal linkage, because kernels of every instruction-set level include this (cpu/levels.h).
namespace {

// Ten rounds on `c`. W is uint64_t or a vector of them, of which the low 32 bits count (the upper
// ones hold rubbish afterwards); multiply(a, m) is the 64-bit product of the low halves.
template <class W, class Multiply>
inline __attribute__((always_inline)) void rounds(W (&c)[kWords], uint64_t seed,
                                                  Multiply multiply) {
  auto key0 = static_cast<uint32_t>(seed), key1 = static_cast<uint32_t>(seed >> 32);
#pragma GCC unroll 10
  for (int r = 0; r < kRounds; ++r) {
    const W p0 = multiply(c[0], kMultiplier0), p1 = multiply(c[2], kMultiplier1);
    c[0] = (p1 >> 32) ^ c[1] ^ uint64_t { key0 };
    c[2] = (p0 >> 32) ^ c[3] ^ uint64_t { key1 };
    c[1] = p1;
    c[3] = p0;
    key0 += kWeyl0;
    key1 += kWeyl1;
  }
}

}  // namespace

// The four words of one counter.
inline std::array<uint32_t, kWords> block(const std::array<uint32_t, kWords>& counter,
                                          uint64_t seed) {
  uint64_t c[kWords] = {counter[0], counter[1], counter[2], counter[3]};
  rounds(c, seed, [](uint64_t a, uint32_t m) { return (a & UINT32_MAX) * m; });
  return {static_cast<uint32_t>(c[0]), static_cast<uint32_t>(c[1]), static_cast<uint32_t>(c[2]),
          static_cast<uint32_t>(c[3])};
}

}  // namespace tinyt::philox
