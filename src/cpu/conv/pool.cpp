#include "cpu/conv/pool.h"

#include <algorithm>
#include <limits>
#include <span>
#include <vector>

#include "core/base/parallel.h"
#include "cpu/conv/spatial.h"
#include "cpu/copy/copy.h"
#include "cpu/schedule/levels.h"

namespace tinyt::cpu {
namespace {

// Windows along one dimension, each `step` after the last, with equally many taps.
struct PoolRun {
  int64_t first, count;  // output positions
  int64_t begin, step, taps;
};

std::vector<PoolRun> runs_of(std::span<const int64_t> begin, std::span<const int64_t> end,
                             int64_t tap_step) {
  std::vector<PoolRun> runs;
  for (size_t i = 0; i < begin.size(); ++i) {
    const int64_t length = std::max<int64_t>(0, end[i] - begin[i]);
    const int64_t taps = (length + tap_step - 1) / tap_step;
    if (!runs.empty() && runs.back().taps == taps) {
      PoolRun& run = runs.back();
      const int64_t step = begin[i] - (run.begin + (run.count - 1) * run.step);
      if (step > 0 && (run.count == 1 || step == run.step)) {
        run.step = step;
        ++run.count;
        continue;
      }
    }
    runs.push_back({static_cast<int64_t>(i), 1, begin[i], 1, taps});
  }
  return runs;
}

struct Windows {
  Sizes in, out, step;
  std::span<const int64_t> begin[kSpatial], end[kSpatial];  // by output position
  std::vector<PoolRun> across;                              // along the last dimension
  int64_t taps = 1;                                         // of the largest window

  Windows(std::span<const int64_t> in_shape, AttrReader attrs)
      : in(spatial(in_shape.subspan(2), 1)) {
    const auto size = attrs.list();
    out = spatial(size, 1);
    std::span<const int64_t> begins = attrs.list(), ends = attrs.list();
    step = spatial(attrs.list(), 1);
    static constexpr int64_t kZero = 0, kOne = 1;
    for (int d = 0; d < kSpatial; ++d) {
      const bool listed = d >= kSpatial - static_cast<int>(size.size());
      const auto n = static_cast<size_t>(out[d]);
      begin[d] = listed ? begins.first(n) : std::span(&kZero, 1);
      end[d] = listed ? ends.first(n) : std::span(&kOne, 1);
      if (listed) begins = begins.subspan(n), ends = ends.subspan(n);
      int64_t most = 0;
      for (const PoolRun& run : runs_of(begin[d], end[d], step[d])) most = std::max(most, run.taps);
      taps *= most;
    }
    across = runs_of(begin[2], end[2], step[2]);
  }
  int64_t taps_at(int d, int64_t i) const {
    const auto at = static_cast<size_t>(i);
    return std::max<int64_t>(0, (end[d][at] - begin[d][at] + step[d] - 1) / step[d]);
  }
};

// Row `row` of all output rows.
template <class T>
void max_pool_row(const Windows& w, int64_t row, DType dtype, const T* x, T lowest, T* values,
                  int64_t* indices) {
  const int64_t y = row % w.out[1], z = row / w.out[1] % w.out[0];
  const int64_t from_z = w.begin[0][static_cast<size_t>(z)];
  const int64_t from_y = w.begin[1][static_cast<size_t>(y)];
  for (const PoolRun& run : w.across) {
    T* value = values + row * w.out[2] + run.first;
    int64_t* index = indices + row * w.out[2] + run.first;
    const PoolRow args = {
        .in = x + row / w.out[1] / w.out[0] * product(w.in),
        .start = (from_z * w.in[1] + from_y) * w.in[2] + run.begin,
        .step = run.step,
        .taps = {w.taps_at(0, z), w.taps_at(1, y), run.taps},
        .tap_step = {w.step[0] * w.in[1] * w.in[2], w.step[1] * w.in[2], w.step[2]},
        .n = run.count,
        .value = value,
        .index = index};
    if (args.taps[0] * args.taps[1] * args.taps[2] > 0) {
      kernels().pool->row[static_cast<int>(dtype)](args);
      continue;
    }
    // An empty window: its first element, or where that would be.
    const auto inside = [&](int64_t at, int d) { return std::min(at, w.in[d] - 1); };
    const int64_t line = (inside(from_z, 0) * w.in[1] + inside(from_y, 1)) * w.in[2];
    for (int64_t i = 0; i < run.count; ++i) {
      value[i] = lowest;
      index[i] = line + inside(run.begin + i * run.step, 2);
    }
  }
}

template <class T>
void max_pool(const Windows& w, DType dtype, const Tensor& x, T lowest, const Tensor& values,
              const Tensor& indices) {
  const int64_t work = std::max<int64_t>(1, w.taps * w.out[2]);
  const int64_t grain = std::max<int64_t>(1, kChunkElements / work);
  parallel_ranges(values.numel() / w.out[2], grain, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      max_pool_row(w, row, dtype, x.ptr<T>(), lowest, values.ptr<T>(), indices.ptr<int64_t>());
    }
  });
}

int64_t lowest_integer(DType t) {
  if (is_bool(t) || t == DType::UInt8) return 0;
  return std::numeric_limits<int64_t>::min() >> (64 - 8 * size_of(t));
}

// x and the results are contiguous, of a dtype that has a kernel; `stored` is x's dtype at first.
void max_pool_in(DType work, DType stored, const Windows& w, const Tensor& x, const Tensor& values,
                 const Tensor& indices) {
  switch (work) {
    case DType::Float32:
      return max_pool<float>(w, work, x, -std::numeric_limits<float>::infinity(), values, indices);
    case DType::Float64:
      return max_pool<double>(w, work, x, -std::numeric_limits<double>::infinity(), values,
                              indices);
    default:
      max_pool<int64_t>(w, work, x, lowest_integer(stored), values, indices);
  }
}

DType pool_dtype(DType stored) { return is_bool(stored) ? DType::Int64 : info(stored).compute; }

// Images whose conversion goes on at a time: the whole would take several times the memory.
int64_t some_images(const Tensor& x, const Tensor& values) {
  const int64_t images = x.size(0);
  const int64_t some = kPartElements * images / std::max(x.numel(), values.numel());
  return std::clamp<int64_t>(some, 1, images);
}

}  // namespace

int64_t workspace_max_pool(const KernelCall& call) {
  const Tensor &x = call.inputs[0], &values = call.outputs[0];
  if (values.numel() == 0) return 0;
  const DType work = pool_dtype(x.dtype());
  if (work == x.dtype()) return dense_bytes(x);
  const int64_t count = some_images(x, values);
  return (rows_of(x, 0, count).numel() + rows_of(values, 0, count).numel()) *
         static_cast<int64_t>(size_of(work));
}

void kernel_max_pool(const KernelCall& call) {
  const Tensor &x = call.inputs[0], &values = call.outputs[0], &indices = call.outputs[1];
  if (values.numel() == 0) return;
  const Windows windows(x.shape(), AttrReader(call.attrs));
  const DType stored = x.dtype(), work = pool_dtype(stored);
  if (work == stored) {
    return max_pool_in(work, stored, windows, as_contiguous(x), values, indices);
  }
  // Other dtypes convert, which is exact both ways.
  const int64_t images = x.size(0), some = some_images(x, values);
  for (int64_t first = 0; first < images; first += some) {
    const int64_t count = std::min(some, images - first);
    const Tensor from = rows_of(x, first, count), to = rows_of(values, first, count);
    const Tensor wide = Tensor::empty(from.shape(), work), result = Tensor::empty(to.shape(), work);
    copy_into(from, wide);
    max_pool_in(work, stored, windows, wide, result, rows_of(indices, first, count));
    copy_into(result, to);
  }
}

}  // namespace tinyt::cpu
