#include "gpu/space.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace tinyt::gpu {

void Space::swap(size_t a, size_t b) {
  std::swap(shape[a], shape[b]);
  for (Dims& s : strides) std::swap(s[a], s[b]);
}

void Space::insert_one(size_t at) {
  shape.insert(at, 1);
  for (Dims& s : strides) s.insert(at, 1);
}

void Space::sort_by(size_t operand) {
  const Dims& s = strides[operand];
  for (size_t d = 1; d < shape.size(); ++d)
    for (size_t i = d; i > 0 && std::abs(s[i - 1]) < std::abs(s[i]); --i) swap(i - 1, i);
}

void Space::drop(size_t dim) {
  shape.erase(dim);
  for (Dims& s : strides) s.erase(dim);
}

bool Space::joins(size_t dim) const {
  return std::ranges::all_of(strides,
                             [&](const Dims& s) { return s[dim] == s[dim + 1] * shape[dim + 1]; });
}

size_t Space::collapse(size_t first, size_t last) {
  for (size_t d = last; d-- > first;)
    if (shape[d] == 1) {
      drop(d);
      --last;
    }
  for (size_t d = last; d-- > first + 1;)
    if (joins(d - 1)) {
      for (Dims& s : strides) s[d - 1] = s[d];
      shape[d - 1] *= shape[d];
      drop(d);
      --last;
    }
  return last - first;
}

}  // namespace tinyt::gpu
