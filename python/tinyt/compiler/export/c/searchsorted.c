// Whether two values differ: a NaN from itself.
static inline int tt_differ_T(T a, T b) {
  return a != b;
}

// Whether an element lies before the place of a value, which is behind its equals if `right`. A NaN
// is above everything and equal to itself.
static inline int tt_lies_before_T(T x, T value, int right) {
  const int is_nan = tt_differ_T(value, value);
  return right ? (x <= value) | is_nan : (x < value) | (is_nan & !tt_differ_T(x, x));
}

// Where values belong in sorted lines of n: each `count` of them in the next one, or all in the
// only one.
static void tt_searchsorted_T(const T* sorted, const T* values, int64_t* y, int64_t lines,
                              int64_t count, int64_t n, int64_t step, int right) {
  for (int64_t line = 0; line < lines; ++line, sorted += step, values += count, y += count) {
    for (int64_t i = 0; i < count; ++i) {
      int64_t at = 0, left = n;
      for (; left > 1; left -= left / 2) {
        const int64_t half = left / 2;
        if (tt_lies_before_T(sorted[at + half - 1], values[i], right)) at += half;
      }
      y[i] = at + (left == 1 && tt_lies_before_T(sorted[at], values[i], right));
    }
  }
}
