// Products of whole numbers, which wrap; U is the unsigned type of that size.
static void tt_whole_product_T_U(const T* a, int64_t ar, int64_t ac, const T* b, int64_t br,
                                 int64_t bc, T* c, int64_t m, int64_t n, int64_t k) {
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) c[i * n + j] = 0;
    for (int64_t p = 0; p < k; ++p) {
      const U x = (U)a[i * ar + p * ac];
      for (int64_t j = 0; j < n; ++j)
        c[i * n + j] = (T)((U)c[i * n + j] + x * (U)b[p * br + j * bc]);
    }
  }
}

// Of two int8 matrices, as int32.
static void tt_int_mm(const int8_t* a, int64_t ar, int64_t ac, const int8_t* b, int64_t br,
                      int64_t bc, int32_t* c, int64_t m, int64_t n, int64_t k) {
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) c[i * n + j] = 0;
    for (int64_t p = 0; p < k; ++p) {
      const int32_t x = a[i * ar + p * ac];
      for (int64_t j = 0; j < n; ++j)
        c[i * n + j] = (int32_t)((uint32_t)c[i * n + j] + (uint32_t)(x * b[p * br + j * bc]));
    }
  }
}
