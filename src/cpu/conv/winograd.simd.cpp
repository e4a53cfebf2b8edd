// The transforms of F(4x4, 3x3), the tiles of a register side by side (winograd.cpp).
//
// From the Toom-Cook points 0, 1, -1, 1/2, -2 and infinity: of the usual choices the one with the
// smallest errors (Barabasz et al. 2020, "Error Analysis and Improving the Accuracy of Winograd
// Convolution for Deep Neural Networks").
#include "cpu/schedule/levels.h"
#include "cpu/simd/simd.h"

namespace tinyt::cpu {
namespace {

constexpr int kL = kLanes<F32>;

// ---- one dimension: the data to six values, the weights to six, products to four

TINYT_INLINE void transform_data(F32 (&d)[6]) {
  const F32 odd = d[3] - d[1], even = d[4] - d[2];
  const F32 first = fma(splat(1.5f), odd, fma(splat(-2.0f), d[2], d[0] + d[4]));
  const F32 last = fma(splat(1.5f), even, fma(splat(-2.0f), d[3], d[1] + d[5]));
  const F32 one = fma(splat(0.5f), d[2], fma(splat(2.5f), d[3], d[4] - d[1]));
  const F32 minus_one = fma(splat(0.5f), d[3], fma(splat(-2.5f), d[2], d[4] + d[1]));
  d[0] = first;
  d[1] = one;
  d[2] = minus_one;
  d[3] = fma(splat(2.0f), odd, even);
  d[4] = fma(splat(-0.5f), odd, even);
  d[5] = last;
}

TINYT_INLINE void transform_weights(const F32 (&g)[3], F32 (&u)[6]) {
  const F32 ends = g[0] + g[2];
  u[0] = g[0];
  u[1] = (ends + g[1]) * (1.0f / 3);
  u[2] = (g[1] - ends) * (1.0f / 3);
  u[3] = fma(splat(4.0f), g[0], fma(splat(2.0f), g[1], g[2])) * (-4.0f / 15);
  u[4] = fma(splat(4.0f), g[2], fma(splat(-2.0f), g[1], g[0])) * (1.0f / 15);
  u[5] = g[2];
}

TINYT_INLINE void transform_products(const F32 (&m)[6], F32 (&y)[4]) {
  const F32 sum = m[1] + m[2], difference = m[1] - m[2];
  y[0] = (m[0] + sum) + (m[3] + m[4]);
  y[1] = fma(splat(0.5f), m[3], fma(splat(-2.0f), m[4], difference));
  y[2] = fma(splat(0.25f), m[3], fma(splat(4.0f), m[4], sum));
  y[3] = fma(splat(0.125f), m[3], fma(splat(-8.0f), m[4], difference)) + m[5];
}

// ---- and the transposed forms: a gradient of four results to six, six products to three weights

TINYT_INLINE void transform_gradient(const F32 (&y)[4], F32 (&m)[6]) {
  const F32 even = y[0] + y[2], odd = y[1] + y[3];
  m[0] = y[0];
  m[1] = even + odd;
  m[2] = even - odd;
  m[3] = fma(splat(0.125f), y[3], fma(splat(0.25f), y[2], fma(splat(0.5f), y[1], y[0])));
  m[4] = fma(splat(-8.0f), y[3], fma(splat(4.0f), y[2], fma(splat(-2.0f), y[1], y[0])));
  m[5] = y[3];
}

TINYT_INLINE void transform_weight_products(const F32 (&u)[6], F32 (&g)[3]) {
  const F32 sum = (u[1] - u[2]) * (1.0f / 3), difference = (u[1] + u[2]) * (1.0f / 3);
  const F32 three = u[3] * (-4.0f / 15), four = u[4] * (1.0f / 15);
  g[0] = u[0] + (sum + fma(splat(4.0f), three, four));
  g[1] = difference + fma(splat(2.0f), three, four * -2.0f);
  g[2] = u[5] + (sum + fma(splat(4.0f), four, three));
}

// ---- two dimensions

// Lanes first, first + step, ... of two registers side by side.
TINYT_INLINE I32 every(int first, int step) {
  I32 index;
  for (int i = 0; i < kL; ++i) index[i] = (first + i * step) % (2 * kL);
  return index;
}

// Groups from k on, of lines that fill so many registers there.
template <int Registers>
void deal_groups(const DealtLines& g, int64_t k) {
  const I32 evens = every(0, 2), odds = every(1, 2);
  const I32 fourths[4] = {every(0, 4), every(1, 4), every(2, 4), every(3, 4)};
  int64_t first[Registers], last[Registers];  // of a register's lanes that are there
  for (int r = 0; r < Registers; ++r) {
    const int64_t at = 4 * k + r * kL;
    first[r] = g.begin < at ? 0 : g.begin < at + kL ? g.begin - at : kL;
    last[r] = g.end < at ? 0 : g.end < at + kL ? g.end - at : kL;
  }
  const float* from = g.from + g.at + 4 * k;
  float* to = g.to + k;
  for (int64_t i = 0; i < g.lines; ++i, from += g.width, to += 4 * g.plane) {
    F32 v[Registers] = {}, dealt[4];
    if (i >= g.first && i < g.last) {
      for (int r = 0; r < Registers; ++r)
        v[r] = load_between<float>(from + r * kL, first[r], last[r]);
    }
    if constexpr (Registers == 2) {
      for (int j = 0; j < 4; ++j) dealt[j] = pick(v[0], v[1], fourths[j]);
    } else {
      const F32 even[2] = {pick(v[0], v[1], evens), pick(v[2], v[3], evens)};
      const F32 odd[2] = {pick(v[0], v[1], odds), pick(v[2], v[3], odds)};
      for (int j = 0; j < 4; ++j) {
        const auto& half = j % 2 == 0 ? even : odd;
        dealt[j] = pick(half[0], half[1], j < 2 ? evens : odds);
      }
    }
    for (int j = 0; j < 4; ++j) store(to + j * g.plane, dealt[j]);
  }
}

void deal(const DealtLines& g) {
  for (int64_t k = 0; k < g.groups; k += kL) {
    if (g.groups - k <= kL / 2) {
      deal_groups<2>(g, k);
    } else {
      deal_groups<4>(g, k);
    }
  }
}

void input(const float* planes, int64_t plane, const int32_t* index, float* out, int64_t step) {
  const I32 lanes = load<int32_t>(index);
  F32 d[6][6];
#pragma GCC unroll 6
  for (int j = 0; j < 6; ++j) {
    F32 column[6];
#pragma GCC unroll 6
    for (int i = 0; i < 6; ++i) {
      const float* from = planes + (4 * i + j % 4) * plane + j / 4;
      column[i] = pick(load<float>(from), load<float>(from + kL), lanes);
    }
    transform_data(column);
#pragma GCC unroll 6
    for (int i = 0; i < 6; ++i) d[i][j] = column[i];
  }
#pragma GCC unroll 6
  for (int i = 0; i < 6; ++i) {
    transform_data(d[i]);
#pragma GCC unroll 6
    for (int j = 0; j < 6; ++j) store(out + (6 * i + j) * step, d[i][j]);
  }
}

void gradient(const float* planes, int64_t plane, const int32_t* index, float* out, int64_t step) {
  const I32 lanes = load<int32_t>(index);
  F32 d[6][4];
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    F32 column[4], m[6];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const float* from = planes + (4 * i + j) * plane;
      column[i] = pick(load<float>(from), load<float>(from + kL), lanes);
    }
    transform_gradient(column, m);
#pragma GCC unroll 6
    for (int i = 0; i < 6; ++i) d[i][j] = m[i];
  }
#pragma GCC unroll 6
  for (int i = 0; i < 6; ++i) {
    F32 m[6];
    transform_gradient(d[i], m);
#pragma GCC unroll 6
    for (int j = 0; j < 6; ++j) store(out + (6 * i + j) * step, m[j]);
  }
}

void weights(const float* w, int64_t row, bool flipped, int64_t rows, float* out, int64_t step) {
  for (int64_t r = 0; r < rows; r += kL, w += kL * row, out += kL) {
    const int64_t n = rows - r < kL ? rows - r : kL;
    F32 g[3][3] = {}, half[3][6], u[6];
    for (int i = 0; i < 9; ++i) {
      float lane[kL] = {};
      for (int64_t k = 0; k < n; ++k) lane[k] = w[k * row + (flipped ? 8 - i : i)];
      g[i / 3][i % 3] = load<float>(lane);
    }
    for (int i = 0; i < 3; ++i) transform_weights(g[i], half[i]);
    for (int j = 0; j < 6; ++j) {
      const F32 column[3] = {half[0][j], half[1][j], half[2][j]};
      transform_weights(column, u);
      for (int i = 0; i < 6; ++i) store_part(out + (6 * i + j) * step, u[i], n);
    }
  }
}

// Four registers, one for each element of a tile's line, as the lines of kL tiles in a row.
TINYT_INLINE void interleave(const F32 (&y)[4], const I32 (&zip)[2], float* out) {
  const F32 even[2] = {pick(y[0], y[2], zip[0]), pick(y[0], y[2], zip[1])};
  const F32 odd[2] = {pick(y[1], y[3], zip[0]), pick(y[1], y[3], zip[1])};
  for (int i = 0; i < 4; ++i) store(out + i * kL, pick(even[i / 2], odd[i / 2], zip[i % 2]));
}

bool output(const float* products, int64_t step, float* out) {
  I32 zip[2];
  for (int i = 0; i < kL; ++i) {
    zip[0][i] = i / 2 + i % 2 * kL;
    zip[1][i] = zip[0][i] + kL / 2;
  }
  F32 half[4][6];
#pragma GCC unroll 6
  for (int j = 0; j < 6; ++j) {
    F32 m[6], y[4];
#pragma GCC unroll 6
    for (int i = 0; i < 6; ++i) m[i] = load<float>(products + (6 * i + j) * step);
    transform_products(m, y);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) half[i][j] = y[i];
  }
  F32 zeros = {};  // of finite values
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    F32 y[4];
    transform_products(half[i], y);
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) zeros += y[j] * 0.0f;
    interleave(y, zip, out + i * 4 * kL);
  }
  return !any((I32)(zeros != 0.0f));
}

bool weight_gradients(const float* products, int64_t step, int64_t n, float* out) {
  F32 zeros = {};  // of finite values
  for (int64_t k = 0; k < n; k += kL, products += kL, out += 9 * kL) {
    const int64_t count = n - k < kL ? n - k : kL;
    F32 half[3][6];
    for (int j = 0; j < 6; ++j) {
      F32 u[6], g[3];
      for (int i = 0; i < 6; ++i) u[i] = load_part<float>(products + (6 * i + j) * step, count);
      transform_weight_products(u, g);
      for (int i = 0; i < 3; ++i) half[i][j] = g[i];
    }
    for (int i = 0; i < 3; ++i) {
      F32 g[3];
      transform_weight_products(half[i], g);
      for (int j = 0; j < 3; ++j) {
        zeros += g[j] * 0.0f;
        float lane[kL];
        store(lane, g[j]);
        for (int64_t l = 0; l < count; ++l) out[l * 9 + i * 3 + j] = lane[l];
      }
    }
  }
  return !any((I32)(zeros != 0.0f));
}

}  // namespace

extern "C" const WinogradTable TINYT_TABLE(winograd);
const WinogradTable TINYT_TABLE(winograd) = {kL,      deal,   input,           gradient,
                                             weights, output, weight_gradients};

}  // namespace tinyt::cpu
