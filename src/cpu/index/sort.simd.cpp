// Sorting short lines by counting, for every element, those that come before it.
#include "cpu/reduce/load_convert.h"
#include "cpu/schedule/levels.h"

namespace tinyt::cpu {
namespace {

// Elements before it in the line come first also when they are equal. `rank` has room for whole
// registers.
template <class T>
void ranks(const T* keys, int64_t n, T* rank) {
  using V = Vec<T>;
  constexpr int64_t kWidth = kLanes<V>;
  const V lane = iota<T, kLanes<V>>();
  for (int64_t j = 0; j < n; j += kWidth) {
    const int64_t count = n - j < kWidth ? n - j : kWidth;
    const V v = load_part<T>(keys + j, count);
    V before = {};  // counted down
    for (int64_t i = 0; i < j; ++i) before += splat(keys[i]) <= v;
    for (int64_t i = j; i < j + count; ++i) {
      const V key = splat(keys[i]);
      before += (key < v) | ((key == v) & (splat(static_cast<T>(i - j)) < lane));
    }
    for (int64_t i = j + count; i < n; ++i) before += splat(keys[i]) < v;
    store(rank + j, V{} - before);  // what is read from it soon would wait for a masked store
  }
}

}  // namespace

extern "C" constexpr SortTable TINYT_TABLE(sort) = {ranks<int32_t>, ranks<int64_t>};

}  // namespace tinyt::cpu
