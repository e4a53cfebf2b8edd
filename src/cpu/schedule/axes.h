// Kernels along some dimensions of a tensor: groups of logical dimensions as one flat index, and
// copies of what two such groups span to and from dense tiles.
#pragma once

#include <cstdint>

#include "core/base/dtype.h"
#include "core/base/parallel.h"
#include "core/base/shape.h"

namespace tinyt::cpu {

// Of `all` columns side by side those that a unit of work takes: a quarter, so that there are
// several units, but at least most / 4, so that rows are long runs of memory.
inline int64_t columns_at_once(int64_t all, int64_t most) {
  return std::min(all, std::clamp(ceil_div(all, 64) * 16, most / 4, most));
}

// Dimensions in logical order, walked by one flat row-major index through byte strides.
class Axes {
 public:
  // The next inner dimension; size-1 dimensions vanish, neighbours that memory allows merge.
  void add(int64_t size, int64_t stride);

  int64_t size() const { return size_; }
  // Bytes between neighbours, but where a run ends.
  int64_t stride() const { return dims_.empty() ? 0 : dims_.back().stride; }
  // Elements between one such end and the next.
  int64_t run() const { return dims_.empty() ? 1 : dims_.back().size; }
  // True when all elements lie one `item` after the other.
  bool dense(size_t item) const {
    return dims_.empty() || (single() && stride() == static_cast<int64_t>(item));
  }
  bool single() const { return dims_.size() <= 1; }
  // Of the element with this flat index, in bytes from the first.
  int64_t offset(int64_t index) const;

  // body(byte offset, position, length) for the evenly strided runs of elements
  // [first, first + n); position counts from `first`.
  template <class F>
  void runs(int64_t first, int64_t n, F&& body) const {
    for (int64_t done = 0; done < n;) {
      const int64_t length = std::min(n - done, run() - (first + done) % run());
      body(offset(first + done), done, length);
      done += length;
    }
  }

 private:
  struct Dim {
    int64_t size, stride;
  };
  SmallVec<Dim, 6> dims_;
  int64_t size_ = 1;
};

// A rectangle of elements: `rows` x `cols` of them, at flat indices from (row, col) on.
struct Patch {
  const Axes& row_axes;
  int64_t row, rows;
  const Axes& col_axes;
  int64_t col, cols;

  bool even() const;  // evenly strided in both directions
};

// Writes the patch into `dense` as rows x cols values of `want`. At most kTileElements of them,
// unless `want` is the tensor's dtype.
void load_patch(const char* data, DType dtype, const Patch& patch, DType want, char* dense);

// The opposite; `have` is the dtype of `dense`. The same limit.
void store_patch(const char* dense, DType have, const Patch& patch, char* data, DType dtype);

}  // namespace tinyt::cpu
