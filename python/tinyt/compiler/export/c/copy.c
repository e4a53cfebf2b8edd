// Copies the elements of a space of `rank` >= 1 dimensions, whatever the strides on both sides.
static void tt_copy_T(const T* x, const int64_t* from, T* y, const int64_t* to, const int64_t* n,
                      int rank) {
  const int64_t columns = n[rank - 1], a = from[rank - 1], b = to[rank - 1];
  int64_t rows = 1;
  for (int d = 0; d < rank - 1; ++d) rows *= n[d];
  for (int64_t row = 0; row < rows; ++row) {
    const T* source = x;
    T* target = y;
    int64_t rest = row;
    for (int d = rank - 2; d >= 0; --d) {
      source += rest % n[d] * from[d];
      target += rest % n[d] * to[d];
      rest /= n[d];
    }
    if (a == 1 && b == 1) {
      for (int64_t j = 0; j < columns; ++j) target[j] = source[j];
    } else {
      for (int64_t j = 0; j < columns; ++j) target[j * b] = source[j * a];
    }
  }
}
