// Whether two values differ: a NaN from itself.
static inline int tt_differ_T(T a, T b) {
  return a != b;
}

// The largest elements of `count` <= 32 windows, `step` apart, and where they are from the first
// element of theirs on. Of equal ones the first; of NaNs, which count as largest, the last.
static inline void tt_max_pool_block_T(const T* x, int64_t step, int count, const int64_t* taps,
                                       const int64_t* tap_step, T* values, int32_t* places) {
  T best[32];
  int32_t at[32] = {0};
  for (int i = 0; i < count; ++i) best[i] = x[i * step];
  for (int64_t a = 0; a < taps[0]; ++a) {
    for (int64_t b = 0; b < taps[1]; ++b) {
      for (int64_t c = 0; c < taps[2]; ++c) {
        const int64_t tap = a * tap_step[0] + b * tap_step[1] + c * tap_step[2];
        for (int i = 0; i < count; ++i) {
          const T found = x[tap + i * step];
          const int better = (found > best[i]) | tt_differ_T(found, found);
          best[i] = better ? found : best[i];
          at[i] = better ? (int32_t)tap : at[i];
        }
      }
    }
  }
  for (int i = 0; i < count; ++i) values[i] = best[i];
  for (int i = 0; i < count; ++i) places[i] = at[i];
}

// The largest elements of n windows in a row, `step` apart, and their places in the plane of x, in
// which the first window begins at `start`.
static void tt_max_pool_row_T(const T* x, int64_t start, int64_t step, const int64_t* taps,
                              const int64_t* tap_step, T* values, int64_t* indices, int64_t n) {
  int32_t places[32];
  for (int64_t next = 0; next < n; next += 32) {
    // The last ones of a long row once more with those before them, so that there are 32.
    const int64_t i = next > 0 && n - next < 32 ? n - 32 : next;
    const T* from = x + start + i * step;
    const int count = n - i < 32 ? (int)(n - i) : 32;
    if (count == 32 && step == 1) {
      tt_max_pool_block_T(from, 1, 32, taps, tap_step, values + i, places);
    } else if (count == 32 && step == 2) {
      tt_max_pool_block_T(from, 2, 32, taps, tap_step, values + i, places);
    } else if (step == 2) {
      tt_max_pool_block_T(from, 2, count, taps, tap_step, values + i, places);
    } else {
      tt_max_pool_block_T(from, step, count, taps, tap_step, values + i, places);
    }
    for (int j = 0; j < count; ++j) indices[i + j] = start + (i + j) * step + places[j];
  }
}

// The largest elements of windows in planes of three dimensions, and their places in the plane.
// `first` and `taps` say where windows begin and how many elements they have: of the first
// dimension, then of the second; those along the third are `runs`, each five numbers: output, count,
// first element, step between windows, taps. `tap_step`: between the elements of a window.
static void tt_max_pool_T(const T* x, T* values, int64_t* indices, T lowest, int64_t planes,
                          const int64_t* in, const int64_t* out, const int64_t* first,
                          const int64_t* taps, const int64_t* tap_step, const int64_t* runs,
                          int64_t run_count) {
  const int64_t steps[3] = {tap_step[0] * in[1] * in[2], tap_step[1] * in[2], tap_step[2]};
  for (int64_t row = 0; row < planes * out[0] * out[1]; ++row) {
    const int64_t i = row / out[1] % out[0], j = out[0] + row % out[1];
    const T* plane = x + row / out[1] / out[0] * (in[0] * in[1] * in[2]);
    const int64_t line = (first[i] * in[1] + first[j]) * in[2];
    for (int64_t k = 0; k < run_count; ++k) {
      const int64_t* run = runs + 5 * k;
      const int64_t window[3] = {taps[i], taps[j], run[4]};
      T* value = values + row * out[2] + run[0];
      int64_t* index = indices + row * out[2] + run[0];
      if (window[0] * window[1] * window[2] > 0) {
        tt_max_pool_row_T(plane, line + run[2], run[3], window, steps, value, index, run[1]);
        continue;
      }
      for (int64_t c = 0; c < run[1]; ++c) {  // empty windows: where they would begin
        const int64_t at[3] = {first[i], first[j], run[2] + c * run[3]};
        int64_t place = 0;
        for (int d = 0; d < 3; ++d) place = place * in[d] + (at[d] < in[d] ? at[d] : in[d] - 1);
        value[c] = lowest;
        index[c] = place;
      }
    }
  }
}
