// Strided operands in tiles: the loops over a broadcast shape, and copies between any strides and
// dense tiles that stay in L1.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "core/base/dtype.h"
#include "core/base/parallel.h"
#include "core/base/shape.h"
#include "core/ops/ops.h"
#include "core/tensor/tensor.h"
#include "cpu/schedule/levels.h"
#include "cpu/schedule/machine_model.h"

namespace tinyt::cpu {

inline constexpr int kMaxOperands = 1 + kMaxScalarInputs;  // the output first
inline constexpr int64_t kTileElements = 512;              // of a dense tile
inline constexpr size_t kMaxItemSize = 16;

// Whether a result that is written in runs of so many bytes goes past the caches. The ends of a run
// go through them, unless it is whole lines: of short runs they would be too much.
inline bool streams(int64_t bytes, int64_t run) {
  return bytes >= kStreamBytes && (run >= kStreamRunLines * kCacheLine || run % kCacheLine == 0);
}

// Calls f.operator()<Size>() with the item size as a constant.
template <class F>
void with_item_size(size_t size, F&& f) {
  switch (size) {
    case 1:
      return f.template operator()<1>();
    case 2:
      return f.template operator()<2>();
    case 4:
      return f.template operator()<4>();
    case 8:
      return f.template operator()<8>();
    default:
      return f.template operator()<kMaxItemSize>();
  }
}

// Room for one dense tile of any dtype.
struct alignas(64) Tile {
  char bytes[kTileElements * kMaxItemSize];
};

// Converts n contiguous elements.
void cast_elements(const char* from, DType from_dtype, char* to, DType to_dtype, int64_t n);

// Applies an op of one input to n contiguous elements of a compute dtype, in place.
void map_elements(OpId op, DType dtype, void* values, int64_t n);

// A rows x cols block seen through byte strides.
struct Block {
  char* data;
  int64_t row;
  int64_t col;
};

// A transposing copy of items of at most 8 bytes.
void transpose(const Transposition& t, size_t itemsize);

// Copies rows x cols elements of `itemsize` bytes; reads along the source's smaller stride.
void copy_block(const Block& from, const Block& to, size_t itemsize, int64_t rows, int64_t cols);

// Writes the block into `dense` as rows x cols values of `want`; at most kTileElements of them.
void load_tile(const Block& from, DType dtype, int64_t rows, int64_t cols, DType want, char* dense);

// Writes rows x cols dense values of `have` to the block; at most kTileElements of them.
void store_tile(const char* dense, DType have, const Block& to, DType dtype, int64_t rows,
                int64_t cols);

// One loop of a nest: byte strides of every operand.
struct Loop {
  int64_t size;
  std::array<int64_t, kMaxOperands> stride;
};

// The loops that visit every element of a broadcast shape once: size-1 dimensions dropped, ordered
// by the memory of operand 0, merged where all operands allow. The last is the column loop of a
// 2-D tile and the one before it the row loop.
class Loops {
 public:
  // Operand 0 has the shape `shape`; the others broadcast to it. The shape is not empty.
  explicit Loops(std::span<const Tensor* const> operands);

  const Loop& cols() const { return loops_.back(); }
  const Loop& rows() const { return loops_[loops_.size() - 2]; }
  std::span<const Loop> outer() const { return {loops_.data(), loops_.size() - 2}; }
  // True when some operand runs along its memory in the row loop but not in the column loop.
  bool transposed() const { return transposed_; }
  // Whether an operand, of elements as large as operand 0's, is dense across the dense columns of
  // that one.
  bool crosses(int operand, int64_t itemsize) const {
    return transposed_ && itemsize <= 8 && rows().stride[operand] == itemsize &&
           cols().stride[0] == itemsize;
  }
  Block block(int operand, char* data) const {
    return {data, rows().stride[operand], cols().stride[operand]};
  }
  // Takes out the loop, longer than 1, in which operand 0 goes on by `step` bytes; else the size is
  // 0. What is left is to be walked position by position, `inner` as the last loop.
  Loop take(int64_t step);
  void walk(const Loop& inner);

 private:
  void sort_and_merge(int operands);
  void choose_rows(std::span<const Tensor* const> operands);

  SmallVec<Loop, 8> loops_;
  bool transposed_ = false;
};

// A cut of the loops into tiles of at most rows x cols.
struct TileGrid {
  const Loops& loops;
  int64_t rows, cols;
  int64_t row_tiles, col_tiles, tiles;

  TileGrid(const Loops& loops, int64_t max_rows, int64_t max_cols);
  // The tile shape that fills `elements`. When the loops are transposed, with about twice as many
  // rows, along which a source is read: reading waits for memory, writing does not.
  static TileGrid filling(const Loops& loops, int64_t elements);
  // For an operand that crosses: long pieces of its lines, and of operand 0's whole cache lines, so
  // that reading goes along memory.
  static TileGrid crossing(const Loops& loops, int64_t itemsize);
};

// Visits the tiles of a grid in order, from tile `first` on.
class TileCursor {
 public:
  TileCursor(const TileGrid& grid, int operands, int64_t first);
  void next();
  int64_t rows() const { return std::min(grid_.rows, grid_.loops.rows().size - row_); }
  int64_t cols() const { return std::min(grid_.cols, grid_.loops.cols().size - col_); }
  // Of the tile's first element, in bytes from the operand's data.
  int64_t offset(int operand) const { return offset_[operand]; }

 private:
  void place();

  const TileGrid& grid_;
  int operands_;
  int64_t row_, col_;
  SmallVec<int64_t, 6> index_;                 // of the outer loops
  std::array<int64_t, kMaxOperands> outer_{};  // what the outer loops add to the offsets
  std::array<int64_t, kMaxOperands> offset_{};
};

// Calls body(cursor) for every tile, in parallel chunks of about kChunkElements; `work` is how many
// elements one position of the loops stands for. Where tiles are streamed, each chunk ends with a
// fence: it waits for memory, so one for each tile would be too many.
template <class F>
void for_each_tile(const TileGrid& grid, int operands, F&& body, int64_t work = 1,
                   bool streamed = false) {
  const int64_t per_chunk = std::max<int64_t>(1, kChunkElements / work / (grid.rows * grid.cols));
  parallel_ranges(grid.tiles, per_chunk, [&](int64_t begin, int64_t end) {
    TileCursor cursor(grid, operands, begin);
    for (int64_t t = begin;;) {
      body(static_cast<const TileCursor&>(cursor));
      if (++t == end) break;
      cursor.next();
    }
    if (streamed) kernels().copy->fence();
  });
}

}  // namespace tinyt::cpu
