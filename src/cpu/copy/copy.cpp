#include "cpu/copy/copy.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "cpu/schedule/tiles.h"

namespace tinyt::cpu {
namespace {

// Past the caches, conversions by way of a tile.
void stream_flat(const char* in, DType from, char* out, DType to, int64_t n) {
  const auto from_size = static_cast<int64_t>(size_of(from));
  const auto to_size = static_cast<int64_t>(size_of(to));
  if (from == to) {
    kernels().copy->stream(in, out, n * to_size);
  } else {
    const int64_t step = static_cast<int64_t>(sizeof(Tile)) / to_size;
    Tile tile;
    for (int64_t i = 0; i < n; i += step) {
      const int64_t count = std::min(step, n - i);
      cast_elements(in + i * from_size, from, tile.bytes, to, count);
      kernels().copy->stream(tile.bytes, out + i * to_size, count * to_size);
    }
  }
  kernels().copy->fence();
}

// Both dense and in the same order.
void copy_flat(const Tensor& from, const Tensor& to) {
  const bool same = from.dtype() == to.dtype();
  const auto from_size = static_cast<int64_t>(from.itemsize());
  const auto to_size = static_cast<int64_t>(to.itemsize());
  const bool stream = to.numel() * to_size >= kStreamBytes;
  parallel_ranges(to.numel(), kChunkElements, [&](int64_t begin, int64_t end) {
    const char* in = from.host_data() + begin * from_size;
    char* out = to.host_data() + begin * to_size;
    if (stream) {
      stream_flat(in, from.dtype(), out, to.dtype(), end - begin);
    } else if (same) {
      std::memcpy(out, in, static_cast<size_t>((end - begin) * to_size));
    } else {
      cast_elements(in, from.dtype(), out, to.dtype(), end - begin);
    }
  });
}

// `data` is the source's first element.
void copy_transposed(char* data, const Tensor& to, const Loops& loops) {
  const size_t item = to.itemsize();
  const auto size = static_cast<int64_t>(item);
  const bool stream = to.numel() * size >= kStreamTransposedBytes;
  const auto piece = [&](const TileCursor& at) {
    const Block in = loops.block(1, data + at.offset(1));
    const Block out = loops.block(0, to.host_data() + at.offset(0));
    transpose({in.data, in.col, out.data, out.row, at.cols(), at.rows(), stream}, item);
  };
  for_each_tile(TileGrid::crossing(loops, size), 2, piece, 1, stream);
}

// Whether rows are dense on both sides, and long and many enough to go past the caches.
bool streams_rows(const Tensor& to, const Loops& loops) {
  const auto size = static_cast<int64_t>(to.itemsize());
  const Loop& cols = loops.cols();
  return to.numel() * size >= kStreamBytes && cols.size * size >= kStreamRowBytes &&
         cols.stride[0] == size && cols.stride[1] == size;
}

// Where what lies side by side in the target comes from: `count` items, or rows of `bytes` dense on
// both sides, by their places in the source.
struct Places {
  static constexpr int64_t kMost = 512;
  int64_t bytes, count = 1;
  int64_t at[kMost];

  explicit Places(int64_t size) : bytes(size) { at[0] = 0; }
  void repeat(int64_t times, int64_t step) {
    for (int64_t i = count; i < times * count; ++i) at[i] = at[i - count] + step;
    count *= times;
  }
};

// Tiles of so few elements cost less by places than to start on: a square of a transposition takes
// as long as some tens of single items.
bool small_tiles(const Loops& loops, int64_t itemsize) {
  constexpr int64_t kMostItems = 128, kPerSquare = 32, kMostRows = 32, kMostBytes = kPageBytes;
  const Loop &rows = loops.rows(), &cols = loops.cols();
  if (cols.stride[0] != itemsize || itemsize > 8 || loops.outer().empty()) return false;
  const int64_t items = rows.size * cols.size;
  if (cols.stride[1] == itemsize) return rows.size <= kMostRows && items * itemsize <= kMostBytes;
  const int64_t side = 64 / itemsize;
  const int64_t squares = ceil_div(rows.size, side) * ceil_div(cols.size, side);
  return items <= std::min(kMostItems, kPerSquare * (squares + 1));
}

// Takes loops over what is dense in the target into one run of places, as many as they may be.
// Returns how many steps of the last loop that is left a run goes along.
int64_t find_places(Loops& loops, int64_t itemsize, Places& places) {
  if (loops.cols().stride[1] == itemsize) places.bytes *= loops.take(itemsize).size;
  Loop loop = loops.take(places.bytes);
  for (; loop.size > 0; loop = loops.take(places.count * places.bytes)) {
    if (places.count * loop.size > Places::kMost) break;
    places.repeat(loop.size, loop.stride[1]);
  }
  const int64_t steps = loop.size == 0 ? 1 : Places::kMost / places.count;
  loops.walk(loop.size == 0 ? Loop{1, {}} : loop);
  return steps;
}

// A copy whose runs are longer in the target than its tiles; whether they are.
bool copy_by_places(char* data, const Tensor& to, Loops loops) {
  const size_t item = to.itemsize();
  const int64_t tile = loops.rows().size * loops.cols().size * static_cast<int64_t>(item);
  Places places(static_cast<int64_t>(item));
  const int64_t steps = find_places(loops, static_cast<int64_t>(item), places);
  const int64_t each = places.count, elements = each * places.bytes / static_cast<int64_t>(item);
  if (each * steps * places.bytes < 2 * tile) return false;
  places.repeat(steps, loops.cols().stride[1]);
  const bool items = places.bytes == static_cast<int64_t>(item);
  const CopyTable& copy = *kernels().copy;
  const auto* index = reinterpret_cast<const char*>(places.at);
  const auto piece = [&](const TileCursor& at) {
    const char* in = data + at.offset(1);
    char* out = to.host_data() + at.offset(0);
    const int64_t n = at.cols() * each;
    if (items) return copy.gather[std::countr_zero(item)](in, 0, 1, index, out, n);
    copy.gather_rows({in, 1, out, places.bytes, n, places.bytes}, index, sizeof(int64_t));
  };
  for_each_tile(TileGrid(loops, 1, steps), 2, piece, elements);
  return true;
}

// Equal dtypes: straight from strides to strides. `data` is the source's first element.
void copy_strided(char* data, const Tensor& to, const Loops& loops) {
  const auto size = static_cast<int64_t>(to.itemsize());
  if (small_tiles(loops, size) && copy_by_places(data, to, loops)) return;
  if (loops.crosses(1, size)) {
    return copy_transposed(data, to, loops);
  }
  const auto grid = loops.transposed()
                        ? TileGrid::filling(loops, kTileElements)
                        : TileGrid(loops, kChunkElements / loops.cols().size, kChunkElements);
  const bool stream = streams_rows(to, loops);
  const auto piece = [&](const TileCursor& at) {
    const Block in = loops.block(1, data + at.offset(1));
    const Block out = loops.block(0, to.host_data() + at.offset(0));
    if (!stream) return copy_block(in, out, to.itemsize(), at.rows(), at.cols());
    const int64_t bytes = at.cols() * out.col;
    for (int64_t r = 0; r < at.rows(); ++r) {
      kernels().copy->stream(in.data + r * in.row, out.data + r * out.row, bytes);
    }
  };
  for_each_tile(grid, 2, piece, 1, stream);
}

// Rows that are contiguous on both sides convert where they lie, others through tiles.
void copy_converted(const Tensor& from, const Tensor& to, const Loops& loops) {
  const bool rows_lie = loops.cols().stride[0] == static_cast<int64_t>(to.itemsize()) &&
                        loops.cols().stride[1] == static_cast<int64_t>(from.itemsize());
  if (rows_lie) {
    const TileGrid grid(loops, kChunkElements / loops.cols().size, kChunkElements);
    for_each_tile(grid, 2, [&](const TileCursor& at) {
      const Block in = loops.block(1, from.host_data() + at.offset(1));
      const Block out = loops.block(0, to.host_data() + at.offset(0));
      for (int64_t r = 0; r < at.rows(); ++r) {
        cast_elements(in.data + r * in.row, from.dtype(), out.data + r * out.row, to.dtype(),
                      at.cols());
      }
    });
    return;
  }
  for_each_tile(TileGrid::filling(loops, kTileElements), 2, [&](const TileCursor& at) {
    Tile dense;
    load_tile(loops.block(1, from.host_data() + at.offset(1)), from.dtype(), at.rows(), at.cols(),
              to.dtype(), dense.bytes);
    store_tile(dense.bytes, to.dtype(), loops.block(0, to.host_data() + at.offset(0)), to.dtype(),
               at.rows(), at.cols());
  });
}

// One number as an element of `dtype`: exact integers for integral dtypes, else `real`.
struct Constant {
  alignas(kMaxItemSize) char bytes[kMaxItemSize] = {};

  Constant(DType dtype, double real, int64_t integer) {
    if (is_integral(dtype)) {
      cast_elements(reinterpret_cast<const char*>(&integer), DType::Int64, bytes, dtype, 1);
    } else {
      cast_elements(reinterpret_cast<const char*>(&real), DType::Float64, bytes, dtype, 1);
    }
  }
};

// A dense target with copies of one element.
void fill_flat(const char* value, const Tensor& to) {
  const auto size = static_cast<int64_t>(to.itemsize());
  const int64_t step = static_cast<int64_t>(sizeof(Tile)) / size;
  const bool stream = to.numel() * size >= kStreamBytes;
  Tile tile;
  const int64_t copies = stream ? step : std::min(step, to.numel());
  copy_block({const_cast<char*>(value), 0, 0}, {tile.bytes, 0, size}, to.itemsize(), 1, copies);
  parallel_ranges(to.numel(), kChunkElements, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i += step) {
      const int64_t bytes = std::min(step, end - i) * size;
      if (stream) {
        kernels().copy->stream(tile.bytes, to.host_data() + i * size, bytes);
      } else {
        std::memcpy(to.host_data() + i * size, tile.bytes, static_cast<size_t>(bytes));
      }
    }
    if (stream) kernels().copy->fence();
  });
}

// Whether all elements are the same one.
bool repeats_one(const Tensor& x) {
  for (size_t d = 0; d < x.shape().size(); ++d) {
    if (x.size(d) != 1 && x.stride(d) != 0) return false;
  }
  return true;
}

// Whether the result has `rows` of a run of each input, all dense and of one dtype.
bool joins_runs(std::span<const Tensor> inputs, const Tensor& out, int64_t rows) {
  constexpr int64_t kShortest = 64;  // bytes: shorter runs may be better copied as columns
  const int64_t bytes = out.numel() * static_cast<int64_t>(out.itemsize());
  if (!out.is_contiguous() || bytes >= kStreamBytes) return false;
  return std::ranges::all_of(inputs, [&](const Tensor& x) {
    if (x.numel() == 0) return true;
    const bool runs =
        rows == 1 || x.numel() * static_cast<int64_t>(x.itemsize()) >= rows * kShortest;
    return runs && x.dtype() == out.dtype() && x.is_contiguous();
  });
}

// Short rows, as many at a time as stay in L2: input by input, the lines between two runs would
// come from memory twice.
void join_rows(std::span<const Tensor> inputs, const Tensor& out, int64_t rows) {
  const auto size = static_cast<int64_t>(out.itemsize());
  const int64_t row = out.numel() / rows, step = row * size;
  const int64_t most = std::max<int64_t>(1, kPieceBytes / step);
  parallel_ranges(rows, kChunkElements / row, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; r += most) {
      char* to = out.host_data() + r * step;
      for (const Tensor& x : inputs) {
        const int64_t cols = x.numel() / rows, run = cols * size;
        if (cols == 0) continue;
        copy_block({x.host_data() + r * run, run, size}, {to, step, size}, out.itemsize(),
                   std::min(most, end - r), cols);
        to += run;
      }
    }
  });
}

// One after the other, shared out by what there is of all of them.
void join_whole(std::span<const Tensor> inputs, const Tensor& out) {
  const auto size = static_cast<int64_t>(out.itemsize());
  SmallVec<int64_t, 8> ends;
  for (const Tensor& x : inputs) ends.push_back((ends.empty() ? 0 : ends.back()) + x.numel());
  parallel_ranges(out.numel(), kChunkElements, [&](int64_t begin, int64_t end) {
    auto k = static_cast<size_t>(std::upper_bound(ends.begin(), ends.end(), begin) - ends.begin());
    for (; begin < end; ++k) {
      const int64_t first = ends[k] - inputs[k].numel(), n = std::min(ends[k], end) - begin;
      if (n == 0) continue;
      std::memcpy(out.host_data() + begin * size, inputs[k].host_data() + (begin - first) * size,
                  static_cast<size_t>(n * size));
      begin += n;
    }
  });
}

}  // namespace

void copy_into(const Tensor& from, const Tensor& to) {
  if (to.numel() == 0) return;
  if (from.numel() == to.numel() && from.is_contiguous() && to.is_contiguous()) {
    return copy_flat(from, to);
  }
  const Tensor* operands[] = {&to, &from};
  const Loops loops(operands);
  if (repeats_one(from)) {
    alignas(kMaxItemSize) char value[kMaxItemSize];
    cast_elements(from.host_data(), from.dtype(), value, to.dtype(), 1);
    return to.is_contiguous() ? fill_flat(value, to) : copy_strided(value, to, loops);
  }
  if (from.dtype() == to.dtype()) return copy_strided(from.host_data(), to, loops);
  copy_converted(from, to, loops);
}

Tensor dense_geometry(std::span<const int64_t> shape, DType dtype) {
  return Tensor::from_storage(Ref<Storage>(new Storage), shape, contiguous_strides(shape), 0,
                              dtype);
}

Tensor target(const Tensor& out, DType dtype) {
  return out.dtype() == dtype ? out : Tensor::empty(out.shape(), dtype, out.device());
}

void finish(const Tensor& result, const Tensor& out) {
  if (result.dtype() != out.dtype()) copy_into(result, out);
}

Tensor as_contiguous(const Tensor& x) { return dense_as(x, x.dtype()); }

Tensor dense_as(const Tensor& x, DType dtype) {
  if (lies_dense(x, dtype)) return x;
  const Tensor out = Tensor::empty(x.shape(), dtype, x.device());
  copy_into(x, out);
  return out;
}

void kernel_cast(const KernelCall& call) { copy_into(call.inputs[0], call.outputs[0]); }
void kernel_copy(const KernelCall& call) { copy_into(call.inputs[0], call.outputs[0]); }

void kernel_reshape(const KernelCall& call) {
  const Tensor &x = call.inputs[0], &out = call.outputs[0];
  copy_into(x, out.view(x.shape(), contiguous_strides(x.shape()), out.offset()));
}

void kernel_fill(const KernelCall& call) {
  AttrReader read(call.attrs);
  read.list();
  const DType dtype = read.dtype();
  const double real = read.real();
  Constant value(dtype, real, read.integer());
  if (is_complex(dtype)) {
    const ComplexDouble z{real, read.real()};
    cast_elements(reinterpret_cast<const char*>(&z), DType::Complex128, value.bytes, dtype, 1);
  }
  fill_flat(value.bytes, call.outputs[0]);
}

void kernel_iota(const KernelCall& call) {
  AttrReader read(call.attrs);
  const int64_t n = read.integer();
  const DType dtype = read.dtype();
  const double start = read.real(), step = read.real();
  // Unsigned: a product may wrap where the sum with the start does not.
  const auto istart = static_cast<uint64_t>(read.integer());
  const auto istep = static_cast<uint64_t>(read.integer());
  const auto size = static_cast<int64_t>(size_of(dtype));
  char* data = call.outputs[0].host_data();
  parallel_ranges(n, kPassesChunk, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i += kTileElements) {
      const int64_t count = std::min(kTileElements, end - i);
      if (is_integral(dtype)) {
        int64_t tile[kTileElements];
        for (int64_t k = 0; k < count; ++k) {
          tile[k] = static_cast<int64_t>(istart + static_cast<uint64_t>(i + k) * istep);
        }
        cast_elements(reinterpret_cast<char*>(tile), DType::Int64, data + i * size, dtype, count);
      } else {
        double tile[kTileElements];
        for (int64_t k = 0; k < count; ++k) tile[k] = start + static_cast<double>(i + k) * step;
        cast_elements(reinterpret_cast<char*>(tile), DType::Float64, data + i * size, dtype, count);
      }
    }
  });
}

void kernel_flip(const KernelCall& call) {
  const Tensor &x = call.inputs[0], &out = call.outputs[0];
  if (x.numel() == 0) return;
  Dims strides = x.strides();
  int64_t offset = x.offset();
  for (const int64_t d : AttrReader(call.attrs).list()) {
    offset += (x.size(d) - 1) * strides[d];
    strides[d] = -strides[d];
  }
  copy_into(x.view(x.shape(), strides, offset), out);
}

void kernel_cat(const KernelCall& call) {
  const Tensor& out = call.outputs[0];
  const auto dim = static_cast<size_t>(AttrReader(call.attrs).integer());
  if (out.numel() == 0) return;
  int64_t rows = 1;
  for (size_t d = 0; d < dim; ++d) rows *= out.size(d);
  if (joins_runs(call.inputs, out, rows)) {
    if (rows == 1) return join_whole(call.inputs, out);
    if (out.numel() / rows <= kChunkElements) return join_rows(call.inputs, out, rows);
  }
  int64_t at = out.offset();
  for (const Tensor& x : call.inputs) {
    if (x.numel() == 0) continue;
    copy_into(x, out.view(x.shape(), out.strides(), at));
    at += x.size(dim) * out.stride(dim);
  }
}

void kernel_update(const KernelCall& call) {
  const Tensor &base = call.inputs[0], &value = call.inputs[1], &out = call.outputs[0];
  AttrReader read(call.attrs);
  const std::span<const int64_t> size = read.list(), stride = read.list();
  copy_into(base, out);
  copy_into(value, out.view(size, stride, out.offset() + read.integer()));
}

}  // namespace tinyt::cpu
