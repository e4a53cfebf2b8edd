// Scalar ops over tiles: one loop per functor and dtype; and conversions between dtypes. The
// functors are in math.h, the conversion of one value is in convert.h.
#include <type_traits>
#include <utility>

#include "convert.h"
#include "levels.h"
#include "math.h"
#include "stored.h"

namespace tinyt::cpu {
namespace {

// How operand `Index` is read: values of T, or a condition on values of T.
template <class T, int Index>
struct Values {
  static constexpr int kIndex = Index;
  using Item = T;
  static TINYT_INLINE Vec<T> whole(const void* p) { return load<T>(p); }
  static TINYT_INLINE Vec<T> part(const void* p, int64_t n) { return load_part<T>(p, n); }
  static TINYT_INLINE Vec<T> repeated(T x) { return splat(x); }
};
template <class T, int Index>
struct Conditions {
  static constexpr int kIndex = Index;
  using Item = uint8_t;
  static TINYT_INLINE Mask<Vec<T>> whole(const void* p) { return load_mask<Vec<T>>(p); }
  static TINYT_INLINE Mask<Vec<T>> part(const void* p, int64_t n) {
    return load_mask_part<Vec<T>>(p, n);
  }
  static TINYT_INLINE B8 repeated(uint8_t x) { return splat(x); }
};

// One operand in the row in work. A repeated element is read again and again from a register's
// worth of copies, so that all operands look alike.
template <class Op, int Lanes>
struct Source {
  using Operand = Op;
  using Item = typename Operand::Item;
  const char* at;
  int64_t step;

  TINYT_INLINE Source(const TileArgs& args, int64_t row, char (*copies)[TINYT_VECTOR_BYTES])
      : at(args.ptr[Operand::kIndex] + row * args.row_stride[Operand::kIndex]),
        step(Lanes * static_cast<int64_t>(sizeof(Item))) {
    if (args.inner[Operand::kIndex] != 0 || args.cols == 0) return;
    Item x;
    __builtin_memcpy(&x, at, sizeof x);
    at = copies[Operand::kIndex - 1];
    step = 0;
    store(copies[Operand::kIndex - 1], Operand::repeated(x));
  }
  TINYT_INLINE auto next() {
    const auto v = Operand::whole(at);
    at += step;
    return v;
  }
  TINYT_INLINE auto first(int64_t n) const { return Operand::part(at, n); }
  TINYT_INLINE void skip(int64_t registers) { at += registers * step; }
};

// The same where it is known whether the element is repeated: then it stays in a register.
template <class Operand, bool Repeated>
struct Held {
  const char* at;
  decltype(Operand::whole(nullptr)) value{};

  explicit TINYT_INLINE Held(const char* from) : at(from) {
    if constexpr (Repeated) value = Operand::whole(at);
  }
  TINYT_INLINE auto get(int64_t i) const {
    if constexpr (Repeated) return value;
    if constexpr (!Repeated) {
      return Operand::whole(at + i * static_cast<int64_t>(sizeof(typename Operand::Item)));
    }
  }
};

// How results are written: as they are, or a test's lane mask as bools.
template <class V>
struct ToValues {
  static constexpr int64_t kStep = sizeof(V);
  static TINYT_INLINE void whole(void* p, V v) { store(p, v); }
  static TINYT_INLINE void part(void* p, V v, int64_t n) { store_part(p, v, n); }
};
template <class V>
struct ToBools {
  static constexpr int64_t kStep = kLanes<V>;
  static TINYT_INLINE void whole(void* p, Mask<V> v) { store_mask(p, v); }
  static TINYT_INLINE void part(void* p, Mask<V> v, int64_t n) { store_mask_part(p, v, n); }
};

// Ops of a few instructions, whose time is that of their loads and stores: two cache lines in one
// turn of the loop, with as little else as can be.
template <class Op, class... Ops>
constexpr bool is_one_of = (__is_same(Op, Ops) || ...);
template <class Op>
constexpr bool kSimple = is_one_of<Op, op::neg, op::abs, op::square, op::relu, op::add, op::sub,
                                   op::mul, op::clamp_min, op::clamp_max, op::maximum, op::minimum,
                                   op::where, op::clamp, op::addcmul, op::relu_backward>;
constexpr int64_t kAtOnce = TINYT_VECTOR_BYTES == 64 ? 2 : 4;  // registers

// How many elements that was.
template <class Op, class V, class Result, class... Operands>
TINYT_INLINE int64_t run_lines(char* out, int64_t n, Operands... operand) {
  constexpr int64_t kLength = kLanes<V>;
  int64_t i = 0;
  for (; i + kAtOnce * kLength <= n; i += kAtOnce * kLength, out += kAtOnce * Result::kStep) {
#pragma GCC unroll 4
    for (int64_t k = 0; k < kAtOnce; ++k) {
      Result::whole(out + k * Result::kStep, Op::apply(operand.get(i + k * kLength)...));
    }
  }
  return i;
}

template <class T>
TINYT_INLINE T first_item(const char* p) {
  T x;
  __builtin_memcpy(&x, p, sizeof x);
  return x;
}

// The first `Dense` operands are rows, the others repeat an element. Bounds that need no care have
// a form of their own.
template <class Op, class V, class Result, size_t Dense, size_t... I, class... Sources>
TINYT_INLINE int64_t run_held(char* out, int64_t n, std::index_sequence<I...>,
                              const Sources&... source) {
  if constexpr (kIsFloat<V> && Dense == 1 && requires { typename Op::Plain; }) {
    if (((I == 0 || op::is_plain_bound(first_item<Element<V>>(source.at))) && ...)) {
      return run_lines<typename Op::Plain, V, Result>(
          out, n, Held<typename Sources::Operand, (I >= Dense)>(source.at)...);
    }
  }
  return run_lines<Op, V, Result>(out, n,
                                  Held<typename Sources::Operand, (I >= Dense)>(source.at)...);
}
template <class Op, class V, class Result, size_t Dense, class... Sources>
TINYT_INLINE int64_t run_simple(char* out, int64_t n, size_t dense, const Sources&... source) {
  constexpr size_t kOperands = sizeof...(Sources);
  if (dense == Dense) {
    return run_held<Op, V, Result, Dense>(out, n, std::make_index_sequence<kOperands>{}, source...);
  }
  if constexpr (Dense < kOperands) {
    return run_simple<Op, V, Result, Dense + 1>(out, n, dense, source...);
  } else {
    return 0;
  }
}

// How many operands come before those that repeat an element; 0 where the two are mixed.
TINYT_INLINE size_t leading_rows(const uint8_t* inner, size_t operands) {
  size_t rows = 0;
  while (rows < operands && inner[rows + 1] != 0) ++rows;
  for (size_t k = rows; k < operands; ++k) {
    if (inner[k + 1] != 0) return 0;
  }
  return rows;
}

// A row of the output.
template <class Op, class V, class Result, class... Sources>
TINYT_INLINE void run_row(char* out, int64_t n, size_t dense, Sources... source) {
  if constexpr (kSimple<Op>) {
    const int64_t done = run_simple<Op, V, Result, 1>(out, n, dense, source...);
    n -= done;
    out += done / kLanes<V> * Result::kStep;
    (source.skip(done / kLanes<V>), ...);
  }
  for (; n >= kLanes<V>; n -= kLanes<V>, out += Result::kStep) {
    Result::whole(out, Op::apply(source.next()...));
  }
  if (n != 0) Result::part(out, Op::apply(source.first(n)...), n);
}

template <class Op, class T, class Result, class... Operands>
void run(const TileArgs& args) {
  alignas(TINYT_VECTOR_BYTES) char copies[sizeof...(Operands)][TINYT_VECTOR_BYTES];
  // Of the widest registers several short rows are faster one by one.
  const bool simple = kSimple<Op> && (TINYT_VECTOR_BYTES < 64 || args.rows == 1);
  const size_t dense = simple ? leading_rows(args.inner, sizeof...(Operands)) : 0;
  for (int64_t r = 0; r < args.rows; ++r) {
    run_row<Op, Vec<T>, Result>(args.ptr[0] + r * args.row_stride[0], args.cols, dense,
                                Source<Operands, kLanes<Vec<T>>>(args, r, copies)...);
  }
}

// Whether an op of that row of ops.def has a kernel for the compute dtype T.
template <class T>
constexpr bool takes(DTypeRule rule, uint32_t flags) {
  constexpr bool kFloat = static_cast<T>(0.5) != 0, kBool = sizeof(T) == 1;
  if ((rule == DTypeRule::Float || (flags & op_flags::T) != 0) && !kFloat) return false;
  if ((flags & op_flags::N) != 0 && kBool) return false;
  return (flags & op_flags::I) == 0 || !kFloat;
}

template <class Op, class T, int Arity, DTypeRule Rule, uint32_t Flags>
constexpr TileKernel kernel_of() {
  using V = Vec<T>;
  using Result = std::conditional_t<Rule == DTypeRule::Bool, ToBools<V>, ToValues<V>>;
  if constexpr (!takes<T>(Rule, Flags)) {
    return nullptr;
  } else if constexpr (Arity == 1) {
    return run<Op, T, Result, Values<T, 1>>;
  } else if constexpr (Arity == 2) {
    return run<Op, T, Result, Values<T, 1>, Values<T, 2>>;
  } else if constexpr ((Flags & op_flags::K) != 0) {
    return run<Op, T, Result, Conditions<T, 1>, Values<T, 2>, Values<T, 3>>;
  } else if constexpr (Arity == 3) {
    return run<Op, T, Result, Values<T, 1>, Values<T, 2>, Values<T, 3>>;
  } else {
    return run<Op, T, Result, Values<T, 1>, Values<T, 2>, Values<T, 3>, Values<T, 4>>;
  }
}

template <class Op, int Arity, DTypeRule Rule, uint32_t Flags>
constexpr void fill_kernels(TileKernel (&row)[kDTypeCount]) {
  row[static_cast<int>(DType::Float32)] = kernel_of<Op, float, Arity, Rule, Flags>();
  row[static_cast<int>(DType::Float64)] = kernel_of<Op, double, Arity, Rule, Flags>();
  row[static_cast<int>(DType::Int64)] = kernel_of<Op, int64_t, Arity, Rule, Flags>();
  row[static_cast<int>(DType::Bool)] = kernel_of<Op, uint8_t, Arity, Rule, Flags>();
}

// What only looks at signs takes halves as bits: no conversions, and half the memory in L1.
struct NegHalf {
  static TINYT_INLINE U16 apply(U16 x) { return x ^ 0x8000; }
};
struct AbsHalf {
  static TINYT_INLINE U16 apply(U16 x) { return x & 0x7FFF; }
};
template <uint16_t Inf>  // 0 for all from the least negative number down to -inf; a NaN stays
struct ReluHalf {
  static TINYT_INLINE U16 apply(U16 x) { return select((Mask<U16>)(x - 0x8001 < Inf), U16{}, x); }
};
template <class Op>
constexpr TileKernel kHalfKernel = run<Op, uint16_t, ToValues<U16>, Values<uint16_t, 1>>;

#if defined(TINYT_NATIVE_HALF)
// The commonest functions of halves convert in registers; others, of which a copy for each dtype
// would be too much code, convert through tiles.
template <class S, int Index>
struct Halves {
  static constexpr int kIndex = Index;
  using Item = S;
  static TINYT_INLINE F32 whole(const void* p) { return load_lanes<S, float, kLanes<F32>>(p); }
  static TINYT_INLINE F32 part(const void* p, int64_t n) {
    return load_lanes_part<S, float, kLanes<F32>>(p, n);
  }
  static TINYT_INLINE U16 repeated(S x) { return splat(x.bits); }
};
template <class S>
struct ToHalves {
  static constexpr int64_t kStep = sizeof(F32) / 2;
  static TINYT_INLINE void whole(void* p, F32 v) {
    if constexpr (__is_same(S, Half)) store_half(p, v);
    if constexpr (__is_same(S, BFloat16)) store_brain(p, v);
  }
  static TINYT_INLINE void two(S* p, F32 a, F32 b) {
    if constexpr (__is_same(S, BFloat16)) return store_words(p, brain_bits(a), brain_bits(b));
    whole(p, a);
    whole(p + kLanes<F32>, b);
  }
  static TINYT_INLINE void part(void* p, F32 v, int64_t n) {
    S rest[kLanes<F32>];
    whole(rest, v);
    __builtin_memcpy(p, rest, static_cast<size_t>(n) * sizeof(S));
  }
};
template <class S>
constexpr void fill_converting(ElementwiseTable& t) {
  constexpr int kDType = static_cast<int>(__is_same(S, Half) ? DType::Float16 : DType::BFloat16);
#define TINYT_UNARY_HALF(name) \
  t.kernel[static_cast<int>(OpId::name)][kDType] = run<op::name, float, ToHalves<S>, Halves<S, 1>>;
#define TINYT_BINARY_HALF(name)                    \
  t.kernel[static_cast<int>(OpId::name)][kDType] = \
      run<op::name, float, ToHalves<S>, Halves<S, 1>, Halves<S, 2>>;
  TINYT_UNARY_HALF(sqrt)
  TINYT_UNARY_HALF(exp)
  TINYT_UNARY_HALF(sigmoid)
  TINYT_UNARY_HALF(tanh)
  TINYT_UNARY_HALF(silu)
  TINYT_UNARY_HALF(gelu)
  TINYT_BINARY_HALF(add)
  TINYT_BINARY_HALF(sub)
  TINYT_BINARY_HALF(mul)
  TINYT_BINARY_HALF(div)
#undef TINYT_UNARY_HALF
#undef TINYT_BINARY_HALF
}
#endif

constexpr void fill_half_kernels(ElementwiseTable& t) {
  constexpr int kHalf = static_cast<int>(DType::Float16),
                kBrain = static_cast<int>(DType::BFloat16);
  auto& neg = t.kernel[static_cast<int>(OpId::neg)];
  auto& abs = t.kernel[static_cast<int>(OpId::abs)];
  auto& relu = t.kernel[static_cast<int>(OpId::relu)];
  neg[kHalf] = neg[kBrain] = kHalfKernel<NegHalf>;
  abs[kHalf] = abs[kBrain] = kHalfKernel<AbsHalf>;
  relu[kHalf] = kHalfKernel<ReluHalf<0x7C00>>;
  relu[kBrain] = kHalfKernel<ReluHalf<0x7F80>>;
#if defined(TINYT_NATIVE_HALF)
  fill_converting<Half>(t);
  fill_converting<BFloat16>(t);
#endif
}

template <class To, class From>
void cast_loop(const void* from, void* to, int64_t n) {
  if constexpr (__is_same(To, From)) {
    __builtin_memcpy(to, from, static_cast<size_t>(n) * sizeof(To));
  } else {
    const From* __restrict in = static_cast<const From*>(from);
    To* __restrict out = static_cast<To*>(to);
    for (int64_t i = 0; i < n; ++i) out[i] = convert<To>(in[i]);
  }
}

#if defined(TINYT_NATIVE_HALF)
template <>
void cast_loop<float, Half>(const void* from, void* to, int64_t n) {
  const auto* in = static_cast<const Half*>(from);
  auto* out = static_cast<float*>(to);
  int64_t i = 0;
  for (; i + kLanes<F32> <= n; i += kLanes<F32>) store(out + i, load_half(in + i));
  if (i == n) return;
  Half rest[kLanes<F32>] = {};
  __builtin_memcpy(rest, in + i, static_cast<size_t>(n - i) * sizeof(Half));
  store_part(out + i, load_half(rest), n - i);
}
template <class S>
TINYT_INLINE void narrow_loop(const void* from, void* to, int64_t n) {
  constexpr int64_t kLength = kLanes<F32>;
  const auto* in = static_cast<const float*>(from);
  auto* out = static_cast<S*>(to);
  int64_t i = 0;
#pragma GCC unroll 2
  for (; i + 2 * kLength <= n; i += 2 * kLength) {
    ToHalves<S>::two(out + i, load<float>(in + i), load<float>(in + i + kLength));
  }
  for (; i < n; i += kLength) {
    const int64_t items = n - i < kLength ? n - i : kLength;
    ToHalves<S>::part(out + i, load_part<float>(in + i, items), items);
  }
}
template <>
void cast_loop<Half, float>(const void* from, void* to, int64_t n) {
  narrow_loop<Half>(from, to, n);
}
template <>
void cast_loop<BFloat16, float>(const void* from, void* to, int64_t n) {
  narrow_loop<BFloat16>(from, to, n);
}
#endif

#if defined(TINYT_JOIN_MASKS)
template <>
void cast_loop<BoolByte, float>(const void* from, void* to, int64_t n) {
  const auto* in = static_cast<const float*>(from);
  auto* out = static_cast<uint8_t*>(to);
  const auto set = [&](int64_t i) { return (I32)(load<float>(in + i) != 0); };
  int64_t i = 0;
  for (; i + kLanes<B8> <= n; i += kLanes<B8>) {
    store(out + i, join_masks(set(i), set(i + 8), set(i + 16), set(i + 24)) & 1);
  }
  for (; i < n; ++i) out[i] = in[i] != 0;
}
#endif

template <DType D>
struct StorageOf;
#define TINYT_DTYPE(id, name, alias, storage, ...)                                \
  template <>                                                                     \
  struct StorageOf<DType::id> {                                                   \
    using type = std::conditional_t<DType::id == DType::Bool, BoolByte, storage>; \
  };
#include "../dtype.def"
#undef TINYT_DTYPE

template <DType From>
constexpr void fill_casts(CastKernel (&row)[kDTypeCount]) {
#define TINYT_DTYPE(id, ...)         \
  row[static_cast<int>(DType::id)] = \
      cast_loop<typename StorageOf<DType::id>::type, typename StorageOf<From>::type>;
#include "../dtype.def"
#undef TINYT_DTYPE
}

constexpr ElementwiseTable make_table() {
  using namespace op_flags;
  ElementwiseTable t{};
#define SCALAR_OP(name, arity, rule, flags, attributes) \
  fill_kernels<op::name, arity, DTypeRule::rule, flags>(t.kernel[static_cast<int>(OpId::name)]);
#define STRUCT_OP(...)
#define REDUCE_OP(...)
#include "../ops.def"
#undef SCALAR_OP
#undef STRUCT_OP
#undef REDUCE_OP
  fill_half_kernels(t);
#define TINYT_DTYPE(id, ...) fill_casts<DType::id>(t.cast[static_cast<int>(DType::id)]);
#include "../dtype.def"
#undef TINYT_DTYPE
  return t;
}

}  // namespace

extern "C" constinit const ElementwiseTable TINYT_TABLE(elementwise) = make_table();

}  // namespace tinyt::cpu
