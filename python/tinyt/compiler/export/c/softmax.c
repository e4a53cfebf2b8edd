// Calls functions of rows.c.

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
  if (k < n) {
    const int rest = (int)(n - k), whole = (rest + 7) / 8 * 8;
    T e[32] = {0};
    memcpy(e, x + k, (size_t)rest * sizeof(T));
    for (int i = 0; i < whole; ++i) e[i] = E(e[i] - top);
    for (int i = 0; i < rest; ++i) lanes[i] += e[i];
    if (y != NULL) memcpy(y + k, e, (size_t)rest * sizeof(T));
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

// ---- along a dimension in the middle: columns of n elements, up to W of them side by side

// The sum of each column in the order of a row. `work` has 32 W values, and W a level of the tree.
static void tt_strip_sum_T(const T* x, int64_t n, int64_t step, int64_t width, T* sum, T* work) {
  if (n > 4096) {
    const int64_t half = tt_row_half(n);
    tt_strip_sum_T(x, half, step, width, sum, work + W);
    tt_strip_sum_T(x + half * step, n - half, step, width, work, work + W);
    for (int64_t j = 0; j < width; ++j) sum[j] += work[j];
    return;
  }
  memset(work, 0, 32 * W * sizeof(T));
  for (int64_t k = 0; k < n; ++k) {
    T* restrict lane = work + k % 32 * W;
    const T* row = x + k * step;
    for (int64_t j = 0; j < width; ++j) lane[j] += row[j];
  }
  for (int64_t half = 16; half > 0; half /= 2) {
    T* restrict first = work;
    const T* second = work + half * W;
    for (int64_t j = 0; j < half * W; ++j) first[j] += second[j];
  }
  memcpy(sum, work, (size_t)width * sizeof(T));
}

// e^(x - top) with the largest number of each column, and the sums of that.
static void tt_strip_exps_below_T(const T* x, T* restrict e, int64_t n, int64_t step, int64_t width,
                                  T* restrict top, T* sum, T* work) {
  for (int64_t j = 0; j < width; ++j) top[j] = -INFINITY;
  for (int64_t k = 0; k < n; ++k) {
    const T* row = x + k * step;
    for (int64_t j = 0; j < width; ++j) top[j] = row[j] > top[j] ? row[j] : top[j];
  }
  for (int64_t k = 0; k < n; ++k) {
    const T* row = x + k * step;
    T* restrict to = e + k * step;
    for (int64_t j = 0; j < width; ++j) to[j] = E(row[j] - top[j]);
  }
  tt_strip_sum_T(e, n, step, width, sum, work);
}

// A strip of each op, with its operands and the result. `sum` has W values.
static void tt_strip_softmax_T(const T* x, T* restrict y, int64_t n, int64_t step, int64_t width,
                               T* restrict sum, T* work) {
  tt_strip_exps_below_T(x, y, n, step, width, work, sum, work + W);
  for (int64_t j = 0; j < width; ++j) sum[j] = 1 / sum[j];
  for (int64_t k = 0; k < n; ++k) {
    for (int64_t j = 0; j < width; ++j) y[k * step + j] *= sum[j];
  }
}

static void tt_strip_log_softmax_T(const T* x, T* restrict y, int64_t n, int64_t step,
                                   int64_t width, T* restrict sum, T* work) {
  tt_strip_exps_below_T(x, y, n, step, width, work, sum, work + W);
  for (int64_t j = 0; j < width; ++j) sum[j] = L(sum[j]);
  for (int64_t k = 0; k < n; ++k) {
    const T* row = x + k * step;
    for (int64_t j = 0; j < width; ++j) y[k * step + j] = (row[j] - work[j]) - sum[j];
  }
}

static void tt_strip_softmax_backward_T(const T* g, const T* y, T* restrict dx, int64_t n,
                                        int64_t step, int64_t width, T* restrict sum, T* work) {
  for (int64_t k = 0; k < n; ++k) {
    const T *a = g + k * step, *b = y + k * step;
    for (int64_t j = 0; j < width; ++j) dx[k * step + j] = a[j] * b[j];
  }
  tt_strip_sum_T(dx, n, step, width, sum, work);
  for (int64_t k = 0; k < n; ++k) {
    const T *a = g + k * step, *b = y + k * step;
    for (int64_t j = 0; j < width; ++j) dx[k * step + j] = b[j] * (a[j] - sum[j]);
  }
}

static void tt_strip_log_softmax_backward_T(const T* g, const T* y, T* restrict dx, int64_t n,
                                            int64_t step, int64_t width, T* restrict sum,
                                            T* work) {
  tt_strip_sum_T(g, n, step, width, sum, work);
  for (int64_t k = 0; k < n; ++k) {
    const T *a = g + k * step, *b = y + k * step;
    for (int64_t j = 0; j < width; ++j) dx[k * step + j] = a[j] - E(b[j]) * sum[j];
  }
}

// All strips of [outer, n, columns].
static void tt_strips_K_T(const T* x, T* y, int64_t outer, int64_t n, int64_t columns, T* work) {
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t j = 0; j < columns; j += W) {
      const int64_t at = o * n * columns + j, width = columns - j < W ? columns - j : W;
      tt_strip_K_T(x + at, y + at, n, columns, width, work, work + W);
    }
  }
}

static void tt_strips_backward_K_T(const T* g, const T* y, T* dx, int64_t outer, int64_t n,
                                   int64_t columns, T* work) {
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t j = 0; j < columns; j += W) {
      const int64_t at = o * n * columns + j, width = columns - j < W ? columns - j : W;
      tt_strip_K_backward_T(g + at, y + at, dx + at, n, columns, width, work, work + W);
    }
  }
}

// Whether a class of a row that counts is none.
static int tt_check_classes(const int64_t* target, int64_t rows, int64_t classes, int64_t ignored) {
  for (int64_t i = 0; i < rows; ++i) {
    if (target[i] != ignored && (target[i] < 0 || target[i] >= classes)) return 1;
  }
  return 0;
}

// Minus the log-probability of a class of each row, times its weight; and for each row the maximum
// and the logarithm of the sum of exponentials below it. All are 0 where the class is `ignored`.
static void tt_softmax_nll_T(const T* x, const int64_t* target, const T* w, T* losses, T* stats,
                             int64_t rows, int64_t classes, int64_t ignored) {
  for (int64_t row = 0; row < rows; ++row, x += classes, stats += 2) {
    const int64_t wanted = target[row];
    losses[row] = stats[0] = stats[1] = 0;
    if (wanted == ignored) continue;
    const T top = tt_row_top_T(x, classes), log_sum = L(tt_row_exp_sum_T(x, top, NULL, classes));
    losses[row] = (log_sum - (x[wanted] - top)) * (w == NULL ? 1 : w[wanted]);
    stats[0] = top;
    stats[1] = log_sum;
  }
}

// The sum of the weights of all classes, in double, block by block; and unless `loss` is null, that
// of the losses, or their mean.
static void tt_sum_losses_T(const T* losses, const int64_t* target, const T* w, T* weights,
                            T* loss, int64_t rows, int64_t ignored, int mean) {
  double total = 0, count = 0;
  for (int64_t begin = 0; begin < rows; begin += 4096) {
    const int64_t end = rows - begin < 4096 ? rows : begin + 4096;
    double part = 0, some = 0;
    for (int64_t i = begin; i < end; ++i) {
      part += (double)losses[i];
      if (target[i] != ignored) some += w == NULL ? 1 : (double)w[target[i]];
    }
    total += part;
    count += some;
  }
  *weights = (T)count;
  if (loss != NULL) *loss = (T)(mean ? total / count : total);
}

// The gradient of the input: (softmax - 1 at the class) times the weight and g, which has one for
// each row where `g_step` is 1; over the sum of the weights for the mean.
static void tt_softmax_nll_input_T(const T* g, const T* x, const int64_t* target, const T* w,
                                   const T* stats, T* dx, int64_t rows, int64_t classes,
                                   int64_t ignored, int64_t g_step, int mean) {
  const T total = stats[2 * rows];
  for (int64_t row = 0; row < rows; ++row, x += classes, dx += classes) {
    const int64_t wanted = target[row];
    if (wanted == ignored) {
      for (int64_t j = 0; j < classes; ++j) dx[j] = 0;
      continue;
    }
    const T weighted = g[row * g_step] * (w == NULL ? 1 : w[wanted]);
    const T share = mean ? weighted / total : weighted;
    const T top = stats[2 * row], log_sum = stats[2 * row + 1];
    for (int64_t j = 0; j < classes; ++j) dx[j] = E((x[j] - top) - log_sum) * share;
    dx[wanted] -= share;
  }
}
