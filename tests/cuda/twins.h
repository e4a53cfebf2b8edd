// Twins on the CPU of the functions in src/cuda/kernels/instructions.cuh, and functions of CUDA C++
// that kernels written by hand use. Included by runner.h for sources that have instructions.cuh.
#pragma once

#define TINYT_TWINS
#define __grid_constant__
#define __noinline__ __attribute__((noinline))
#define __align__(bytes) __attribute__((aligned(bytes)))

static StandinServices standin_services;
static constexpr int warpSize = 32;

// ---- operations of a warp: the driver calls `combine` once all lanes wait, with their operands

static inline void standin_wait_for_warp(const char* name, int line, unsigned mask,
                                         void (*combine)(void* const*), void* operand) {
  const StandinWarpCall call{name, line, mask, combine, operand};
  standin_services.wait_for_warp(&call);
}

static inline void __syncwarp(unsigned mask = ~0u, int line = __builtin_LINE()) {
  standin_wait_for_warp("__syncwarp", line, mask, [](void* const*) {}, nullptr);
}

// The lanes whose predicate holds, of those of the mask.
static inline unsigned __ballot_sync(unsigned mask, int predicate, int line = __builtin_LINE()) {
  struct Vote {
    bool holds;
    unsigned votes;
  } vote{predicate != 0, 0};
  const auto combine = [](void* const* operands) {
    unsigned votes = 0;
    for (int l = 0; l < 32; ++l)
      if (operands[l]) votes |= unsigned{static_cast<Vote*>(operands[l])->holds} << l;
    for (int l = 0; l < 32; ++l)
      if (operands[l]) static_cast<Vote*>(operands[l])->votes = votes;
  };
  standin_wait_for_warp("a vote", line, mask, combine, &vote);
  return vote.votes;
}
static inline int __any_sync(unsigned mask, int predicate, int line = __builtin_LINE()) {
  return __ballot_sync(mask, predicate, line) != 0;
}
static inline int __all_sync(unsigned mask, int predicate, int line = __builtin_LINE()) {
  return __ballot_sync(mask, predicate, line) == mask;
}

template <class T>
struct StandinShuffle {
  T value;
  unsigned argument, width;
  T result;
};
// Where each lane reads (PTX ISA, shfl): segments of `width` lanes, beyond which it keeps its own.
struct StandinIndexed {
  static constexpr const char* name = "__shfl_sync";
  static unsigned source(unsigned lane, unsigned index, unsigned width) {
    return (lane & -width) | (index & (width - 1));
  }
};
struct StandinUp {
  static constexpr const char* name = "__shfl_up_sync";
  static unsigned source(unsigned lane, unsigned delta, unsigned width) {
    return (lane & (width - 1)) >= (delta & 31) ? lane - (delta & 31) : lane;
  }
};
struct StandinDown {
  static constexpr const char* name = "__shfl_down_sync";
  static unsigned source(unsigned lane, unsigned delta, unsigned width) {
    return (lane & (width - 1)) + (delta & 31) < width ? lane + (delta & 31) : lane;
  }
};
struct StandinXor {
  static constexpr const char* name = "__shfl_xor_sync";
  static unsigned source(unsigned lane, unsigned bits, unsigned width) {
    const unsigned other = lane ^ (bits & 31);
    return other <= (lane | (width - 1)) ? other : lane;
  }
};
template <class Kind, class T>
static inline T standin_shuffle(unsigned mask, T value, unsigned argument, unsigned width,
                                int line) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "values of 32 or 64 bits");
  using Operand = StandinShuffle<T>;
  Operand own{value, argument, width, value};
  const auto combine = [](void* const* operands) {
    for (unsigned lane = 0; lane < 32; ++lane) {
      if (!operands[lane]) continue;
      Operand& to = *static_cast<Operand*>(operands[lane]);
      const void* const from = operands[Kind::source(lane, to.argument, to.width)];
      if (from)
        to.result = static_cast<const Operand*>(from)->value;
      else  // what a lane that is not in the mask has is undefined
        __builtin_memset(&to.result, 0xFF, sizeof to.result);
    }
  };
  standin_wait_for_warp(Kind::name, line, mask, combine, &own);
  return own.result;
}
#define STANDIN_SHUFFLE(name, Kind, Argument)                                     \
  template <class T>                                                              \
  static inline T name(unsigned mask, T value, Argument argument, int width = 32, \
                       int line = __builtin_LINE()) {                             \
    return standin_shuffle<Kind>(mask, value, argument, width, line);             \
  }
STANDIN_SHUFFLE(__shfl_sync, StandinIndexed, int)
STANDIN_SHUFFLE(__shfl_up_sync, StandinUp, unsigned)
STANDIN_SHUFFLE(__shfl_down_sync, StandinDown, unsigned)
STANDIN_SHUFFLE(__shfl_xor_sync, StandinXor, int)
#undef STANDIN_SHUFFLE

// ---- shared memory, and copies to it

static inline unsigned char* shared_memory() {
  return reinterpret_cast<unsigned char*>(standin_services.shared);
}
static inline void copy_16(void* to, const void* from, int bytes) {
  standin_services.copy(to, from, 16, static_cast<unsigned>(bytes));
}
static inline void copy_4(void* to, const void* from, bool there) {
  standin_services.copy(to, from, 4, there ? 4 : 0);
}
static inline void end_copies() { standin_services.end_copies(); }
template <int later>
static inline void wait_for_copies() {
  static_assert(later >= 0, "a number of groups");
  standin_services.wait_for_copies(later);
}

// ---- fragments of matrices

struct StandinRows {
  unsigned* words;
  const char* row;  // of this lane
};
// Element l / 4 of rows 2 * (l % 4) and the next, or word l % 4 of row l / 4.
template <bool is_transposed>
static inline void standin_load_matrices(void* const* operands) {
  const auto row = [&](int i) { return static_cast<const StandinRows*>(operands[i])->row; };
  for (int l = 0; l < 32; ++l)
    for (int m = 0; m < 4; ++m) {
      unsigned* const word = static_cast<StandinRows*>(operands[l])->words + m;
      if (!is_transposed) {
        __builtin_memcpy(word, row(8 * m + l / 4) + l % 4 * 4, 4);
        continue;
      }
      unsigned short halves[2];
      for (int i = 0; i < 2; ++i)
        __builtin_memcpy(&halves[i], row(8 * m + l % 4 * 2 + i) + l / 4 * 2, 2);
      *word = halves[0] | unsigned{halves[1]} << 16;
    }
}
static inline void load_matrices(unsigned (&words)[4], const void* row,
                                 int line = __builtin_LINE()) {
  standin_services.check_shared(row, 16);
  StandinRows rows{words, static_cast<const char*>(row)};
  standin_wait_for_warp("load_matrices", line, ~0u, standin_load_matrices<false>, &rows);
}
static inline void load_transposed(unsigned (&words)[4], const void* row,
                                   int line = __builtin_LINE()) {
  standin_services.check_shared(row, 16);
  StandinRows rows{words, static_cast<const char*>(row)};
  standin_wait_for_warp("load_transposed", line, ~0u, standin_load_matrices<true>, &rows);
}

// ---- conversions

static inline bool standin_is_nan(float x) { return x != x; }

static inline unsigned to_tfloat32(float x) {
  if (standin_is_nan(x)) return 0x7FFFFFFF;
  const unsigned bits = __float_as_uint(x);
  return (bits & 0x7F800000) == 0x7F800000 ? bits : (bits + 0x1000) & 0xFFFFE000;
}
static inline unsigned short to_bfloat16(float x) {
  const unsigned bits = __float_as_uint(x);
  if (standin_is_nan(x)) return 0x7FFF;
  return static_cast<unsigned short>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}
static inline unsigned short to_float16(float x) {
  if (standin_is_nan(x)) return 0x7FFF;
  const unsigned bits = __float_as_uint(x), sign = bits >> 16 & 0x8000, size = bits & 0x7FFFFFFF;
  if (size >= 0x477FF000) return static_cast<unsigned short>(sign | 0x7C00);  // from 65520 on
  // Below 2^-14 the sum with 0.5 rounds to a multiple of 2^-24, and its last bits count these.
  if (size < 0x38800000)
    return static_cast<unsigned short>(
        sign | (__float_as_uint(__uint_as_float(size) + 0.5f) - 0x3F000000));
  return static_cast<unsigned short>(sign | ((size - 0x38000000 + 0xFFF + (size >> 13 & 1)) >> 13));
}
static inline float from_float16(unsigned short bits) {
  const unsigned sign = (bits & 0x8000u) << 16, size = (bits & 0x7FFFu) << 13;
  if (size > 0x7C00u << 13) return __uint_as_float(0x7FFFFFFF);
  if (size == 0x7C00u << 13) return __uint_as_float(sign | 0x7F800000);
  return __uint_as_float(sign | __float_as_uint(__uint_as_float(size) * 0x1p112f));
}

// ---- functions: series in double, to nearest but for the last bit

static inline float exp2_near(float x) {
  if (standin_is_nan(x)) return x;
  if (x >= 128) return __uint_as_float(0x7F800000);
  if (x < -126) return 0;
  const int whole = static_cast<int>(x < 0 ? x - 0.5f : x + 0.5f);
  const double rest = (x - whole) * 0.6931471805599453;
  double y = 1;
  for (int n = 11; n > 0; --n) y = 1 + y * rest / n;
  return static_cast<float>(y * standin_bit_cast<double>((1023ll + whole) << 52));
}
static inline float log2_near(float x) {
  const float infinity = __uint_as_float(0x7F800000);
  if (standin_is_nan(x) || x == infinity) return x;
  const unsigned bits = __float_as_uint(x);
  if ((bits & 0x7FFFFFFF) < 0x00800000) return -infinity;
  if (x < 0) return __uint_as_float(0x7FFFFFFF);
  const int whole = static_cast<int>(bits - 0x3F3504F3) >> 23;  // from sqrt(0.5) on
  const double part = __uint_as_float(bits - (static_cast<unsigned>(whole) << 23));
  const double ratio = (part - 1) / (part + 1), square = ratio * ratio;
  double y = 0;
  for (int n = 17; n > 0; n -= 2) y = 1.0 / n + y * square;
  return static_cast<float>(whole + 2 * ratio * y * 1.4426950408889634);
}

// ---- products of matrices

struct Bfloat16 {
  static constexpr int of_word = 2;
  static double value(unsigned word, int i) { return __uint_as_float(word >> (16 * i) << 16); }
};
struct Float16 {
  static constexpr int of_word = 2;
  static double value(unsigned word, int i) {
    return from_float16(static_cast<unsigned short>(word >> (16 * i)));
  }
};
struct Tfloat32 {  // the hardware ignores the last bits
  static constexpr int of_word = 1;
  static double value(unsigned word, int) { return __uint_as_float(word & 0xFFFFE000); }
};
struct Int8 {
  static constexpr int of_word = 4;
  static double value(unsigned word, int i) { return static_cast<signed char>(word >> (8 * i)); }
};
struct UInt8 {
  static constexpr int of_word = 4;
  static double value(unsigned word, int i) { return static_cast<unsigned char>(word >> (8 * i)); }
};

static inline float standin_sum(float sum, double products) {
  return static_cast<float>(sum + products);
}
static inline int standin_sum(int sum, double products) {  // which wraps
  return static_cast<int>(static_cast<unsigned>(sum) +
                          static_cast<unsigned>(static_cast<int>(products)));
}

template <class Sum>
struct StandinFragments {
  const unsigned *a, *b;
  Sum* sums;
};
// Products are exact in double, and their sums nearly so.
template <class T, class Sum>
static void standin_multiply_add(void* const* operands) {
  typedef double Columns __attribute__((vector_size(32)));
  constexpr int n = T::of_word, depth = 8 * n;
  double a[16][depth];
  union {
    double numbers[depth][8];
    Columns columns[depth][2];
  } b;
  for (int lane = 0; lane < 32; ++lane) {
    const auto& own = *static_cast<const StandinFragments<Sum>*>(operands[lane]);
    const int g = lane / 4, t = lane % 4;
    for (int w = 0; w < 4; ++w)
      for (int i = 0; i < n; ++i) a[g + w % 2 * 8][(t + w / 2 * 4) * n + i] = T::value(own.a[w], i);
    for (int w = 0; w < 2; ++w)
      for (int i = 0; i < n; ++i) b.numbers[(t + w * 4) * n + i][g] = T::value(own.b[w], i);
  }
  for (int row = 0; row < 16; ++row) {
    union {
      Columns columns[2];
      double numbers[8];
    } products;
    Columns left{}, right{};
    for (int k = 0; k < depth; ++k) {
      left += a[row][k] * b.columns[k][0];
      right += a[row][k] * b.columns[k][1];
    }
    products.columns[0] = left;
    products.columns[1] = right;
    for (int column = 0; column < 8; ++column) {
      const int lane = row % 8 * 4 + column / 2;
      Sum& sum =
          static_cast<StandinFragments<Sum>*>(operands[lane])->sums[row / 8 * 2 + column % 2];
      sum = standin_sum(sum, products.numbers[column]);
    }
  }
}

#define STANDIN_PRODUCT(Type, Sum)                                                           \
  static inline void multiply_add(Type, Sum(&sums)[4], const unsigned (&a)[4],               \
                                  const unsigned (&b)[2], int line = __builtin_LINE()) {     \
    StandinFragments<Sum> own{a, b, sums};                                                   \
    standin_wait_for_warp("multiply_add", line, ~0u, standin_multiply_add<Type, Sum>, &own); \
  }
STANDIN_PRODUCT(Bfloat16, float)
STANDIN_PRODUCT(Float16, float)
STANDIN_PRODUCT(Tfloat32, float)
STANDIN_PRODUCT(Int8, int)
STANDIN_PRODUCT(UInt8, int)
#undef STANDIN_PRODUCT

// ---- numbers

static inline int __float_as_int(float x) { return standin_bit_cast<int>(x); }
static inline float __int_as_float(int x) { return standin_bit_cast<float>(x); }
static inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>(static_cast<unsigned long long>(a) * b >> 32);
}
static inline int __ffs(int x) { return __builtin_ffs(x); }
// Without functions of libgcc, which kernels are not linked with.
static inline int __popc(unsigned x) {
  int count = 0;
  for (; x != 0; x &= x - 1) ++count;
  return count;
}
static inline unsigned __brev(unsigned x) {
  unsigned reversed = 0;
  for (int i = 0; i < 32; ++i) reversed |= (x >> i & 1) << (31 - i);
  return reversed;
}

// A NaN gives the other one, and +0 is larger than -0.
template <class T>
static inline T standin_larger(T x, T y) {
  if (x != x || y != y) return x != x ? y : x;
  return x == y ? (__builtin_signbit(x) ? y : x) : x > y ? x : y;
}
template <class T>
static inline T standin_smaller(T x, T y) {
  if (x != x || y != y) return x != x ? y : x;
  return x == y ? (__builtin_signbit(x) ? x : y) : x < y ? x : y;
}
static inline float fabsf(float x) { return __builtin_fabsf(x); }
static inline float fmaxf(float x, float y) { return standin_larger(x, y); }
static inline float fminf(float x, float y) { return standin_smaller(x, y); }
static inline float max(float x, float y) { return standin_larger(x, y); }
static inline float min(float x, float y) { return standin_smaller(x, y); }
static inline double max(double x, double y) { return standin_larger(x, y); }
static inline double min(double x, double y) { return standin_smaller(x, y); }
#define STANDIN_MIN_MAX(A, B, T)                                      \
  static inline T max(A x, B y) { return T(x) > T(y) ? T(x) : T(y); } \
  static inline T min(A x, B y) { return T(x) < T(y) ? T(x) : T(y); }
#define STANDIN_INTEGERS(Signed, Unsigned)      \
  STANDIN_MIN_MAX(Signed, Signed, Signed)       \
  STANDIN_MIN_MAX(Unsigned, Unsigned, Unsigned) \
  STANDIN_MIN_MAX(Signed, Unsigned, Unsigned)   \
  STANDIN_MIN_MAX(Unsigned, Signed, Unsigned)
using StandinLong = long long;
using StandinULong = unsigned long long;
STANDIN_INTEGERS(int, unsigned)
STANDIN_INTEGERS(StandinLong, StandinULong)
#undef STANDIN_INTEGERS
#undef STANDIN_MIN_MAX

#define STANDIN_VECTOR(T, name, bytes)                              \
  struct __align__(2 * bytes) name##2 { T x, y; };                  \
  struct __align__(4 * bytes) name##4 { T x, y, z, w; };            \
  static inline name##2 make_##name##2(T x, T y) { return {x, y}; } \
  static inline name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
STANDIN_VECTOR(int, int, 4)
STANDIN_VECTOR(unsigned, uint, 4)
STANDIN_VECTOR(float, float, 4)
#undef STANDIN_VECTOR

// ---- memory: one thread runs at a time

static inline void __threadfence() {}
template <class T>
static inline T __ldg(const T* from) {
  return *from;
}
#define STANDIN_ATOMIC(name, T, value)   \
  static inline T name(T* at, T other) { \
    const T old = *at;                   \
    *at = value;                         \
    return old;                          \
  }
#define STANDIN_ATOMICS(T)                                   \
  STANDIN_ATOMIC(atomicAdd, T, T(StandinULong(old) + other)) \
  STANDIN_ATOMIC(atomicMax, T, old > other ? old : other)    \
  STANDIN_ATOMIC(atomicExch, T, other)                       \
  static inline T atomicCAS(T* at, T expected, T other) {    \
    const T old = *at;                                       \
    if (old == expected) *at = other;                        \
    return old;                                              \
  }
STANDIN_ATOMICS(int)
STANDIN_ATOMICS(unsigned)
STANDIN_ATOMICS(StandinULong)
STANDIN_ATOMIC(atomicAdd, float, old + other)
#undef STANDIN_ATOMICS
#undef STANDIN_ATOMIC
