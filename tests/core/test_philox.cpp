// Philox against its authors' known answers, and the vector kernels against the scalar function.
#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include "check.h"
#include "core/base/random.h"
#include "cpu/schedule/levels.h"

namespace {

using namespace tinyt;

using Words = std::array<uint32_t, 4>;

// Random123's tests/kat_vectors, lines "philox4x32 10".
void test_known_answers() {
  struct Case {
    Words counter;
    uint64_t seed;  // high word: the second word of the key
    Words words;
  };
  constexpr uint32_t kOnes = 0xffffffff;
  const Case cases[] = {
      {{0, 0, 0, 0}, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {{kOnes, kOnes, kOnes, kOnes},
       0xffffffffffffffff,
       {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
       0x299f31d0a4093822,
       {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
  };
  for (const Case& c : cases) CHECK(philox::block(c.counter, c.seed) == c.words);
}

void test_counters() {
  CHECK_EQ(philox::counters_of(0), 0);
  CHECK_EQ(philox::counters_of(1), 1);
  CHECK_EQ(philox::counters_of(4), 1);
  CHECK_EQ(philox::counters_of(5), 2);
  CHECK_EQ(philox::counters_of(INT64_MAX), int64_t{1} << 61);
}

// Word of element i, of the high (0) or low (1) stream.
uint32_t word(uint64_t seed, uint64_t offset, int64_t i, uint32_t stream) {
  const uint64_t counter = offset + static_cast<uint64_t>(i / 4);
  const Words key{static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), 0, stream};
  return philox::block(key, seed)[static_cast<size_t>(i % 4)];
}

uint64_t word64(uint64_t seed, uint64_t offset, int64_t i) {
  return uint64_t{word(seed, offset, i, 0)} << 32 | word(seed, offset, i, 1);
}

template <class T>
std::vector<T> draw(void (*kernel)(uint64_t, uint64_t, int64_t, int64_t, T*), uint64_t seed,
                    uint64_t offset, int64_t begin, int64_t n) {
  std::vector<T> out(static_cast<size_t>(n) + 1, T{77});  // one more, which must stay
  kernel(seed, offset, begin, n, out.data());
  CHECK_EQ(out.back(), T{77});
  out.pop_back();
  return out;
}

// One of a pair of neighbours u, v in [0, 1).
double normal(bool second, double u, double v) {
  const double radius = std::sqrt(-2 * std::log1p(-u)), angle = 6.283185307179586 * v;
  return radius * (second ? std::sin(angle) : std::cos(angle));
}

void check_draws(uint64_t seed, uint64_t offset, int64_t begin, int64_t n) {
  const cpu::RandomTable& table = *cpu::kernels().random;
  const auto bits = draw(table.bits, seed, offset, begin, n);
  const auto single = draw(table.uniform32, seed, offset, begin, n);
  const auto real = draw(table.uniform64, seed, offset, begin, n);
  const auto normal32 = draw(table.normal32, seed, offset, begin, n);
  const auto normal64 = draw(table.normal64, seed, offset, begin, n);
  bool words_ok = true, normal32_ok = true, normal64_ok = true;
  for (int64_t k = 0; k < n; ++k) {
    const auto at = static_cast<size_t>(k);
    const int64_t i = begin + k, even = i & ~int64_t{1};
    const auto unit32 = [&](int64_t e) { return (word(seed, offset, e, 0) >> 8) * 0x1p-24; };
    const auto unit64 = [&](int64_t e) {
      return static_cast<double>(word64(seed, offset, e) >> 11) * 0x1p-53;
    };
    words_ok &= static_cast<uint64_t>(bits[at]) == word64(seed, offset, i);
    words_ok &= single[at] == unit32(i) && real[at] == unit64(i);
    const double want32 = normal(i & 1, unit32(even), unit32(even + 1));
    const double want64 = normal(i & 1, unit64(even), unit64(even + 1));
    normal32_ok &= std::abs(normal32[at] - want32) < 3e-6;
    normal64_ok &= std::abs(normal64[at] - want64) < 1e-14;
  }
  CHECK(words_ok);
  CHECK(normal32_ok);
  CHECK(normal64_ok);
}

void test_draws() {
  constexpr uint64_t kSeed = 0x0123456789abcdef;
  for (const int64_t n : {0, 1, 3, 4, 5, 255, 256, 257, 1003}) {
    check_draws(kSeed, 0, 0, n);
    check_draws(kSeed, 12345, 64, n);
    check_draws(0, 0xfffffffe, 0, n);          // the counter's low word overflows
    check_draws(0, 0xfffffffffffffff0, 0, n);  // the whole offset does
  }
}

}  // namespace

int main() {
  test_known_answers();
  test_counters();
  test_draws();
  return tinyt::test::summary();
}
