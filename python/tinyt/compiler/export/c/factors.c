// The upper factor in the place of a matrix' upper triangle: row k is done when the rows above have
// been taken off it. The order of the first minor that is not positive, or 0.
static int64_t tt_factor_T(T* u, int64_t n) {
  for (int64_t k = 0; k < n; ++k) {
    T* row = u + k * n;
    if (!(row[k] > 0) || !isfinite(row[k])) return k + 1;
    const T root = LIBRARY_T(sqrt)(row[k]);
    row[k] = root;
    for (int64_t j = k + 1; j < n; ++j) row[j] = row[j] / root;
    for (int64_t i = k + 1; i < n; ++i) {
      const T scale = row[i];
      T* below = u + i * n;
      for (int64_t j = i; j < n; ++j) below[j] -= scale * row[j];
    }
  }
  return 0;
}

// The lower Cholesky factors of matrices, of which the lower triangles are read; `u` holds one.
static void tt_cholesky_T(const T* a, T* l, int32_t* info, int64_t batch, int64_t n, T* u) {
  for (int64_t b = 0; b < batch; ++b, a += n * n, l += n * n) {
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = i; j < n; ++j) u[i * n + j] = a[j * n + i];
    const int64_t order = tt_factor_T(u, n);
    info[b] = (int32_t)order;
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j)
        l[i * n + j] = order != 0 ? (T)NAN : j <= i ? u[j * n + i] : 0;
  }
}

// X of A X = B, where B is, row after row; A is upper- or lower-triangular.
static void tt_substitute_T(const T* a, T* x, int64_t batch, int64_t n, int64_t columns, int upper,
                            int unit) {
  for (int64_t b = 0; b < batch; ++b, a += n * n, x += n * columns) {
    for (int64_t step = 0; step < n; ++step) {
      const int64_t i = upper ? n - 1 - step : step;
      T* mine = x + i * columns;
      for (int64_t k = 0; k < step; ++k) {
        const int64_t j = upper ? n - 1 - k : k;
        const T scale = a[i * n + j];
        const T* other = x + j * columns;
        for (int64_t c = 0; c < columns; ++c) mine[c] -= scale * other[c];
      }
      if (unit) continue;
      const T own = a[i * n + i];
      for (int64_t c = 0; c < columns; ++c) mine[c] /= own;
    }
  }
}
