// Calls functions of rows.c.

// Two numbers of elements: their mean and the sum of squared distances from it ("spread"), or their
// maximum and the sum of exponentials below it ("exps"). Those of blocks are joined in double.
static inline void tt_join_spread(double* mean, double* squares, int64_t count, double other_mean,
                                  double other_squares, int64_t more) {
  const double a = (double)count, b = (double)more, all = a + b, share = b / all;
  const double step = other_mean - *mean, between = step * step * (a * share);
  *mean += step * share;
  *squares += other_squares + between;
}

// What exponentials are taken below: the maximum, where that is a number.
static inline double tt_shift_of(double top) {
  return isfinite(top) ? top : 0;
}

static inline void tt_join_exps(double* top, double* sum, int64_t count, double other_top,
                                double other_sum, int64_t more) {
  const double before = *top;
  (void)count;
  (void)more;
  if (other_top > before || isnan(other_top)) *top = other_top;
  const double to = tt_shift_of(*top);
  const double a = before == -INFINITY ? before : tt_shift_of(before) - to;
  const double b = other_top == -INFINITY ? other_top : tt_shift_of(other_top) - to;
  *sum = *sum * tt_exp_float64(a) + other_sum * tt_exp_float64(b);
}

// The mean and squared distances of elements that are `step` apart, all in double.
static void tt_wide_spread_T(const T* x, int64_t n, int64_t step, double* mean, double* squares) {
  const double start = (double)x[0];
  int64_t same = 1;
  while (same < n && (double)x[same * step] == start) ++same;
  *mean = start;
  *squares = 0;
  if (same == n && isfinite(start)) return;
  double sum = 0, rest = 0;
  for (int64_t i = 0; i < n; ++i) sum += (double)x[i * step];
  const double center = sum / (double)n;
  for (int64_t i = 0; i < n; ++i) {
    const double d = (double)x[i * step] - center;
    *squares += d * d;
    rest += d;
  }
  const double shift = rest / (double)n, left = *squares - rest * shift;
  *mean = center + shift;
  *squares = left < 0 ? 0 : left;
}

// The same from sums of distances from a center near the mean, unless they leave the range in which
// float is as good as double.
static void tt_spread_about_T(const T* x, int64_t n, int64_t step, T center, T sum, T rest,
                              double* mean, double* squares) {
  const double shift = (double)rest / (double)n, left = (double)sum - (double)rest * shift;
  *mean = (double)center + shift;
  *squares = left < 0 ? 0 : left;
  if (sizeof(T) < sizeof(double) && !(*squares >= 0x1p-90 && *squares <= 0x1p127)) {
    tt_wide_spread_T(x, n, step, mean, squares);
  }
}

// Of up to 4096 elements of a row.
static void tt_block_spread_T(const T* x, int64_t n, double* mean, double* squares) {
  const T center = tt_row_sum_T(x, n) / (T)n;
  T sums[32] = {0}, rests[32] = {0};
  int64_t k = 0;
  for (; k + 32 <= n; k += 32) {
    for (int i = 0; i < 32; ++i) {
      const T d = x[k + i] - center;
      sums[i] += d * d;
      rests[i] += d;
    }
  }
  for (int i = 0; i < n % 32; ++i) {
    const T d = x[k + i] - center;
    sums[i] += d * d;
    rests[i] += d;
  }
  tt_spread_about_T(x, n, 1, center, tt_fold_lanes_T(sums), tt_fold_lanes_T(rests), mean, squares);
}

// The largest element, or NaN where there is one.
static T tt_block_most_T(const T* x, int64_t n) {
  T lanes[32], most = x[0];
  for (int i = 0; i < 32; ++i) lanes[i] = most;
  int64_t k = 0;
  for (; k + 32 <= n; k += 32) {
    for (int i = 0; i < 32; ++i) {
      lanes[i] = ((x[k + i] > lanes[i]) | (x[k + i] != x[k + i])) ? x[k + i] : lanes[i];
    }
  }
  for (int i = 0; i < 32; ++i) most = lanes[i] > most || lanes[i] != lanes[i] ? lanes[i] : most;
  for (const T* v = x + k; v < x + n; ++v) most = *v > most || *v != *v ? *v : most;
  return most;
}

static void tt_block_exps_T(const T* x, int64_t n, double* top, double* sum) {
  const T most = tt_block_most_T(x, n), base = isfinite(most) ? most : 0;
  T lanes[32] = {0};
  int64_t k = 0;
  for (; k + 32 <= n; k += 32) {
    for (int i = 0; i < 32; ++i) lanes[i] += E(x[k + i] - base);
  }
  for (int i = 0; i < n % 32; ++i) lanes[i] += E(x[k + i] - base);
  *top = (double)most;
  *sum = (double)tt_fold_lanes_T(lanes);
}

static void tt_row_K_T(const T* x, int64_t n, double* first, double* second) {
  if (n <= 4096) {
    tt_block_K_T(x, n, first, second);
    return;
  }
  const int64_t half = tt_row_half(n);
  double other_first, other_second;
  tt_row_K_T(x, half, first, second);
  tt_row_K_T(x + half, n - half, &other_first, &other_second);
  tt_join_K(first, second, half, other_first, other_second, n - half);
}

static void tt_rows_K_T(const T* x, double* first, double* second, int64_t rows, int64_t n) {
  for (int64_t row = 0; row < rows; ++row) tt_row_K_T(x + row * n, n, first + row, second + row);
}

// Of up to 128 rows of up to 64 columns.
static void tt_strip_spread_T(const T* x, int64_t rows, int64_t step, int64_t width, double* mean,
                              double* squares) {
  T center[64] = {0}, sum[64] = {0}, rest[64] = {0};
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < width; ++j) center[j] += x[i * step + j];
  }
  for (int64_t j = 0; j < width; ++j) center[j] /= (T)rows;
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < width; ++j) {
      const T d = x[i * step + j] - center[j];
      sum[j] += d * d;
      rest[j] += d;
    }
  }
  for (int64_t j = 0; j < width; ++j) {
    tt_spread_about_T(x + j, rows, step, center[j], sum[j], rest[j], mean + j, squares + j);
  }
}

static void tt_strip_exps_T(const T* x, int64_t rows, int64_t step, int64_t width, double* top,
                            double* sum) {
  T most[64], base[64], sums[64] = {0};
  for (int64_t j = 0; j < width; ++j) most[j] = x[j];
  for (int64_t i = 1; i < rows; ++i) {
    for (int64_t j = 0; j < width; ++j) {
      const T v = x[i * step + j];
      most[j] = v > most[j] || v != v ? v : most[j];
    }
  }
  for (int64_t j = 0; j < width; ++j) base[j] = isfinite(most[j]) ? most[j] : 0;
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < width; ++j) sums[j] += E(x[i * step + j] - base[j]);
  }
  for (int64_t j = 0; j < width; ++j) {
    top[j] = (double)most[j];
    sum[j] = (double)sums[j];
  }
}

// A strip of any number of rows: a tree of blocks of 128, with 128 numbers of `work` a level.
static void tt_tree_K_T(const T* x, int64_t rows, int64_t step, int64_t width, double* first,
                        double* second, double* work) {
  if (rows <= 128) {
    tt_strip_K_T(x, rows, step, width, first, second);
    return;
  }
  int64_t half = 128;
  while (2 * half < rows) half *= 2;
  tt_tree_K_T(x, half, step, width, first, second, work + 128);
  tt_tree_K_T(x + half * step, rows - half, step, width, work, work + 64, work + 128);
  for (int64_t j = 0; j < width; ++j) {
    tt_join_K(first + j, second + j, half, work[j], work[64 + j], rows - half);
  }
}

static void tt_columns_K_T(const T* x, double* first, double* second, int64_t outer,
                           int64_t outer_step, int64_t rows, int64_t step, int64_t columns,
                           double* work) {
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t j = 0; j < columns; j += 64) {
      const int64_t width = columns - j < 64 ? columns - j : 64, at = o * columns + j;
      tt_tree_K_T(x + o * outer_step + j, rows, step, width, first + at, second + at, work);
    }
  }
}

// Of no elements.
static void tt_no_parts(double* first, double* second, int64_t n, double start) {
  for (int64_t i = 0; i < n; ++i) {
    first[i] = start;
    second[i] = 0;
  }
}

// Variances, or their roots: of one that float holds that of its rounded value, if `single`.
static void tt_variances(double* squares, int64_t n, double divisor, int root, int single) {
  for (int64_t i = 0; i < n; ++i) {
    const double var = squares[i] / divisor;
    const float narrow = (float)var;
    squares[i] = !root ? var : single && isnormal(narrow) ? (double)sqrtf(narrow) : sqrt(var);
  }
}

static void tt_log_sums(const double* top, double* sum, int64_t n) {
  for (int64_t i = 0; i < n; ++i) sum[i] = tt_log_float64(sum[i]) + tt_shift_of(top[i]);
}

// Sums of squares, one for each call.
static void tt_sum_of_squares_T(const T* x, int64_t n, T* y) {
  *y = tt_row_squares_T(x, n);
}
