// Panels of the columns of a convolution. Which elements of the source a register of neighbouring
// positions meets is the same for every channel and, but for the padding, for every tap: one or a
// few windows of two registers of the source, from which the lanes are picked.
#include "levels.h"
#include "simd.h"

namespace tinyt::cpu {
namespace {

template <class T>
constexpr int kWidth = static_cast<int>(TINYT_VECTOR_BYTES / sizeof(T));
constexpr int kMaxWindows = 4;                // of one register
constexpr int64_t kLimit = int64_t{1} << 30;  // of coordinates in lanes

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

// One tap of the kernel.
struct Tap {
  int64_t at[3];   // from a position, along each dimension
  int64_t offset;  // the same in the source

  Tap(const ColumnSource& c, int64_t tap) {
    for (int d = 2; d >= 0; --d) {
      at[d] = tap % c.kernel[d] * c.tap_step[d] + c.offset[d];
      tap /= c.kernel[d];
    }
    offset = (at[0] * c.source[1] + at[1]) * c.source[2] + at[2];
  }
};

// Where the positions of a panel start in the source.
struct PanelPositions {
  int64_t count;
  int64_t at[3][kMaxColumnLines];
  int64_t offset[kMaxColumnLines];

  PanelPositions(const ColumnSource& c, int64_t first, int64_t n) : count(n) {
    int64_t x = first % c.positions[2], rest = first / c.positions[2];
    int64_t y = rest % c.positions[1];
    rest /= c.positions[1];
    int64_t z = rest % c.positions[0], image = rest / c.positions[0];
    for (int64_t i = 0; i < n; ++i) {
      at[0][i] = z * c.multiply[0];
      at[1][i] = y * c.multiply[1];
      at[2][i] = x * c.multiply[2];
      offset[i] =
          image * c.image_stride + (at[0][i] * c.source[1] + at[1][i]) * c.source[2] + at[2][i];
      if (++x < c.positions[2]) continue;
      x = 0;
      if (++y == c.positions[1]) y = 0, ++z;
      if (z == c.positions[0]) z = 0, ++image;
    }
  }
};

// The positions of one register.
template <class T>
class Register {
 public:
  using Int = typename LanesOf<sizeof(T)>::Int;
  using V = Vec<Int>;
  static constexpr int kL = kWidth<T>;

  Register(const ColumnSource& c, const PanelPositions& p, int64_t first)
      : c_(c), p_(p), first_(first) {
    count_ = p.count - first < kL ? p.count - first : kL;
    if (count_ < 0) count_ = 0;
    Int lane_at[3][kL], pick[kL] = {}, lanes[kL] = {};
    for (int i = 0; i < kL; ++i) {
      for (int d = 0; d < 3; ++d) {
        const bool near = i < count_ && p.at[d][first + i] < kLimit;
        lane_at[d][i] = near ? static_cast<Int>(p.at[d][first + i]) : static_cast<Int>(-kLimit);
        if (i < count_ && !near) scattered_ = true;
      }
    }
    for (int d = 0; d < 3; ++d) at_[d] = load<Int>(lane_at[d]);
    for (int64_t i = 0; i < count_; ++i) {
      const int64_t offset = p.offset[first + i];
      // A row can start before the last one ended: in the padding.
      const int64_t last = windows_ > 0 ? window_[windows_ - 1].offset : 0;
      if (windows_ == 0 || offset < last || offset - last >= 2 * kL) {
        if (windows_ == kMaxWindows) {
          scattered_ = true;
          return;
        }
        if (windows_ > 0) close_window(lanes, pick);
        window_[windows_++].offset = offset;
        if (windows_ == 1 || offset < lowest_) lowest_ = offset;
        if (windows_ == 1 || offset > highest_) highest_ = offset;
      }
      const int64_t in_window = offset - window_[windows_ - 1].offset;
      pick[i] = static_cast<Int>(in_window);
      lanes[i] = -1;
      in_order_ = in_order_ && in_window == i;
    }
    if (windows_ > 0) close_window(lanes, pick);
  }

  // The rows first, first + step, ... < depth of one tap, from channel `channel` on.
  void read_tap(const Tap& tap, int64_t channel, int64_t row, int64_t step, int64_t depth,
                int64_t width, T* out) const {
    const V inside = mask_of(tap);
    const int64_t rows = (depth - row + step - 1) / step;
    const int64_t from = channel * c_.channel_stride + tap.offset;
    T* to = out + row * width;
    const int64_t to_step = step * width;
    int64_t begin = 0, end = 0;  // the rows whose windows lie in the source
    safe_rows(tap, from, rows, begin, end);
    for (int64_t i = 0; i < begin; ++i) read_row(tap, channel + i, to + i * to_step);
    const T* data = static_cast<const T*>(c_.data) + from + begin * c_.channel_stride;
    if (begin < end && in_order_) {
      read_in_order(data + window_[0].offset, inside, end - begin, to + begin * to_step, to_step);
    } else if (begin < end) {
      read_windows(data, inside, end - begin, to + begin * to_step, to_step);
    }
    for (int64_t i = end; i < rows; ++i) read_row(tap, channel + i, to + i * to_step);
  }

 private:
  struct Window {
    int64_t offset;  // of its first element, from the tap's
    V lanes;         // a mask: those read from here
    V pick;          // their elements in the window
  };

  void close_window(Int (&lanes)[kL], Int (&pick)[kL]) {
    window_[windows_ - 1].lanes = load<Int>(lanes);
    window_[windows_ - 1].pick = load<Int>(pick);
    for (int i = 0; i < kL; ++i) lanes[i] = 0;
  }

  // The lanes whose element is in the source.
  V mask_of(const Tap& tap) const {
    V inside = V{} - 1;
    for (int d = 0; d < 3; ++d) {
      const int64_t size = c_.source[d] < kLimit ? c_.source[d] : kLimit;
      const bool near = tap.at[d] > -kLimit && tap.at[d] < kLimit;
      const V at = at_[d] + static_cast<Int>(near ? tap.at[d] : 0);
      inside &= (V)(at >= 0) & (V)(at < static_cast<Int>(size));
    }
    return inside;
  }

  void safe_rows(const Tap& tap, int64_t from, int64_t rows, int64_t& begin, int64_t& end) const {
    begin = end = rows;
    const bool near = tap.at[0] > -kLimit && tap.at[0] < kLimit && tap.at[1] > -kLimit &&
                      tap.at[1] < kLimit && tap.at[2] > -kLimit && tap.at[2] < kLimit;
    if (scattered_ || windows_ == 0 || !near || c_.channel_stride <= 0) return;
    const int64_t first = from + lowest_;
    const int64_t last = from + highest_ + (in_order_ ? kL : 2 * kL);
    const int64_t step = c_.channel_stride;
    begin = first >= c_.begin ? 0 : (c_.begin - first + step - 1) / step;
    end = last <= c_.end ? (c_.end - last) / step + 1 : 0;
    if (end > rows) end = rows;
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

  // Element by element, where a window would reach beyond the source.
  void read_row(const Tap& tap, int64_t channel, T* to) const {
    const T* data = static_cast<const T*>(c_.data) + channel * c_.channel_stride;
    for (int i = 0; i < kL; ++i) {
      bool inside = i < count_;
      for (int d = 0; d < 3; ++d) {
        if (!inside) break;
        const int64_t at = p_.at[d][first_ + i] + tap.at[d];
        inside = at >= 0 && at < c_.source[d];
      }
      to[i] = inside ? data[p_.offset[first_ + i] + tap.offset] : T{0};
    }
  }

  const ColumnSource& c_;
  const PanelPositions& p_;
  int64_t first_, count_;
  V at_[3];
  Window window_[kMaxWindows] = {};
  int windows_ = 0;
  int64_t lowest_ = 0, highest_ = 0;  // offsets of windows
  bool in_order_ = true, scattered_ = false;
};

template <class T>
void pack(const void* context, const Panel& p, void* out) {
  const auto& c = *static_cast<const ColumnSource*>(context);
  const int64_t taps = c.kernel[0] * c.kernel[1] * c.kernel[2];
  const PanelPositions positions(c, p.first, p.count);
  for (int64_t v = 0; v < p.width; v += kWidth<T>) {
    const Register<T> lanes(c, positions, v);
    for (int64_t i = 0; i < (taps < p.depth ? taps : p.depth); ++i) {
      lanes.read_tap(Tap(c, (p.k0 + i) % taps), (p.k0 + i) / taps, i, taps, p.depth, p.width,
                     static_cast<T*>(out) + v);
    }
  }
}

}  // namespace

extern "C" const ColumnsTable TINYT_TABLE(columns);
const ColumnsTable TINYT_TABLE(columns) = {
    TINYT_BY_DTYPE(pack),
};

}  // namespace tinyt::cpu
