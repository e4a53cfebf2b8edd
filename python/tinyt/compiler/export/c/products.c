// A register as GCC and Clang have it, and a sum of products in one operation where the machine has
// that; elsewhere two.
#ifndef TT_REGISTER
#if defined(__AVX512F__)
#define TT_REGISTER 64
#elif defined(__AVX__)
#define TT_REGISTER 32
#else
#define TT_REGISTER 16
#endif
#if defined(__clang__)
#define TT_FUSED
#define TT_FUSE _Pragma("clang fp contract(fast)")
#define TT_NOT_UNROLLED _Pragma("clang loop unroll(disable)")
#elif defined(__GNUC__)
#define TT_FUSED __attribute__((optimize("fp-contract=fast")))
#define TT_FUSE
#define TT_NOT_UNROLLED
#else
#define TT_FUSED
#define TT_FUSE
#define TT_NOT_UNROLLED
#endif
#endif
#define TT_LANES_T (TT_REGISTER / (int)sizeof(T))
#define TT_COLUMNS_T (2 * TT_LANES_T)
#if defined(__GNUC__)
typedef T tt_register_T __attribute__((vector_size(TT_REGISTER)));
#endif

// Adds to 6 rows of TT_COLUMNS sums: a chain of k products for each. Row i of A begins at a[i], its
// elements are `step` apart; row p of B begins at b + at[p].
TT_FUSED static void tt_tile_T(const T* const* a, int64_t step, const T* b, const int64_t* at,
                               int64_t k, T* sums) {
  TT_FUSE
  const T *a0 = a[0], *a1 = a[1], *a2 = a[2], *a3 = a[3], *a4 = a[4], *a5 = a[5];
#if defined(__GNUC__)
  tt_register_T s[12] = {{0}};
  TT_NOT_UNROLLED  // which would take more registers than there are
  for (int64_t p = 0; p < k; ++p) {
    tt_register_T y0, y1;
    memcpy(&y0, b + at[p], TT_REGISTER);
    memcpy(&y1, b + at[p] + TT_LANES_T, TT_REGISTER);
    s[0] = s[0] + a0[p * step] * y0;
    s[1] = s[1] + a0[p * step] * y1;
    s[2] = s[2] + a1[p * step] * y0;
    s[3] = s[3] + a1[p * step] * y1;
    s[4] = s[4] + a2[p * step] * y0;
    s[5] = s[5] + a2[p * step] * y1;
    s[6] = s[6] + a3[p * step] * y0;
    s[7] = s[7] + a3[p * step] * y1;
    s[8] = s[8] + a4[p * step] * y0;
    s[9] = s[9] + a4[p * step] * y1;
    s[10] = s[10] + a5[p * step] * y0;
    s[11] = s[11] + a5[p * step] * y1;
  }
  for (int i = 0; i < 12; ++i) {
    tt_register_T sum;
    memcpy(&sum, sums + i * TT_LANES_T, TT_REGISTER);
    sum = sum + s[i];
    memcpy(sums + i * TT_LANES_T, &sum, TT_REGISTER);
  }
#else
  T s[6 * TT_COLUMNS_T];
  for (int j = 0; j < 6 * TT_COLUMNS_T; ++j) s[j] = 0;
  for (int64_t p = 0; p < k; ++p) {
    for (int j = 0; j < TT_COLUMNS_T; ++j) {
      const T y = b[at[p] + j];
      s[j] += a0[p * step] * y;
      s[TT_COLUMNS_T + j] += a1[p * step] * y;
      s[2 * TT_COLUMNS_T + j] += a2[p * step] * y;
      s[3 * TT_COLUMNS_T + j] += a3[p * step] * y;
      s[4 * TT_COLUMNS_T + j] += a4[p * step] * y;
      s[5 * TT_COLUMNS_T + j] += a5[p * step] * y;
    }
  }
  for (int j = 0; j < 6 * TT_COLUMNS_T; ++j) sums[j] += s[j];
#endif
}

// Columns of B as rows of TT_COLUMNS, zeros behind the last one.
static void tt_pack_T(const T* b, int64_t rows, int64_t columns, int64_t k, int64_t n, T* panel) {
  if (n == TT_COLUMNS_T && columns == 1) {
    for (int64_t p = 0; p < k; ++p)
      for (int j = 0; j < TT_COLUMNS_T; ++j) panel[p * TT_COLUMNS_T + j] = b[p * rows + j];
    return;
  }
  for (int64_t j = 0; j < n; ++j)
    for (int64_t p = 0; p < k; ++p) panel[p * TT_COLUMNS_T + j] = b[p * rows + j * columns];
  for (int64_t j = n; j < TT_COLUMNS_T; ++j)
    for (int64_t p = 0; p < k; ++p) panel[p * TT_COLUMNS_T + j] = 0;
}

// Writes sums into rows of C, with what is added there.
static void tt_put_T(const T* sums, int64_t rows, int64_t columns, const T* d, int64_t dr, int64_t dc,
                     T* c, int64_t width) {
  for (int64_t i = 0; i < rows && d == NULL && columns == TT_COLUMNS_T; ++i)
    memcpy(c + i * width, sums + i * TT_COLUMNS_T, TT_COLUMNS_T * sizeof(T));
  if (d == NULL && columns == TT_COLUMNS_T) return;
  for (int64_t i = 0; i < rows; ++i) {
    const T* s = sums + i * TT_COLUMNS_T;
    T* to = c + i * width;
    const T* add = d == NULL ? d : d + i * dr;
    if (d == NULL) {
      for (int64_t j = 0; j < columns; ++j) to[j] = s[j];
    } else if (dc == 1) {
      for (int64_t j = 0; j < columns; ++j) to[j] = s[j] + add[j];
    } else {
      for (int64_t j = 0; j < columns; ++j) to[j] = s[j] + add[j * dc];
    }
  }
}

// C [m, n] = A [m, k] B [k, n] + D, dense C; of the others the strides of rows and columns. D may be
// null, or lie in C. `panel` holds k rows of TT_COLUMNS, and behind them an int64 for each. Sums are
// of blocks of 4096 bytes of k.
static void tt_product_T(const T* a, int64_t ar, int64_t ac, const T* b, int64_t br, int64_t bc,
                         const T* d, int64_t dr, int64_t dc, T* c, int64_t m, int64_t n, int64_t k,
                         T* panel) {
  const int64_t block = 4096 / (int64_t)sizeof(T);
  int64_t* at = (int64_t*)(void*)(panel + k * TT_COLUMNS_T);
  int64_t width = 0;
  for (int64_t j = 0; j < n; j += TT_COLUMNS_T) {
    const int64_t columns = n - j < TT_COLUMNS_T ? n - j : TT_COLUMNS_T;
    // Few rows are over before a copy of B is.
    const int as_it_is = bc == 1 && columns == TT_COLUMNS_T && m <= 12;
    const T* from = as_it_is ? b + j : panel;
    if (width != (as_it_is ? br : TT_COLUMNS_T)) {
      width = as_it_is ? br : TT_COLUMNS_T;
      for (int64_t p = 0; p < k; ++p) at[p] = p * width;
    }
    if (!as_it_is) tt_pack_T(b + j * bc, br, bc, k, columns, panel);
    for (int64_t i = 0; i < m; i += 6) {
      const int64_t rows = m - i < 6 ? m - i : 6;
      T sums[6 * TT_COLUMNS_T];
      for (int s = 0; s < 6 * TT_COLUMNS_T; ++s) sums[s] = 0;
      for (int64_t p = 0; p < k; p += block) {
        const T* row[6];
        for (int r = 0; r < 6; ++r) row[r] = a + (i + (r < rows ? r : 0)) * ar + p * ac;
        tt_tile_T(row, ac, from, at + p, k - p < block ? k - p : block, sums);
      }
      tt_put_T(sums, rows, columns, d == NULL ? d : d + i * dr + j * dc, dr, dc, c + i * n + j, n);
    }
  }
}

// A row x [k] times B [k, n] whose rows are dense: y += x[p] * row p, several at a time.
TT_FUSED static void tt_row_T(const T* restrict x, int64_t step, const T* restrict b, int64_t width,
                              T* restrict y, int64_t n, int64_t k) {
  TT_FUSE
  int64_t p = 0;
  for (int64_t j = 0; j < n; ++j) y[j] = 0;
  for (; p + 4 <= k; p += 4, x += 4 * step, b += 4 * width) {
    const T *b1 = b + width, *b2 = b1 + width, *b3 = b2 + width;
    const T x0 = x[0], x1 = x[step], x2 = x[2 * step], x3 = x[3 * step];
    for (int64_t j = 0; j < n; ++j)
      y[j] = x3 * b3[j] + (x2 * b2[j] + (x1 * b1[j] + (x0 * b[j] + y[j])));
  }
  for (; p < k; ++p, x += step, b += width)
    for (int64_t j = 0; j < n; ++j) y[j] = x[0] * b[j] + y[j];
}

// A row x [k] times B [k, n] whose columns are dense: each y[j] a sum over lanes.
TT_FUSED static void tt_dots_T(const T* x, const T* b, int64_t width, T* y, int64_t n, int64_t k) {
  TT_FUSE
  for (int64_t j = 0; j < n; ++j) {
    const T* column = b + j * width;
    int64_t p = 0;
    T sum = 0;
#if defined(__GNUC__)
    tt_register_T s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0}, u, v;
    for (; p + 4 * TT_LANES_T <= k; p += 4 * TT_LANES_T) {
      memcpy(&u, x + p, TT_REGISTER);
      memcpy(&v, column + p, TT_REGISTER);
      s0 = s0 + u * v;
      memcpy(&u, x + p + TT_LANES_T, TT_REGISTER);
      memcpy(&v, column + p + TT_LANES_T, TT_REGISTER);
      s1 = s1 + u * v;
      memcpy(&u, x + p + 2 * TT_LANES_T, TT_REGISTER);
      memcpy(&v, column + p + 2 * TT_LANES_T, TT_REGISTER);
      s2 = s2 + u * v;
      memcpy(&u, x + p + 3 * TT_LANES_T, TT_REGISTER);
      memcpy(&v, column + p + 3 * TT_LANES_T, TT_REGISTER);
      s3 = s3 + u * v;
    }
    for (; p + TT_LANES_T <= k; p += TT_LANES_T) {
      memcpy(&u, x + p, TT_REGISTER);
      memcpy(&v, column + p, TT_REGISTER);
      s0 = s0 + u * v;
    }
    s0 = (s0 + s1) + (s2 + s3);
    for (int l = 0; l < TT_LANES_T; ++l) sum += s0[l];
#endif
    for (; p < k; ++p) sum += x[p] * column[p];
    y[j] = sum;
  }
}

// The same as tt_product, of few rows: each by itself, where B lies so that this takes it as it is.
static void tt_rows_T(const T* a, int64_t ar, int64_t ac, const T* b, int64_t br, int64_t bc,
                      const T* d, int64_t dr, int64_t dc, T* c, int64_t m, int64_t n, int64_t k,
                      T* row) {
  for (int64_t i = 0; i < m; ++i) {
    if (bc == 1) {
      tt_row_T(a + i * ar, ac, b, br, row, n, k);
    } else {
      tt_dots_T(a + i * ar, b, bc, row, n, k);
    }
    for (int64_t j = 0; j < n; ++j)
      c[i * n + j] = d == NULL ? row[j] : row[j] + d[i * dr + j * dc];
  }
}
