// The gradient of the input. Its positions fall into phases, one for each remainder by the strides,
// that meet different taps: a product for each instead of one with mostly zeros.
#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <span>
#include <vector>

#include "core/base/parallel.h"
#include "cpu/conv/conv.h"
#include "cpu/conv/conv_forms.h"
#include "cpu/conv/conv_strategy.h"
#include "cpu/schedule/machine_model.h"

namespace tinyt::cpu {
namespace {

// Along one dimension, the input positions first, first + stride, ... and the only taps that meet
// elements of the gradient there: tap, tap + step, ...
struct Phase {
  int64_t first, count, tap, taps, step;
  int64_t source;  // the gradient's element that the first tap meets at the first position
  int64_t tap_step;

  // The phase of position `at` < stride: position + padding = tap * dilation (mod stride).
  Phase(int64_t at, int64_t size, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation)
      : first(at),
        count((size - at + stride - 1) / stride),
        step(stride / std::gcd(stride, dilation)) {
    const int64_t rest = (at + padding) % stride, end = std::min(step, kernel);
    for (tap = 0; tap < end && tap * dilation % stride != rest; ++tap) {
    }
    taps = tap < end ? (kernel - tap + step - 1) / step : 0;
    source = taps > 0 ? (at + padding - tap * dilation) / stride : 0;
    tap_step = -(dilation / std::gcd(stride, dilation));
  }
  // Whether both meet the same elements.
  bool is_like(const Phase& p) const {
    return taps == p.taps && source == p.source && count == p.count;
  }
};

// One along each dimension.
using PhaseOfAll = std::array<Phase, kSpatial>;

Columns columns_of_gradient(const Geometry& g, const PhaseOfAll& phase, const char* data) {
  Columns c{.data = data,
            .image_stride = g.out_channels * g.out_size(),
            .channel_stride = g.out_size(),
            .source = g.out,
            .positions = {},
            .kernel = {},
            .multiply = {1, 1, 1},
            .offset = {},
            .tap_step = {}};
  for (size_t d = 0; d < kSpatial; ++d) {
    c.positions[d] = phase[d].count;
    c.kernel[d] = phase[d].taps;
    c.offset[d] = phase[d].source;
    c.tap_step[d] = phase[d].tap_step;
  }
  return c;
}

// Those with taps.
class Phases {
 public:
  explicit Phases(const Geometry& g) {
    for (size_t d = 0; d < kSpatial; ++d) {
      for (int64_t at = 0; at < std::min(g.stride[d], g.in[d]); ++at) {
        const Phase p(at, g.in[d], g.kernel[d], g.stride[d], g.padding[d], g.dilation[d]);
        if (p.taps > 0) along_[d].push_back(p);
      }
    }
  }
  const std::vector<Phase>& along(size_t d) const { return along_[d]; }

  // Whether every position meets a tap.
  bool cover(const Sizes& in) const {
    int64_t covered = 1;
    for (const auto& phases : along_) {
      int64_t positions = 0;
      for (const Phase& p : phases) positions += p.count;
      covered *= positions;
    }
    return covered == product(in);
  }
  // Whether all meet the same elements of the gradient.
  bool alike() const {
    return std::all_of(along_.begin(), along_.end(), [](const std::vector<Phase>& phases) {
      return !phases.empty() && std::all_of(phases.begin(), phases.end(), [&](const Phase& p) {
        return p.is_like(phases.front());
      });
    });
  }
  std::vector<PhaseOfAll> all() const {
    std::vector<PhaseOfAll> list;
    for (const Phase& z : along_[0]) {
      for (const Phase& y : along_[1]) {
        for (const Phase& x : along_[2]) list.push_back({z, y, x});
      }
    }
    return list;
  }

 private:
  std::array<std::vector<Phase>, kSpatial> along_;
};

// w [groups * O, C, taps] as [groups, phases, C, O, taps of a phase]: the weights that each input
// channel meets.
Dims swapped_shape(const Geometry& g, const PhaseOfAll& phase) {
  Dims shape{g.groups, g.group_in(), g.group_out()};
  for (const Phase& p : phase) shape.push_back(p.taps);
  return shape;
}
Dims swapped_dims(const Geometry& g, std::span<const PhaseOfAll> phases) {
  return {numel_of(swapped_shape(g, phases[0])) * static_cast<int64_t>(phases.size())};
}

Tensor swap_channels(const Geometry& g, std::span<const PhaseOfAll> phases, const Tensor& w) {
  const int64_t o = g.group_out(), c = g.group_in(), taps = g.taps();
  const Sizes step = {g.kernel[1] * g.kernel[2], g.kernel[2], 1};
  const Dims shape = swapped_shape(g, phases[0]);
  const int64_t matrix = numel_of(shape) / g.groups;
  const auto count = static_cast<int64_t>(phases.size());
  const Tensor lines = Tensor::empty(swapped_dims(g, phases), w.dtype());
  Dims to_strides = contiguous_strides(shape);
  to_strides[0] = count * matrix;
  for (int64_t i = 0; i < count; ++i) {
    Dims strides{o * c * taps, taps, c * taps};
    int64_t offset = w.offset();
    for (size_t d = 0; d < kSpatial; ++d) {
      const Phase& p = phases[static_cast<size_t>(i)][d];
      strides.push_back(p.step * step[d]);
      offset += p.tap * step[d];
    }
    copy_into(w.view(shape, strides, offset),
              lines.view(shape, to_strides, lines.offset() + i * matrix));
  }
  return lines;
}

// [N, groups * phases * C, positions], of phases that are alike.
Dims product_dims(const Geometry& g, std::span<const PhaseOfAll> phases) {
  Dims shape{g.images, g.in_channels * static_cast<int64_t>(phases.size())};
  for (const Phase& p : phases[0]) shape.push_back(p.count);
  return shape;
}

Tensor product_of(DType work, const Geometry& g, std::span<const PhaseOfAll> phases,
                  const Tensor& grad, const Tensor& w) {
  const Columns columns = columns_of_gradient(g, phases[0], grad.host_data());
  const Tensor result = Tensor::empty(product_dims(g, phases), work);
  multiply_columns(work, g.groups, swap_channels(g, phases, w), columns, g.group_out(), result);
  return result;
}

// The weights that such a product reads, and what it takes beside its result.
int64_t phase_workspace(DType work, const Geometry& g, std::span<const PhaseOfAll> phases,
                        const Tensor& y, Epilogue* tail = nullptr) {
  const Tensor lines = dense_geometry(swapped_dims(g, phases), work);
  return lines.numel() * static_cast<int64_t>(lines.itemsize()) +
         columns_workspace(work, g.groups, lines, columns_of_gradient(g, phases[0], nullptr),
                           g.group_out(), y, tail);
}

// Elements of two phases in turns, the even ones first.
template <class T>
void zip(const T* even, const T* odd, int64_t n, T* to) {
  for (int64_t i = 0; i < n / 2; ++i) {
    to[2 * i] = even[i];
    to[2 * i + 1] = odd[i];
  }
  if (n % 2 != 0) to[n - 1] = even[n / 2];
}

// Every `step`-th of n elements; null: zeros.
template <class T>
void spread(const T* from, int64_t step, int64_t n, T* to) {
  if (from == nullptr) {
    for (int64_t i = 0; i < n; i += step) to[i] = 0;
  } else if (step == 1) {
    std::memcpy(to, from, static_cast<size_t>(n) * sizeof(T));
  } else {
    for (int64_t i = 0; i < n; i += step) to[i] = *from++;
  }
}

// Where the elements of a phase are: channel 0 of an image and group.
struct PhaseData {
  const char* data = nullptr;    // null: zeros
  int64_t image = 0, group = 0;  // elements from one to the next
};

// The rows of phases z and y, from their elements at each remainder along x.
template <class T>
void put_rows(const Geometry& g, const Phase& z, const Phase& y, std::span<const PhaseData> across,
              T* dx) {
  const int64_t width = g.in[2], step = g.stride[2];
  const int64_t rows = z.count * y.count, grain = std::max<int64_t>(1, kChunkElements / width);
  const auto source = [&](size_t k, int64_t image, int64_t channel, int64_t row) -> const T* {
    const PhaseData& p = across[k];
    if (p.data == nullptr) return nullptr;
    const int64_t n = (width - static_cast<int64_t>(k) + step - 1) / step;
    return reinterpret_cast<const T*>(p.data) + image * p.image + channel / g.group_in() * p.group +
           (channel % g.group_in() * rows + row) * n;
  };
  parallel_ranges(g.images * g.in_channels * rows, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = i % rows, channel = i / rows % g.in_channels;
      const int64_t image = i / rows / g.in_channels;
      const int64_t plane = z.first + row / y.count * g.stride[0];
      const int64_t line = y.first + row % y.count * g.stride[1];
      T* to = dx + ((image * g.in_channels + channel) * g.in[0] + plane) * g.in[1] * width +
              line * width;
      if (step == 2 && across.size() == 2) {
        const T *even = source(0, image, channel, row), *odd = source(1, image, channel, row);
        if (even != nullptr && odd != nullptr) {
          zip(even, odd, width, to);
          continue;
        }
      }
      for (size_t k = 0; k < across.size(); ++k) {
        spread(source(k, image, channel, row), step, width - static_cast<int64_t>(k), to + k);
      }
    }
  });
}

void put_rows(const Geometry& g, const Phase& z, const Phase& y, std::span<const PhaseData> across,
              const Tensor& dx) {
  if (dx.itemsize() == 2) return put_rows(g, z, y, across, dx.ptr<uint16_t>());
  if (dx.itemsize() == 4) return put_rows(g, z, y, across, dx.ptr<uint32_t>());
  put_rows(g, z, y, across, dx.ptr<uint64_t>());
}

// All phases in one product.
void put_alike(DType work, const Geometry& g, const Phases& phases, const Tensor& grad,
               const Tensor& w, const Tensor& dx) {
  const std::vector<PhaseOfAll> all = phases.all();
  const Tensor result = product_of(work, g, all, grad, w);
  const int64_t image = result.numel() / g.images, group = image / g.groups;
  const int64_t bytes_of_phase =
      group / static_cast<int64_t>(all.size()) * static_cast<int64_t>(result.itemsize());
  const char* data = result.host_data();
  for (const Phase& z : phases.along(0)) {
    for (const Phase& y : phases.along(1)) {
      std::vector<PhaseData> across(static_cast<size_t>(std::min(g.stride[2], g.in[2])));
      for (const Phase& x : phases.along(2)) {
        across[static_cast<size_t>(x.first)] = {data, image, group};
        data += bytes_of_phase;
      }
      put_rows(g, z, y, across, dx);
    }
  }
}

void input_gradient(DType work, const Geometry& g, const Phases& phases, const Tensor& grad,
                    const Tensor& w, const Tensor& dx, Epilogue* tail) {
  if (!phases.cover(g.in)) {
    std::memset(dx.host_data(), 0, static_cast<size_t>(dx.numel()) * size_of(work));
  }
  if (g.stride == Sizes{1, 1, 1}) {
    const std::vector<PhaseOfAll> one = phases.all();
    return multiply_columns(work, g.groups, swap_channels(g, one, w),
                            columns_of_gradient(g, one[0], grad.host_data()), g.group_out(), dx,
                            tail);
  }
  if (phases.alike()) return put_alike(work, g, phases, grad, w, dx);
  for (const Phase& z : phases.along(0)) {
    for (const Phase& y : phases.along(1)) {
      std::vector<Tensor> results;
      std::vector<PhaseData> across(static_cast<size_t>(std::min(g.stride[2], g.in[2])));
      for (const Phase& x : phases.along(2)) {
        const PhaseOfAll phase = {z, y, x};
        results.push_back(product_of(work, g, {&phase, 1}, grad, w));
        const int64_t image = results.back().numel() / g.images;
        across[static_cast<size_t>(x.first)] = {results.back().host_data(), image,
                                                image / g.groups};
      }
      put_rows(g, z, y, across, dx);
    }
  }
}

// What it takes beside dense operands and the result in the dtype of the work: results of phases
// are kept until those of a row are there.
int64_t input_gradient_workspace(DType work, const Geometry& g, const Phases& phases,
                                 const Tensor& out, Epilogue* tail) {
  const std::vector<PhaseOfAll> all = phases.all();
  if (g.stride == Sizes{1, 1, 1}) return phase_workspace(work, g, all, out, tail);
  const auto made = [&](std::span<const PhaseOfAll> some, int64_t kept, int64_t& most) {
    const Tensor y = dense_geometry(product_dims(g, some), work);
    kept += y.numel() * static_cast<int64_t>(y.itemsize());
    most = std::max(most, kept + phase_workspace(work, g, some, y));
    return kept;
  };
  int64_t most = 0;
  if (phases.alike()) {
    made(all, 0, most);
    return most;
  }
  for (const Phase& z : phases.along(0)) {
    for (const Phase& y : phases.along(1)) {
      int64_t kept = 0;
      for (const Phase& x : phases.along(2)) {
        const PhaseOfAll phase = {z, y, x};
        kept = made({&phase, 1}, kept, most);
      }
    }
  }
  return most;
}

DType input_dtype(const KernelCall& call, const Geometry& g, const Phases& phases) {
  const DType have = call.inputs[0].dtype();
  std::vector<ConvProblem> products;
  for (const PhaseOfAll& phase : phases.all()) {
    products.push_back({have, g.images, g.groups, g.group_out(), g.group_in(),
                        columns_of_gradient(g, phase, nullptr)});
  }
  return choose_dtype(have, info(call.compute).compute, products);
}

}  // namespace

int64_t workspace_conv_backward_input(const KernelCall& call) {
  const Tensor &grad = call.inputs[0], &w = call.inputs[1], &out = call.outputs[0];
  if (out.numel() == 0) return 0;
  AttrReader attrs(call.attrs);
  const auto size = attrs.list();
  const Geometry g(size, w.shape(), grad.shape(), attrs);
  const Phases phases(g);
  const DType work = input_dtype(call, g, phases);
  return target_bytes(out, work) + dense_bytes(grad, work) + dense_bytes(w, work) +
         input_gradient_workspace(work, g, phases, out, work == out.dtype() ? call.tail : nullptr);
}

void kernel_conv_backward_input(const KernelCall& call) {
  const Tensor &grad = call.inputs[0], &w = call.inputs[1], &out = call.outputs[0];
  AttrReader attrs(call.attrs);
  const auto size = attrs.list();
  const Geometry g(size, w.shape(), grad.shape(), attrs);
  const Phases phases(g);
  const DType work = input_dtype(call, g, phases);
  in_compute_dtype(out, work, [&](const Tensor& dx) {
    input_gradient(work, g, phases, dense_as(grad, work), dense_as(w, work), dx,
                   work == out.dtype() ? call.tail : nullptr);
  });
}

}  // namespace tinyt::cpu
