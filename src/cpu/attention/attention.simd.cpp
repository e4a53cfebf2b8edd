// Softmax, online: the part of blocked attention that is no product of matrices. The layouts are in
// levels.h.
#include "cpu/attention/attention_weights.h"
#include "cpu/math/math_log.h"
#include "cpu/simd/transpose.h"

namespace tinyt::cpu {
namespace {

constexpr int kChains = 4;  // maxima side by side: one would wait for itself

// One vector of queries against all keys of the block. Ready: nothing is to be done to the scores.
template <MaskKind Kind, bool Ready, class T>
void weigh_lanes(const AttentionBlock& b, int64_t lane) {
  using V = Vec<T>;
  const int64_t keys = b.keys, lanes = b.lanes;
  T* const scores = static_cast<T*>(b.scores) + lane;
  T* const top = static_cast<T*>(b.top) + lane;
  T* const sum = static_cast<T*>(b.sum) + lane;
  const V before = load<T>(top);
  // Query `lane` of the panel sees keys up to b.diagonal + lane.
  const int64_t seen_by_all = b.diagonal + lane + 1;
  const int64_t full = seen_by_all < 0 ? 0 : seen_by_all < keys ? seen_by_all : keys;
  V tops[kChains];
  for (int i = 0; i < kChains; ++i) tops[i] = before;
  const V scale = splat(static_cast<T>(b.scale));
  const auto score = [&](int64_t k) {
    const V s = load<T>(scores + k * lanes);
    return Ready ? s : masked<Kind, T>(s * scale, b.mask, k * lanes + lane);
  };
  const auto take = [&](int64_t k, V& most_so_far) {
    const V s = score(k);
    if constexpr (!Ready) store(scores + k * lanes, s);
    most_so_far = at_least(most_so_far, s);
  };
  int64_t k = 0;
  for (; k + kChains <= full; k += kChains) {
#pragma GCC unroll 4
    for (int i = 0; i < kChains; ++i) take(k + i, tops[i]);
  }
  for (; k < full; ++k) take(k, tops[0]);
  V most = at_least(at_least(tops[3], tops[2]), at_least(tops[1], tops[0]));
  for (; k < keys; ++k) {
    const V seen = select(up_to<T>(k - b.diagonal - lane - 1), splat(-kInf<T>), score(k));
    store(scores + k * lanes, seen);
    most = at_least(most, seen);
  }
  const V base = select(most == -kInf<T>, V{}, most);  // no key seen so far: weights of 0
  V total = {};
  for (k = 0; k < keys; ++k) {
    const V p = weight(load<T>(scores + k * lanes) - base);
    store(scores + k * lanes, p);
    total += p;
  }
  const V factor = weight(before - base);
  store(static_cast<T*>(b.factor) + lane, factor);
  store(top, most);
  store(sum, fma(load<T>(sum), factor, total));
}

template <class T>
void weigh(const AttentionBlock& b) {
  const auto of_lanes = b.kind == MaskKind::Add    ? weigh_lanes<MaskKind::Add, false, T>
                        : b.kind == MaskKind::Keep ? weigh_lanes<MaskKind::Keep, false, T>
                        : b.scale != 1             ? weigh_lanes<MaskKind::None, false, T>
                                                   : weigh_lanes<MaskKind::None, true, T>;
  for (int64_t lane = 0; lane < b.used; lane += kWidth<T>) of_lanes(b, lane);
}

template <class T>
void scale_rows(void* data, int64_t rows, int64_t lanes, const void* factor) {
  for (int64_t lane = 0; lane < lanes; lane += kWidth<T>) {
    const Vec<T> f = load<T>(static_cast<const T*>(factor) + lane);
    T* at = static_cast<T*>(data) + lane;
    for (int64_t r = 0; r < rows; ++r, at += lanes) store(at, load<T>(at) * f);
  }
}

template <class T>
void blend_rows(void* data, int64_t rows, int64_t lanes, const void* factor, const void* add) {
  for (int64_t lane = 0; lane < lanes; lane += kWidth<T>) {
    const Vec<T> f = load<T>(static_cast<const T*>(factor) + lane);
    T* at = static_cast<T*>(data) + lane;
    const T* more = static_cast<const T*>(add) + lane;
    for (int64_t r = 0; r < rows; ++r, at += lanes, more += lanes) {
      store(at, fma(load<T>(at), f, load<T>(more)));
    }
  }
}

template <class T>
void finish(int64_t lanes, const void* top, void* sum, void* log_sum) {
  for (int64_t lane = 0; lane < lanes; lane += kWidth<T>) {
    T* of_lane = static_cast<T*>(sum) + lane;
    const Vec<T> total = load<T>(of_lane);
    store(static_cast<T*>(log_sum) + lane, load<T>(static_cast<const T*>(top) + lane) + log(total));
    store(of_lane, select(total == 0, Vec<T>{}, 1 / total));
  }
}

// ---- backward

template <MaskKind Kind, class T>
void slopes_of_row(const AttentionSlopes& b, int64_t row) {
  using V = Vec<T>;
  T* const scores = static_cast<T*>(b.scores) + row * b.lanes;
  T* const slopes = static_cast<T*>(b.slopes) + row * b.lanes;
  const T of_row = static_cast<const T*>(b.log_sum)[row];
  // A row that sees no key has no weights, whatever its scores.
  const V base = splat(of_row == -kInf<T> ? kInf<T> : of_row);
  const V delta = splat(static_cast<const T*>(b.delta)[row]);
  for (int64_t lane = 0; lane < b.used; lane += kWidth<T>) {
    const V score = masked<Kind, T>(load<T>(scores + lane), b.mask, row * b.mask_row + lane);
    // Not above the sum but for the rounding of both, which is large where scores are.
    V p = weight(at_most(score - base, V{}));
    if (b.diagonal + row < lane + kWidth<T> - 1) {
      p = select(up_to<T>(b.diagonal + row - lane), p, V{});
    }
    store(scores + lane, p);
    store(slopes + lane, p * (load<T>(slopes + lane) - delta));
  }
}

template <class T>
void slopes(const AttentionSlopes& b) {
  const auto of_row = b.kind == MaskKind::Add    ? slopes_of_row<MaskKind::Add, T>
                      : b.kind == MaskKind::Keep ? slopes_of_row<MaskKind::Keep, T>
                                                 : slopes_of_row<MaskKind::None, T>;
  for (int64_t row = 0; row < b.queries; ++row) of_row(b, row);
}

// ---- few queries: rows of keys and values as they lie in memory

template <class T, class F>
TINYT_INLINE T fold(Vec<T> v, const F& combine) {
  T lanes[kLanes<Vec<T>>];
  store(lanes, v);
  for (int64_t half = kWidth<T> / 2; half > 0; half /= 2) {
    for (int64_t i = 0; i < half; ++i) lanes[i] = combine(lanes[i], lanes[i + half]);
  }
  return lanes[0];
}
template <class T>
TINYT_INLINE T sum_lanes(Vec<T> v) {
  return fold<T>(v, [](T a, T b) { return a + b; });
}

template <MaskKind Kind, class T>
void weigh_row_masked(T* scores, const T* mask, int64_t n, T* top, T* sum) {
  using V = Vec<T>;
  const V none = splat(-kInf<T>);
  V most = none;
  const auto each = [n](const auto& body) {
    for (int64_t i = 0; i < n; i += kWidth<T>) body(i, n - i < kWidth<T> ? n - i : kWidth<T>);
  };
  each([&](int64_t i, int64_t count) {
    V s = load_part<T>(scores + i, count);
    if constexpr (Kind == MaskKind::Add) s += load_part<T>(mask + i, count);
    if constexpr (Kind == MaskKind::Keep) s = select(load_part<T>(mask + i, count) != 0, s, none);
    store_part(scores + i, s, count);
    most = at_least(most, select(up_to<T>(count - 1), s, none));
  });
  *top = fold<T>(most, [](T a, T b) { return a > b ? a : b; });
  const V base = splat(*top == -kInf<T> ? T{0} : *top);
  V total = {};
  each([&](int64_t i, int64_t count) {
    const V p = weight(load_part<T>(scores + i, count) - base);
    store_part(scores + i, p, count);
    total += select(up_to<T>(count - 1), p, V{});
  });
  *sum = sum_lanes<T>(total);
}

template <class T>
void weigh_row(MaskKind kind, void* scores, const void* mask, int64_t n, void* top, void* sum) {
  T *s = static_cast<T*>(scores), *t = static_cast<T*>(top), *u = static_cast<T*>(sum);
  const T* m = static_cast<const T*>(mask);
  if (kind == MaskKind::Add) return weigh_row_masked<MaskKind::Add>(s, m, n, t, u);
  if (kind == MaskKind::Keep) return weigh_row_masked<MaskKind::Keep>(s, m, n, t, u);
  weigh_row_masked<MaskKind::None>(s, m, n, t, u);
}

// Keys and values come from memory.
template <class T>
TINYT_INLINE void fetch_ahead(const T* at, int64_t line) {
  __builtin_prefetch(at + kKeysAhead * line);
}

// The sums of the lanes of each register, by the tree of `fold`.
template <class T>
TINYT_INLINE Vec<T> sums_of_lanes(Vec<T> (&v)[kWidth<T>]) {
  transpose(v);
#pragma GCC unroll 4
  for (int64_t half = kWidth<T> / 2; half > 0; half /= 2) {
#pragma GCC unroll 8
    for (int64_t i = 0; i < half; ++i) v[i] += v[i + half];
  }
  return v[0];
}

template <class T, int Lines>
TINYT_INLINE void dot_lines(const T* x, const T* lines, int64_t line, int64_t n, T* out) {
  constexpr int kPointers = (Lines + 3) / 4;  // four lines share one
  const T* at[kPointers];
#pragma GCC unroll 4
  for (int i = 0; i < kPointers; ++i) at[i] = lines + 4 * i * line;
  Vec<T> acc[Lines] = {};
  const auto add = [&](const auto& load_some) {
    const Vec<T> v = load_some(x);
#pragma GCC unroll 16
    for (int l = 0; l < Lines; ++l) {
      const T* from = at[l / 4] + l % 4 * line;
      fetch_ahead(from, line);
      acc[l] = fma(v, load_some(from), acc[l]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < kPointers; ++i) at[i] += kWidth<T>;
    x += kWidth<T>;
    n -= kWidth<T>;
  };
  while (n >= kWidth<T>) add([](const T* p) { return load<T>(p); });
  if (n > 0) add([n](const T* p) { return load_part<T>(p, n); });
  if constexpr (Lines == kWidth<T>) {
    store(out, sums_of_lanes<T>(acc));
  } else {
#pragma GCC unroll 4
    for (int l = 0; l < Lines; ++l) out[l] = sum_lanes<T>(acc[l]);
  }
}

template <class T>
void dots(const void* x, const void* lines, int64_t line, int64_t count, int64_t n, void* out) {
  const T *of_x = static_cast<const T*>(x), *at = static_cast<const T*>(lines);
  T* to = static_cast<T*>(out);
  constexpr int kLines = static_cast<int>(kWidth<T>);
  int64_t l = 0;
  for (; l + kLines <= count; l += kLines) {
    dot_lines<T, kLines>(of_x, at + l * line, line, n, to + l);
  }
  for (; l < count; ++l) dot_lines<T, 1>(of_x, at + l * line, line, n, to + l);
}

// A part of the sum, in as many chains.
template <class T, int Vectors>
TINYT_INLINE void add_part(const T* weights, const T* lines, int64_t line, int64_t count, T* out) {
  Vec<T> acc[Vectors];
#pragma GCC unroll 8
  for (int v = 0; v < Vectors; ++v) acc[v] = load<T>(out + v * kWidth<T>);
  for (int64_t l = 0; l < count; ++l, lines += line) {
    const Vec<T> w = splat(weights[l]);
#pragma GCC unroll 8
    for (int v = 0; v < Vectors; ++v) {
      fetch_ahead(lines + v * kWidth<T>, line);
      acc[v] = fma(w, load<T>(lines + v * kWidth<T>), acc[v]);
    }
  }
#pragma GCC unroll 8
  for (int v = 0; v < Vectors; ++v) store(out + v * kWidth<T>, acc[v]);
}

template <class T>
void add_lines(const void* weights, const void* lines, int64_t line, int64_t count, int64_t n,
               void* out) {
  const T *w = static_cast<const T*>(weights), *at = static_cast<const T*>(lines);
  T* to = static_cast<T*>(out);
  int64_t i = 0;
  const auto add = [&]<int Vectors>() {
    add_part<T, Vectors>(w, at + i, line, count, to + i);
    i += Vectors * kWidth<T>;
  };
  while (i + 8 * kWidth<T> <= n) add.template operator()<8>();
  if (i + 4 * kWidth<T> <= n) add.template operator()<4>();
  if (i + 2 * kWidth<T> <= n) add.template operator()<2>();
  if (i + kWidth<T> <= n) add.template operator()<1>();
  if (i == n) return;
  Vec<T> acc = load_part<T>(to + i, n - i);
  for (int64_t l = 0; l < count; ++l) {
    acc = fma(splat(w[l]), load_part<T>(at + l * line + i, n - i), acc);
  }
  store_part(to + i, acc, n - i);
}

}  // namespace

extern "C" const AttentionTable TINYT_TABLE(attention);
const AttentionTable TINYT_TABLE(attention) = {
    TINYT_BY_FLOAT(weigh),     TINYT_BY_FLOAT(scale_rows), TINYT_BY_FLOAT(blend_rows),
    TINYT_BY_FLOAT(finish),    TINYT_BY_FLOAT(slopes),     TINYT_BY_FLOAT(dots),
    TINYT_BY_FLOAT(weigh_row), TINYT_BY_FLOAT(add_lines),
};

}  // namespace tinyt::cpu
