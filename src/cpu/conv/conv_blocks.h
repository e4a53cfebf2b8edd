// How a convolution is cut into blocks of output positions. What a block reads of the source is
// copied, zeros around it (padded_lines.h), and each tap reads the copy at another place.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/base/parallel.h"
#include "cpu/conv/conv_problem.h"
#include "cpu/conv/padded_lines.h"

namespace tinyt::cpu::conv_blocks {

inline constexpr int64_t kMinBlock = 64;  // positions
inline constexpr int64_t kMinBlocks = 8;  // of a problem with so many smallest ones
inline constexpr int64_t kPart = 32;      // parts of rows have a multiple of so many

// The size of equal parts, at most `most`.
inline int64_t even_part(int64_t n, int64_t most) { return ceil_div(n, ceil_div(n, most)); }

// Bytes from one line to the next of those that are rows of a tile: an odd number of cache lines,
// so that they share no set of the cache.
inline int64_t odd_lines(int64_t bytes) {
  const int64_t lines = ceil_div(bytes, kCacheLine);
  return (lines + 1 - lines % 2) * kCacheLine;
}

// Positions from (z, y, x) on, of images from `image` on.
struct PositionBlock {
  int64_t image, z, y, x;
  int64_t images, rows, cols;
};

class Blocks {
 public:
  // Of about `most` positions; of at most `wide` (but kMinBlock) where they are of one row.
  Blocks(const ConvProblem& d, int64_t most, int64_t wide)
      : n_(d.columns.positions),
        all_images_(d.images),
        cols_(std::min(
            n_[2], round_up(even_part(n_[2], std::max(kMinBlock, std::min(most, wide))), kPart))),
        rows_(
            even_part(n_[1], std::max<int64_t>(1, most / PaddedLines::pitch_of(d.columns, cols_)))),
        lines_(d.columns, rows_, cols_),
        images_(std::clamp<int64_t>(most / (rows_ * lines_.pitch()), 1, all_images_)) {}

  const PaddedLines& lines() const { return lines_; }
  int64_t images() const { return images_; }  // of a block
  // From the first position of an image to its last one, in the padded lines.
  int64_t positions() const { return (rows_ - 1) * lines_.pitch() + cols_; }
  int64_t count() const { return across() * down() * n_[0] * stacks(); }
  // Whether each block has zeros at other places beside its lines.
  bool sides_differ() const { return across() > 1 && lines_.has_sides(); }

  PositionBlock operator[](int64_t i) const {
    PositionBlock b = {};
    b.x = i % across() * cols_;
    b.y = i / across() % down() * rows_;
    i /= across() * down();
    b.z = i % n_[0];
    b.image = i / n_[0] * images_;
    b.images = std::min(images_, all_images_ - b.image);
    b.rows = std::min(rows_, n_[1] - b.y);
    b.cols = std::min(cols_, n_[2] - b.x);
    return b;
  }

  // Elements that the smallest block reads, about; may be astronomical.
  static double smallest(const ConvProblem& d) {
    const Sizes& n = d.columns.positions;
    return static_cast<double>(d.ins) *
           PaddedLines::elements(d.columns, std::min(n[1], kMinBlock), std::min(n[2], kMinBlock));
  }
  // Elements of a channel that a position of a row by itself reads, about.
  static int64_t depth_of_row(const Columns& c) {
    return c.kernel[0] * (c.multiply[1] + PaddedLines::span(c, 1)) * c.multiply[2];
  }

 private:
  int64_t across() const { return ceil_div(n_[2], cols_); }
  int64_t down() const { return ceil_div(n_[1], rows_); }
  int64_t stacks() const { return ceil_div(all_images_, images_); }

  Sizes n_;
  int64_t all_images_, cols_, rows_;
  PaddedLines lines_;
  int64_t images_;
};

}  // namespace tinyt::cpu::conv_blocks
