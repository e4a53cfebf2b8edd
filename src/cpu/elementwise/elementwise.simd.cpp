// Scalar ops over tiles: one loop per functor and dtype; and conversions between dtypes. The
// functors are in math.h, the loop is in row_kernels.h, the conversion of one value in convert.h.
#include <type_traits>

#include "cpu/elementwise/row_kernels.h"
#include "cpu/math/math.h"
#include "cpu/math/scalar_rows.h"
#include "cpu/reduce/load_convert.h"
#include "cpu/schedule/levels.h"
#include "cpu/simd/convert.h"

namespace tinyt::cpu {
namespace {

template <class Op, class T, int Arity, DTypeRule Rule, uint32_t Flags>
constexpr TileKernel kernel_of() {
  using V = Vec<T>;
  using Result = std::conditional_t<Rule == DTypeRule::Bool, ToBools<V>, ToValues<V>>;
  constexpr bool kLight = (Flags & op_flags::cheap) != 0;
  if constexpr (!takes<T>(Rule, Flags)) {
    return nullptr;
  } else if constexpr (Arity == 1) {
    return run<Op, T, Result, kLight, Values<T, 1>>;
  } else if constexpr (Arity == 2) {
    return run<Op, T, Result, kLight, Values<T, 1>, Values<T, 2>>;
  } else if constexpr ((Flags & op_flags::predicate_first) != 0) {
    return run<Op, T, Result, kLight, Conditions<T, 1>, Values<T, 2>, Values<T, 3>>;
  } else if constexpr (Arity == 3) {
    return run<Op, T, Result, kLight, Values<T, 1>, Values<T, 2>, Values<T, 3>>;
  } else {
    return run<Op, T, Result, kLight, Values<T, 1>, Values<T, 2>, Values<T, 3>, Values<T, 4>>;
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
constexpr TileKernel kHalfKernel = run<Op, uint16_t, ToValues<U16>, false, Values<uint16_t, 1>>;

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
#define TINYT_UNARY_HALF(name)                     \
  t.kernel[static_cast<int>(OpId::name)][kDType] = \
      run<op::name, float, ToHalves<S>, false, Halves<S, 1>>;
#define TINYT_BINARY_HALF(name)                    \
  t.kernel[static_cast<int>(OpId::name)][kDType] = \
      run<op::name, float, ToHalves<S>, true, Halves<S, 1>, Halves<S, 2>>;
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
  if constexpr (__is_same(To, From) && !__is_same(To, BoolByte)) {
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

void round_to_brain(const void* from, void* to, int64_t n) {
  const auto rounded = [](F32 x) {
    const U32 f = bit_cast<U32>(x);
    const U32 r = (f + 0x7FFF + (f >> 16 & 1)) & 0xFFFF0000;
    return bit_cast<F32>(select(bit_cast<Mask<U32>>(x != x), U32{} + 0x7FC00000, r));
  };
  const auto* in = static_cast<const float*>(from);
  auto* out = static_cast<float*>(to);
  int64_t i = 0;
  for (; i + kLanes<F32> <= n; i += kLanes<F32>) store(out + i, rounded(load<float>(in + i)));
  if (i < n) store_part(out + i, rounded(load_part<float>(in + i, n - i)), n - i);
}
void round_to_half(const void* from, void* to, int64_t n) {
  constexpr int64_t kPiece = 512;
  Half piece[kPiece];
  for (int64_t i = 0; i < n; i += kPiece) {
    const int64_t items = n - i < kPiece ? n - i : kPiece;
    cast_loop<Half, float>(static_cast<const float*>(from) + i, piece, items);
    cast_loop<float, Half>(piece, static_cast<float*>(to) + i, items);
  }
}
void narrow_to_brain(const void* from, void* to, int64_t n) {
  const uint32_t* __restrict in = static_cast<const uint32_t*>(from);
  uint16_t* __restrict out = static_cast<uint16_t*>(to);
  for (int64_t i = 0; i < n; ++i) out[i] = static_cast<uint16_t>(in[i] >> 16);
}

template <DType D>
struct StorageOf;
#define TINYT_DTYPE(id, name, alias, storage, ...)                                \
  template <>                                                                     \
  struct StorageOf<DType::id> {                                                   \
    using type = std::conditional_t<DType::id == DType::Bool, BoolByte, storage>; \
  };
#include "core/base/dtype.def"
#undef TINYT_DTYPE

template <DType From>
constexpr void fill_casts(CastKernel (&row)[kDTypeCount]) {
#define TINYT_DTYPE(id, ...)         \
  row[static_cast<int>(DType::id)] = \
      cast_loop<typename StorageOf<DType::id>::type, typename StorageOf<From>::type>;
#include "core/base/dtype.def"
#undef TINYT_DTYPE
}

constexpr ElementwiseTable make_table() {
  using namespace op_flags;
  ElementwiseTable t{};
#define SCALAR_OP(name, arity, rule, flags, attributes) \
  fill_kernels<op::name, arity, DTypeRule::rule, flags>(t.kernel[static_cast<int>(OpId::name)]);
#define STRUCT_OP(...)
#define REDUCE_OP(...)
#include "core/ops/ops.def"
#undef SCALAR_OP
#undef STRUCT_OP
#undef REDUCE_OP
  fill_half_kernels(t);
#define TINYT_DTYPE(id, ...) fill_casts<DType::id>(t.cast[static_cast<int>(DType::id)]);
#include "core/base/dtype.def"
#undef TINYT_DTYPE
  constexpr auto kHalf = static_cast<int>(DType::Float16),
                 kBrain = static_cast<int>(DType::BFloat16);
  t.round[kHalf] = round_to_half;
  t.round[kBrain] = round_to_brain;
  t.narrow[kHalf] = cast_loop<Half, float>;
  t.narrow[kBrain] = narrow_to_brain;
  return t;
}

}  // namespace

extern "C" constinit const ElementwiseTable TINYT_TABLE(elementwise) = make_table();

}  // namespace tinyt::cpu
