// Reductions of columns: the dimension that is reduced lies around one that is kept.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "gpu/fused_source.h"

namespace tinyt::gpu {

// Which of such a kernel's words is what: sizes of the kept dimensions and of the reduced ones, the
// place of the first element, strides in both, the place of the first result, and how many blocks
// of reduced elements there are.
class ColumnWords {
 public:
  ColumnWords(size_t kept, size_t reduced) : kept_(kept), reduced_(reduced) {}
  size_t size(size_t d) const { return d; }
  size_t reduced_size(size_t d) const { return kept_ + d; }
  size_t first() const { return kept_ + reduced_; }
  size_t stride(size_t d) const { return first() + 1 + d; }
  size_t reduced_stride(size_t d) const { return stride(kept_) + d; }
  size_t store() const { return reduced_stride(reduced_); }
  size_t blocks() const { return store() + 1; }
  size_t count() const { return blocks() + 1; }

 private:
  size_t kept_, reduced_;
};

// Neighbouring results that a thread makes.
int64_t column_width(const Dialect& dialect);

// A kernel of the one reduction in `kernel`, whose space is the kept dimensions, then the reduced
// ones. A thread takes a block of the reduced elements of some neighbouring results, of which its
// store has a value for each block and result; `dense`: neighbours in the last kept dimension are
// so in memory.
KernelSource column_source(const FusedKernel& kernel, bool dense, std::string_view name,
                           const Dialect& dialect);

}  // namespace tinyt::gpu
