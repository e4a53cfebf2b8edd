// y = x * weight, or added to y.
static inline void tt_weighted_T(const T* x, T weight, int add, T* y, int64_t n) {
  if (add) {
    for (int64_t i = 0; i < n; ++i) y[i] += x[i] * weight;
  } else {
    for (int64_t i = 0; i < n; ++i) y[i] = x[i] * weight;
  }
}

// A row of a sparse matrix times a line: terms by blocks of 64.
static inline T tt_row_product_T(const T* line, const int64_t* index, const T* weight, int64_t n) {
  if (n == 0) return 0;
  T sum = weight[0] * line[index[0]];
  if (n <= 64) {
    for (int64_t k = 1; k < n; ++k) sum += weight[k] * line[index[k]];
    return sum;
  }
  T total = 0;
  for (int64_t first = 0; first < n; first += 64) {
    const int64_t last = first + 64 < n ? first + 64 : n;
    sum = 0;
    for (int64_t k = first; k < last; ++k) sum += weight[k] * line[index[k]];
    total += sum;
  }
  return total;
}

// Rows of a sparse matrix times a line, all of few entries.
static inline void tt_few_products_T(const T* line, const int64_t* index, const T* weight, int few,
                                     T* y, int64_t rows) {
  for (int64_t i = 0; i < rows; ++i, index += few, weight += few) {
    T sum = weight[0] * line[index[0]];
    for (int k = 1; k < few; ++k) sum += weight[k] * line[index[k]];
    y[i] = sum;
  }
}

// A sparse matrix times a line. `taps`: the entries of each row, 0 if they are not equally many.
static void tt_matrix_product_T(const T* line, const int64_t* first, const int64_t* index,
                                const T* weight, int64_t taps, T* y, int64_t rows) {
  switch (taps) {
    case 1: tt_few_products_T(line, index, weight, 1, y, rows); return;
    case 2: tt_few_products_T(line, index, weight, 2, y, rows); return;
    case 3: tt_few_products_T(line, index, weight, 3, y, rows); return;
    case 4: tt_few_products_T(line, index, weight, 4, y, rows); return;
    default: break;
  }
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t at = first[i];
    y[i] = tt_row_product_T(line, index + at, weight + at, first[i + 1] - at);
  }
}

// Weights in another order.
static void tt_reorder_T(const T* x, const int64_t* index, T* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = x[index[i]];
}

// Sparse matrices times the three dimensions of planes. Of dimension d, row i has the entries
// [first[d][i], first[d][i + 1]) of index[d] and weight[d]. `line` holds two lines of x: terms are
// added up by blocks of 64, the first one there, others beside it. `taps`: of each row of the last
// matrix, 0 if they are not equally many.
static void tt_resample_T(const T* x, T* y, T* line, int64_t planes, const int64_t* in,
                          const int64_t* out, const int64_t* const* first,
                          const int64_t* const* index, const T* const* weight, int64_t taps) {
  T* const block = line + in[2];
  for (int64_t row = 0; row < planes * out[0] * out[1]; ++row, y += out[2]) {
    const int64_t i = row / out[1] % out[0], j = row % out[1];
    const T* plane = x + row / out[1] / out[0] * (in[0] * in[1] * in[2]);
    int64_t terms = 0;
    for (int64_t a = first[0][i]; a < first[0][i + 1]; ++a) {
      for (int64_t b = first[1][j]; b < first[1][j + 1]; ++b, ++terms) {
        const T* from = plane + (index[0][a] * in[1] + index[1][b]) * in[2];
        if (terms > 64 && terms % 64 == 0) tt_weighted_T(block, 1, 1, line, in[2]);
        const int add = terms % 64 != 0;
        tt_weighted_T(from, weight[0][a] * weight[1][b], add, terms < 64 ? line : block, in[2]);
      }
    }
    if (terms > 64) tt_weighted_T(block, 1, 1, line, in[2]);
    if (terms == 0) {
      for (int64_t k = 0; k < in[2]; ++k) line[k] = 0;
    }
    tt_matrix_product_T(line, first[2], index[2], weight[2], taps, y, out[2]);
  }
}
