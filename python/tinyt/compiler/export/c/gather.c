// Elements of x at an index along one dimension, in the space of the index. There x has the strides
// `from`, 0 along that dimension; it has `size` elements `step` apart. Returns 1 if an index is
// out of range.
static int tt_gather_T(const T* x, const int64_t* from, int64_t step, int64_t size,
                       const int64_t* index, const int64_t* at, T* restrict y, const int64_t* n,
                       int rank) {
  const int64_t columns = n[rank - 1], a = from[rank - 1], b = at[rank - 1];
  int64_t rows = 1;
  for (int d = 0; d < rank - 1; ++d) rows *= n[d];
  for (int64_t row = 0; row < rows; ++row, y += columns) {
    const T* source = x;
    const int64_t* where = index;
    int64_t rest = row;
    for (int d = rank - 2; d >= 0; --d) {
      source += rest % n[d] * from[d];
      where += rest % n[d] * at[d];
      rest /= n[d];
    }
    if (b == 0) {  // one index for the row
      if (*where < 0 || *where >= size) return 1;
      source += *where * step;
      if (a == 1) {
        for (int64_t j = 0; j < columns; ++j) y[j] = source[j];
      } else {
        for (int64_t j = 0; j < columns; ++j) y[j] = source[j * a];
      }
      continue;
    }
    for (int64_t j = 0; j < columns; ++j) {
      const int64_t i = where[j * b];
      if (i < 0 || i >= size) return 1;
      y[j] = source[j * a + i * step];
    }
  }
  return 0;
}

// Whether an index is out of [0, size).
static int tt_out_of_range(const int64_t* index, int64_t n, int64_t size) {
  int wrong = 0;
  for (int64_t i = 0; i < n; ++i) wrong |= (uint64_t)index[i] >= (uint64_t)size;
  return wrong;
}

// Adds the index of one more dimension to indices into the product of the ones before it: y becomes
// y * size + index, at first the index. Negative ones count from the end. Returns 1 if one is out
// of range.
static int tt_linear_index(const int64_t* index, int64_t size, int first, int64_t* y, int64_t n) {
  int wrong = 0;
  for (int64_t i = 0; i < n; ++i) {
    const uint64_t at = (uint64_t)index[i] + (index[i] < 0 ? (uint64_t)size : 0);
    wrong |= at >= (uint64_t)size;
    y[i] = (int64_t)(first ? at : (uint64_t)y[i] * (uint64_t)size + at);
  }
  return wrong;
}
