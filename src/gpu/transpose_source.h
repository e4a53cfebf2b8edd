// Copies whose elements lie along one dimension in the source and along another one in the target.
#pragma once

#include <string_view>

#include "core/base/dtype.h"
#include "gpu/fused_source.h"

namespace tinyt::gpu {

// Which of such a kernel's words is what: sizes; the places of the first elements and the strides,
// of the source and of the target. The last dimension is dense in the target, the one before it in
// the source.
class TransposeWords {
 public:
  explicit TransposeWords(size_t rank) : rank_(rank) {}
  size_t size(size_t d) const { return d; }
  size_t first(size_t side) const { return rank_ + side * (rank_ + 1); }
  size_t stride(size_t side, size_t d) const { return first(side) + 1 + d; }
  size_t count() const { return first(2); }

 private:
  size_t rank_;
};

// Elements along a side of the square that a thread copies.
inline constexpr int64_t kSquare = 64;

// A kernel that moves elements of a dtype, whatever they are; past the caches where `streams`,
// which takes elements of four bytes.
KernelSource transpose_source(DType dtype, size_t rank, bool streams, std::string_view name,
                              const Dialect& dialect);

}  // namespace tinyt::gpu
