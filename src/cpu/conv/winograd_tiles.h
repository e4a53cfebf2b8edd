// What the forms of a Winograd convolution share: how a problem is cut into tiles and blocks of
// tiles, and tiles in a form that their transforms read.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/base/parallel.h"
#include "cpu/conv/conv_problem.h"
#include "cpu/schedule/levels.h"
#include "cpu/schedule/workspace.h"

namespace tinyt::cpu::winograd {

inline constexpr int64_t kSide = 4;          // of a tile of the output
inline constexpr int64_t kElements = 36;     // of a tile of the input
inline constexpr int64_t kChainTerms = 256;  // most terms in one chain of fma
inline constexpr int64_t kLeastBlock = 32;
inline constexpr int64_t kBlockElements = int64_t{1} << 17;
inline constexpr int64_t kChannelsOfTask = 8;
inline constexpr int64_t kWeightsOfTask = 512;  // 3x3 kernels
inline constexpr int64_t kMaxTiles = 256;       // of a block
inline constexpr int64_t kManyBlocks = 8;       // each is run by one thread

// The problem and how it is cut.
struct Plan {
  const ConvProblem& d;
  GemmTile tile = kernels().gemm->tile[static_cast<int>(DType::Float32)];
  int64_t lanes = kernels().winograd->lanes;
  int64_t down, across;  // tiles of a plane of the output
  int64_t tiles;         // of all planes
  int64_t depth;         // terms of a sum: (channel, tap of the first dimension)
  int64_t chain;         // of them in one chain
  int64_t rows;          // outs, rounded up
  int64_t block;         // tiles of a block
  int64_t left, top;     // of the first tile in the source
  bool flipped;

  // Of blocks of `least` tiles or more.
  explicit Plan(const ConvProblem& problem, int64_t least = kLeastBlock) : d(problem) {
    const Columns& c = d.columns;
    down = ceil_div(c.positions[1], kSide);
    across = ceil_div(c.positions[2], kSide);
    tiles = d.images * c.positions[0] * down * across;
    depth = d.ins * c.kernel[0];
    chain = ceil_div(depth, ceil_div(depth, kChainTerms));
    rows = round_up(d.outs, tile.rows);
    const int64_t fit = kBlockElements / (kElements * (depth + d.outs));
    block = std::clamp(fit / tile.cols * tile.cols, round_up(least, tile.cols),
                       kMaxTiles / tile.cols * tile.cols);
    block = std::min(block, round_up(tiles, tile.cols));
    flipped = c.tap_step[1] < 0;
    top = c.offset[1] - (flipped ? 2 : 0);
    left = c.offset[2] - (flipped ? 2 : 0);
  }
  // From element to element of transformed tiles, of `lines` channels: an odd number of cache
  // lines, as the 36 of a tile are written and read side by side and would share a set of the L1.
  int64_t element_step(int64_t lines) const {
    constexpr int64_t kOfLine = kCacheLine / static_cast<int64_t>(sizeof(float));
    return (ceil_div(lines * block, kOfLine) | 1) * kOfLine;
  }
  int64_t data_step() const { return element_step(depth); }
  int64_t products_step() const { return element_step(d.outs); }
  int64_t data_size() const { return kElements * data_step(); }
  int64_t products_size() const { return kElements * products_step(); }
};

// Where a tile lies.
struct TileAt {
  int64_t plane, y, x;  // y and x in tiles

  TileAt(const Plan& p, int64_t tile)
      : plane(tile / p.across / p.down), y(tile / p.across % p.down), x(tile % p.across) {}
};

// What is cut into tiles: planes whose tile (0, 0) starts at `top` and `left`.
struct TileSource {
  const float* data;
  int64_t image_stride, channel_stride;
  int64_t depth, height, width;         // of an image
  int64_t planes;                       // of an image that make tiles
  int64_t taps, first, step, multiply;  // plane p and tap t read p * multiply + t * step + first
  int64_t top, left;
  int64_t rows;  // of a tile: 6 of the input, 4 of the output
};

inline TileSource input_of(const Plan& p) {
  const Columns& c = p.d.columns;
  return {.data = reinterpret_cast<const float*>(c.data),
          .image_stride = c.image_stride,
          .channel_stride = c.channel_stride,
          .depth = c.source[0],
          .height = c.source[1],
          .width = c.source[2],
          .planes = c.positions[0],
          .taps = c.kernel[0],
          .first = c.offset[0],
          .step = c.tap_step[0],
          .multiply = c.multiply[0],
          .top = p.top,
          .left = p.left,
          .rows = 6};
}

inline TileSource gradient_of(const Plan& p, const float* grad) {
  const Sizes& n = p.d.columns.positions;
  return {.data = grad,
          .image_stride = p.d.groups * p.d.outs * product(n),
          .channel_stride = product(n),
          .depth = n[0],
          .height = n[1],
          .width = n[2],
          .planes = n[0],
          .taps = 1,
          .first = 0,
          .step = 0,
          .multiply = 1,
          .top = 0,
          .left = 0,
          .rows = kSide};
}

// Where the transformed tiles of a block go: element e of tile i and line k is at
// e * element + k * line + i / cols * panel + i % cols.
struct TileLines {
  float* data;
  int64_t element, line, panel;
};

// A block's tiles in a form that has each tile's elements at one place in four planes for each row
// of a tile, the columns dealt to four. Next to each other in a plane are the tiles of a row and,
// of the input, one more for the last two columns.
class TilePlanes {
 public:
  TilePlanes(const Plan& p, const TileSource& source, int64_t first, int64_t count)
      : p_(p), s_(source), count_(count) {
    first_row_ = first / p.across;
    rows_ = (first + count - 1) / p.across - first_row_ + 1;
    first_x_ = rows_ == 1 ? first % p.across : 0;
    groups_ = (rows_ == 1 ? count : p.across) + (source.rows > kSide ? 1 : 0);
    plane_ = rows_ * groups_ + 3 * p.lanes;
    for (int64_t r = 0; r < rows_; ++r) {
      const TileAt tile(p, (first_row_ + r) * p.across);
      const int64_t y = tile.y * kSide + source.top, x = first_x_ * kSide + source.left;
      row_[r] = {.at = tile.plane / source.planes * source.image_stride + y * source.width + x,
                 .plane = tile.plane % source.planes * source.multiply + source.first,
                 .first = std::max<int64_t>(0, -y),
                 .last = std::min(source.rows, source.height - y),
                 .begin = std::max<int64_t>(0, -x),
                 .end = source.width - x};
    }
    for (int64_t i = 0; i < round_up(count, p.tile.cols); ++i) {
      const int64_t t = first + std::min(i, count - 1);
      const int64_t at = (t / p.across - first_row_) * groups_ + t % p.across - first_x_;
      if (i % p.lanes == 0) start_[i / p.lanes] = at;
      index_[i] = static_cast<int32_t>(at - start_[i / p.lanes]);
    }
  }

  // Transforms lines [begin, end): (channel, tap).
  void transform(int64_t begin, int64_t end, float* memory, const TileLines& to) const {
    for (int64_t k = begin; k < end; ++k) transform_line(k, memory, to);
  }

 private:
  void transform_line(int64_t k, float* memory, const TileLines& to) const {
    const int64_t channel = k / s_.taps, tap = k % s_.taps;
    const auto* winograd = kernels().winograd;
    for (int64_t r = 0; r < rows_; ++r) {
      const Row& row = row_[r];
      const int64_t plane = row.plane + tap * s_.step;
      const bool there = plane >= 0 && plane < s_.depth;
      winograd->deal(
          {.from = s_.data,
           .at = row.at + channel * s_.channel_stride + (there ? plane : 0) * s_.height * s_.width,
           .width = s_.width,
           .lines = s_.rows,
           .first = row.first,
           .last = there ? row.last : 0,
           .begin = row.begin,
           .end = row.end,
           .groups = groups_,
           .to = memory + r * groups_,
           .plane = plane_});
      if (there) fetch(row, plane, channel + 1);
    }
    const auto apply = s_.rows == kSide ? winograd->gradient : winograd->input;
    for (int64_t i = 0; i < round_up(count_, p_.tile.cols); i += p_.lanes) {
      apply(memory + start_[i / p_.lanes], plane_, index_ + i,
            to.data + k * to.line + i / p_.tile.cols * to.panel + i % p_.tile.cols, to.element);
    }
  }

  // A row of tiles, in the source.
  struct Row {
    int64_t at, plane;    // its first element but for the plane, and the plane
    int64_t first, last;  // the lines that are there
    int64_t begin, end;   // and their elements
  };

  // The lines of a row lie in short runs, channel by channel, which no machine foresees. Past the
  // last channel a fetch of anything does no harm.
  [[gnu::always_inline]] void fetch(const Row& row, int64_t plane, int64_t channel) const {
    const float* line = s_.data + row.at + channel * s_.channel_stride +
                        plane * s_.height * s_.width + row.first * s_.width;
    const int64_t count = std::min(row.end, groups_ * kSide) - row.begin;
    for (int64_t i = row.first; i < row.last; ++i, line += s_.width)
      fetch_lines(line + row.begin, count * static_cast<int64_t>(sizeof(float)));
  }

  const Plan& p_;
  TileSource s_;
  int64_t count_, first_row_, rows_, first_x_, groups_, plane_;
  Row row_[kMaxTiles];
  int64_t start_[kMaxTiles];  // of a register of tiles
  int32_t index_[kMaxTiles];
};

// Transforms all lines of a block.
inline void transform_block(const TilePlanes& planes, int64_t lines, Slots& slots,
                            const TileLines& to) {
  parallel_ranges(lines, kChannelsOfTask, [&](int64_t begin, int64_t end) {
    slots.with_one(
        [&](char* slot) { planes.transform(begin, end, reinterpret_cast<float*>(slot), to); });
  });
}

inline int64_t bytes_of(int64_t elements) {
  return round_up(elements * static_cast<int64_t>(sizeof(float)), memory::kAlignment);
}

// Room for TilePlanes of any block.
inline int64_t bytes_of_planes(const Plan& p) {
  const int64_t plane = (p.block / p.across + 2) * (p.across + 1) + 3 * p.lanes;
  return bytes_of(24 * plane);
}

// The problem of one group.
inline ConvProblem group_of(const ConvProblem& d, int64_t g) {
  ConvProblem group = d;
  group.columns.data += g * d.ins * d.columns.channel_stride * int64_t{sizeof(float)};
  return group;
}

}  // namespace tinyt::cpu::winograd
