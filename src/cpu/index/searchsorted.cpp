#include "cpu/index/searchsorted.h"

#include <algorithm>
#include <type_traits>

#include "cpu/copy/copy.h"
#include "cpu/schedule/tiles.h"

namespace tinyt::cpu {
namespace {

// Searches in step with each other: each waits for memory at every step, together they do not.
constexpr int64_t kTogether = 16;

// Whether x lies before the place of a value (`Right`: behind its equals). A NaN is above
// everything and equal to itself, as sort has it.
template <bool Right, class T>
bool lies_before(T x, T value) {
  if constexpr (std::is_floating_point_v<T>) {
    const bool is_nan = value != value;
    return Right ? bool((x <= value) | is_nan) : bool((x < value) | (is_nan & (x == x)));
  } else {
    return Right ? x <= value : x < value;
  }
}

// For each value the first position whose element does not lie before it. The steps depend on n
// alone, so there is no branch to miss.
template <class T, bool Right, int64_t Count>
void positions_of(const T* sorted, int64_t n, const T* values, int64_t* out) {
  const auto before = [values](T x, int64_t i) { return lies_before<Right>(x, values[i]); };
  int64_t at[Count] = {};
  for (; n > 1; n -= n / 2) {
    const int64_t half = n / 2;
    for (int64_t i = 0; i < Count; ++i) {
      at[i] += half & -static_cast<int64_t>(before(sorted[at[i] + half - 1], i));
    }
  }
  for (int64_t i = 0; i < Count; ++i) out[i] = at[i] + (n == 1 && before(sorted[at[i]], i));
}

// Line i of the values is searched for in line i of the sequences, or in the only one.
struct Search {
  const Tensor &sorted, &values, &out;
  int64_t length, per_line;
  bool one_line;
};

template <class T, bool Right>
void search_lines(const Search& s) {
  parallel_ranges(s.values.numel(), kHeavyChunk, [&](int64_t begin, int64_t end) {
    const T *sorted = s.sorted.ptr<const T>(), *values = s.values.ptr<const T>();
    int64_t* out = s.out.ptr<int64_t>();
    for (int64_t i = begin; i < end;) {
      const int64_t line = s.one_line ? 0 : i / s.per_line;
      const int64_t line_end = s.one_line ? end : std::min(end, (line + 1) * s.per_line);
      const T* of_line = sorted + line * s.length;
      for (; i + kTogether <= line_end; i += kTogether) {
        positions_of<T, Right, kTogether>(of_line, s.length, values + i, out + i);
      }
      for (; i < line_end; ++i) {
        positions_of<T, Right, 1>(of_line, s.length, values + i, out + i);
      }
    }
  });
}

template <class T>
void search(const Search& s, bool right) {
  right ? search_lines<T, true>(s) : search_lines<T, false>(s);
}

DType search_dtype(DType dtype) { return is_integral(dtype) ? DType::Int64 : info(dtype).compute; }

}  // namespace

int64_t workspace_searchsorted(const KernelCall& call) {
  const DType dtype = search_dtype(call.compute);
  if (call.outputs[0].numel() == 0) return 0;
  return dense_bytes(call.inputs[0], dtype) + dense_bytes(call.inputs[1], dtype);
}

void kernel_searchsorted(const KernelCall& call) {
  const Tensor& out = call.outputs[0];
  if (out.numel() == 0) return;
  const DType dtype = search_dtype(call.compute);
  const Tensor sorted = dense_as(call.inputs[0], dtype);
  const Tensor values = dense_as(call.inputs[1], dtype);
  const Search s{sorted,
                 values,
                 out,
                 sorted.shape().back(),
                 values.rank() == 0 ? 1 : values.shape().back(),
                 sorted.rank() == 1};
  const bool right = AttrReader(call.attrs).flag();
  switch (dtype) {
    case DType::Float32:
      return search<float>(s, right);
    case DType::Float64:
      return search<double>(s, right);
    default:
      return search<int64_t>(s, right);
  }
}

}  // namespace tinyt::cpu
