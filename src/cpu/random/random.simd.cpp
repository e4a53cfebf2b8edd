// Philox words and the distributions made of them (random.h says which word goes where). The
// uniform draws have the same bits at every level.
#include "core/base/random.h"

#include "cpu/math/math_log.h"
#include "cpu/math/math_trig.h"
#include "cpu/random/random_words.h"
#include "cpu/schedule/levels.h"

namespace tinyt::cpu {
namespace {

// One round of work: so many elements, in so many counters.
constexpr int kElements = 256;
constexpr int kCounters = kElements / philox::kWords;
constexpr int kWordLanes = static_cast<int>(sizeof(U64) / sizeof(uint64_t));

// The words of kCounters counters from `counter` on, in stream order.
void fill_words(uint64_t seed, uint64_t counter, uint64_t word3, uint32_t (&words)[kElements]) {
  // Pairs of words (0, 1) and (2, 3), first word in the low half.
  uint64_t pairs[2][kCounters];
  U64 lane = {};
  for (int i = 0; i < kWordLanes; ++i) lane[i] = static_cast<uint64_t>(i);
  for (int j = 0; j < kCounters; j += kWordLanes) {
    const U64 at = lane + (counter + static_cast<uint64_t>(j));
    U64 c[philox::kWords] = {at, at >> 32, U64{}, U64{} + word3};
    philox::rounds(c, seed, [](U64 a, uint32_t m) { return multiply_lowp(a, m); });
    store(pairs[0] + j, (c[0] & UINT32_MAX) | (c[1] << 32));
    store(pairs[1] + j, (c[2] & UINT32_MAX) | (c[3] << 32));
  }
  for (int j = 0; j < kCounters; ++j) {
    const uint64_t both[2] = {pairs[0][j], pairs[1][j]};
    __builtin_memcpy(words + j * philox::kWords, both, sizeof both);
  }
}

// 64-bit draws: the high words come from word3 = 0, the low words from word3 = 1.
void fill_words64(uint64_t seed, uint64_t counter, uint64_t (&words)[kElements]) {
  uint32_t high[kElements], low[kElements];
  fill_words(seed, counter, 0, high);
  fill_words(seed, counter, 1, low);
  for (int i = 0; i < kElements; ++i) words[i] = uint64_t{high[i]} << 32 | low[i];
}

// 24 bits to [0, 1).
TINYT_INLINE F32 unit(const uint32_t* words) {
  return to_float((I32)(load<uint32_t>(words) >> 8)) * 0x1p-24f;
}

TINYT_INLINE F64 unit(const uint64_t* words) { return unit_of(load<uint64_t>(words)); }

void fill_units(uint64_t seed, uint64_t counter, float (&out)[kElements]) {
  uint32_t words[kElements];
  fill_words(seed, counter, 0, words);
  for (int i = 0; i < kElements; i += kLanes<F32>) store(out + i, unit(words + i));
}

void fill_units(uint64_t seed, uint64_t counter, double (&out)[kElements]) {
  uint64_t words[kElements];
  fill_words64(seed, counter, words);
  for (int i = 0; i < kElements; i += kLanes<F64>) store(out + i, unit(words + i));
}

void fill_bits(uint64_t seed, uint64_t counter, int64_t (&out)[kElements]) {
  uint64_t words[kElements];
  fill_words64(seed, counter, words);
  __builtin_memcpy(out, words, sizeof words);
}

// Box and Muller's transform: the neighbours u, v give sqrt(-2 log(1 - u)) times the cosine and
// the sine of 2 pi v. 1 - u is exact and never 0.
template <class T>
void fill_normals(uint64_t seed, uint64_t counter, T (&out)[kElements]) {
  using V = Vec<T>;
  constexpr T kTwoPi = static_cast<T>(6.283185307179586476925286766559);
  fill_units(seed, counter, out);
  T u[kElements / 2], v[kElements / 2];
  for (int j = 0; j < kElements / 2; ++j) {
    u[j] = out[2 * j];
    v[j] = out[2 * j + 1];
  }
  for (int j = 0; j < kElements / 2; j += kLanes<V>) {
    const V radius = sqrt(log(splat(T{1}) - load<T>(u + j)) * T{-2});
    const V angle = load<T>(v + j) * kTwoPi;
    store(u + j, radius * cos(angle));
    store(v + j, radius * sin(angle));
  }
  for (int j = 0; j < kElements / 2; ++j) {
    out[2 * j] = u[j];
    out[2 * j + 1] = v[j];
  }
}

// Elements [begin, begin + n) of a draw, by whole rounds.
template <class T, void (&Fill)(uint64_t, uint64_t, T (&)[kElements])>
void draw(uint64_t seed, uint64_t offset, int64_t begin, int64_t n, T* out) {
  uint64_t counter = offset + static_cast<uint64_t>(begin / philox::kWords);
  for (int64_t i = 0; i < n; i += kElements, counter += kCounters) {
    T values[kElements];
    Fill(seed, counter, values);
    const int64_t count = n - i < kElements ? n - i : kElements;
    __builtin_memcpy(out + i, values, static_cast<size_t>(count) * sizeof(T));
  }
}

}  // namespace

extern "C" constexpr RandomTable TINYT_TABLE(random) = {
    draw<int64_t, fill_bits>,           draw<float, fill_units>,
    draw<double, fill_units>,           draw<float, fill_normals<float>>,
    draw<double, fill_normals<double>>,
};

}  // namespace tinyt::cpu
