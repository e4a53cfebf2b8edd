// Panels of the columns of a convolution. Which elements of the source a register of neighbouring
// positions meets is the same for every channel and, but for the padding, for every tap: pieces of
// a few rows of the source, or one or a few windows of two registers, from which the lanes are
// picked. Where positions are further apart, lanes are gathered.
#include "cpu/schedule/levels.h"
#include "cpu/simd/simd.h"

namespace tinyt::cpu {
namespace {

template <class T>
constexpr int kWidth = static_cast<int>(TINYT_VECTOR_BYTES / sizeof(T));
constexpr int kMaxWindows = 4;                // of one register
constexpr int64_t kLimit = int64_t{1} << 29;  // of coordinates in lanes

// Moving bits, so one kernel serves all dtypes of a size.
template <int Size>
struct LanesOf;
template <>
struct LanesOf<4> {
  using Int = int32_t;
};
template <>
struct LanesOf<8> {
  using Int = int64_t;
};

// base[index] in the lanes of `mask`, zeros in the others, where nothing is read.
#if TINYT_VECTOR_BYTES == 64
TINYT_INLINE I32 gather(const void* base, I32 index, I32 mask) {
  return (I32)_mm512_mask_i32gather_epi32(__m512i{}, _mm512_movepi32_mask((__m512i)mask),
                                          (__m512i)index, base, 4);
}
TINYT_INLINE I64 gather(const void* base, I64 index, I64 mask) {
  return (I64)_mm512_mask_i64gather_epi64(__m512i{}, _mm512_movepi64_mask((__m512i)mask),
                                          (__m512i)index, base, 8);
}
#elif TINYT_VECTOR_BYTES == 32
TINYT_INLINE I32 gather(const void* base, I32 index, I32 mask) {
  return (I32)_mm256_mask_i32gather_epi32(__m256i{}, static_cast<const int*>(base), (__m256i)index,
                                          (__m256i)mask, 4);
}
TINYT_INLINE I64 gather(const void* base, I64 index, I64 mask) {
  return (I64)_mm256_mask_i64gather_epi64(__m256i{}, static_cast<const long long*>(base),
                                          (__m256i)index, (__m256i)mask, 8);
}
#else
template <class V>
TINYT_INLINE V gather(const void* base, V index, V mask) {
  V out = {};
  for (int i = 0; i < kLanes<V>; ++i) {
    Element<V> lane = 0;
    if (mask[i]) {
      constexpr auto kSize = static_cast<int64_t>(sizeof lane);
      __builtin_memcpy(&lane, static_cast<const char*>(base) + index[i] * kSize, sizeof lane);
    }
    out[i] = lane;
  }
  return out;
}
#endif

// `value`, but in the lanes of `mask` what lies there in memory; no other memory is touched.
#if TINYT_VECTOR_BYTES == 64
#define TINYT_MASKED_LOADS 1
TINYT_INLINE I32 load_lanes(I32 value, const void* p, I32 mask) {
  return (I32)_mm512_mask_loadu_epi32((__m512i)value, _mm512_movepi32_mask((__m512i)mask), p);
}
TINYT_INLINE I64 load_lanes(I64 value, const void* p, I64 mask) {
  return (I64)_mm512_mask_loadu_epi64((__m512i)value, _mm512_movepi64_mask((__m512i)mask), p);
}
#elif TINYT_VECTOR_BYTES == 32
#define TINYT_MASKED_LOADS 1
TINYT_INLINE I32 load_lanes(I32 value, const void* p, I32 mask) {
  return value | (I32)_mm256_maskload_epi32(static_cast<const int*>(p), (__m256i)mask);
}
TINYT_INLINE I64 load_lanes(I64 value, const void* p, I64 mask) {
  return value | (I64)_mm256_maskload_epi64(static_cast<const long long*>(p), (__m256i)mask);
}
#endif

// One tap of the kernel.
struct Tap {
  int64_t index[3];  // in the kernel
  int64_t at[3];     // from a position, along each dimension
  int64_t offset;    // the same in the source
  bool near = true;  // `at` of all taps fits in lanes

  Tap(const ColumnSource& c, int64_t tap) {
    for (int d = 2; d >= 0; --d) {
      index[d] = tap % c.kernel[d];
      at[d] = index[d] * c.tap_step[d] + c.offset[d];
      tap /= c.kernel[d];
      for (const int64_t i : {c.offset[d], c.offset[d] + (c.kernel[d] - 1) * c.tap_step[d]}) {
        near &= i > -kLimit && i < kLimit;
      }
    }
    offset = offset_in(c);
  }

  // To the one after it, or from the last one to the first; whether it was that. Divisions for each
  // would take longer than a register of columns.
  bool advance(const ColumnSource& c) {
    int d = 2;
    for (; d >= 0; --d) {
      at[d] += c.tap_step[d];
      if (++index[d] < c.kernel[d]) break;
      index[d] = 0;
      at[d] = c.offset[d];
    }
    offset = offset_in(c);
    return d < 0;
  }

 private:
  int64_t offset_in(const ColumnSource& c) const {
    return (at[0] * c.source[1] + at[1]) * c.source[2] + at[2];
  }
};

// A position of the convolution.
struct Position {
  int64_t image, z, y, x;

  Position(const ColumnSource& c, int64_t i)
      : image(i / c.positions[2] / c.positions[1] / c.positions[0]),
        z(i / c.positions[2] / c.positions[1] % c.positions[0]),
        y(i / c.positions[2] % c.positions[1]),
        x(i % c.positions[2]) {}

  void advance(const ColumnSource& c, int64_t n) {
    for (x += n; x >= c.positions[2]; x -= c.positions[2]) {
      if (++y == c.positions[1]) y = 0, ++z;
      if (z == c.positions[0]) z = 0, ++image;
    }
  }
  int64_t offset(const ColumnSource& c) const {
    return image * c.image_stride +
           (z * c.multiply[0] * c.source[1] + y * c.multiply[1]) * c.source[2] + x * c.multiply[2];
  }
};

// Whether coordinates, and distances between neighbours, fit in lanes.
bool fits_lanes(const ColumnSource& c) {
  for (int d = 0; d < 3; ++d) {
    if (c.positions[d] * c.multiply[d] >= kLimit || c.source[d] >= kLimit) return false;
  }
  return c.multiply[1] * c.source[2] + c.positions[2] * c.multiply[2] < kLimit / 64;
}

// Up to kL positions next to each other.
template <class T>
class Register {
 public:
  using Int = typename LanesOf<sizeof(T)>::Int;
  using V = Vec<Int>;
  static constexpr int kL = kWidth<T>;

  Register(const ColumnSource& c, const Position& first, int64_t count)
      : c_(c), first_(first), count_(count < kL ? count : kL) {
    for (int d = 0; d < 3; ++d) {
      last_[d] = static_cast<Int>(c.source[d] < kLimit ? c.source[d] : kLimit) - 1;
    }
    if (count_ <= 0 || !fits_lanes(c)) {
      count_ = count_ < 0 ? 0 : count_;
      for (int d = 0; d < 3; ++d) at_[d] = V{} - kLimit;
      return;  // no windows: element by element
    }
    if (!in_one_plane()) look_at_each();
  }

  // Before the first tap of each row of the kernel.
  void look_at_row(const Tap& tap) { outside_row_ = outside(tap, 0) | outside(tap, 1); }

  // `rows` rows of one tap, from channel `channel` on.
  void read_tap(const Tap& tap, int64_t channel, int64_t rows, T* to, int64_t to_step) const {
    const int64_t from = channel * c_.channel_stride + tap.offset;
    const V inside = (V)((outside_row_ | outside(tap, 2)) >= 0);
    if (scattered_ && tap.near) {
      const T* data = static_cast<const T*>(c_.data) + from + lowest_;
      return read_scattered(data, inside, rows, to, to_step);
    }
#if defined(TINYT_MASKED_LOADS)
    if (in_pieces_ && tap.near) {
      const T* data = static_cast<const T*>(c_.data) + from;
      return read_pieces(data, inside, rows, to, to_step);
    }
#endif
    int64_t begin = 0, end = 0;  // the rows whose windows lie in the source
    safe_rows(tap, from, rows, begin, end);
    for (int64_t i = 0; i < begin; ++i) read_row(tap, channel + i, to + i * to_step);
    const T* data = static_cast<const T*>(c_.data) + from + begin * c_.channel_stride;
    if (begin < end && in_order_) {
      read_in_order(data + lowest_, inside, end - begin, to + begin * to_step, to_step);
    } else if (begin < end) {
      read_windows(data, inside, end - begin, to + begin * to_step, to_step);
    }
    for (int64_t i = end; i < rows; ++i) read_row(tap, channel + i, to + i * to_step);
  }

 private:
  struct Window {
    int64_t offset;  // of its first element, from the tap's
    V lanes;         // a mask: those read from here
    V pick;          // their elements in the window; of a piece, each lane's is its own
  };

  // Positions of one plane, in a window or in pieces of a few rows.
  bool in_one_plane() {
    const int64_t width = c_.positions[2];
    if ((c_.positions[1] - first_.y) * width - first_.x < count_) return false;
    V lane;
    for (int i = 0; i < kL; ++i) lane[i] = i;
    const V there = (V)(lane < static_cast<Int>(count_)), none = V{} - kLimit;
    V x = lane + static_cast<Int>(first_.x), y = V{} + static_cast<Int>(first_.y);
    for (V over = (V)(x >= static_cast<Int>(width)) & there; any(over);
         over = (V)(x >= static_cast<Int>(width)) & there) {
      x -= over & static_cast<Int>(width);
      y -= over;
    }
    const V distance = ((y - static_cast<Int>(first_.y)) * static_cast<Int>(c_.multiply[1]) *
                            static_cast<Int>(c_.source[2]) +
                        (x - static_cast<Int>(first_.x)) * static_cast<Int>(c_.multiply[2])) &
                       there;
    at_[0] = select(there, V{} + static_cast<Int>(first_.z * c_.multiply[0]), none);
    at_[1] = select(there, y * static_cast<Int>(c_.multiply[1]), none);
    at_[2] = select(there, x * static_cast<Int>(c_.multiply[2]), none);
    lowest_ = highest_ = first_.offset(c_);
    in_order_ = !any((V)(distance != lane) & there);
#if defined(TINYT_MASKED_LOADS)
    const int64_t pieces = (first_.x + count_ - 1) / width + 1;
    if (!in_order_ && c_.multiply[2] == 1 && pieces <= kMaxWindows) {
      for (int64_t i = 0; i < pieces; ++i) {
        const V lanes = (V)(y == static_cast<Int>(first_.y + i)) & there;
        window_[i] = {lowest_ + i * (c_.multiply[1] * c_.source[2] - width), lanes, V{}};
      }
      windows_ = static_cast<int>(pieces);
      in_pieces_ = true;
      return true;
    }
#endif
    if (any((V)(distance < 0) | (V)(distance >= 2 * kL))) return false;
    window_[0] = {lowest_, there, distance};
    windows_ = 1;
    return true;
  }

  void look_at_each() {
    Int at[3][kL], distance[kL] = {}, pick[kL] = {}, lanes[kL] = {};
    for (int i = 0; i < kL; ++i) at[0][i] = at[1][i] = at[2][i] = -kLimit;
    const int64_t start = first_.offset(c_);
    bool close = true;  // distances from the first one fit in lanes
    Position p = first_;
    for (int64_t i = 0; i < count_; ++i, p.advance(c_, 1)) {
      at[0][i] = static_cast<Int>(p.z * c_.multiply[0]);
      at[1][i] = static_cast<Int>(p.y * c_.multiply[1]);
      at[2][i] = static_cast<Int>(p.x * c_.multiply[2]);
      const int64_t offset = p.offset(c_);
      close &= offset - start > -kLimit && offset - start < kLimit;
      distance[i] = static_cast<Int>(offset - start);
      if (scattered_) continue;
      // A row can start before the last one ended: in the padding.
      const int64_t last = windows_ > 0 ? window_[windows_ - 1].offset : 0;
      if (windows_ == 0 || offset < last || offset - last >= 2 * kL) {
        scattered_ = windows_ == kMaxWindows;
        if (scattered_) continue;
        if (windows_ > 0) close_window(lanes, pick);
        window_[windows_++].offset = offset;
        if (windows_ == 1 || offset < lowest_) lowest_ = offset;
        if (windows_ == 1 || offset > highest_) highest_ = offset;
      }
      pick[i] = static_cast<Int>(offset - window_[windows_ - 1].offset);
      lanes[i] = -1;
    }
    if (scattered_) {
      windows_ = 0;  // element by element, if that is not possible either
      scattered_ = close;
      lowest_ = start;
      distance_ = load<Int>(distance);
    } else if (windows_ > 0) {
      close_window(lanes, pick);
    }
    for (int d = 0; d < 3; ++d) at_[d] = load<Int>(at[d]);
  }

  void close_window(Int (&lanes)[kL], Int (&pick)[kL]) {
    window_[windows_ - 1].lanes = load<Int>(lanes);
    window_[windows_ - 1].pick = load<Int>(pick);
    for (int i = 0; i < kL; ++i) lanes[i] = 0;
  }

  // Negative in the lanes whose element is not in the source along dimension d.
  V outside(const Tap& tap, int d) const {
    const V at = at_[d] + static_cast<Int>(tap.near ? tap.at[d] : 0);
    return at | (last_[d] - at);
  }

  void safe_rows(const Tap& tap, int64_t from, int64_t rows, int64_t& begin, int64_t& end) const {
    begin = end = rows;
    if (windows_ == 0 || !tap.near || c_.channel_stride <= 0) return;
    const int64_t first = from + lowest_;
    const int64_t last = from + highest_ + (in_order_ ? kL : 2 * kL);
    const int64_t step = c_.channel_stride;
    begin = first >= c_.begin ? 0 : (c_.begin - first + step - 1) / step;
    if (last > c_.end) {
      end = 0;
    } else if (last + (rows - 1) * step > c_.end) {
      end = (c_.end - last) / step + 1;
    }
    if (begin >= end) begin = end = rows;
  }

  void read_in_order(const T* from, V inside, int64_t rows, T* to, int64_t to_step) const {
    for (int64_t i = 0; i < rows; ++i, from += c_.channel_stride, to += to_step) {
      store(to, load<Int>(from) & inside);
    }
  }

  void read_windows(const T* data, V inside, int64_t rows, T* to, int64_t to_step) const {
    for (int64_t i = 0; i < rows; ++i, data += c_.channel_stride, to += to_step) {
      V value = {};
      for (int w = 0; w < windows_; ++w) {
        const T* from = data + window_[w].offset;
        value |= pick(load<Int>(from), load<Int>(from + kL), window_[w].pick) & window_[w].lanes;
      }
      store(to, value & inside);
    }
  }

#if defined(TINYT_MASKED_LOADS)
  void read_pieces(const T* data, V inside, int64_t rows, T* to, int64_t to_step) const {
    const auto read = windows_ == 2   ? &Register::read_as<2>
                      : windows_ == 3 ? &Register::read_as<3>
                                      : &Register::read_as<kMaxWindows>;
    (this->*read)(data, inside, rows, to, to_step);
  }

  template <int Pieces>
  void read_as(const T* data, V inside, int64_t rows, T* to, int64_t to_step) const {
    Window piece[Pieces];  // of its own, which no store changes
    for (int i = 0; i < Pieces; ++i) {
      piece[i] = window_[i];
      piece[i].lanes &= inside;
    }
    const int64_t step = c_.channel_stride;
    for (int64_t i = 0; i < rows; ++i, data += step, to += to_step) {
      V value = {};
#pragma GCC unroll 4
      for (int k = 0; k < Pieces; ++k) {
        value = load_lanes(value, data + piece[k].offset, piece[k].lanes);
      }
      store(to, value);
    }
  }
#endif

  void read_scattered(const T* data, V inside, int64_t rows, T* to, int64_t to_step) const {
    for (int64_t i = 0; i < rows; ++i, data += c_.channel_stride, to += to_step) {
      store(to, gather(data, distance_, inside));
    }
  }

  // Element by element, where a window would reach beyond the source.
  void read_row(const Tap& tap, int64_t channel, T* to) const {
    const T* data = static_cast<const T*>(c_.data) + channel * c_.channel_stride;
    Position p = first_;
    for (int i = 0; i < kL; ++i) {
      if (i >= count_) {
        to[i] = T{0};
        continue;
      }
      const int64_t z = p.z * c_.multiply[0] + tap.at[0], y = p.y * c_.multiply[1] + tap.at[1];
      const int64_t x = p.x * c_.multiply[2] + tap.at[2];
      const bool inside =
          z >= 0 && z < c_.source[0] && y >= 0 && y < c_.source[1] && x >= 0 && x < c_.source[2];
      to[i] = inside ? data[p.offset(c_) + tap.offset] : T{0};
      if (i + 1 < count_) p.advance(c_, 1);
    }
  }

  const ColumnSource& c_;
  Position first_;
  int64_t count_;
  V at_[3], outside_row_ = {};
  Int last_[3];                 // of the source
  Window window_[kMaxWindows];  // of which there are windows_
  int windows_ = 0;
  int64_t lowest_ = 0, highest_ = 0;  // offsets of windows
  bool in_order_ = false;             // one window, its elements one after another
  bool in_pieces_ = false;            // of rows, one lane after another
  bool scattered_ = false;            // too many windows:
  V distance_ = {};                   // each lane's from lowest_
};

template <class T>
void pack(const void* context, const Panel& p, void* out) {
  const auto& c = *static_cast<const ColumnSource*>(context);
  const int64_t taps = c.kernel[0] * c.kernel[1] * c.kernel[2];
  if (p.depth == 0) return;
  const int64_t each = p.depth / taps, more = p.depth % taps;  // rows of a tap; taps with one more
  const int64_t channel = p.k0 / taps;
  const Tap first_tap(c, p.k0 % taps);
  Position first(c, p.first);
  for (int64_t v = 0; v < p.width; v += kWidth<T>) {
    Register<T> lanes(c, first, p.count - v);
    if (v + kWidth<T> < p.count) first.advance(c, kWidth<T>);
    Tap tap = first_tap;
    int64_t next = 0;
    for (int64_t i = 0; i < (each > 0 ? taps : more); ++i) {
      if (i == 0 || tap.index[2] == 0) lanes.look_at_row(tap);
      lanes.read_tap(tap, channel + next, each + (i < more ? 1 : 0),
                     static_cast<T*>(out) + v + i * p.width, taps * p.width);
      if (tap.advance(c)) next = 1;
    }
  }
}

}  // namespace

extern "C" const ColumnsTable TINYT_TABLE(columns);
const ColumnsTable TINYT_TABLE(columns) = {
    TINYT_BY_DTYPE(pack),
};

}  // namespace tinyt::cpu
