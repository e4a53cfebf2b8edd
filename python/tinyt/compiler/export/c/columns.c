// What a column takes from one more element. Integers wrap: they come as unsigned ones.
static inline T tt_join_sum_T(T a, T b) {
  return a + b;
}

static inline T tt_join_prod_T(T a, T b) {
  return a * b;
}

// The larger or the smaller one of two numbers; a NaN wins.
static inline T tt_join_amax_T(T a, T b) {
  return ((a > b) | (a != a)) ? a : b;
}

static inline T tt_join_amin_T(T a, T b) {
  return ((a < b) | (a != a)) ? a : b;
}

// The same of integers.
static inline T tt_join_largest_T(T a, T b) {
  return a > b ? a : b;
}

static inline T tt_join_smallest_T(T a, T b) {
  return a < b ? a : b;
}

// Joins rows to one value a column, in order: `width` columns side by side.
static void tt_join_rows_K_S_T(const S* x, int64_t step, int64_t rows, int64_t width,
                               T* restrict found) {
  const int64_t whole = rows / 4 * 4;
  for (int64_t i = 0; i < whole; i += 4) {
    const S *a = x + i * step, *b = a + step, *c = b + step, *d = c + step;
    for (int64_t j = 0; j < width; ++j) {
      const T first = tt_join_K_T(tt_join_K_T(found[j], (T)a[j]), (T)b[j]);
      found[j] = tt_join_K_T(tt_join_K_T(first, (T)c[j]), (T)d[j]);
    }
  }
  for (int64_t i = 0; i < rows % 4; ++i) {
    const S* a = x + (whole + i) * step;
    for (int64_t j = 0; j < width; ++j) found[j] = tt_join_K_T(found[j], (T)a[j]);
  }
}

static void tt_join_values_K_T(const T* x, int64_t n, T* restrict found) {
  for (int64_t j = 0; j < n; ++j) found[j] = tt_join_K_T(found[j], x[j]);
}

// Reduces columns, W of them at a time: rows join in blocks of B, and blocks as a tree of pairs.
// `work` has W values for each level of the tree. A column of no elements is Z.
static void tt_columns_K_S_T(const S* x, int64_t outer, int64_t outer_step, int64_t rows,
                             int64_t step, int64_t columns, T* y, T* work) {
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t first = 0; first < columns; first += W) {
      const S* in = x + o * outer_step + first;
      const int64_t width = columns - first < W ? columns - first : W;
      int64_t depth = 0, block = 0;
      do {
        T* found = work + depth * W;
        for (int64_t j = 0; j < width; ++j) found[j] = Z;
        const int64_t begin = block * B, count = rows - begin < B ? rows - begin : B;
        tt_join_rows_K_S_T(in + begin * step, step, count, width, found);
        ++depth;
        for (int64_t b = block; (b & 1) != 0; b /= 2) {
          --depth;
          tt_join_values_K_T(work + depth * W, width, work + (depth - 1) * W);
        }
        ++block;
      } while (block * B < rows);
      for (; depth > 1; --depth) {
        tt_join_values_K_T(work + (depth - 1) * W, width, work + (depth - 2) * W);
      }
      for (int64_t j = 0; j < width; ++j) y[o * columns + first + j] = work[j];
    }
  }
}

// Joins elements from position `at` of a block on to its 32 lanes.
static void tt_join_run_K_T(const T* x, int64_t n, int64_t at, T* restrict lanes) {
  const int64_t lane = at % 32, gap = (32 - lane) % 32, head = gap < n ? gap : n;
  for (int64_t i = 0; i < head; ++i) lanes[lane + i] = tt_join_K_T(lanes[lane + i], x[i]);
  const int64_t left = n - head, whole = left / 32 * 32;
  x += head;
  for (int64_t i = 0; i < whole; i += 32) {
    for (int k = 0; k < 32; ++k) lanes[k] = tt_join_K_T(lanes[k], x[i + k]);
  }
  for (int k = 0; k < left % 32; ++k) lanes[k] = tt_join_K_T(lanes[k], x[whole + k]);
}

// Reduces rows whose elements are `runs` runs of n that are `step` apart: in blocks of 32 B
// elements, and blocks as a tree of pairs.
static void tt_runs_K_T(const T* x, int64_t rows, int64_t row_step, int64_t runs, int64_t step,
                        int64_t n, T* y) {
  for (int64_t row = 0; row < rows; ++row) {
    T lanes[32], tree[64];
    int64_t depth = 0, block = 0, at = 0;
    for (int k = 0; k < 32; ++k) lanes[k] = Z;
    for (int64_t run = 0; run < runs; ++run) {
      for (int64_t i = 0; i < n;) {
        const int64_t count = n - i < 32 * B - at ? n - i : 32 * B - at;
        tt_join_run_K_T(x + row * row_step + run * step + i, count, at, lanes);
        i += count;
        at += count;
        if (at < 32 * B && (i < n || run + 1 < runs)) continue;
        for (int half = 16; half > 0; half /= 2) tt_join_values_K_T(lanes + half, half, lanes);
        tree[depth++] = lanes[0];
        for (int64_t b = block++; (b & 1) != 0; b /= 2) {
          --depth;
          tree[depth - 1] = tt_join_K_T(tree[depth - 1], tree[depth]);
        }
        for (int k = 0; k < 32; ++k) lanes[k] = Z;
        at = 0;
      }
    }
    for (; depth > 1; --depth) tree[depth - 2] = tt_join_K_T(tree[depth - 2], tree[depth - 1]);
    y[row] = depth > 0 ? tree[0] : Z;
  }
}
