// The loop of an elementwise kernel: rows of operands, or an element repeated, through a functor of
// math.h.
#pragma once

#include <utility>

#include "cpu/math/math.h"
#include "cpu/schedule/levels.h"

namespace tinyt::cpu {
namespace {  // internal linkage, see levels.h

// Values of one byte are bools, of which any byte but 0 is true; kernels compute with 0 and 1.
template <class V>
TINYT_INLINE V truth_values(V x) {
  if constexpr (kIsBool<V>) return select((Mask<V>)(x != 0), V{} + 1, V{});
  return x;
}

// How operand `Index` is read: values of T, or a condition on values of T.
template <class T, int Index>
struct Values {
  static constexpr int kIndex = Index;
  using Item = T;
  static TINYT_INLINE Vec<T> whole(const void* p) { return truth_values(load<T>(p)); }
  static TINYT_INLINE Vec<T> part(const void* p, int64_t n) {
    return truth_values(load_part<T>(p, n));
  }
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
#if defined(TINYT_JOIN_MASKS)
  template <class M>
    requires(sizeof(Element<M>) >= 4)
  static TINYT_INLINE void several(void* p, const M (&v)[4]) {
    store(p, join_masks(v[0], v[1], v[2], v[3]) & 1);
  }
#endif
};

// Light ops take two cache lines in one turn of the loop, with as little else as can be.
constexpr int64_t kAtOnce = TINYT_VECTOR_BYTES == 64 ? 2 : 4;  // registers
#if defined(TINYT_JOIN_MASKS)
static_assert(kAtOnce == 4);  // as ToBools::several takes them
#endif

// How many elements that was.
template <class Op, class V, class Result, class... Operands>
TINYT_INLINE int64_t run_lines(char* out, int64_t n, Operands... operand) {
  constexpr int64_t kLength = kLanes<V>;
  int64_t i = 0;
  for (; i + kAtOnce * kLength <= n; i += kAtOnce * kLength, out += kAtOnce * Result::kStep) {
    const auto value = [&](int64_t k) { return Op::apply(operand.get(i + k * kLength)...); };
    if constexpr (requires { Result::several(out, {value(0), value(0), value(0), value(0)}); }) {
      Result::several(out, {value(0), value(1), value(2), value(3)});
    } else {
#pragma GCC unroll 4
      for (int64_t k = 0; k < kAtOnce; ++k) Result::whole(out + k * Result::kStep, value(k));
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
TINYT_INLINE int64_t run_light(char* out, int64_t n, size_t dense, const Sources&... source) {
  constexpr size_t kOperands = sizeof...(Sources);
  if (dense == Dense) {
    return run_held<Op, V, Result, Dense>(out, n, std::make_index_sequence<kOperands>{}, source...);
  }
  if constexpr (Dense < kOperands) {
    return run_light<Op, V, Result, Dense + 1>(out, n, dense, source...);
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
template <class Op, class V, class Result, bool Light, class... Sources>
TINYT_INLINE void run_row(char* out, int64_t n, size_t dense, Sources... source) {
  if constexpr (Light) {
    const int64_t done = run_light<Op, V, Result, 1>(out, n, dense, source...);
    n -= done;
    out += done / kLanes<V> * Result::kStep;
    (source.skip(done / kLanes<V>), ...);
  }
  for (; n >= kLanes<V>; n -= kLanes<V>, out += Result::kStep) {
    Result::whole(out, Op::apply(source.next()...));
  }
  if (n != 0) Result::part(out, Op::apply(source.first(n)...), n);
}

template <class Op, class T, class Result, bool Light, class... Operands>
void run(const TileArgs& args) {
  alignas(TINYT_VECTOR_BYTES) char copies[sizeof...(Operands)][TINYT_VECTOR_BYTES];
  // The widest registers are faster one by one in several rows, and in pieces that are streamed:
  // with more loads under way, those pieces wait to get out.
  constexpr int64_t kLongRow = kPageBytes / static_cast<int64_t>(sizeof(T));
  const bool long_row = args.rows == 1 && args.cols >= kLongRow;
  const bool in_lines = Light && (TINYT_VECTOR_BYTES < 64 || long_row);
  const size_t dense = in_lines ? leading_rows(args.inner, sizeof...(Operands)) : 0;
  for (int64_t r = 0; r < args.rows; ++r) {
    run_row<Op, Vec<T>, Result, Light>(args.ptr[0] + r * args.row_stride[0], args.cols, dense,
                                       Source<Operands, kLanes<Vec<T>>>(args, r, copies)...);
  }
}

}  // namespace
}  // namespace tinyt::cpu
