// Operands over one space, in the fewest dimensions that say how they lie.
#pragma once

#include <vector>

#include "core/base/shape.h"

namespace tinyt::gpu {

struct Space {
  Dims shape;
  std::vector<Dims> strides;  // of each operand

  void swap(size_t a, size_t b);
  void insert_one(size_t at);  // a dimension of one element, dense
  // The widest strides of an operand first.
  void sort_by(size_t operand);
  // Dimensions from `first` up to `last` without those of one element, and neighbours that lie
  // alike as one; how many of them are left.
  size_t collapse(size_t first, size_t last);

 private:
  void drop(size_t dim);
  bool joins(size_t dim) const;  // with the next one
};

}  // namespace tinyt::gpu
