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
  int64_t k = 0;
  for (; k + 32 <= n; k += 32) {
    T u[32];
    memcpy(u, g + k, sizeof u);
    for (int i = 0; w != NULL && i < 32; ++i) u[i] *= w[k + i];
    for (int i = 0; i < 32; ++i) {
      totals[i] += u[i];
      dots[i] += u[i] * ((x[k + i] - mean) * scale);
    }
  }
  for (int i = 0; i < n % 32; ++i) {
    const T u = w == NULL ? g[k + i] : g[k + i] * w[k + i];
    totals[i] += u;
    dots[i] += u * ((x[k + i] - mean) * scale);
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
    if (w != NULL && b != NULL) {
      for (int64_t j = 0; j < n; ++j) y[j] = (x[j] - middle) * factor * w[j] + b[j];
    } else if (w != NULL) {
      for (int64_t j = 0; j < n; ++j) y[j] = (x[j] - middle) * factor * w[j];
    } else {
      for (int64_t j = 0; j < n; ++j) y[j] = (x[j] - middle) * factor;
      for (int64_t j = 0; b != NULL && j < n; ++j) y[j] += b[j];
    }
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
