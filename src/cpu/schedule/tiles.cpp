#include "cpu/schedule/tiles.h"

#include <bit>
#include <cstdlib>
#include <cstring>

#include "cpu/schedule/levels.h"

namespace tinyt::cpu {
namespace {

// Copies one element; memcpy because foreign memory need not be aligned.
template <size_t Size>
inline void copy_element(const char* from, char* to) {
  __builtin_memcpy(to, from, Size);
}

template <size_t Size>
void copy_strided(const Block& from, const Block& to, int64_t rows, int64_t cols) {
  constexpr auto kSize = static_cast<int64_t>(Size);
  if constexpr (Size <= 8) {
    if (to.col == kSize) {
      const auto pick = kernels().copy->pick[std::countr_zero(Size)];
      const int64_t ahead = from.col == -kSize ? kRowsAheadBytes / (cols * kSize) : 0;
      for (int64_t r = 0; r < rows; ++r) {
        // A row that is read backwards and lies before the next is no stream that the processor
        // would see coming.
        if (ahead > 0 && r + ahead < rows) {
          fetch_lines(from.data + (r + ahead) * from.row - (cols - 1) * kSize, cols * kSize);
        }
        pick(from.data + r * from.row, from.col, to.data + r * to.row, cols);
      }
      return;
    }
  }
  for (int64_t r = 0; r < rows; ++r) {
    const char* in = from.data + r * from.row;
    char* out = to.data + r * to.row;
    for (int64_t c = 0; c < cols; ++c) copy_element<Size>(in + c * from.col, out + c * to.col);
  }
}

// Repeats the first element of a contiguous run; each memcpy doubles what is there, up to a page.
void repeat_first(char* run, size_t itemsize, size_t bytes) {
  for (size_t done = itemsize; done < bytes;) {
    const size_t n = std::min({done, bytes - done, size_t{kPageBytes}});
    std::memcpy(run + done, run, n);
    done += n;
  }
}

// One source element a row, repeated along the target's columns.
template <size_t Size>
void copy_repeated(const Block& from, const Block& to, int64_t rows, int64_t cols) {
  for (int64_t r = 0; r < rows; ++r) {
    const char* in = from.data + r * from.row;
    char* out = to.data + r * to.row;
    if (to.col == static_cast<int64_t>(Size)) {
      copy_element<Size>(in, out);
      repeat_first(out, Size, Size * static_cast<size_t>(cols));
    } else {
      for (int64_t c = 0; c < cols; ++c) copy_element<Size>(in, out + c * to.col);
    }
  }
}

// Down the columns: in the order of a source whose rows are closer together than its columns.
template <size_t Size>
void copy_down(const Block& from, const Block& to, int64_t rows, int64_t cols) {
  for (int64_t c = 0; c < cols; ++c) {
    const char* in = from.data + c * from.col;
    char* out = to.data + c * to.col;
    for (int64_t r = 0; r < rows; ++r) copy_element<Size>(in + r * from.row, out + r * to.row);
  }
}

// The source is contiguous down its columns, the target along its rows.
template <size_t Size>
void copy_transposed(const Block& from, const Block& to, int64_t rows, int64_t cols) {
  transpose({from.data, from.col, to.data, to.row, cols, rows, false}, Size);
}

// Shorter rows are not worth the start of a loop over registers.
constexpr int64_t kReversedColumns = 8;

template <size_t Size>
void copy_sized(const Block& from, const Block& to, int64_t rows, int64_t cols) {
  constexpr auto kSize = static_cast<int64_t>(Size);
  if (from.col == 0) {
    copy_repeated<Size>(from, to, rows, cols);
  } else if (from.col == kSize && to.col == kSize) {
    const int64_t bytes = cols * kSize;
    if (rows == 1 || (from.row == bytes && to.row == bytes)) {
      std::memcpy(to.data, from.data, static_cast<size_t>(rows * bytes));
    } else if (bytes >= kMemcpyRowBytes) {
      for (int64_t r = 0; r < rows; ++r) {
        std::memcpy(to.data + r * to.row, from.data + r * from.row, static_cast<size_t>(bytes));
      }
    } else {
      kernels().copy->rows({from.data, from.row, to.data, to.row, rows, bytes});
    }
  } else if (from.col == -kSize && to.col == kSize && cols >= kReversedColumns) {
    copy_strided<Size>(from, to, rows, cols);
  } else if (Size < 16 && from.col == kSize && to.row == kSize) {
    copy_transposed<Size>({from.data, from.col, from.row}, {to.data, to.col, to.row}, cols, rows);
  } else if (std::abs(from.row) < std::abs(from.col) && from.row != 0) {
    if constexpr (Size < 16) {
      if (from.row == kSize && to.col == kSize) {
        return copy_transposed<Size>(from, to, rows, cols);
      }
    }
    copy_down<Size>(from, to, rows, cols);
  } else if (from.col == -kSize && cols < rows) {
    copy_down<Size>(from, to, rows, cols);
  } else {
    copy_strided<Size>(from, to, rows, cols);
  }
}

}  // namespace

void map_elements(OpId op, DType dtype, void* values, int64_t n) {
  auto* p = static_cast<char*>(values);
  char* const ptr[] = {p, p};
  constexpr int64_t kNoRows[] = {0, 0};
  constexpr uint8_t kInner[] = {1, 1};
  kernels().elementwise->kernel[static_cast<int>(op)][static_cast<int>(dtype)](
      {ptr, 1, n, kNoRows, kInner});
}

void cast_elements(const char* from, DType from_dtype, char* to, DType to_dtype, int64_t n) {
  if (n == 0) return;  // what is empty may be nowhere
  kernels().elementwise->cast[static_cast<int>(from_dtype)][static_cast<int>(to_dtype)](from, to,
                                                                                        n);
}

void transpose(const Transposition& t, size_t itemsize) {
  kernels().copy->transpose[std::countr_zero(itemsize)](t);
}

void copy_block(const Block& from, const Block& to, size_t itemsize, int64_t rows, int64_t cols) {
  with_item_size(itemsize, [&]<size_t Size>() { copy_sized<Size>(from, to, rows, cols); });
}

void load_tile(const Block& from, DType dtype, int64_t rows, int64_t cols, DType want,
               char* dense) {
  const auto size = static_cast<int64_t>(size_of(dtype));
  if (dtype == want) return copy_block(from, {dense, cols * size, size}, size, rows, cols);
  if (from.col == size) {
    const bool one_run = from.row == cols * size;
    const int64_t run = one_run ? rows * cols : cols;
    const auto step = static_cast<int64_t>(size_of(want)) * run;
    for (int64_t r = 0; r < (one_run ? 1 : rows); ++r) {
      cast_elements(from.data + r * from.row, dtype, dense + r * step, want, run);
    }
    return;
  }
  Tile raw;
  copy_block(from, {raw.bytes, cols * size, size}, size, rows, cols);
  cast_elements(raw.bytes, dtype, dense, want, rows * cols);
}

void store_tile(const char* dense, DType have, const Block& to, DType dtype, int64_t rows,
                int64_t cols) {
  const auto size = static_cast<int64_t>(size_of(dtype));
  if (have != dtype && to.col == size) {
    const bool one_run = to.row == cols * size;
    const int64_t run = one_run ? rows * cols : cols;
    const auto step = static_cast<int64_t>(size_of(have)) * run;
    for (int64_t r = 0; r < (one_run ? 1 : rows); ++r) {
      cast_elements(dense + r * step, have, to.data + r * to.row, dtype, run);
    }
    return;
  }
  Tile raw;
  if (have != dtype) {
    cast_elements(dense, have, raw.bytes, dtype, rows * cols);
    dense = raw.bytes;
  }
  copy_block({const_cast<char*>(dense), cols * size, size}, to, size_of(dtype), rows, cols);
}

Loops::Loops(std::span<const Tensor* const> operands) {
  const Dims& shape = operands[0]->shape();
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 1) continue;
    Loop loop{shape[d], {}};
    for (size_t k = 0; k < operands.size(); ++k) {
      const Tensor& t = *operands[k];
      const size_t missing = shape.size() - t.shape().size();
      if (d < missing || t.size(d - missing) == 1) continue;
      loop.stride[k] = t.stride(d - missing) * static_cast<int64_t>(t.itemsize());
    }
    loops_.push_back(loop);
  }
  sort_and_merge(static_cast<int>(operands.size()));
  choose_rows(operands);
}

void Loops::sort_and_merge(int operands) {
  // Insertion sort: nearly always in order already, and equal strides keep theirs.
  for (size_t i = 1; i < loops_.size(); ++i) {
    const Loop loop = loops_[i];
    size_t at = i;
    for (; at > 0 && std::abs(loops_[at - 1].stride[0]) < std::abs(loop.stride[0]); --at) {
      loops_[at] = loops_[at - 1];
    }
    loops_[at] = loop;
  }
  size_t kept = 0;
  for (size_t i = 1; i < loops_.size(); ++i) {
    Loop& outer = loops_[kept];
    const Loop& inner = loops_[i];
    bool merge = true;
    for (int k = 0; k < operands; ++k) merge &= outer.stride[k] == inner.stride[k] * inner.size;
    if (merge) {
      outer.size *= inner.size;
      outer.stride = inner.stride;
    } else {
      loops_[++kept] = inner;
    }
  }
  if (!loops_.empty()) loops_.resize(kept + 1);
}

void Loops::choose_rows(std::span<const Tensor* const> operands) {
  if (loops_.empty()) {  // one element: as good as contiguous
    Loop loop{1, {}};
    for (size_t k = 0; k < operands.size(); ++k) {
      loop.stride[k] = static_cast<int64_t>(operands[k]->itemsize());
    }
    loops_.push_back(loop);
  }
  if (loops_.size() == 1) {
    loops_.insert(0, Loop{1, {}});
    return;
  }
  const size_t rows = loops_.size() - 2;
  for (size_t k = 1; k < operands.size() && !transposed_; ++k) {
    const auto size = static_cast<int64_t>(operands[k]->itemsize());
    if (cols().stride[k] == 0 || cols().stride[k] == size) continue;
    for (size_t d = 0; d <= rows && !transposed_; ++d) {
      if (loops_[d].stride[k] != size) continue;
      transposed_ = true;
      std::rotate(loops_.begin() + d, loops_.begin() + d + 1, loops_.begin() + rows + 1);
    }
  }
}

Loop Loops::take(int64_t step) {
  for (size_t i = loops_.size(); i-- > 0;) {
    const Loop loop = loops_[i];
    if (loop.size == 1 || loop.stride[0] != step) continue;
    std::rotate(loops_.begin() + i, loops_.begin() + i + 1, loops_.end());
    loops_.resize(loops_.size() - 1);
    return loop;
  }
  return {0, {}};
}

void Loops::walk(const Loop& inner) {
  if (loops_.empty()) loops_.push_back({1, {}});
  loops_.push_back(inner);
  transposed_ = false;
}

TileGrid::TileGrid(const Loops& nest, int64_t max_rows, int64_t max_cols)
    : loops(nest),
      rows(std::clamp<int64_t>(max_rows, 1, nest.rows().size)),
      cols(std::clamp<int64_t>(max_cols, 1, nest.cols().size)),
      row_tiles(ceil_div(nest.rows().size, rows)),
      col_tiles(ceil_div(nest.cols().size, cols)),
      tiles(row_tiles * col_tiles) {
  for (const Loop& loop : nest.outer()) tiles *= loop.size;
}

TileGrid TileGrid::filling(const Loops& loops, int64_t elements) {
  int64_t cols = elements;
  if (loops.transposed()) {
    cols = 16;
    while (2 * cols * cols < elements) cols *= 2;
    cols = std::max(cols, elements / loops.rows().size);
  }
  cols = std::min(cols, loops.cols().size);
  return TileGrid(loops, elements / cols, cols);
}

TileGrid TileGrid::crossing(const Loops& loops, int64_t itemsize) {
  constexpr int64_t kPieceOfLine = kPageBytes, kPieceOfRow = 2 * kCacheLine;
  const int64_t rows = std::min(kPieceOfLine / itemsize, loops.rows().size);
  return TileGrid(loops, rows, round_up(kChunkElements / rows / 4, kPieceOfRow / itemsize));
}

TileCursor::TileCursor(const TileGrid& grid, int operands, int64_t first)
    : grid_(grid), operands_(operands), index_(grid.loops.outer().size()) {
  col_ = first % grid.col_tiles * grid.cols;
  first /= grid.col_tiles;
  row_ = first % grid.row_tiles * grid.rows;
  first /= grid.row_tiles;
  const auto outer = grid.loops.outer();
  for (size_t i = outer.size(); i-- > 0;) {
    index_[i] = first % outer[i].size;
    first /= outer[i].size;
    for (int k = 0; k < operands_; ++k) outer_[k] += index_[i] * outer[i].stride[k];
  }
  place();
}

void TileCursor::next() {
  col_ += grid_.cols;
  if (col_ >= grid_.loops.cols().size) {
    col_ = 0;
    row_ += grid_.rows;
    if (row_ >= grid_.loops.rows().size) {
      row_ = 0;
      const auto outer = grid_.loops.outer();
      for (size_t i = outer.size(); i-- > 0;) {
        const bool wraps = ++index_[i] == outer[i].size;
        const int64_t steps = wraps ? 1 - outer[i].size : 1;
        for (int k = 0; k < operands_; ++k) outer_[k] += steps * outer[i].stride[k];
        if (!wraps) break;
        index_[i] = 0;
      }
    }
  }
  place();
}

void TileCursor::place() {
  const Loops& loops = grid_.loops;
  for (int k = 0; k < operands_; ++k) {
    offset_[k] = outer_[k] + row_ * loops.rows().stride[k] + col_ * loops.cols().stride[k];
  }
}

}  // namespace tinyt::cpu
