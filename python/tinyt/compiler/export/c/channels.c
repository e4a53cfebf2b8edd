// Calls functions of rows.c.

// Functions over x [outer, channels, n]. A channel of a group norm has the mean and scale of its
// group of `members` channels in its sample, which are `step` apart; one of a batch norm its own.

// (x - mean) scale w + b with a weight and a bias for each channel, 1 and 0 where they are null.
static void tt_scale_channels_T(const T* x, const T* mean, const T* scale, const T* w, const T* b,
                                T* y, int64_t outer, int64_t channels, int64_t n, int64_t members,
                                int64_t step) {
  for (int64_t o = 0; o < outer; ++o, mean += step, scale += step) {
    for (int64_t c = 0; c < channels; ++c, x += n, y += n) {
      const T middle = mean[c / members], factor = scale[c / members];
      const T weight = w == NULL ? 1 : w[c], bias = b == NULL ? 0 : b[c];
      for (int64_t j = 0; j < n; ++j) y[j] = (x[j] - middle) * factor * weight + bias;
    }
  }
}

// scale ((g w - shift) - h slope) with h = (x - mean) scale; shift and slope as mean and scale lie.
static void tt_channels_input_T(const T* g, const T* x, const T* mean, const T* scale, const T* w,
                                const T* shift, const T* slope, T* dx, int64_t outer,
                                int64_t channels, int64_t n, int64_t members, int64_t step) {
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t c = 0; c < channels; ++c, g += n, x += n, dx += n) {
      const int64_t at = o * step + c / members;
      const T middle = mean[at], factor = scale[at], off = shift[at], tilt = slope[at];
      const T weight = w == NULL ? 1 : w[c];
      for (int64_t j = 0; j < n; ++j) {
        dx[j] = factor * ((g[j] * weight - off) - (x[j] - middle) * factor * tilt);
      }
    }
  }
}

// g w scale: the gradient where the statistics are given.
static void tt_channels_given_T(const T* g, const T* scale, const T* w, T* dx, int64_t outer,
                                int64_t channels, int64_t n) {
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t c = 0; c < channels; ++c, g += n, dx += n) {
      const T factor = scale[c], weight = w == NULL ? 1 : w[c];
      for (int64_t j = 0; j < n; ++j) dx[j] = g[j] * weight * factor;
    }
  }
}

// The squared distances of a row [channels, n] from the channels' means; or g h, with
// h = (x - mean) scale.
static void tt_channel_squares_T(const T* x, const T* mean, T* y, int64_t outer, int64_t channels,
                                 int64_t n) {
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t c = 0; c < channels; ++c, x += n, y += n) {
      for (int64_t j = 0; j < n; ++j) y[j] = (x[j] - mean[c]) * (x[j] - mean[c]);
    }
  }
}

static void tt_channel_dots_T(const T* g, const T* x, const T* mean, const T* scale, T* y,
                              int64_t outer, int64_t channels, int64_t n) {
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t c = 0; c < channels; ++c, g += n, x += n, y += n) {
      for (int64_t j = 0; j < n; ++j) y[j] = g[j] * ((x[j] - mean[c]) * scale[c]);
    }
  }
}

// The sums of [channels, n] over n, one after another, divided.
static void tt_sum_places_T(const T* x, T* y, int64_t channels, int64_t n, T divisor) {
  for (int64_t c = 0; c < channels; ++c) {
    T sum = x[c * n];
    for (int64_t j = 1; j < n; ++j) sum += x[c * n + j];
    y[c] = sum / divisor;
  }
}

// Shares of sums: w (sum / count).
static void tt_shares_T(const T* sums, const T* w, T* y, int64_t channels, T count) {
  for (int64_t c = 0; c < channels; ++c) y[c] = (w == NULL ? 1 : w[c]) * (sums[c] / count);
}

static void tt_scales_T(const T* var, T* scale, int64_t channels, double eps) {
  for (int64_t c = 0; c < channels; ++c) scale[c] = 1 / LIBRARY_T(sqrt)(var[c] + (T)eps);
}

// The sums over samples of what each channel of each sample has: pairs side by side.
static void tt_add_samples_T(const T* sums, T* dot, T* total, int64_t batch, int64_t channels) {
  for (int64_t c = 0; c < channels; ++c) {
    double first = 0, second = 0;
    for (int64_t i = 0; i < batch; ++i) {
      first += (double)sums[2 * (i * channels + c)];
      second += (double)sums[2 * (i * channels + c) + 1];
    }
    dot[c] = (T)first;
    total[c] = (T)second;
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

// The means and scales of rows.
static void tt_rows_stats_T(const T* x, T* mean, T* scale, int64_t rows, int64_t n, double eps) {
  for (int64_t row = 0; row < rows; ++row) {
    tt_row_stats_T(x + row * n, n, 1, eps, mean + row, scale + row);
  }
}
