// 256 words of 64 counters (Philox4x32-10): the k-th counter gives four of them.
static void tt_random_words(uint64_t seed, uint64_t counter, uint32_t last, uint32_t* words) {
  uint32_t c0[64], c1[64], c2[64], c3[64];
  for (int j = 0; j < 64; ++j) {
    c0[j] = (uint32_t)(counter + (uint64_t)j);
    c1[j] = (uint32_t)((counter + (uint64_t)j) >> 32);
    c2[j] = 0;
    c3[j] = last;
  }
  uint32_t key0 = (uint32_t)seed, key1 = (uint32_t)(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    for (int j = 0; j < 64; ++j) {
      const uint64_t p0 = (uint64_t)c0[j] * 0xD2511F53u, p1 = (uint64_t)c2[j] * 0xCD9E8D57u;
      c0[j] = (uint32_t)(p1 >> 32) ^ c1[j] ^ key0;
      c2[j] = (uint32_t)(p0 >> 32) ^ c3[j] ^ key1;
      c1[j] = (uint32_t)p1;
      c3[j] = (uint32_t)p0;
    }
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  for (int j = 0; j < 64; ++j) {
    words[4 * j] = c0[j];
    words[4 * j + 1] = c1[j];
    words[4 * j + 2] = c2[j];
    words[4 * j + 3] = c3[j];
  }
}

static void tt_random_wide_words(uint64_t seed, uint64_t counter, uint64_t* words) {
  uint32_t high[256], low[256];
  tt_random_words(seed, counter, 0, high);
  tt_random_words(seed, counter, 1, low);
  for (int j = 0; j < 256; ++j) words[j] = (uint64_t)high[j] << 32 | low[j];
}

static void tt_random_bits(uint64_t seed, uint64_t counter, int64_t* y, int64_t n) {
  for (int64_t i = 0; i < n; i += 256, counter += 64) {
    uint64_t words[256];
    tt_random_wide_words(seed, counter, words);
    memcpy(y + i, words, (size_t)(n - i < 256 ? n - i : 256) * sizeof(uint64_t));
  }
}

// 256 numbers in [0, 1), of 24 bits or 53.
static void tt_units_f32(uint64_t seed, uint64_t counter, float* y) {
  uint32_t words[256];
  tt_random_words(seed, counter, 0, words);
  for (int j = 0; j < 256; ++j) y[j] = (float)(int32_t)(words[j] >> 8) * 0x1p-24f;
}

static void tt_units_f64(uint64_t seed, uint64_t counter, double* y) {
  uint64_t words[256];
  tt_random_wide_words(seed, counter, words);
  for (int j = 0; j < 256; ++j) {
    const double high = (double)(words[j] >> 32), low = (double)(words[j] >> 11 & 0x1FFFFF);
    y[j] = high * 0x1p-32 + low * 0x1p-53;
  }
}

static void tt_uniform_T(uint64_t seed, uint64_t counter, T* y, int64_t n) {
  for (int64_t i = 0; i < n; i += 256, counter += 64) {
    T units[256];
    tt_units_T(seed, counter, units);
    memcpy(y + i, units, (size_t)(n - i < 256 ? n - i : 256) * sizeof(T));
  }
}

// Cuts to the bits that half precision has: rounding could reach 1.
static void tt_cut(float* x, int64_t n, float steps) {
  for (int64_t i = 0; i < n; ++i) x[i] = (float)(int32_t)(x[i] * steps) / steps;
}

static inline float tt_radius_f32(float u) {
  return sqrtf(tt_log_float32(1 - u) * -2);
}

static inline double tt_radius_f64(double u) {
  return sqrt(tt_log_float64(1 - u) * -2);
}

// A radius times the cosine and the sine of an angle from 0 to 2 pi.
static inline void tt_polar_f32(float radius, float x, float* across, float* up) {
  const float turned = fmaf(x, 0x1.45f306p-1f, 0x1.8p+23f), n = turned - 0x1.8p+23f;
  const float near = fmaf(n, -0x1.921fb4p+0f, x), high = near - n * 0x1.4442d2p-24f;
  const float rest = fmaf(n, -0x1.4442d2p-24f, near - high);
  const float low = fmaf(n, 0x1.ee59dap-50f, rest);
  const float square = fmaf(high, high, (high + high) * low);
  float s = fmaf(-0x1.9953fep-13f, square, 0x1.110778p-7f);
  s = high + fmaf(square * high, fmaf(s, square, -0x1.555546p-3f), low);
  float c = fmaf(0x1.99e80cp-16f, square, -0x1.6c0c28p-10f);
  c = fmaf(square, fmaf(fmaf(c, square, 0x1.55554ap-5f), square, -0x1p-1f), 1.0f);
  const uint32_t quadrant = tt_bits_f32(turned);
  const float a = quadrant & 1 ? s : c, b = quadrant & 1 ? c : s;
  *across = radius * tt_f32_of_bits(tt_bits_f32(a) ^ ((quadrant + 1) << 30 & 0x80000000u));
  *up = radius * tt_f32_of_bits(tt_bits_f32(b) ^ (quadrant << 30 & 0x80000000u));
}

static inline void tt_polar_f64(double radius, double x, double* across, double* up) {
  *across = radius * tt_cos_float64(x);
  *up = radius * tt_sin_float64(x);
}

// Box and Muller's transform of neighbouring uniform draws.
static void tt_normal_T(uint64_t seed, uint64_t counter, T* y, int64_t n) {
  const T two_pi = (T)6.283185307179586476925286766559;
  for (int64_t i = 0; i < n; i += 256, counter += 64) {
    T units[256], radius[128], angle[128], across[128], up[128];
    tt_units_T(seed, counter, units);
    for (int j = 0; j < 128; ++j) radius[j] = tt_radius_T(units[2 * j]);
    for (int j = 0; j < 128; ++j) angle[j] = units[2 * j + 1] * two_pi;
    for (int j = 0; j < 128; ++j) tt_polar_T(radius[j], angle[j], across + j, up + j);
    for (int j = 0; j < 128; ++j) {
      units[2 * j] = across[j];
      units[2 * j + 1] = up[j];
    }
    memcpy(y + i, units, (size_t)(n - i < 256 ? n - i : 256) * sizeof(T));
  }
}
