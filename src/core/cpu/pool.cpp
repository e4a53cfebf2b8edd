#include "pool.h"

#include <algorithm>
#include <limits>
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
  Sizes in, out, kernel, stride, padding, dilation;
  Sizes reach;  // from the first to the last element of a window
  std::vector<Tap> taps;

  Windows(std::span<const int64_t> in_shape, std::span<const int64_t> out_shape, AttrReader attrs)
      : in(spatial(in_shape.subspan(2), 1)),
        out(spatial(out_shape.subspan(2), 1)),
        kernel(spatial(attrs.list(), 1)),
        stride(spatial(attrs.list(), 1)),
        padding(spatial(attrs.list(), 0)),
        dilation(spatial(attrs.list(), 1)) {
    for (int d = 0; d < kSpatial; ++d) reach[d] = (kernel[d] - 1) * dilation[d];
    for (int64_t z = 0; z < kernel[0]; ++z) {
      for (int64_t y = 0; y < kernel[1]; ++y) {
        for (int64_t x = 0; x < kernel[2]; ++x) {
          const Sizes at = {z * dilation[0], y * dilation[1], x * dilation[2]};
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
      start_[d] = index_[d] * w.stride[d] - w.padding[d];
      output /= w.out[d];
    }
    plane_ = output * w.in_size();
  }
  void next() {
    for (int d = kSpatial - 1; d >= 0; --d) {
      start_[d] += w_.stride[d];
      if (++index_[d] < w_.out[d]) return;
      index_[d] = 0;
      start_[d] = -w_.padding[d];
    }
    plane_ += w_.in_size();
  }
  const Sizes& start() const { return start_; }
  int64_t plane() const { return plane_; }

 private:
  const Windows& w_;
  Sizes index_, start_;
  int64_t plane_;
};

// Windows of kLanes neighbouring outputs.
struct Lanes {
  int64_t plane[kLanes];         // offset of the plane in the input
  int64_t start[kLanes];         // of the window in the flattened plane
  int64_t at[kSpatial][kLanes];  // the same by dimension; below zero in the padding
  bool inside;                   // no window reaches into the padding

  // Lanes past the end repeat the last window.
  Lanes(const Windows& w, Cursor& cursor, int64_t count) : inside(true) {
    for (int i = 0; i < kLanes; ++i) {
      plane[i] = cursor.plane();
      start[i] = w.flat(cursor.start());
      for (int d = 0; d < kSpatial; ++d) {
        at[d][i] = cursor.start()[d];
        inside = inside && at[d][i] >= 0 && at[d][i] + w.reach[d] < w.in[d];
      }
      if (i + 1 < count) cursor.next();
    }
    cursor.next();
  }
  bool holds(const Windows& w, int i, const Tap& tap) const {
    bool in_range = true;
    for (int d = 0; d < kSpatial; ++d) {  // one comparison each: below zero wraps to a large number
      in_range &= static_cast<uint64_t>(at[d][i] + tap.at[d]) < static_cast<uint64_t>(w.in[d]);
    }
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
    if (lanes.inside) {
      for (int i = 0; i < kLanes; ++i) v[i] = x[lanes.plane[i] + lanes.start[i] + tap.offset];
    } else {
      for (int i = 0; i < kLanes; ++i) {
        const bool there = lanes.holds(w, i, tap);
        const int64_t at = lanes.plane[i] + (there ? lanes.start[i] + tap.offset : 0);
        v[i] = there ? x[at] : lowest;
      }
    }
    best.take(v, number++);
  }
  return best;
}

// Of a window in which nothing beat the padding: its first element inside the plane.
int64_t first_position(const Windows& w, const Lanes& lanes, int64_t i) {
  Sizes p;
  for (int d = 0; d < kSpatial; ++d) {
    const int64_t at = lanes.at[d][i];
    const int64_t ahead = at < 0 ? (-at + w.dilation[d] - 1) / w.dilation[d] : 0;
    p[d] = std::min(at + ahead * w.dilation[d], w.in[d] - 1);
  }
  return w.flat(p);
}

template <class T>
void max_pool(const Windows& w, const Tensor& x, T lowest, const Tensor& values,
              const Tensor& indices) {
  const auto work = static_cast<int64_t>(w.taps.size()) * kLanes;
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
  const Windows windows(x.shape(), values.shape(), AttrReader(call.attrs));
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
