// Whether two values differ: a NaN from itself.
static inline int tt_differ_T(T a, T b) {
  return a != b;
}

// The larger or the smaller one. A NaN wins, and +0 is above -0, which sums of zeros tell apart.
static inline T tt_extreme_T(T a, T b, int smaller) {
  if (tt_differ_T(a, a)) return a;
  if (tt_differ_T(b, b)) return b;
  if (a == 0 && b == 0) return (T)(smaller ? -(-a - b) : a + b);
  return (a < b) == smaller ? a : b;
}

// What a value becomes with another one: 0 that one, 1 the sum, 2 the product, which U holds, 3 the
// larger one, 4 the smaller one.
static inline T tt_combined_T_U(T a, T b, int how) {
  switch (how) {
    case 0: return b;
    case 1: return (T)((U)a + (U)b);
    case 2: return (T)((U)a * (U)b);
    default: return tt_extreme_T(a, b, how == 4);
  }
}

// Combines elements of y with those of x, along a row of the index.
static inline void tt_scatter_row_T_U(const T* x, int64_t a, const int64_t* index, int64_t b, T* y,
                                      int64_t c, int64_t step, int64_t n, int how) {
  if (b == 0 && a == 1 && c == 1) {  // one index for the row
    T* target = y + *index * step;
    for (int64_t j = 0; j < n; ++j) target[j] = tt_combined_T_U(target[j], x[j], how);
    return;
  }
  for (int64_t j = 0; j < n; ++j) {
    T* target = y + j * c + index[j * b] * step;
    *target = tt_combined_T_U(*target, x[j * a], how);
  }
}

// Combines elements of y at an index along one dimension with those of x, in the order of the
// index. In its space y has the strides `to`, 0 along that dimension, where its elements lie `step`
// apart. All indices are in range.
static void tt_scatter_T_U(const T* x, const int64_t* from, const int64_t* index, const int64_t* at,
                           T* y, const int64_t* to, int64_t step, const int64_t* n, int rank,
                           int how) {
  const int64_t columns = n[rank - 1], a = from[rank - 1], b = at[rank - 1], c = to[rank - 1];
  int64_t rows = 1;
  for (int d = 0; d < rank - 1; ++d) rows *= n[d];
  for (int64_t row = 0; row < rows; ++row) {
    const T* source = x;
    const int64_t* where = index;
    T* target = y;
    int64_t rest = row;
    for (int d = rank - 2; d >= 0; --d) {
      source += rest % n[d] * from[d];
      where += rest % n[d] * at[d];
      target += rest % n[d] * to[d];
      rest /= n[d];
    }
    switch (how) {  // of known kinds: loops without a choice
      case 0: tt_scatter_row_T_U(source, a, where, b, target, c, step, columns, 0); break;
      case 1: tt_scatter_row_T_U(source, a, where, b, target, c, step, columns, 1); break;
      default: tt_scatter_row_T_U(source, a, where, b, target, c, step, columns, how);
    }
  }
}
