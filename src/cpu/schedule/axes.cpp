#include "cpu/schedule/axes.h"

#include "cpu/schedule/tiles.h"

namespace tinyt::cpu {
namespace {

// Calls body(byte offset, dense index, rows, cols) for the evenly strided pieces of a patch.
template <class F>
void for_each_piece(const Patch& patch, F&& body) {
  patch.row_axes.runs(patch.row, patch.rows, [&](int64_t row_at, int64_t row, int64_t rows) {
    patch.col_axes.runs(patch.col, patch.cols, [&](int64_t col_at, int64_t col, int64_t cols) {
      body(row_at + col_at, row * patch.cols + col, rows, cols);
    });
  });
}

}  // namespace

void Axes::add(int64_t size, int64_t stride) {
  size_ *= size;
  if (size == 1) return;
  if (!dims_.empty() && dims_.back().stride == stride * size) {
    dims_.back().size *= size;
    dims_.back().stride = stride;
  } else {
    dims_.push_back({size, stride});
  }
}

int64_t Axes::offset(int64_t index) const {
  int64_t at = 0;
  for (size_t d = dims_.size(); d-- > 1;) {
    at += index % dims_[d].size * dims_[d].stride;
    index /= dims_[d].size;
  }
  return dims_.empty() ? 0 : at + index * dims_[0].stride;
}

bool Patch::even() const {
  bool all = true;
  row_axes.runs(row, rows, [&](int64_t, int64_t, int64_t length) { all &= length == rows; });
  col_axes.runs(col, cols, [&](int64_t, int64_t, int64_t length) { all &= length == cols; });
  return all;
}

void load_patch(const char* data, DType dtype, const Patch& patch, DType want, char* dense) {
  const int64_t row_stride = patch.row_axes.stride(), col_stride = patch.col_axes.stride();
  auto* source = const_cast<char*>(data);  // a Block serves both directions; this one only reads
  if (patch.even()) {
    source += patch.row_axes.offset(patch.row) + patch.col_axes.offset(patch.col);
    load_tile({source, row_stride, col_stride}, dtype, patch.rows, patch.cols, want, dense);
    return;
  }
  const auto size = static_cast<int64_t>(size_of(dtype));
  Tile raw;
  char* to = dtype == want ? dense : raw.bytes;
  for_each_piece(patch, [&](int64_t at, int64_t index, int64_t rows, int64_t cols) {
    copy_block({source + at, row_stride, col_stride}, {to + index * size, patch.cols * size, size},
               size_of(dtype), rows, cols);
  });
  if (dtype != want) cast_elements(raw.bytes, dtype, dense, want, patch.rows * patch.cols);
}

void store_patch(const char* dense, DType have, const Patch& patch, char* data, DType dtype) {
  const auto size = static_cast<int64_t>(size_of(dtype));
  Tile raw;
  if (have != dtype) {
    cast_elements(dense, have, raw.bytes, dtype, patch.rows * patch.cols);
    dense = raw.bytes;
  }
  auto* from = const_cast<char*>(dense);
  for_each_piece(patch, [&](int64_t at, int64_t index, int64_t rows, int64_t cols) {
    copy_block({from + index * size, patch.cols * size, size},
               {data + at, patch.row_axes.stride(), patch.col_axes.stride()}, size_of(dtype), rows,
               cols);
  });
}

}  // namespace tinyt::cpu
