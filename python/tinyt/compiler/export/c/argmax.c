// Whether two values differ: a NaN from itself.
static inline int tt_differ_T(T a, T b) {
  return a != b;
}

// Whether a value is larger (smaller) than another one; NaN is above (below) all others.
static inline int tt_better_T(T found, T best, int smallest) {
  return (smallest ? found < best : found > best) |
         (tt_differ_T(found, found) & !tt_differ_T(best, best));
}

// The best of each of `count` <= 32 columns, `step` from row to row, and the first row it is in.
static inline void tt_best_rows_T(const T* x, int64_t n, int64_t step, int count, int smallest,
                                  T* best, int32_t* at) {
  for (int c = 0; c < count; ++c) best[c] = x[c];
  for (int c = 0; c < count; ++c) at[c] = 0;
  for (int64_t i = 1; i < n; ++i) {
    const T* row = x + i * step;
    for (int c = 0; c < count; ++c) {
      const T found = row[c];
      const int better = tt_better_T(found, best[c], smallest);
      best[c] = better ? found : best[c];
      at[c] = better ? (int32_t)i : at[c];
    }
  }
}

// Where the first of the best is in a line: of 32 lines side by side, then of those.
static inline int64_t tt_best_place_T(const T* x, int64_t n, int smallest) {
  T best = x[0];
  int64_t at = 0, i = 1;
  if (n >= 64) {
    T found[32];
    int32_t rows[32];
    tt_best_rows_T(x, n / 32, 32, 32, smallest, found, rows);
    best = found[0];
    at = (int64_t)rows[0] * 32;
    for (int c = 1; c < 32; ++c) {
      const int64_t place = (int64_t)rows[c] * 32 + c;
      const int is_equal = !tt_better_T(best, found[c], smallest) && place < at;
      if (tt_better_T(found[c], best, smallest) || is_equal) {
        best = found[c];
        at = place;
      }
    }
    i = n / 32 * 32;
  }
  for (; i < n; ++i) {
    if (tt_better_T(x[i], best, smallest)) {
      best = x[i];
      at = i;
    }
  }
  return at;
}

// Where the first largest (smallest) elements are along the middle of three dimensions, of which
// it has fewer than 2**31; a NaN counts as one.
static void tt_argmax_T(const T* x, int64_t* y, int64_t rows, int64_t n, int64_t columns,
                        int smallest) {
  for (int64_t row = 0; row < rows; ++row, x += n * columns, y += columns) {
    if (columns == 1) {
      *y = smallest ? tt_best_place_T(x, n, 1) : tt_best_place_T(x, n, 0);
      continue;
    }
    for (int64_t first = 0; first < columns; first += 32) {
      const int count = columns - first < 32 ? (int)(columns - first) : 32;
      T best[32];
      int32_t at[32];
      if (count < 32) {
        tt_best_rows_T(x + first, n, columns, count, smallest, best, at);
      } else if (smallest) {
        tt_best_rows_T(x + first, n, columns, 32, 1, best, at);
      } else {
        tt_best_rows_T(x + first, n, columns, 32, 0, best, at);
      }
      for (int c = 0; c < count; ++c) y[first + c] = at[c];
    }
  }
}
