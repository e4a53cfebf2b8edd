// The elements along one dimension as lines for kernels: rows, worked on one after another, or
// columns side by side, each in a lane of its own. Strides and dtypes of the tensors are free:
// lines that kernels cannot reach where they lie move through a dense tile.
#pragma once

#include <algorithm>
#include <initializer_list>

#include "core/base/parallel.h"
#include "cpu/schedule/axes.h"
#include "cpu/schedule/levels.h"
#include "cpu/schedule/tiles.h"
#include "cpu/schedule/workspace.h"

namespace tinyt::cpu {

inline constexpr int64_t kMinColumns = 16;  // worked on side by side: a register of float32

// How the lines of one call are cut, from the shape alone.
class LineCut {
 public:
  // All tensors have one shape. Columns where there are enough lines, and one is short, or its
  // elements are scattered in the last tensor.
  LineCut(std::initializer_list<const Tensor*> tensors, size_t dim);

  bool columns() const { return columns_; }
  int64_t length() const { return length_; }
  int64_t count() const { return count_; }
  int64_t group() const { return group_; }  // of lines, at most

  // body(first, lines, tile) for all lines in groups, which are not empty; `tile` has room for a
  // group of elements of `size` bytes.
  template <class F>
  void run(int64_t size, const F& body) const {
    const int64_t grain = this->grain();
    const auto range = [&](int64_t begin, int64_t end, char* tile) {
      for (int64_t i = begin; i < end; i += group_) body(i, std::min(group_, end - i), tile);
    };
    if (size == 0) {
      return parallel_ranges(count_, grain, [&](int64_t a, int64_t z) { range(a, z, nullptr); });
    }
    const Workspace memory(workspace(size));
    Slots tiles(memory.data(), slot_bytes(size), slots());
    parallel_ranges(count_, grain, [&](int64_t begin, int64_t end) {
      tiles.with_one([&](char* tile) { range(begin, end, tile); });
    });
  }

  // What run() takes.
  int64_t workspace(int64_t size) const {
    if (size == 0 || length_ * count_ == 0) return 0;
    return slot_bytes(size) * (slots() - 1) + room(size);
  }

 private:
  int64_t grain() const {  // lines
    return std::max<int64_t>(1, kChunkElements / (length_ * group_)) * group_;
  }
  int64_t slots() const { return std::min<int64_t>(num_threads(), ceil_div(count_, grain())); }
  int64_t room(int64_t size) const { return length_ * group_ * size; }
  int64_t slot_bytes(int64_t size) const { return round_up(room(size), memory::kAlignment); }

  bool columns_;
  int64_t length_, count_, group_;
};

// The lines of one tensor, as kernels for `dtype` take them.
class Lines {
 public:
  Lines(const Tensor& x, size_t dim, DType dtype, const LineCut& cut);

  // Bytes between neighbours of a column, or between rows, that are in place.
  int64_t step() const { return columns_ ? along_.stride() : across_.stride(); }
  // Where lines [first, first + lines) lie, if evenly and in the kernels' dtype; else null.
  char* place(int64_t first, int64_t lines) const {
    const int64_t run = across_.run();
    return dense_ && first % run + lines <= run ? x_.host_data() + across_.offset(first) : nullptr;
  }
  // Whether `place` always finds them.
  bool in_place() const { return dense_ && across_.single(); }
  // Whether lines that are in place are written past the caches.
  bool streams() const { return streams_; }
  // To and from a dense tile: rows of a line each, or columns.
  void load(int64_t first, int64_t lines, char* tile) const;
  void store(const char* tile, int64_t first, int64_t lines) const;
  // The bytes between neighbours in that tile.
  int64_t tile_step(int64_t lines) const { return (columns_ ? lines : along_.size()) * item_; }

 private:
  Patch patch(int64_t first, int64_t lines) const;

  const Tensor& x_;
  DType dtype_;
  int64_t item_;
  bool columns_, dense_, streams_;
  Axes along_, across_;
};

// Lines for a kernel to read: those of the tensor, or a copy in the tile.
struct Source {
  const char* data;
  int64_t step;

  Source(const Lines& lines, int64_t first, int64_t n, char* tile) {
    const char* place = lines.place(first, n);
    if (place == nullptr) lines.load(first, n, tile);
    data = place != nullptr ? place : tile;
    step = place != nullptr ? lines.step() : lines.tile_step(n);
  }
};

// Lines for a kernel to write: those of the tensor, past the caches or not, or in a tile that
// `finish` stores.
struct Target {
  const Lines& lines;
  int64_t first, n;
  char *place, *data;
  int64_t step;
  bool stream;

  Target(const Lines& to, int64_t first_line, int64_t count, char* tile)
      : lines(to), first(first_line), n(count), place(to.place(first_line, count)) {
    data = place != nullptr ? place : tile;
    step = place != nullptr ? to.step() : to.tile_step(count);
    stream = place != nullptr && to.streams();
  }
  void finish() const {
    if (place == nullptr) lines.store(data, first, n);
    if (stream) kernels().copy->fence();
  }
};

}  // namespace tinyt::cpu
