#include "index.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <utility>
#include <vector>

#include "complex.h"
#include "copy.h"
#include "levels.h"
#include "tiles.h"

namespace tinyt::cpu {
namespace {

// Least number of lines side by side in one piece of scatter work.
constexpr int64_t kMinLines = 64;

int64_t load_index(const char* at) {
  int64_t value;
  __builtin_memcpy(&value, at, sizeof value);
  return value;
}

Tensor at_least_1d(const Tensor& t) {
  constexpr int64_t kOne[] = {1};
  return t.rank() > 0 ? t : t.view(kOne, kOne, t.offset());
}

void check_index(OpId op, const Tensor& index, int64_t dim, int64_t size) {
  // A broadcast index is looked at once.
  Dims shape(index.shape());
  for (size_t d = 0; d < shape.size(); ++d) {
    if (index.stride(d) == 0) shape[d] = std::min<int64_t>(shape[d], 1);
  }
  const Tensor dense = as_contiguous(index.view(shape, index.strides(), index.offset()));
  const auto* at = dense.ptr<const int64_t>();
  parallel_ranges(dense.numel(), kChunkElements, [&](int64_t begin, int64_t end) {
    const auto wrong = [size](int64_t i) {
      return static_cast<uint64_t>(i) >= static_cast<uint64_t>(size);
    };
    bool any = false;
    for (int64_t i = begin; i < end; ++i) any |= wrong(at[i]);
    if (!any) return;
    fail(ErrorKind::Index, name_of(op), ": index ", *std::find_if(at + begin, at + end, wrong),
         " is out of range for dimension ", dim, " of size ", size);
  });
}

void gather_tile(const Block& x, const Block& index, const Block& out, int64_t step,
                 size_t itemsize, int64_t rows, int64_t cols) {
  if (index.col == 0) {  // one index a row: copy the row
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t at = load_index(index.data + r * index.row);
      copy_block({x.data + r * x.row + at * step, 0, x.col}, {out.data + r * out.row, 0, out.col},
                 itemsize, 1, cols);
    }
    return;
  }
  with_item_size(itemsize, [&]<size_t Size>() {
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < cols; ++c) {
        const int64_t at = load_index(index.data + r * index.row + c * index.col);
        __builtin_memcpy(out.data + r * out.row + c * out.col,
                         x.data + r * x.row + c * x.col + at * step, Size);
      }
    }
  });
}

// A scatter treats every line along the dimension on its own, in index order: lines never share
// an output element, so they may run in any order. Byte steps along one line:
struct Line {
  int64_t length;
  int64_t out, index, src;
};

// Calls put(target, source) for all elements of rows x cols lines.
template <class Put>
void scatter_elements(const Line& line, const Block& out, const Block& index, const Block& src,
                      int64_t rows, int64_t cols, Put put) {
  const auto one = [&](int64_t r, int64_t c, int64_t i) {
    const int64_t at = load_index(index.data + r * index.row + c * index.col + i * line.index);
    put(out.data + r * out.row + c * out.col + at * line.out,
        src.data + r * src.row + c * src.col + i * line.src);
  };
  const bool across = std::abs(index.col) <= std::abs(line.index);  // follow the index's memory
  for (int64_t r = 0; r < rows; ++r) {
    if (across) {
      for (int64_t i = 0; i < line.length; ++i) {
        for (int64_t c = 0; c < cols; ++c) one(r, c, i);
      }
    } else {
      for (int64_t c = 0; c < cols; ++c) {
        for (int64_t i = 0; i < line.length; ++i) one(r, c, i);
      }
    }
  }
}

// Calls put_row(target, source) where one index serves a whole row of lines.
template <class PutRow>
void scatter_rows(const Line& line, const Block& out, const Block& index, const Block& src,
                  int64_t rows, PutRow put_row) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t i = 0; i < line.length; ++i) {
      const int64_t at = load_index(index.data + r * index.row + i * line.index);
      put_row(out.data + r * out.row + at * line.out, src.data + r * src.row + i * line.src);
    }
  }
}

// Runs body(line, out, index, src, rows, cols) over tiles of lines.
template <class Body>
void for_each_line_tile(const Tensor& out, const Tensor& index, const Tensor& src, size_t dim,
                        Body body) {
  if (index.numel() == 0) return;
  const auto item = static_cast<int64_t>(out.itemsize());
  const Line line{index.size(dim), out.stride(dim) * item,
                  index.stride(dim) * static_cast<int64_t>(sizeof(int64_t)),
                  src.stride(dim) * item};
  Dims starts(index.shape());
  starts[dim] = 1;
  const Tensor views[] = {out.view(starts, out.strides(), out.offset()),
                          index.view(starts, index.strides(), index.offset()),
                          src.view(starts, src.strides(), src.offset())};
  const Tensor* operands[] = {&views[0], &views[1], &views[2]};
  const Loops loops(operands);
  const int64_t lines = std::max(kMinLines, kChunkElements / line.length);
  const TileGrid grid(loops, lines / loops.cols().size, lines);
  for_each_tile(
      grid, 3,
      [&](const TileCursor& at) {
        body(line, loops.block(0, views[0].data() + at.offset(0)),
             loops.block(1, views[1].data() + at.offset(1)),
             loops.block(2, views[2].data() + at.offset(2)), at.rows(), at.cols());
      },
      line.length);
}

bool is_row(const Block& out, const Block& index, const Block& src, int64_t item) {
  return index.col == 0 && out.col == item && src.col == item;
}

// out += src at the index, both of the arithmetic type T (bool: logical or).
template <class T>
void add_at(const Tensor& out, const Tensor& index, const Tensor& src, size_t dim) {
  constexpr auto kItem = static_cast<int64_t>(sizeof(T));
  const auto& kernel_of = kernels().elementwise->kernel[static_cast<int>(OpId::add)];
  const TileKernel add = kernel_of[static_cast<int>(out.dtype())];
  const bool logical = is_bool(out.dtype());
  for_each_line_tile(
      out, index, src, dim,
      [&](const Line& line, const Block& to, const Block& at, const Block& from, int64_t rows,
          int64_t cols) {
        if (is_row(to, at, from, kItem)) {
          scatter_rows(line, to, at, from, rows, [&](char* target, char* source) {
            char* const ptr[] = {target, target, source};
            constexpr int64_t kNoRows[3] = {};
            constexpr uint8_t kInner[] = {1, 1, 1};
            add({ptr, 1, cols, kNoRows, kInner});
          });
          return;
        }
        scatter_elements(line, to, at, from, rows, cols, [&](char* target, const char* source) {
          T sum, value;
          __builtin_memcpy(&sum, target, sizeof(T));
          __builtin_memcpy(&value, source, sizeof(T));
          sum = logical ? static_cast<T>(sum != 0 || value != 0) : static_cast<T>(sum + value);
          __builtin_memcpy(target, &sum, sizeof(T));
        });
      });
}

void add_at_any(const Tensor& out, const Tensor& index, const Tensor& src, size_t dim) {
  switch (out.dtype()) {
    case DType::Float32:
      return add_at<float>(out, index, src, dim);
    case DType::Float64:
      return add_at<double>(out, index, src, dim);
    case DType::Bool:
      return add_at<uint8_t>(out, index, src, dim);
    default:
      return add_at<uint64_t>(out, index, src, dim);  // int64 that wraps
  }
}

// Nonzero elements in [begin, end) of a contiguous tensor: visit(position of each tile, its mask).
template <class Visit>
void for_each_mask(const Tensor& x, int64_t begin, int64_t end, Visit visit) {
  const auto item = static_cast<int64_t>(x.itemsize());
  for (int64_t i = begin; i < end; i += kTileElements) {
    const int64_t n = std::min(kTileElements, end - i);
    alignas(64) uint8_t mask[kTileElements] = {};
    cast_elements(x.data() + i * item, x.dtype(), reinterpret_cast<char*>(mask), DType::Bool, n);
    visit(i, n, mask);
  }
}

int64_t count_range(const Tensor& x, int64_t begin, int64_t end) {
  int64_t count = 0;
  for_each_mask(x, begin, end, [&](int64_t, int64_t n, const uint8_t* mask) {
    for (int64_t i = 0; i < n; i += 8) {  // eight 0/1 bytes; the tile is zero beyond n
      uint64_t word;
      __builtin_memcpy(&word, mask + i, sizeof word);
      count += static_cast<int64_t>(word * 0x0101010101010101u >> 56);
    }
  });
  return count;
}

// Writes the coordinates of the nonzero elements in [begin, end).
void write_coordinates(const Tensor& x, int64_t begin, int64_t end, int64_t* out) {
  const size_t last = x.shape().size() - 1;
  const int64_t row_size = x.size(last);
  Dims at(last);
  int64_t rest = begin / row_size;
  int64_t row_begin = rest * row_size;
  for (size_t d = last; d-- > 0;) {
    at[d] = rest % x.size(d);
    rest /= x.size(d);
  }
  for_each_mask(x, begin, end, [&](int64_t first, int64_t n, const uint8_t* mask) {
    int64_t found[kTileElements];
    int64_t count = 0;
    for (int64_t i = 0; i < n; count += mask[i++]) found[count] = first + i;  // no branch to miss
    for (int64_t i = 0; i < count; ++i) {
      while (found[i] - row_begin >= row_size) {
        row_begin += row_size;
        for (size_t d = last; d-- > 0;) {
          if (++at[d] < x.size(d)) break;
          at[d] = 0;
        }
      }
      for (size_t d = 0; d < last; ++d) *out++ = at[d];
      *out++ = found[i] - row_begin;
    }
  });
}

}  // namespace

void kernel_gather(const KernelCall& call) {
  const Tensor x = at_least_1d(call.inputs[0]), index = at_least_1d(call.inputs[1]);
  const Tensor out = at_least_1d(call.outputs[0]);
  const int64_t dim = AttrReader(call.attrs).integer();
  check_index(call.op, index, dim, x.size(dim));
  if (out.numel() == 0) return;
  Dims strides(x.strides());
  strides[dim] = 0;  // the index moves along this one
  const Tensor lines = x.view(index.shape(), strides, x.offset());
  const auto step = x.stride(dim) * static_cast<int64_t>(x.itemsize());
  const Tensor* operands[] = {&out, &index, &lines};
  const Loops loops(operands);
  const TileGrid grid(loops, kChunkElements / loops.cols().size, kChunkElements);
  for_each_tile(grid, 3, [&](const TileCursor& at) {
    gather_tile(
        loops.block(2, lines.data() + at.offset(2)), loops.block(1, index.data() + at.offset(1)),
        loops.block(0, out.data() + at.offset(0)), step, x.itemsize(), at.rows(), at.cols());
  });
}

void kernel_scatter(const KernelCall& call) {
  const Tensor index = at_least_1d(call.inputs[1]), src = at_least_1d(call.inputs[2]);
  const Tensor out = at_least_1d(call.outputs[0]);
  const int64_t dim = AttrReader(call.attrs).integer();
  check_index(call.op, index, dim, out.size(dim));
  copy_into(call.inputs[0], call.outputs[0]);
  for_each_line_tile(
      out, index, src, dim,
      [&](const Line& line, const Block& to, const Block& at, const Block& from, int64_t rows,
          int64_t cols) {
        const auto item = static_cast<int64_t>(out.itemsize());
        if (is_row(to, at, from, item)) {
          scatter_rows(line, to, at, from, rows, [&](char* target, char* source) {
            copy_block({source, 0, item}, {target, 0, item}, out.itemsize(), 1, cols);
          });
          return;
        }
        with_item_size(out.itemsize(), [&]<size_t Size>() {
          scatter_elements(line, to, at, from, rows, cols, [](char* target, const char* source) {
            __builtin_memcpy(target, source, Size);
          });
        });
      });
}

// float16 and bfloat16 sum in float32, narrow integers in int64; one rounding at the end.
void kernel_scatter_add(const KernelCall& call) {
  if (is_complex(call.compute)) return complex_scatter_add(call);
  const Tensor index = at_least_1d(call.inputs[1]), out = call.outputs[0];
  Tensor src = at_least_1d(call.inputs[2]);
  const int64_t dim = AttrReader(call.attrs).integer();
  check_index(call.op, index, dim, at_least_1d(out).size(dim));
  const DType wide = info(out.dtype()).compute;
  if (wide == out.dtype()) {
    copy_into(call.inputs[0], out);
    return add_at_any(at_least_1d(out), index, src, dim);
  }
  src = src.view(index.shape(), src.strides(), src.offset());
  const Tensor sum = Tensor::empty(out.shape(), wide, out.device());
  const Tensor values = Tensor::empty(index.shape(), wide, out.device());
  copy_into(call.inputs[0], sum);
  copy_into(src, values);
  add_at_any(at_least_1d(sum), index, values, dim);
  copy_into(sum, out);
}

int64_t count_nonzero(const Tensor& x) {
  const Tensor dense = as_contiguous(x);
  std::atomic<int64_t> count{0};
  parallel_ranges(dense.numel(), kChunkElements, [&](int64_t begin, int64_t end) {
    count.fetch_add(count_range(dense, begin, end), std::memory_order_relaxed);
  });
  return count.load(std::memory_order_relaxed);
}

// Rows of coordinates in row-major order: chunks are counted, then written where they belong.
void kernel_nonzero(const KernelCall& call) {
  const Tensor x = as_contiguous(call.inputs[0]);
  const Tensor& out = call.outputs[0];
  if (x.rank() == 0 || out.numel() == 0) return;
  std::vector<int64_t> first(
      static_cast<size_t>((x.numel() + kChunkElements - 1) / kChunkElements));
  const auto first_of = [&](int64_t begin) -> int64_t& {
    return first[static_cast<size_t>(begin / kChunkElements)];
  };
  parallel_ranges(x.numel(), kChunkElements, [&](int64_t begin, int64_t end) {
    first_of(begin) = count_range(x, begin, end);
  });
  int64_t total = 0;
  for (int64_t& n : first) total += std::exchange(n, total);
  parallel_ranges(x.numel(), kChunkElements, [&](int64_t begin, int64_t end) {
    write_coordinates(x, begin, end, out.ptr<int64_t>() + first_of(begin) * x.rank());
  });
}

}  // namespace tinyt::cpu
