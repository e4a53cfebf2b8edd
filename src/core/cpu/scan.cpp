#include "scan.h"

#include <algorithm>
#include <cstring>

#include "complex.h"
#include "levels.h"
#include "tiles.h"

namespace tinyt::cpu {
namespace {

// From this many neighbouring lines on, they are summed side by side.
constexpr int64_t kSideBySide = 16;

// As in PyTorch: float32 sums in float64, float16 and bfloat16 in float32, integers in int64.
DType sum_dtype(DType t) {
  if (is_integral(t)) return DType::Int64;
  return t == DType::Float32 ? DType::Float64 : info(t).compute;
}

struct Scan {
  DType in, out, sum;
  int64_t length;
  int64_t in_step, out_step;  // bytes along the dimension
};

template <class T>
T running_sum(T* values, int64_t n, T sum) {
  for (int64_t i = 0; i < n; ++i) values[i] = sum += values[i];
  return sum;
}

// One line: tiles along it convert to the sum's type, are summed in place and converted back.
template <class T>
void scan_line(const Scan& s, char* in, char* out) {
  Tile tile;
  auto* values = reinterpret_cast<T*>(tile.bytes);
  T sum{};
  for (int64_t i = 0; i < s.length; i += kTileElements) {
    const int64_t n = std::min(kTileElements, s.length - i);
    load_tile({in + i * s.in_step, 0, s.in_step}, s.in, 1, n, s.sum, tile.bytes);
    sum = running_sum(values, n, sum);
    store_tile(tile.bytes, s.sum, {out + i * s.out_step, 0, s.out_step}, s.out, 1, n);
  }
}

// One line whose elements are summed as they are or in a wider type, with no tile in between.
template <class T, class Sum>
void scan_direct(const Scan& s, const char* in, char* out) {
  Sum sum{};
  for (int64_t i = 0; i < s.length; ++i) {
    T value;
    __builtin_memcpy(&value, in + i * s.in_step, sizeof(T));
    value = static_cast<T>(sum += static_cast<Sum>(value));
    __builtin_memcpy(out + i * s.out_step, &value, sizeof(T));
  }
}

void scan_any_line(const Scan& s, char* in, char* out) {
  switch (s.in) {
    case DType::Float32:
      return scan_direct<float, double>(s, in, out);
    case DType::Float64:
      return scan_direct<double, double>(s, in, out);
    case DType::Int64:
      return scan_direct<uint64_t, uint64_t>(s, in, out);  // int64 that wraps
    case DType::Float16:
    case DType::BFloat16:
      return scan_line<float>(s, in, out);
    default:
      return scan_line<uint64_t>(s, in, out);
  }
}

// `cols` lines side by side: a row of sums takes one row of values after the other.
void scan_lines(const Scan& s, const Block& in, const Block& out, int64_t cols) {
  const TileKernel add =
      kernels().elementwise->kernel[static_cast<int>(OpId::add)][static_cast<int>(s.sum)];
  Tile sums, values;
  std::memset(sums.bytes, 0, size_of(s.sum) * static_cast<size_t>(cols));
  char* const ptr[] = {sums.bytes, sums.bytes, values.bytes};
  constexpr int64_t kNoRows[3] = {};
  constexpr uint8_t kInner[] = {1, 1, 1};
  for (int64_t i = 0; i < s.length; ++i) {
    load_tile({in.data + i * s.in_step, 0, in.col}, s.in, 1, cols, s.sum, values.bytes);
    add({ptr, 1, cols, kNoRows, kInner});
    store_tile(sums.bytes, s.sum, {out.data + i * s.out_step, 0, out.col}, s.out, 1, cols);
  }
}

}  // namespace

void kernel_cumsum(const KernelCall& call) {
  const Tensor &x = call.inputs[0], &out = call.outputs[0];
  if (x.numel() == 0) return;
  if (is_complex(x.dtype())) return complex_cumsum(call);
  const auto dim = static_cast<size_t>(AttrReader(call.attrs).integer());
  const bool scalar = x.rank() == 0;
  const auto step = [&](const Tensor& t) {
    return scalar ? 0 : t.stride(dim) * static_cast<int64_t>(t.itemsize());
  };
  const Scan scan{x.dtype(), out.dtype(), sum_dtype(x.dtype()), scalar ? 1 : x.size(dim),
                  step(x),   step(out)};
  Dims starts(x.shape());
  if (!scalar) starts[dim] = 1;
  const Tensor to = out.view(starts, out.strides(), out.offset());
  const Tensor from = x.view(starts, x.strides(), x.offset());
  const Tensor* operands[] = {&to, &from};
  const Loops loops(operands);
  const bool inner = loops.cols().stride[0] == static_cast<int64_t>(out.itemsize());
  const int64_t cols =
      inner && loops.cols().size >= kSideBySide ? std::min(kTileElements, loops.cols().size) : 1;
  for_each_tile(
      TileGrid(loops, 1, cols), 2,
      [&](const TileCursor& at) {
        const Block target = loops.block(0, to.data() + at.offset(0));
        const Block source = loops.block(1, from.data() + at.offset(1));
        if (cols == 1) {
          scan_any_line(scan, source.data, target.data);
        } else {
          scan_lines(scan, source, target, at.cols());
        }
      },
      scan.length);
}

}  // namespace tinyt::cpu
