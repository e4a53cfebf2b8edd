// Whether two values differ: a NaN from itself.
static inline int tt_differ_T(T a, T b) {
  return a != b;
}

// The sums of `taken` <= 4 elements, `step` apart, with the ones before them, and the last of them.
// Each takes in the one before it, then the one two before it, then all before the four.
static inline U tt_sum_four_T_U(const T* x, T* y, int64_t step, int64_t taken, U before) {
  U sum[4] = {0};
  for (int64_t k = 0; k < taken; ++k) sum[k] = (U)x[k * step];
  sum[3] += sum[2];
  sum[2] += sum[1];
  sum[1] += sum[0];
  sum[3] += sum[1];
  sum[2] += sum[0];
  for (int64_t k = 0; k < taken; ++k) y[k * step] = (T)(before + sum[k]);
  return before + sum[3];
}

// Running sums along the middle of three dimensions, which U holds.
static void tt_cumsum_T_U(const T* x, T* y, int64_t rows, int64_t n, int64_t columns) {
  for (int64_t row = 0; row < rows; ++row, x += n * columns, y += n * columns) {
    if (columns == 1) {
      U carry = 0;
      int64_t i = 0;
      for (; i + 4 <= n; i += 4) carry = tt_sum_four_T_U(x + i, y + i, 1, 4, carry);
      if (i < n) tt_sum_four_T_U(x + i, y + i, 1, n - i, carry);
      continue;
    }
    for (int64_t first = 0; first < columns; first += 64) {
      const int64_t count = columns - first < 64 ? columns - first : 64;
      U carry[64] = {0};
      for (int64_t i = 0; i < n; i += 4) {
        const T* from = x + i * columns + first;
        T* to = y + i * columns + first;
        if (n - i >= 4) {
          for (int64_t c = 0; c < count; ++c) {
            carry[c] = tt_sum_four_T_U(from + c, to + c, columns, 4, carry[c]);
          }
        } else {
          for (int64_t c = 0; c < count; ++c) {
            carry[c] = tt_sum_four_T_U(from + c, to + c, columns, n - i, carry[c]);
          }
        }
      }
    }
  }
}

// Running products in the same way, or `together` = 1 at a time.
static void tt_cumprod_T_U(const T* x, T* y, int64_t rows, int64_t n, int64_t columns,
                           int64_t together) {
  for (int64_t row = 0; row < rows; ++row, x += n * columns, y += n * columns) {
    for (int64_t column = 0; column < columns; ++column) {
      const T* from = x + column;
      T* to = y + column;
      U carry = 1;
      for (int64_t i = 0; i < n; i += together) {
        const int64_t taken = n - i < together ? n - i : together;
        U product[4] = {1, 1, 1, 1};
        for (int64_t k = 0; k < taken; ++k) product[k] = (U)from[(i + k) * columns];
        product[3] *= product[2];
        product[2] *= product[1];
        product[1] *= product[0];
        product[3] *= product[1];
        product[2] *= product[0];
        for (int64_t k = 0; k < taken; ++k) to[(i + k) * columns] = (T)(carry * product[k]);
        carry *= product[taken - 1];
      }
    }
  }
}

// The largest (smallest) elements so far along the middle of three dimensions, and where they are.
// A NaN stays; of equal ones it is the last.
static void tt_cummax_T(const T* x, T* y, int64_t* places, int64_t rows, int64_t n, int64_t columns,
                        int smallest) {
  for (int64_t row = 0; row < rows; ++row, x += n * columns) {
    for (int64_t c = 0; c < columns; ++c, ++y, ++places) {
      T best = x[c];
      int64_t at = 0;
      for (int64_t i = 0; i < n; ++i) {
        const T found = x[i * columns + c];
        if ((smallest ? found <= best : found >= best) || tt_differ_T(found, found)) {
          best = found;
          at = i;
        }
        y[i * columns] = best;
        places[i * columns] = at;
      }
    }
    y += (n - 1) * columns;
    places += (n - 1) * columns;
  }
}

// The logarithm of the sum of exponentials so far, along the middle of three dimensions: the
// largest value plus the logarithm L of a sum of exponentials E that is scaled down when that grows.
static void tt_logcumsumexp_T(const T* x, T* y, int64_t rows, int64_t n, int64_t columns) {
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t c = 0; c < columns; ++c) {
      T top = -INFINITY, sum = 0;
      for (int64_t i = 0; i < n; ++i) {
        const int64_t at = (row * n + i) * columns + c;
        const T found = x[at], before = top;
        if (found > top || tt_differ_T(found, found)) top = found;
        const T shift = isfinite(top) ? top : 0;  // infinities and NaN need no shift
        sum = sum * E(before - shift) + E(found - shift);
        y[at] = L(sum) + shift;
      }
    }
  }
}
