// Whether any of n elements is 0.
static int tt_has_zero_T(const T* x, int64_t n) {
  int found = 0;
  for (int64_t i = 0; i < n; ++i) found |= x[i] == 0;
  return found;
}
