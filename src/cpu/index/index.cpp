#include "cpu/index/index.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <utility>
#include <vector>

#include "cpu/copy/copy.h"
#include "cpu/schedule/tiles.h"

namespace tinyt::cpu {

namespace {

// A broadcast index is looked at once.
Tensor unrepeated(const Tensor& index) {
  Dims shape(index.shape());
  for (size_t d = 0; d < shape.size(); ++d) {
    if (index.stride(d) == 0) shape[d] = std::min<int64_t>(shape[d], 1);
  }
  return index.view(shape, index.strides(), index.offset());
}

}  // namespace

int64_t check_index_bytes(const Tensor& index) { return dense_bytes(unrepeated(index)); }

void check_index(OpId op, const Tensor& index, int64_t dim, int64_t size) {
  const Tensor dense = as_contiguous(unrepeated(index));
  const auto* at = dense.ptr<const int64_t>();
  parallel_ranges(dense.numel(), kChunkElements, [&](int64_t begin, int64_t end) {
    if (kernels().copy->within(at + begin, end - begin, size)) return;
    const auto wrong = [size](int64_t i) {
      return static_cast<uint64_t>(i) >= static_cast<uint64_t>(size);
    };
    fail(ErrorKind::Index, name_of(op), ": index ", *std::find_if(at + begin, at + end, wrong),
         " is out of range for dimension ", dim, " of size ", size);
  });
}

namespace {

constexpr int64_t kFetchBytes = kLeastL1Bytes / 4;  // which leave room in the first-level cache

// `extent`: bytes that the indices of a row span.
void gather_tile(const Block& x, const Block& index, const Block& out, int64_t step, int64_t extent,
                 size_t itemsize, int64_t rows, int64_t cols) {
  const auto item = static_cast<int64_t>(itemsize);
  if (index.col == 0) {  // one index a row: copy the row
    if (x.row == 0 && x.col == item && out.col == item) {
      const RowCopy copy{x.data, step, out.data, out.row, rows, cols * item};
      return kernels().copy->gather_rows(copy, index.data, index.row);
    }
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t at = load_index(index.data + r * index.row);
      copy_block({x.data + r * x.row + at * step, 0, x.col}, {out.data + r * out.row, 0, out.col},
                 itemsize, 1, cols);
    }
    return;
  }
  if (item <= 8 && index.col == 8 && out.col == item) {
    const auto gather = kernels().copy->gather[std::countr_zero(itemsize)];
    const bool fetch = x.col == 0 && x.row != 0 && extent > 0 && extent <= kFetchBytes &&
                       extent <= cols * kCacheLine;
    for (int64_t r = 0; r < rows; ++r) {
      // Nearly all of a row's lines will be read, in no order.
      if (fetch && r + 1 < rows) fetch_lines(x.data + (r + 1) * x.row, extent);
      gather(x.data + r * x.row, x.col, step, index.data + r * index.row, out.data + r * out.row,
             cols);
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

// The elements of a strided tensor in row-major order.
class RowMajorReader {
 public:
  explicit RowMajorReader(const Tensor& x)
      : data_(x.host_data()), item_(static_cast<int64_t>(x.itemsize())) {
    for (size_t d = 0; d < x.shape().size(); ++d) {
      const int64_t size = x.size(d), stride = x.stride(d) * item_;
      if (size == 1) continue;
      if (!sizes_.empty() && strides_.back() == size * stride) {
        sizes_.back() *= size;
        strides_.back() = stride;
      } else {
        sizes_.push_back(size);
        strides_.push_back(stride);
      }
    }
    if (sizes_.empty()) {
      sizes_.push_back(1);
      strides_.push_back(item_);
    }
  }

  // Copies n elements from number `begin` on, a run along the last dimension at a time.
  void copy(int64_t begin, int64_t n, char* to) const {
    with_item_size(static_cast<size_t>(item_),
                   [&]<size_t Size>() { copy_sized<Size>(begin, n, to); });
  }

 private:
  template <size_t Size>
  void copy_sized(int64_t begin, int64_t n, char* to) const {
    const size_t last = sizes_.size() - 1;
    Dims at(sizes_.size());
    const char* row = data_;
    for (size_t d = sizes_.size(); d-- > 0; begin /= sizes_[d]) {
      at[d] = begin % sizes_[d];
      if (d < last) row += at[d] * strides_[d];
    }
    for (int64_t col = at[last];; col = 0) {
      const int64_t run = std::min(n, sizes_[last] - col);
      copy_run<Size>(row + col * strides_[last], strides_[last], to, run);
      if ((n -= run) == 0) return;
      to += run * static_cast<int64_t>(Size);
      for (size_t d = last; d-- > 0;) {
        row += strides_[d];
        if (++at[d] < sizes_[d]) break;
        row -= at[d] * strides_[d];
        at[d] = 0;
      }
    }
  }

  template <size_t Size>
  static void copy_run(const char* from, int64_t step, char* to, int64_t n) {
    constexpr int64_t kFewItems = 16, kItem = Size;
    if (step == kItem && n > kFewItems) {
      __builtin_memcpy(to, from, static_cast<size_t>(n * kItem));
    } else if (step == 0) {
      struct Item {
        char bytes[Size];
      } item;
      __builtin_memcpy(&item, from, Size);
      for (int64_t i = 0; i < n; ++i) __builtin_memcpy(to + i * kItem, &item, Size);
    } else {
      for (int64_t i = 0; i < n; ++i) __builtin_memcpy(to + i * kItem, from + i * step, Size);
    }
  }

  const char* data_;
  int64_t item_;
  Dims sizes_, strides_;  // strides in bytes
};

// Whether a tensor has more elements than the memory under it, as broadcast views have.
bool is_expanded(const Tensor& x) {
  int64_t span = 1;
  for (size_t d = 0; d < x.shape().size(); ++d) span += (x.size(d) - 1) * x.stride(d);
  return x.numel() > std::max<int64_t>(span, 0);
}

// A dense tensor of the same elements; an expanded one as it is, which is read by RowMajorReader.
Tensor dense_or_expanded(const Tensor& x) { return is_expanded(x) ? x : as_contiguous(x); }

static_assert(kTileElements <= kMaskItems);

// Nonzero elements in [begin, end) of a tensor: visit(position of each tile, its mask).
template <class Visit>
void for_each_mask(const Tensor& x, int64_t begin, int64_t end, Visit visit) {
  const auto item = static_cast<int64_t>(x.itemsize());
  const bool dense = x.is_contiguous();
  const RowMajorReader elements(x);
  Tile tile;
  for (int64_t i = begin; i < end; i += kTileElements) {
    const int64_t n = std::min(kTileElements, end - i);
    alignas(64) uint8_t mask[kTileElements] = {};
    if (!dense) elements.copy(i, n, tile.bytes);
    cast_elements(dense ? x.host_data() + i * item : tile.bytes, x.dtype(),
                  reinterpret_cast<char*>(mask), DType::Bool, n);
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

// How many nonzero elements lie before every chunk of `grain`.
std::vector<int64_t> counts_before(const Tensor& x, int64_t grain) {
  std::vector<int64_t> before(static_cast<size_t>(ceil_div(x.numel(), grain)));
  parallel_ranges(x.numel(), grain, [&](int64_t begin, int64_t end) {
    before[static_cast<size_t>(begin / grain)] = count_range(x, begin, end);
  });
  int64_t total = 0;
  for (int64_t& n : before) total += std::exchange(n, total);
  return before;
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
    const int64_t count = kernels().copy->find(mask, n, first, found);
    if (last == 0) {
      out = std::copy_n(found, count, out);
      return;
    }
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
    gather_tile(loops.block(2, lines.host_data() + at.offset(2)),
                loops.block(1, index.host_data() + at.offset(1)),
                loops.block(0, out.host_data() + at.offset(0)), step, step * x.size(dim),
                x.itemsize(), at.rows(), at.cols());
  });
}

int64_t workspace_gather(const KernelCall& call) {
  return check_index_bytes(at_least_1d(call.inputs[1]));
}

namespace {

Tensor expanded(const Tensor& x, std::span<const int64_t> shape) {
  return x.view(shape, broadcast_strides(x.shape(), x.strides(), shape), x.offset());
}

}  // namespace

int64_t workspace_linear_index(const KernelCall& call) {
  AttrReader read(call.attrs);
  read.list();  // sizes
  read.list();  // dims
  const std::span<const int64_t> shape = read.list();
  int64_t most = 0;
  for (const Tensor& x : call.inputs)
    most = std::max(most, dense_bytes(expanded(x, shape), DType::Int64));
  return most;
}

// Indices of several dimensions as one into their product: (i0 * size1 + i1) * size2 + ...
void kernel_linear_index(const KernelCall& call) {
  const Tensor& out = call.outputs[0];
  AttrReader read(call.attrs);
  const std::span<const int64_t> sizes = read.list(), dims = read.list(), shape = read.list();
  for (size_t k = 0; k < call.inputs.size(); ++k) {
    const Tensor index = dense_as(expanded(call.inputs[k], shape), DType::Int64);
    const int64_t size = sizes[k];
    const auto* at = index.ptr<const int64_t>();
    auto* sum = out.ptr<int64_t>();
    parallel_ranges(out.numel(), kChunkElements, [&](int64_t begin, int64_t end) {
      if (kernels().copy->add_index(at + begin, end - begin, size, k == 0, sum + begin)) return;
      const auto wrong = [size](int64_t i) { return i < -size || i >= size; };
      fail(ErrorKind::Index, "index: ", *std::find_if(at + begin, at + end, wrong),
           " is out of range for dimension ", dims[k], " of size ", size);
    });
  }
}

int64_t nonzero_bytes(const Tensor& x) { return is_expanded(x) ? 0 : dense_bytes(x); }

int64_t workspace_nonzero(const KernelCall& call) { return nonzero_bytes(call.inputs[0]); }

int64_t workspace_masked_select(const KernelCall& call) {
  return nonzero_bytes(call.inputs[0]) + nonzero_bytes(call.inputs[1]);
}

int64_t count_nonzero(const Tensor& x) {
  const Tensor given = dense_or_expanded(x);
  std::atomic<int64_t> count{0};
  parallel_ranges(given.numel(), kChunkElements, [&](int64_t begin, int64_t end) {
    count.fetch_add(count_range(given, begin, end), std::memory_order_relaxed);
  });
  return count.load(std::memory_order_relaxed);
}

// Rows of coordinates in row-major order: chunks are counted, then written where they belong.
void kernel_nonzero(const KernelCall& call) {
  const Tensor x = dense_or_expanded(call.inputs[0]);
  const Tensor& out = call.outputs[0];
  if (x.rank() == 0 || out.numel() == 0) return;
  const auto before = counts_before(x, kChunkElements);
  parallel_ranges(x.numel(), kChunkElements, [&](int64_t begin, int64_t end) {
    const int64_t first = before[static_cast<size_t>(begin / kChunkElements)];
    write_coordinates(x, begin, end, out.ptr<int64_t>() + first * x.rank());
  });
}

void kernel_masked_select(const KernelCall& call) {
  const Tensor x = dense_or_expanded(call.inputs[0]), mask = dense_or_expanded(call.inputs[1]);
  const Tensor& out = call.outputs[0];
  if (out.numel() == 0) return;
  const int64_t length = x.numel() / mask.numel();
  const int64_t bytes = length * static_cast<int64_t>(x.itemsize());
  const int64_t grain = std::max(kTileElements, kChunkElements / length);
  const bool items = length == 1 && bytes <= 8, dense = x.is_contiguous();
  const CopyTable& copies = *kernels().copy;
  const RowMajorReader elements(x);
  const auto before = counts_before(mask, grain);
  parallel_ranges(mask.numel(), grain, [&](int64_t begin, int64_t end) {
    char* to = out.host_data() + before[static_cast<size_t>(begin / grain)] * bytes;
    Tile tile;
    for_each_mask(mask, begin, end, [&](int64_t first, int64_t n, const uint8_t* set) {
      if (items) {
        if (!dense) elements.copy(first, n, tile.bytes);
        const auto compress = copies.compress[std::countr_zero(x.itemsize())];
        to += compress(dense ? x.host_data() + first * bytes : tile.bytes, set, n, to) * bytes;
        return;
      }
      int64_t found[kTileElements];
      const int64_t count = copies.find(set, n, first, found);
      if (dense) {
        copies.gather_rows({x.host_data(), bytes, to, bytes, count, bytes},
                           reinterpret_cast<const char*>(found), sizeof(int64_t));
      } else {
        for (int64_t k = 0; k < count; ++k) {
          elements.copy(found[k] * length, length, to + k * bytes);
        }
      }
      to += count * bytes;
    });
  });
}

}  // namespace tinyt::cpu
