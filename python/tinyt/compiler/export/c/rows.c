// e^x for x <= 0, or little above it: 0 where that would be below the normal numbers.
static inline float tt_exp_below_f32(float x) {
  const float shift = 0x1.8p+23f + 127.0f;
  x = -88.0f > x ? -88.0f : x;
  const float shifted = fmaf(x, 0x1.715476p+0f, shift), n = shifted - shift;
  const float r = fmaf(n, -0x1.0bfbe8p-15f, fmaf(n, -0x1.62ep-1f, x));
  float p = fmaf(0x1.6dbcf4p-10f, r, 0x1.124136p-7f);
  p = fmaf(p, r, 0x1.555454p-5f);
  p = fmaf(p, r, 0x1.555488p-3f);
  p = fmaf(p, r, 0x1p-1f);
  p = fmaf(fmaf(p, r, 1.0f), r, 1.0f);
  uint32_t bits;
  memcpy(&bits, &shifted, sizeof bits);
  bits <<= 23;
  float power;
  memcpy(&power, &bits, sizeof power);
  return p * power;
}

// Where the tree over blocks of more than 4096 elements splits: a power of two of blocks.
static inline int64_t tt_row_half(int64_t n) {
  int64_t half = 4096;
  while (2 * half < n) half *= 2;
  return half;
}

// The sum of 32 lanes, in halves.
static inline T tt_fold_lanes_T(T* lanes) {
  for (int half = 16; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  }
  return lanes[0];
}

static T tt_row_sum_T(const T* x, int64_t n) {
  if (n > 4096) {
    const int64_t half = tt_row_half(n);
    const T left = tt_row_sum_T(x, half);
    return left + tt_row_sum_T(x + half, n - half);
  }
  T lanes[32] = {0};
  int64_t k = 0;
  for (; k + 32 <= n; k += 32) {
    for (int i = 0; i < 32; ++i) lanes[i] += x[k + i];
  }
  for (int64_t i = k; i < n; ++i) lanes[i - k] += x[i];
  return tt_fold_lanes_T(lanes);
}

// The sum of squared distances from a center, of up to 4096 elements.
static T tt_squares_of_block_T(const T* x, int64_t n, T center) {
  T lanes[32] = {0};
  int64_t k = 0;
  for (; k + 32 <= n; k += 32) {
    for (int i = 0; i < 32; ++i) {
      const T d = x[k + i] - center;
      lanes[i] += d * d;
    }
  }
  for (int64_t i = k; i < n; ++i) {
    const T d = x[i] - center;
    lanes[i - k] += d * d;
  }
  return tt_fold_lanes_T(lanes);
}

static T tt_row_squares_T(const T* x, int64_t n) {
  if (n <= 4096) return tt_squares_of_block_T(x, n, 0);
  const int64_t half = tt_row_half(n);
  const T left = tt_row_squares_T(x, half);
  return left + tt_row_squares_T(x + half, n - half);
}

// Adds the mean and the sum of squared distances from it of `more` elements to those of `count`.
static inline void tt_add_moments_T(T* count, T* mean, T* squares, T more, T other_mean,
                                    T other_squares) {
  const T all = *count + more, share = more / all, step = other_mean - *mean;
  const T between = step * step * (*count * share);
  *mean += step * share;
  *squares += other_squares + between;
  *count = all;
}

// The mean of a row, and the sum of squared distances from it.
static void tt_row_moments_T(const T* x, int64_t n, T* mean, T* squares) {
  if (n <= 4096) {
    *mean = tt_row_sum_T(x, n) / (T)n;
    *squares = tt_squares_of_block_T(x, n, *mean);
    return;
  }
  const int64_t half = tt_row_half(n);
  T count = (T)half, right_mean, right_squares;
  tt_row_moments_T(x, half, mean, squares);
  tt_row_moments_T(x + half, n - half, &right_mean, &right_squares);
  tt_add_moments_T(&count, mean, squares, (T)(n - half), right_mean, right_squares);
}

// The sums of u and of u (x - mean) scale with u = g w.
static void tt_row_slopes_T(const T* g, const T* x, const T* w, T mean, T scale, int64_t n,
                            T* total, T* dot) {
  if (n > 4096) {
    const int64_t half = tt_row_half(n);
    T right_total, right_dot;
    tt_row_slopes_T(g, x, w, mean, scale, half, total, dot);
    tt_row_slopes_T(g + half, x + half, w == NULL ? w : w + half, mean, scale, n - half,
                    &right_total, &right_dot);
    *total += right_total;
    *dot += right_dot;
    return;
  }
  T totals[32] = {0}, dots[32] = {0};
  for (int64_t k = 0; k < n; k += 32) {
    const int lanes = n - k < 32 ? (int)(n - k) : 32;
    T u[32];
    memcpy(u, g + k, (size_t)lanes * sizeof(T));
    if (w != NULL) {
      for (int i = 0; i < lanes; ++i) u[i] *= w[k + i];
    }
    for (int i = 0; i < lanes; ++i) {
      totals[i] += u[i];
      dots[i] += u[i] * ((x[k + i] - mean) * scale);
    }
  }
  *total = tt_fold_lanes_T(totals);
  *dot = tt_fold_lanes_T(dots);
}

// The mean of a row, and 1 / sqrt(var + eps); without centring the mean is 0.
static void tt_row_stats_T(const T* x, int64_t n, int center, double eps, T* mean, T* scale) {
  T squares;
  *mean = 0;
  if (center) {
    tt_row_moments_T(x, n, mean, &squares);
  } else {
    squares = tt_row_squares_T(x, n);
  }
  *scale = 1 / LIBRARY_T(sqrt)(squares / (T)n + (T)eps);
}

// Rows less their means, over the roots of their variances, times w, plus b.
static void tt_layer_norm_T(const T* x, const T* w, const T* b, T* y, T* mean, T* scale,
                            int64_t rows, int64_t n, int center, double eps) {
  for (int64_t row = 0; row < rows; ++row, x += n, y += n) {
    tt_row_stats_T(x, n, center, eps, mean + row, scale + row);
    const T middle = mean[row], factor = scale[row];
    for (int64_t j = 0; j < n; ++j) y[j] = (x[j] - middle) * factor;
    if (w != NULL) {
      for (int64_t j = 0; j < n; ++j) y[j] *= w[j];
    }
    if (b != NULL) {
      for (int64_t j = 0; j < n; ++j) y[j] += b[j];
    }
  }
}

// The means and scales of rows.
static void tt_rows_stats_T(const T* x, T* mean, T* scale, int64_t rows, int64_t n, double eps) {
  for (int64_t row = 0; row < rows; ++row) {
    tt_row_stats_T(x + row * n, n, 1, eps, mean + row, scale + row);
  }
}

// The gradient dx of rows, unless it is null; and unless `sums` is null, the sums over each `block`
// of rows of g (x - mean) scale, in order, and of g.
static void tt_layer_norm_backward_T(const T* g, const T* x, const T* mean, const T* scale,
                                     const T* w, T* dx, T* sums, int64_t rows, int64_t n,
                                     int center, int64_t block) {
  for (int64_t row = 0; row < rows; ++row, g += n, x += n) {
    const T middle = mean[row], factor = scale[row];
    if (sums != NULL) {
      T* found = sums + row / block * 2 * n;
      if (row % block == 0) memset(found, 0, (size_t)n * 2 * sizeof(T));
      for (int64_t j = 0; j < n; ++j) found[j] += g[j] * ((x[j] - middle) * factor);
      for (int64_t j = 0; j < n; ++j) found[n + j] += g[j];
    }
    if (dx == NULL) continue;
    T total, dot;
    tt_row_slopes_T(g, x, w, middle, factor, n, &total, &dot);
    const T shift = center ? total / (T)n : 0, slope = dot / (T)n;
    T* out = dx + row * n;
    if (w == NULL) {
      for (int64_t j = 0; j < n; ++j) {
        out[j] = factor * ((g[j] - shift) - (x[j] - middle) * factor * slope);
      }
    } else {
      for (int64_t j = 0; j < n; ++j) {
        out[j] = factor * ((g[j] * w[j] - shift) - (x[j] - middle) * factor * slope);
      }
    }
  }
}

// Mean and sum of squared distances of `rows` rows that are `step` apart: a tree of halves.
static void tt_channel_moments_T(const T* x, int64_t rows, int64_t step, int64_t n, T* count,
                                 T* mean, T* squares) {
  *count = (T)n;
  if (rows == 1) {
    tt_row_moments_T(x, n, mean, squares);
    return;
  }
  const int64_t half = (rows + 1) / 2;
  T more, other_mean, other_squares;
  tt_channel_moments_T(x, half, step, n, count, mean, squares);
  tt_channel_moments_T(x + half * step, rows - half, step, n, &more, &other_mean, &other_squares);
  tt_add_moments_T(count, mean, squares, more, other_mean, other_squares);
}

// The mean and the variance of each channel of x [outer, channels, n].
static void tt_batch_moments_T(const T* x, T* mean, T* var, int64_t outer, int64_t channels,
                               int64_t n) {
  for (int64_t c = 0; c < channels; ++c) {
    T count, squares = 0;
    mean[c] = NAN;
    if (outer * n > 0) {
      tt_channel_moments_T(x + c * n, outer, channels * n, n, &count, mean + c, &squares);
    }
    var[c] = squares / (T)(outer * n);
  }
}

// The sums of g and of g (x - mean) scale over `rows` rows that are `step` apart.
static void tt_channel_sums_T(const T* g, const T* x, T mean, T scale, int64_t rows, int64_t step,
                              int64_t n, T* total, T* dot) {
  if (rows == 1) {
    tt_row_slopes_T(g, x, NULL, mean, scale, n, total, dot);
    return;
  }
  const int64_t half = (rows + 1) / 2;
  T other_total, other_dot;
  tt_channel_sums_T(g, x, mean, scale, half, step, n, total, dot);
  tt_channel_sums_T(g + half * step, x + half * step, mean, scale, rows - half, step, n,
                    &other_total, &other_dot);
  *total += other_total;
  *dot += other_dot;
}

static void tt_batch_sums_T(const T* g, const T* x, const T* mean, const T* scale, T* dot,
                            T* total, int64_t outer, int64_t channels, int64_t n) {
  for (int64_t c = 0; c < channels; ++c) {
    dot[c] = total[c] = 0;
    if (outer == 0) continue;
    tt_channel_sums_T(g + c * n, x + c * n, mean[c], scale[c], outer, channels * n, n, total + c,
                      dot + c);
  }
}

// Of each row of `members` channels of n elements: for each channel the sums of g h and of g, with
// h = (x - mean) scale, and shift and slope of the row's gradient, from sums of channels.
static void tt_group_sums_T(const T* g, const T* x, const T* mean, const T* scale, const T* w,
                            T* sums, T* shift, T* slope, int64_t rows, int64_t groups,
                            int64_t members, int64_t n) {
  for (int64_t row = 0; row < rows; ++row) {
    const double count = (double)(members * n);
    double total = 0, dot = 0;
    for (int64_t m = 0; m < members; ++m, g += n, x += n, sums += 2) {
      const double weight = w == NULL ? 1 : w[row % groups * members + m];
      tt_row_slopes_T(g, x, NULL, mean[row], scale[row], n, sums + 1, sums);
      dot += weight * (double)sums[0];
      total += weight * (double)sums[1];
    }
    shift[row] = (T)(total / count);
    slope[row] = (T)(dot / count);
  }
}

// The same of few elements a channel: one after another, and those of a row as a row's sums, where
// w has a weight for each element.
static void tt_group_sums_few_T(const T* g, const T* x, const T* mean, const T* scale, const T* w,
                                T* sums, T* shift, T* slope, int64_t rows, int64_t groups,
                                int64_t members, int64_t n) {
  for (int64_t row = 0; row < rows; ++row) {
    const T* weight = w == NULL ? w : w + row % groups * members * n;
    tt_row_slopes_T(g, x, weight, mean[row], scale[row], members * n, shift + row, slope + row);
    shift[row] /= (T)(members * n);
    slope[row] /= (T)(members * n);
    for (int64_t m = 0; m < members; ++m, sums += 2) {
      sums[0] = sums[1] = 0;
      for (int64_t j = 0; j < n; ++j, ++g, ++x) {
        sums[0] += *g * ((*x - mean[row]) * scale[row]);
        sums[1] += *g;
      }
    }
  }
}

// Adds parts of n values each as a tree of pairs; the first one becomes their sum.
static void tt_add_parts_T(T* parts, int64_t count, int64_t n) {
  for (int64_t step = 1; step < count; step *= 2) {
    for (int64_t i = 0; i + step < count; i += 2 * step) {
      T* restrict to = parts + i * n;
      const T* from = parts + (i + step) * n;
      for (int64_t j = 0; j < n; ++j) to[j] += from[j];
    }
  }
}

// The largest number of a row; it passes over NaN.
static T tt_row_top_T(const T* x, int64_t n) {
  T lanes[32];
  for (int i = 0; i < 32; ++i) lanes[i] = -INFINITY;
  int64_t k = 0;
  for (; k + 32 <= n; k += 32) {
    for (int i = 0; i < 32; ++i) lanes[i] = x[k + i] > lanes[i] ? x[k + i] : lanes[i];
  }
  for (int64_t i = k; i < n; ++i) lanes[i - k] = x[i] > lanes[i - k] ? x[i] : lanes[i - k];
  for (int half = 16; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) {
      lanes[i] = lanes[i + half] > lanes[i] ? lanes[i + half] : lanes[i];
    }
  }
  return lanes[0];
}

// The sum of e^(x - top); the terms go to y, unless it is null.
static T tt_row_exp_sum_T(const T* x, T top, T* y, int64_t n) {
  if (n > 4096) {
    const int64_t half = tt_row_half(n);
    const T left = tt_row_exp_sum_T(x, top, y, half);
    return left + tt_row_exp_sum_T(x + half, top, y == NULL ? y : y + half, n - half);
  }
  T lanes[32] = {0};
  int64_t k = 0;
  for (; k + 32 <= n; k += 32) {
    T e[32];
    for (int i = 0; i < 32; ++i) e[i] = E(x[k + i] - top);
    for (int i = 0; i < 32; ++i) lanes[i] += e[i];
    if (y != NULL) memcpy(y + k, e, sizeof e);
  }
  for (int64_t i = k; i < n; ++i) {
    const T e = E(x[i] - top);
    lanes[i - k] += e;
    if (y != NULL) y[i] = e;
  }
  return tt_fold_lanes_T(lanes);
}

static void tt_softmax_T(const T* x, T* y, int64_t rows, int64_t n) {
  for (int64_t row = 0; row < rows; ++row, x += n, y += n) {
    const T factor = 1 / tt_row_exp_sum_T(x, tt_row_top_T(x, n), y, n);
    for (int64_t j = 0; j < n; ++j) y[j] *= factor;
  }
}

static void tt_log_softmax_T(const T* x, T* y, int64_t rows, int64_t n) {
  for (int64_t row = 0; row < rows; ++row, x += n, y += n) {
    const T top = tt_row_top_T(x, n), log_sum = L(tt_row_exp_sum_T(x, top, NULL, n));
    for (int64_t j = 0; j < n; ++j) y[j] = (x[j] - top) - log_sum;
  }
}

static T tt_row_dot_T(const T* a, const T* b, int64_t n) {
  if (n > 4096) {
    const int64_t half = tt_row_half(n);
    const T left = tt_row_dot_T(a, b, half);
    return left + tt_row_dot_T(a + half, b + half, n - half);
  }
  T lanes[32] = {0};
  int64_t k = 0;
  for (; k + 32 <= n; k += 32) {
    for (int i = 0; i < 32; ++i) lanes[i] += a[k + i] * b[k + i];
  }
  for (int64_t i = k; i < n; ++i) lanes[i - k] += a[i] * b[i];
  return tt_fold_lanes_T(lanes);
}

static void tt_softmax_backward_T(const T* g, const T* y, T* dx, int64_t rows, int64_t n) {
  for (int64_t row = 0; row < rows; ++row, g += n, y += n, dx += n) {
    const T dot = tt_row_dot_T(g, y, n);
    for (int64_t j = 0; j < n; ++j) dx[j] = y[j] * (g[j] - dot);
  }
}

static void tt_log_softmax_backward_T(const T* g, const T* y, T* dx, int64_t rows, int64_t n) {
  for (int64_t row = 0; row < rows; ++row, g += n, y += n, dx += n) {
    const T sum = tt_row_sum_T(g, n);
    for (int64_t j = 0; j < n; ++j) dx[j] = g[j] - E(y[j]) * sum;
  }
}
