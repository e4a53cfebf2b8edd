// Elements found by comparing registers: the next one that beats a bound, and those between two.
#include "cpu/reduce/lanes.h"
#include "cpu/reduce/load_convert.h"
#include "cpu/schedule/levels.h"

namespace tinyt::cpu {
namespace {

template <class S, class T, class Op>
int64_t next_better(const void* line, int64_t begin, int64_t n, const void* bound) {
  constexpr int kWidth = kRegister<T>;
  constexpr int64_t kItem = sizeof(S);
  const auto* in = static_cast<const char*>(line);
  const T limit = load_lanes<S, T, 1>(bound);
  const Vec<T> limits = splat(limit);
  int64_t i = begin;
  for (; i + kWidth <= n; i += kWidth) {
    if (any(~no_better<Op>(load_lanes<S, T, kWidth>(in + i * kItem), limits))) break;
  }
  while (i < n && no_better<Op>(load_lanes<S, T, 1>(in + i * kItem), limit)) ++i;
  return i;
}

template <class S, class T>
int64_t between(const void* line, int64_t n, const void* low, const void* high, uint16_t* positions,
                int64_t* less) {
  using V = Vec<T>;
  using M = Mask<V>;
  constexpr int kWidth = kLanes<V>;
  constexpr int64_t kItem = sizeof(S);
  const auto* in = static_cast<const char*>(line);
  const T from = low ? load_lanes<S, T, 1>(low) : T{}, to = high ? load_lanes<S, T, 1>(high) : T{};
  const V froms = splat(from), tos = splat(to);
  const M none = {}, no_low = low ? none : ~none, no_high = high ? none : ~none;
  M below = {};  // counted down
  int64_t i = 0, found = 0;
  for (; i + kWidth <= n; i += kWidth) {
    const V x = load_lanes<S, T, kWidth>(in + i * kItem);
    const M enough = (x >= froms) | no_low;
    below += ~enough;
    const M inside = enough & ((x <= tos) | no_high);
    if (!any(inside)) continue;
    for (int lane = 0; lane < kWidth; ++lane) {
      positions[found] = static_cast<uint16_t>(i + lane);
      found -= inside[lane];
    }
  }
  int64_t count = 0;
  for (int lane = 0; lane < kWidth; ++lane) count -= below[lane];
  for (; i < n; ++i) {
    const T x = load_lanes<S, T, 1>(in + i * kItem);
    const bool enough = !low || x >= from;
    positions[found] = static_cast<uint16_t>(i);
    found += enough && (!high || x <= to);
    count += !enough;
  }
  *less = count;
  return found;
}

template <class S, class T>
constexpr void put(SelectTable& table, DType dtype) {
  const int t = static_cast<int>(dtype);
  table.above[t] = next_better<S, T, Larger>;
  table.below[t] = next_better<S, T, Smaller>;
  table.between[t] = between<S, T>;
}

constexpr SelectTable build() {
  SelectTable table{};
  put<BoolByte, int64_t>(table, DType::Bool);
  put<uint8_t, int64_t>(table, DType::UInt8);
  put<int32_t, int32_t>(table, DType::Int32);
  put<int64_t, int64_t>(table, DType::Int64);
  put<Half, float>(table, DType::Float16);
  put<BFloat16, float>(table, DType::BFloat16);
  put<float, float>(table, DType::Float32);
  put<double, double>(table, DType::Float64);
  return table;
}

}  // namespace

extern "C" constexpr SelectTable TINYT_TABLE(select) = build();

}  // namespace tinyt::cpu
