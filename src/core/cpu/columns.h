// The columns of a convolution: for each (channel, kernel tap), the elements of a tensor that the
// tap meets at each (image, position).
#pragma once

#include <algorithm>
#include <cstdint>

#include "spatial.h"

namespace tinyt::cpu {

inline constexpr int64_t kMaxPieces = 64;  // positions looked up at a time

// Where a tap meets the source: along each dimension, position p and tap t read element
// p * multiply + t * tap_step + offset, or zero where that is no element.
struct Columns {
  const char* data;  // of the group's first channel
  int64_t image_stride, channel_stride;
  Sizes source, positions, kernel;
  Sizes multiply, offset, tap_step;
};

// Positions next to each other along the last dimension, of one image.
struct Piece {
  int64_t image;  // offset of the image in the source
  Sizes at;       // of the first position, times Columns::multiply
  int64_t count;
};

// Cuts [first, first + count) into pieces; count <= kMaxPieces.
inline int64_t cut_pieces(const Columns& c, int64_t first, int64_t count, Piece* pieces) {
  int64_t x = first % c.positions[2], rest = first / c.positions[2];
  int64_t y = rest % c.positions[1];
  rest /= c.positions[1];
  int64_t z = rest % c.positions[0], image = rest / c.positions[0];
  int64_t n = 0;
  while (count > 0) {
    const int64_t run = std::min(count, c.positions[2] - x);
    pieces[n++] = {
        image * c.image_stride, {z * c.multiply[0], y * c.multiply[1], x * c.multiply[2]}, run};
    count -= run;
    x = 0;
    if (++y == c.positions[1]) y = 0, ++z;
    if (z == c.positions[0]) z = 0, ++image;
  }
  return n;
}

// Copies of a few elements, too short for a call of memcpy each.
template <class T>
void copy_run(const T* from, T* to, int64_t n) {
  for (; n >= 8; n -= 8, from += 8, to += 8) __builtin_memcpy(to, from, 8 * sizeof(T));
  if (n >= 4) {
    __builtin_memcpy(to, from, 4 * sizeof(T));
    n -= 4, from += 4, to += 4;
  }
  for (int64_t i = 0; i < n; ++i) to[i] = from[i];
}

template <class T>
void zero_run(T* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = 0;
}

inline int64_t steps_over(int64_t distance, int64_t step) {
  return step == 1 ? distance : (distance + step - 1) / step;
}

// What one tap reads at some positions: the same elements of every channel.
class TapReader {
 public:
  TapReader(const Columns& c, const Piece* pieces, int64_t n, int64_t positions, int64_t tap)
      : from_step_(c.multiply[2]), positions_(positions) {
    Sizes shift;
    for (int d = kSpatial - 1; d >= 0; --d) {
      shift[d] = tap % c.kernel[d] * c.tap_step[d] + c.offset[d];
      tap /= c.kernel[d];
    }
    int64_t covered = 0;
    for (int64_t i = 0, to = 0; i < n; to += pieces[i++].count) {
      covered += add_piece(c, pieces[i], shift, to);
    }
    clear_ = covered < positions;
  }

  template <class T>
  void read(const T* channel, T* out) const {
    if (clear_) zero_run(out, positions_);
    for (int64_t i = 0; i < copies_; ++i) {
      const Copy& c = copy_[i];
      if (from_step_ == 1) {
        copy_run(channel + c.from, out + c.to, c.count);
      } else {
        for (int64_t k = 0; k < c.count; ++k) out[c.to + k] = channel[c.from + k * from_step_];
      }
    }
    for (int64_t i = 0; i < holes_; ++i) out[hole_[i]] = 0;
  }

 private:
  struct Copy {
    int64_t from, to, count;
  };

  // Returns how many positions it covers.
  int64_t add_piece(const Columns& c, const Piece& p, const Sizes& shift, int64_t to) {
    const int64_t z = p.at[0] + shift[0], y = p.at[1] + shift[1];
    if (z < 0 || z >= c.source[0] || y < 0 || y >= c.source[1]) return 0;
    int64_t x = p.at[2] + shift[2], first = 0;
    if (x < 0) {
      first = steps_over(-x, from_step_);
      x += first * from_step_;
    }
    const int64_t count = std::min(p.count - first, steps_over(c.source[2] - x, from_step_));
    if (count <= 0) return 0;
    return add_copy({p.image + (z * c.source[1] + y) * c.source[2] + x, to + first, count});
  }

  // A copy that goes on where the last one stopped but for a few elements (the padding between
  // two lines) becomes one with it; what it reads in between is zeroed again.
  int64_t add_copy(const Copy& next) {
    if (copies_ > 0 && from_step_ == 1) {
      Copy& last = copy_[copies_ - 1];
      const int64_t gap = next.to - (last.to + last.count);
      if (gap <= kMaxGap && next.from - (last.from + last.count) == gap) {
        for (int64_t i = 0; i < gap; ++i) hole_[holes_++] = last.to + last.count + i;
        last.count += gap + next.count;
        return gap + next.count;
      }
    }
    copy_[copies_++] = next;
    return next.count;
  }

  static constexpr int64_t kMaxGap = 4;
  int64_t from_step_, positions_;
  int64_t copies_ = 0, holes_ = 0;
  bool clear_;  // some positions meet no element
  Copy copy_[kMaxPieces];
  int64_t hole_[kMaxPieces];
};

// Rows [row, row + rows) of the columns, one per (channel, tap), at positions
// [first, first + positions), written `step` apart; positions <= kMaxPieces.
template <class T>
void read_rows(const Columns& c, int64_t row, int64_t rows, int64_t first, int64_t positions,
               T* out, int64_t step) {
  Piece pieces[kMaxPieces];
  const int64_t n = cut_pieces(c, first, positions, pieces), taps = product(c.kernel);
  for (int64_t i = 0; i < std::min(taps, rows); ++i) {
    const TapReader reader(c, pieces, n, positions, (row + i) % taps);
    const T* channel = reinterpret_cast<const T*>(c.data) + (row + i) / taps * c.channel_stride;
    for (int64_t k = i; k < rows; k += taps, channel += c.channel_stride) {
      reader.read(channel, out + k * step);
    }
  }
}

}  // namespace tinyt::cpu
