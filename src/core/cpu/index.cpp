#include "index.h"

#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

#include "copy.h"
#include "tiles.h"

namespace tinyt::cpu {

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

namespace {

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

// Indices of several dimensions as one into their product: (i0 * size1 + i1) * size2 + ...
void kernel_linear_index(const KernelCall& call) {
  const Tensor& out = call.outputs[0];
  AttrReader read(call.attrs);
  const std::span<const int64_t> sizes = read.list(), dims = read.list(), shape = read.list();
  const Tensor places = Tensor::empty(out.shape(), DType::Int64, out.device());
  for (size_t k = 0; k < call.inputs.size(); ++k) {
    const Tensor& index = call.inputs[k];
    const Dims strides = broadcast_strides(index.shape(), index.strides(), shape);
    copy_into(index.view(shape, strides, index.offset()),
              places.view(shape, contiguous_strides(shape), 0));
    const int64_t size = sizes[k];
    const auto* at = places.ptr<const int64_t>();
    auto* sum = out.ptr<int64_t>();
    parallel_ranges(out.numel(), kChunkElements, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        if (at[i] < -size || at[i] >= size)
          fail(ErrorKind::Index, "index: ", at[i], " is out of range for dimension ", dims[k],
               " of size ", size);
        const int64_t place = at[i] < 0 ? at[i] + size : at[i];
        sum[i] = k == 0 ? place : sum[i] * size + place;
      }
    });
  }
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
