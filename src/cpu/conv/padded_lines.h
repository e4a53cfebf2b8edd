// The lines of a convolution's source with zeros around them, so that every tap of a block of
// output positions reads one contiguous run: with a stride, a line's elements (and the lines) are
// dealt to as many parts as the stride, less those behind the last one that a tap reads. Rows of
// the output then lie `pitch` apart, with a few unused elements between them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "cpu/conv/im2col.h"
#include "cpu/schedule/levels.h"

namespace tinyt::cpu {

// Lines of a channel `from_row` apart, every `step`-th element of them, to padded lines.
struct LineRun {
  int64_t from, from_row, step;
  int64_t rows, n;
  int64_t to;
};

class PaddedLines {
 public:
  // For blocks of rows x cols positions of a plane.
  PaddedLines(const Columns& c, int64_t rows, int64_t cols)
      : c_(c),
        pitch_(pitch_of(c, cols)),
        height_(rows + span(c, 1) / c.multiply[1]),
        part_size_(height_ * pitch_) {
    for (int d = 0; d < kSpatial; ++d) {
      before_[d] = std::min<int64_t>(0, (c.kernel[d] - 1) * c.tap_step[d]);
      parts_[d] = 1;
      for (int64_t tap = 0; tap < std::min(c.kernel[d], c.multiply[d]); ++tap) {
        parts_[d] = std::max(parts_[d], place_of(tap, d).part + 1);
      }
    }
  }

  // From the first tap along a dimension to the last one.
  static int64_t span(const Columns& c, int d) {
    return (c.kernel[d] - 1) * std::abs(c.tap_step[d]);
  }
  static int64_t pitch_of(const Columns& c, int64_t cols) {
    return cols + span(c, 2) / c.multiply[2];
  }
  // About size() for such blocks; may be astronomical.
  static double elements(const Columns& c, int64_t rows, int64_t cols) {
    auto size = static_cast<double>(c.kernel[0]);
    for (int d = 1; d < kSpatial; ++d) {
      const double reach = static_cast<double>(c.kernel[d] - 1) * std::abs(c.tap_step[d]);
      size *=
          static_cast<double>(c.multiply[d]) * static_cast<double>(d == 1 ? rows : cols) + reach;
    }
    return size;
  }

  int64_t pitch() const { return pitch_; }
  // Of a channel.
  int64_t size() const { return c_.kernel[0] * parts_[1] * parts_[2] * part_size_; }

  // Whether taps meet zeros beside the lines.
  bool has_sides() const {
    const int64_t left = c_.offset[2] + before_[2];
    const int64_t right = left + span(c_, 2) + (c_.positions[2] - 1) * c_.multiply[2];
    return left < 0 || right >= c_.source[2];
  }

  // Along a dimension, a tap's place in the part that it reads.
  struct Place {
    int64_t part, at;
  };
  Place place_of(int64_t tap, int d) const {
    const int64_t at = tap * c_.tap_step[d] - before_[d];
    return {at % c_.multiply[d], at / c_.multiply[d]};
  }

  // Of a tap in a channel's padded lines, for the first position of a block.
  int64_t offset_of(int64_t tap) const {
    const Place x = place_of(tap % c_.kernel[2], 2);
    const Place y = place_of(tap / c_.kernel[2] % c_.kernel[1], 1);
    const int64_t z = tap / c_.kernel[2] / c_.kernel[1];  // has lines of its own
    const int64_t part = (z * parts_[1] + y.part) * parts_[2] + x.part;
    return part * part_size_ + y.at * pitch_ + x.at;
  }

  // What the block of positions from (z, y, x) on reads of a channel: zero(to, n) for whole lines
  // of zeros, copy(run) for the others. The zeros beside those, the same for all blocks at one x,
  // are the caller's.
  template <class Zero, class Copy>
  void for_lines(int64_t z, int64_t y, int64_t x, Zero&& zero, Copy&& copy) const {
    const int64_t top = y * c_.multiply[1] + c_.offset[1] + before_[1];
    const int64_t left = x * c_.multiply[2] + c_.offset[2] + before_[2];
    int64_t to = 0;
    for (int64_t tap = 0; tap < c_.kernel[0]; ++tap) {
      const int64_t plane = z * c_.multiply[0] + c_.offset[0] + tap * c_.tap_step[0];
      const bool there = plane >= 0 && plane < c_.source[0];
      const int64_t first_line = (there ? plane : 0) * c_.source[1];
      for (int64_t part = 0; part < parts_[1]; ++part) {
        const int64_t begin = there ? lines_above(0, top + part) : height_;
        const int64_t end = std::max(begin, lines_above(c_.source[1], top + part));
        const int64_t line = first_line + top + part + begin * c_.multiply[1];
        for (int64_t p = 0; p < parts_[2]; ++p, to += part_size_) {
          zero(to, begin * pitch_);
          zero(to + end * pitch_, (height_ - end) * pitch_);
          if (begin < end) copy_part(left + p, {line * c_.source[2], end - begin, begin}, to, copy);
        }
      }
    }
  }

 private:
  struct Lines {
    int64_t from, count;  // in the source
    int64_t first;        // in the part
  };

  template <class Copy>
  void copy_part(int64_t left, const Lines& lines, int64_t to, Copy&& copy) const {
    const int64_t step = c_.multiply[2];
    const int64_t first = left >= 0 ? 0 : std::min(pitch_, (-left + step - 1) / step);
    const int64_t room = c_.source[2] - left;
    const int64_t last = std::clamp(room > 0 ? (room + step - 1) / step : 0, first, pitch_);
    if (first == last) return;
    copy(LineRun{.from = lines.from + left + first * step,
                 .from_row = c_.multiply[1] * c_.source[2],
                 .step = step,
                 .rows = lines.count,
                 .n = last - first,
                 .to = to + lines.first * pitch_ + first});
  }

  // Lines of a part that starts at line `top` of the source: those above `line`.
  int64_t lines_above(int64_t line, int64_t top) const {
    return line <= top ? 0 : std::min(height_, (line - top - 1) / c_.multiply[1] + 1);
  }

  Columns c_;
  int64_t pitch_, height_, part_size_;
  Sizes before_, parts_;
};

// Copies what the block of positions from (z, y, x) on reads of `count` channels, the first one at
// `from`, to `to`, where the zeros beside the lines are already.
inline void copy_channels(const PaddedLines& lines, const Columns& c, DType dtype, int64_t count,
                          int64_t z, int64_t y, int64_t x, const char* from, char* to) {
  const auto size = static_cast<int64_t>(size_of(dtype));
  for (int64_t i = 0; i < count; ++i) {
    lines.for_lines(
        z, y, x,
        [&](int64_t at, int64_t n) {
          std::memset(to + at * size, 0, static_cast<size_t>(n * size));
        },
        [&](const LineRun& run) {
          kernels().direct->copy[static_cast<int>(dtype)]({.from = from + run.from * size,
                                                           .from_row = run.from_row,
                                                           .step = run.step,
                                                           .rows = run.rows,
                                                           .n = run.n,
                                                           .to = to + run.to * size,
                                                           .to_row = lines.pitch()});
        });
    from += c.channel_stride * size;
    to += lines.size() * size;
  }
}

}  // namespace tinyt::cpu
