#include "pool.h"

#include <algorithm>
#include <limits>
#include <span>
#include <type_traits>
#include <vector>

#include "../parallel.h"
#include "copy.h"
#include "spatial.h"

namespace tinyt::cpu {
namespace {

constexpr int kLanes = 16;  // windows computed side by side
constexpr int64_t kWorkOfTask = 32768;

// One element of a window.
struct Tap {
  Sizes at;        // from the window's start
  int64_t offset;  // the same in the flattened plane
};

struct Windows {
  Sizes in, out, step;
  std::span<const int64_t> begin[kSpatial], end[kSpatial];  // by output position
  Sizes reach;  // from the first to the last element of the largest window
  std::vector<Tap> taps;

  Windows(std::span<const int64_t> in_shape, AttrReader attrs)
      : in(spatial(in_shape.subspan(2), 1)) {
    const auto size = attrs.list();
    out = spatial(size, 1);
    std::span<const int64_t> begins = attrs.list(), ends = attrs.list();
    step = spatial(attrs.list(), 1);
    static constexpr int64_t kZero = 0, kOne = 1;
    Sizes kernel;
    for (int d = 0; d < kSpatial; ++d) {
      const bool listed = d >= kSpatial - static_cast<int>(size.size());
      const auto n = static_cast<size_t>(out[d]);
      begin[d] = listed ? begins.first(n) : std::span(&kZero, 1);
      end[d] = listed ? ends.first(n) : std::span(&kOne, 1);
      if (listed) begins = begins.subspan(n), ends = ends.subspan(n);
      kernel[d] = 0;
      for (size_t i = 0; i < n; ++i) {
        kernel[d] = std::max(kernel[d], (end[d][i] - begin[d][i] + step[d] - 1) / step[d]);
      }
      reach[d] = (kernel[d] - 1) * step[d];
    }
    for (int64_t z = 0; z < kernel[0]; ++z) {
      for (int64_t y = 0; y < kernel[1]; ++y) {
        for (int64_t x = 0; x < kernel[2]; ++x) {
          const Sizes at = {z * step[0], y * step[1], x * step[2]};
          taps.push_back({at, flat(at)});
        }
      }
    }
  }
  int64_t flat(const Sizes& at) const { return (at[0] * in[1] + at[1]) * in[2] + at[2]; }
  int64_t in_size() const { return product(in); }
};

// Walks over the outputs in order.
class Cursor {
 public:
  Cursor(const Windows& w, int64_t output) : w_(w) {
    for (int d = kSpatial - 1; d >= 0; --d) {
      index_[d] = output % w.out[d];
      output /= w.out[d];
      look_up(d);
    }
    plane_ = output * w.in_size();
  }
  void next() {
    for (int d = kSpatial - 1; d >= 0; --d) {
      const bool carry = ++index_[d] == w_.out[d];
      if (carry) index_[d] = 0;
      look_up(d);
      if (!carry) return;
    }
    plane_ += w_.in_size();
  }
  const Sizes& begin() const { return begin_; }
  const Sizes& end() const { return end_; }
  int64_t plane() const { return plane_; }

 private:
  void look_up(int d) {
    begin_[d] = w_.begin[d][static_cast<size_t>(index_[d])];
    end_[d] = w_.end[d][static_cast<size_t>(index_[d])];
  }

  const Windows& w_;
  Sizes index_, begin_, end_;
  int64_t plane_;
};

// Windows of kLanes neighbouring outputs.
struct Lanes {
  int64_t plane[kLanes];          // offset of the plane in the input
  int64_t start[kLanes];          // of the window in the flattened plane
  int64_t at[kSpatial][kLanes];   // the same by dimension
  int64_t end[kSpatial][kLanes];  // of the window
  bool whole;                     // every window has all taps

  // Lanes past the end repeat the last window.
  Lanes(const Windows& w, Cursor& cursor, int64_t count) : whole(true) {
    for (int i = 0; i < kLanes; ++i) {
      plane[i] = cursor.plane();
      start[i] = w.flat(cursor.begin());
      for (int d = 0; d < kSpatial; ++d) {
        at[d][i] = cursor.begin()[d];
        end[d][i] = cursor.end()[d];
        whole = whole && at[d][i] + w.reach[d] < end[d][i];
      }
      if (i + 1 < count) cursor.next();
    }
    cursor.next();
  }
  bool holds(int i, const Tap& tap) const {
    bool in_range = true;
    for (int d = 0; d < kSpatial; ++d) in_range &= at[d][i] + tap.at[d] < end[d][i];
    return in_range;
  }
};

// The largest element of each window and the tap it was at. A NaN beats everything before it.
template <class T>
struct Best {
  // As wide as T, so that comparisons select both.
  using TapNumber = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
  T value[kLanes];
  TapNumber tap[kLanes];

  explicit Best(T lowest) {
    for (int i = 0; i < kLanes; ++i) {
      value[i] = lowest;
      tap[i] = -1;
    }
  }
  void take(const T (&v)[kLanes], TapNumber number) {
    for (int i = 0; i < kLanes; ++i) {
      const bool better = v[i] > value[i] || v[i] != v[i];
      value[i] = better ? v[i] : value[i];
      tap[i] = better ? number : tap[i];
    }
  }
};

template <class T>
Best<T> best_of(const Windows& w, const Lanes& lanes, const T* x, T lowest) {
  Best<T> best(lowest);
  T v[kLanes];
  typename Best<T>::TapNumber number = 0;
  for (const Tap& tap : w.taps) {
    if (lanes.whole) {
      for (int i = 0; i < kLanes; ++i) v[i] = x[lanes.plane[i] + lanes.start[i] + tap.offset];
    } else {
      for (int i = 0; i < kLanes; ++i) {
        const bool there = lanes.holds(i, tap);
        const int64_t at = lanes.plane[i] + (there ? lanes.start[i] + tap.offset : 0);
        v[i] = there ? x[at] : lowest;
      }
    }
    best.take(v, number++);
  }
  return best;
}

// Of a window in which nothing beat the lowest value: its first element, or where that would be.
int64_t first_position(const Windows& w, const Lanes& lanes, int64_t i) {
  Sizes p;
  for (int d = 0; d < kSpatial; ++d) p[d] = std::min(lanes.at[d][i], w.in[d] - 1);
  return w.flat(p);
}

template <class T>
void max_pool(const Windows& w, const Tensor& x, T lowest, const Tensor& values,
              const Tensor& indices) {
  const auto work = std::max<int64_t>(1, static_cast<int64_t>(w.taps.size())) * kLanes;
  const int64_t grain = std::max<int64_t>(1, kWorkOfTask / work) * kLanes;
  parallel_ranges(values.numel(), grain, [&](int64_t begin, int64_t end) {
    Cursor cursor(w, begin);
    for (int64_t first = begin; first < end; first += kLanes) {
      const int64_t count = std::min<int64_t>(kLanes, end - first);
      const Lanes lanes(w, cursor, count);
      const Best<T> best = best_of(w, lanes, x.ptr<T>(), lowest);
      for (int64_t i = 0; i < count; ++i) {
        values.ptr<T>()[first + i] = best.value[i];
        indices.ptr<int64_t>()[first + i] =
            best.tap[i] < 0 ? first_position(w, lanes, i)
                            : lanes.start[i] + w.taps[static_cast<size_t>(best.tap[i])].offset;
      }
    }
  });
}

int64_t lowest_integer(DType t) {
  if (is_bool(t) || t == DType::UInt8) return 0;
  return std::numeric_limits<int64_t>::min() >> (64 - 8 * size_of(t));
}

}  // namespace

void kernel_max_pool(const KernelCall& call) {
  const Tensor &x = call.inputs[0], &values = call.outputs[0], &indices = call.outputs[1];
  if (values.numel() == 0) return;
  const Windows windows(x.shape(), AttrReader(call.attrs));
  // Other dtypes convert: that is exact both ways.
  const DType work = is_bool(x.dtype()) ? DType::Int64 : info(x.dtype()).compute;
  const bool same = work == x.dtype();
  const Tensor dense = same ? as_contiguous(x) : Tensor::empty(x.shape(), work);
  const Tensor result = same ? values : Tensor::empty(values.shape(), work);
  if (!same) copy_into(x, dense);
  switch (work) {
    case DType::Float32:
      max_pool<float>(windows, dense, -std::numeric_limits<float>::infinity(), result, indices);
      break;
    case DType::Float64:
      max_pool<double>(windows, dense, -std::numeric_limits<double>::infinity(), result, indices);
      break;
    default:
      max_pool<int64_t>(windows, dense, lowest_integer(x.dtype()), result, indices);
  }
  if (!same) copy_into(result, values);
}

}  // namespace tinyt::cpu
