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
