// n copies of a value.
static void tt_fill_T(T* y, T value, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = value;
}

// start + i * step, computed in U.
static void tt_iota_T_U(T* y, U start, U step, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = (T)(start + (U)i * step);
}
