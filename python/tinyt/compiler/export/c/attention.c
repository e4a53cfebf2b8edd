// Calls functions of products.

// e^x for x <= 0: exactly 1 at 0 and 0 below e^-87; a NaN stays.
static inline float tt_weight_f32(float x) {
  // Adding this rounds to a whole number, and leaves the exponent of 2^k in the low bits.
  const float whole = 0x1.8p23f + 127.0f;
  const float scaled = x * 0x1.715476p+0f, y = scaled < -127.0f ? -127.0f : scaled;
  const float shifted = y + whole, r = y - (shifted - whole);
  float p = fmaf(0x1.470b4ap-13f, r, 0x1.5f7276p-10f);
  p = fmaf(fmaf(fmaf(p, r, 0x1.3b270ep-7f), r, 0x1.c6ae72p-5f), r, 0x1.ebfbe2p-3f);
  const float power = tt_f32_of_bits(tt_bits_f32(shifted) << 23);
  return fmaf(fmaf(p, r, 0x1.62e432p-1f), r, 1.0f) * power;
}

static inline double tt_weight_f64(double x) {
  return tt_exp_float64(x);
}

static inline float tt_logarithm_f32(float x) {
  return tt_log_float32(x);
}

static inline double tt_logarithm_f64(double x) {
  return tt_log_float64(x);
}

// The product of A and B, each with strides of rows and columns; added to dense C where `adds`.
static void tt_times_T(const T* a, int64_t ar, int64_t ac, const T* b, int64_t br, int64_t bc,
                       int adds, T* c, int64_t m, int64_t n, int64_t k, T* panel) {
  const T* d = adds ? c : NULL;
  if (m <= 4 && (bc == 1 || (br == 1 && ac == 1))) {
    tt_rows_T(a, ar, ac, b, br, bc, d, n, 1, c, m, n, k, panel);
  } else {
    tt_product_T(a, ar, ac, b, br, bc, d, n, 1, c, m, n, k, panel);
  }
}

// Rows of a strided matrix as dense ones, times a factor.
static void tt_scaled_rows_T(const T* x, int64_t row, int64_t column, T factor, T* y, int64_t m,
                             int64_t n) {
  for (int64_t i = 0; i < m; ++i) {
    const T* from = x + i * row;
    T* to = y + i * n;
    if (column == 1) {
      for (int64_t j = 0; j < n; ++j) to[j] = from[j] * factor;
    } else {
      for (int64_t j = 0; j < n; ++j) to[j] = from[j * column] * factor;
    }
  }
}

// A row of scores with the masks, of which both may be null.
static void tt_mask_row_T(T* s, int64_t n, const T* add, const uint8_t* keep, int64_t step) {
  if (add && step == 1) {
    for (int64_t j = 0; j < n; ++j) s[j] += add[j];
  } else if (add) {
    for (int64_t j = 0; j < n; ++j) s[j] += add[j * step];
  } else if (keep && step == 1) {
    for (int64_t j = 0; j < n; ++j) s[j] = keep[j] ? s[j] : (T)-INFINITY;
  } else if (keep) {
    for (int64_t j = 0; j < n; ++j) s[j] = keep[j * step] ? s[j] : (T)-INFINITY;
  }
}

// The largest of a row and of `most`. Loops over lanes as long as these become vectors.
static T tt_most_T(const T* s, int64_t n, T most) {
  T lanes[32];
  int64_t j = 0;
  for (int l = 0; l < 32; ++l) lanes[l] = most;
  for (; j + 32 <= n; j += 32)
    for (int l = 0; l < 32; ++l) lanes[l] = s[j + l] > lanes[l] ? s[j + l] : lanes[l];
  for (int l = 0; j < n; ++j, ++l) lanes[l] = s[j] > lanes[l] ? s[j] : lanes[l];
  for (int l = 0; l < 16; ++l) lanes[l] = lanes[16 + l] > lanes[l] ? lanes[16 + l] : lanes[l];
  for (int l = 0; l < 16; ++l) most = lanes[l] > most ? lanes[l] : most;
  return most;
}

// Scores become weights; their sum.
static T tt_weigh_T(T* s, int64_t n, T base) {
  T lanes[32] = {0}, sum = 0;
  int64_t j = 0;
  for (int64_t i = 0; i < n; ++i) s[i] = tt_weight_T(s[i] - base);
  for (; j + 32 <= n; j += 32)
    for (int l = 0; l < 32; ++l) lanes[l] += s[j + l];
  for (int l = 0; j < n; ++j, ++l) lanes[l] += s[j];
  for (int l = 0; l < 32; ++l) sum += lanes[l];
  return sum;
}

// Queries [first, first + rows) of a head, dense and scaled, over all keys they see: block by
// block, each with the largest score so far. `n`: batch, heads, groups, queries, keys, width of
// queries and of values, rows and keys of a block. `add` and `keep` begin at the first of these
// queries.
static void tt_attend_T(const T* q, int64_t first, int64_t rows, const T* k, const int64_t* ks,
                        const T* v, const int64_t* vs, const T* add, const uint8_t* keep,
                        const int64_t* ms, int causal, const int64_t* n, T* y, T* log_sum,
                        T* scores, T* panel, T* sum) {
  const int64_t keys = causal && first + rows < n[4] ? first + rows : n[4];
  for (int64_t i = 0; i < rows; ++i) log_sum[i] = (T)-INFINITY;  // the largest score, at first
  for (int64_t i = 0; i < rows; ++i) sum[i] = 0;
  for (int64_t at = 0; at < keys; at += n[8]) {
    const int64_t count = keys - at < n[8] ? keys - at : n[8];
    tt_times_T(q, n[5], 1, k + at * ks[2], ks[3], ks[2], 0, scores, rows, count, n[5], panel);
    for (int64_t i = 0; i < rows; ++i) {
      T* s = scores + i * count;
      int64_t seen = count;
      if (causal && first + i + 1 - at < count) seen = first + i + 1 > at ? first + i + 1 - at : 0;
      const int64_t to = i * ms[2] + at * ms[3];
      tt_mask_row_T(s, seen, add ? add + to : NULL, keep ? keep + to : NULL, ms[3]);
      const T before = log_sum[i], top = tt_most_T(s, seen, before);
      const T base = top == (T)-INFINITY ? 0 : top;  // no key so far: weights of 0
      const T factor = tt_weight_T(before - base);
      sum[i] = sum[i] * factor + tt_weigh_T(s, seen, base);
      log_sum[i] = top;
      for (int64_t j = seen; j < count; ++j) s[j] = 0;
      if (at > 0 && factor != 1)
        for (int64_t j = 0; j < n[6]; ++j) y[i * n[6] + j] *= factor;
    }
    tt_times_T(scores, count, 1, v + at * vs[2], vs[2], vs[3], at > 0, y, rows, n[6], count, panel);
  }
  for (int64_t i = 0; i < rows; ++i) {
    const T part = sum[i] == 0 ? 0 : 1 / sum[i];
    log_sum[i] += tt_logarithm_T(sum[i]);
    for (int64_t j = 0; j < n[6]; ++j) y[i * n[6] + j] = keys > 0 ? y[i * n[6] + j] * part : 0;
  }
}

// Attention of grouped heads; y and the logarithms of sums are dense. Strides are of four
// dimensions each; `n` is that of the function above. Scratch: a block of queries and of scores, a
// panel, and the sums.
static void tt_attention_T(const T* q, const int64_t* qs, const T* k, const int64_t* ks, const T* v,
                           const int64_t* vs, const T* add, const uint8_t* keep, const int64_t* ms,
                           double scale, int causal, const int64_t* n, T* y, T* log_sum, T* block,
                           T* scores, T* panel, T* sum) {
  for (int64_t head = 0; head < n[0] * n[1]; ++head) {
    const int64_t b = head / n[1], h = head % n[1], g = h / (n[1] / n[2]);
    const T *k0 = k + b * ks[0] + g * ks[1], *v0 = v + b * vs[0] + g * vs[1];
    for (int64_t i = 0; i < n[3]; i += n[7]) {
      const int64_t rows = n[3] - i < n[7] ? n[3] - i : n[7], row = head * n[3] + i;
      const int64_t at = b * ms[0] + h * ms[1] + i * ms[2];
      tt_scaled_rows_T(q + b * qs[0] + h * qs[1] + i * qs[2], qs[2], qs[3], (T)scale, block, rows,
                       n[5]);
      tt_attend_T(block, i, rows, k0, ks, v0, vs, add ? add + at : NULL, keep ? keep + at : NULL,
                  ms, causal, n, y + row * n[6], log_sum + row, scores, panel, sum);
    }
  }
}

// Weights and slopes of scores of a block: of queries from `first` on and keys from `at` on.
static void tt_slopes_T(T* scores, T* slopes, int64_t first, int64_t rows, int64_t at,
                        int64_t count, const T* add, const uint8_t* keep, const int64_t* ms,
                        int causal, const T* log_sum, const T* delta) {
  for (int64_t i = 0; i < rows; ++i) {
    T *s = scores + i * count, *d = slopes + i * count;
    int64_t seen = count;
    if (causal && first + i + 1 - at < count) seen = first + i + 1 > at ? first + i + 1 - at : 0;
    const int64_t to = i * ms[2] + at * ms[3];
    tt_mask_row_T(s, seen, add ? add + to : NULL, keep ? keep + to : NULL, ms[3]);
    // A row that sees no key has no weights, whatever its scores.
    const T base = log_sum[i] == (T)-INFINITY ? (T)INFINITY : log_sum[i], own = delta[i];
    for (int64_t j = 0; j < seen; ++j) s[j] = tt_weight_T(s[j] - base);
    for (int64_t j = 0; j < seen; ++j) d[j] = s[j] * (d[j] - own);
    for (int64_t j = seen; j < count; ++j) s[j] = d[j] = 0;
  }
}

// What queries [first, first + rows) of a head add to the gradients of keys and values, and their
// own, dense ones; `g` and `out` begin at the first of them, and have dense rows.
static void tt_attend_backward_T(const T* g, const T* out, const T* q, int64_t first, int64_t rows,
                                 const T* k, const int64_t* ks, const T* v, const int64_t* vs,
                                 const T* add, const uint8_t* keep, const int64_t* ms, int causal,
                                 const int64_t* n, const T* log_sum, T* dq, T* dk, T* dv, T* scores,
                                 T* slopes, T* panel, T* delta) {
  const int64_t keys = causal && first + rows < n[4] ? first + rows : n[4];
  for (int64_t i = 0; i < rows; ++i) {
    T sum = 0;
    for (int64_t j = 0; j < n[6]; ++j) sum += g[i * n[6] + j] * out[i * n[6] + j];
    delta[i] = sum;
  }
  for (int64_t j = 0; j < rows * n[5]; ++j) dq[j] = 0;
  for (int64_t at = 0; at < keys; at += n[8]) {
    const int64_t count = keys - at < n[8] ? keys - at : n[8];
    const T *k0 = k + at * ks[2], *v0 = v + at * vs[2];
    tt_times_T(q, n[5], 1, k0, ks[3], ks[2], 0, scores, rows, count, n[5], panel);
    tt_times_T(g, n[6], 1, v0, vs[3], vs[2], 0, slopes, rows, count, n[6], panel);
    tt_slopes_T(scores, slopes, first, rows, at, count, add, keep, ms, causal, log_sum, delta);
    tt_times_T(slopes, count, 1, k0, ks[2], ks[3], 1, dq, rows, n[5], count, panel);
    tt_times_T(slopes, 1, count, q, n[5], 1, 1, dk + at * n[5], count, n[5], rows, panel);
    tt_times_T(scores, 1, count, g, n[6], 1, 1, dv + at * n[6], count, n[6], rows, panel);
  }
}

// The gradients of queries, keys and values, dense; so are those of the output, and this itself.
static void tt_attention_backward_T(const T* g, const T* q, const int64_t* qs, const T* k,
                                    const int64_t* ks, const T* v, const int64_t* vs, const T* add,
                                    const uint8_t* keep, const int64_t* ms, const T* out,
                                    const T* log_sum, double scale, int causal, const int64_t* n,
                                    T* dq, T* dk, T* dv, T* block, T* scores, T* slopes, T* panel,
                                    T* delta) {
  for (int64_t i = 0; i < n[0] * n[2] * n[4] * n[5]; ++i) dk[i] = 0;
  for (int64_t i = 0; i < n[0] * n[2] * n[4] * n[6]; ++i) dv[i] = 0;
  for (int64_t head = 0; head < n[0] * n[1]; ++head) {
    const int64_t b = head / n[1], h = head % n[1], group = h / (n[1] / n[2]);
    const T *k0 = k + b * ks[0] + group * ks[1], *v0 = v + b * vs[0] + group * vs[1];
    const int64_t own = (b * n[2] + group) * n[4];
    for (int64_t i = 0; i < n[3]; i += n[7]) {
      const int64_t rows = n[3] - i < n[7] ? n[3] - i : n[7], row = head * n[3] + i;
      const int64_t at = b * ms[0] + h * ms[1] + i * ms[2];
      tt_scaled_rows_T(q + b * qs[0] + h * qs[1] + i * qs[2], qs[2], qs[3], (T)scale, block, rows,
                       n[5]);
      tt_attend_backward_T(g + row * n[6], out + row * n[6], block, i, rows, k0, ks, v0, vs,
                           add ? add + at : NULL, keep ? keep + at : NULL, ms, causal, n,
                           log_sum + row, dq + row * n[5], dk + own * n[5], dv + own * n[6], scores,
                           slopes, panel, delta);
    }
  }
  for (int64_t i = 0; i < n[0] * n[1] * n[3] * n[5]; ++i) dq[i] *= (T)scale;
}
