#include "scan.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <utility>

#include "complex.h"
#include "levels.h"
#include "tiles.h"

namespace tinyt::cpu {
namespace {

// From this many neighbouring lines on, sums and products run side by side.
constexpr int64_t kSideBySide = 16;
// Lines whose neighbours lie closer than the elements of one are gathered this many at a time.
constexpr int64_t kGatherLines = 16;
constexpr int64_t kMaxLines = 64;  // gathered at a time
// A running sum adds up this many elements before they join the carry: the chain of dependent
// additions, which bounds its speed, is as many times shorter.
constexpr int64_t kSumBlock = 8;

// As in PyTorch: float32 accumulates in float64, float16 and bfloat16 in float32, integers in
// int64.
DType sum_dtype(DType t) {
  if (is_integral(t)) return DType::Int64;
  return t == DType::Float32 ? DType::Float64 : info(t).compute;
}

struct Scan {
  OpId op;
  DType in, out, work;  // work: what values are converted to and accumulated in
  int64_t length;
  int64_t in_step, out_step, index_step;  // bytes along the dimension
};

// ------------------------------------------------------------------ the running values
//
// step(n, get, put) goes on with n elements: put(i, result) for get(i). A new call continues the
// line; the number of elements of all but the last one is a multiple of kSumBlock.

template <class T>
struct RunningSum {
  T carry{};

  template <class Get, class Put>
  void step(int64_t n, Get get, Put put) {
    for (int64_t i = 0; i < n; i += kSumBlock) {
      const int64_t end = std::min(n, i + kSumBlock);
      T local = get(i), sum = carry + local;
      put(i, sum);
      for (int64_t k = i + 1; k < end; ++k) {
        local += get(k);
        put(k, sum = carry + local);
      }
      carry = sum;
    }
  }
};

template <class T>
struct RunningProduct {
  T carry{1};

  template <class Get, class Put>
  void step(int64_t n, Get get, Put put) {
    for (int64_t i = 0; i < n; ++i) put(i, carry *= get(i));
  }
};

// A NaN wins and stays; the last one of equal values is taken, as in PyTorch.
template <class T, bool Largest>
struct RunningExtreme {
  T best{};
  int64_t at = 0, position = 0;

  void step(int64_t n, T* values, int64_t* indices) {
    for (int64_t i = 0; i < n; ++i, ++position) {
      const T x = values[i];
      const bool better = Largest ? x >= best : x <= best;
      if (position == 0 || x != x || (best == best && better)) {
        best = x;
        at = position;
      }
      values[i] = best;
      indices[i] = at;
    }
  }
};

TileKernel kernel_for(OpId op, DType dtype) {
  return kernels().elementwise->kernel[static_cast<int>(op)][static_cast<int>(dtype)];
}

// log(sum(exp(x))) as m + log(s): m the largest value so far, s the sum of exp(x - m), rescaled
// whenever m grows. The exponentials and logarithms of a tile are taken at once.
template <class T>
struct RunningLogSum {
  T top = -std::numeric_limits<T>::infinity(), sum = 0;

  void step(int64_t n, T* values, int64_t*) {
    const DType dtype = DTypeOf<T>::value;
    T scale[kTileElements], shift[kTileElements];
    for (int64_t i = 0; i < n; ++i) {
      const T x = values[i], before = top;
      top = x > top || x != x ? x : top;
      shift[i] = std::isfinite(top) ? top : T{0};  // infinities and NaN need no shift
      scale[i] = before - shift[i];
      values[i] = x - shift[i];
    }
    map_elements(OpId::exp, dtype, scale, n);
    map_elements(OpId::exp, dtype, values, n);
    for (int64_t i = 0; i < n; ++i) values[i] = sum = sum * scale[i] + values[i];
    map_elements(OpId::log, dtype, values, n);
    for (int64_t i = 0; i < n; ++i) values[i] += shift[i];
  }
};

// The first two on dense tiles.
template <template <class> class Running, class T>
struct OnTile : Running<T> {
  void step(int64_t n, T* values, int64_t*) {
    Running<T>::step(
        n, [&](int64_t i) { return values[i]; }, [&](int64_t i, T v) { values[i] = v; });
  }
};

// ------------------------------------------------------------------ ways through the lines

// Lines gathered into dense tiles of the working dtype and written back, `count` at a time.
template <class T, class Running>
void scan_gathered(const Scan& s, const Block& in, const Block& out, const Block& index,
                   int64_t count) {
  std::array<Running, kMaxLines> running;
  const int64_t width = kTileElements / count / kSumBlock * kSumBlock;
  Tile tile, places;
  auto* values = reinterpret_cast<T*>(tile.bytes);
  auto* indices = reinterpret_cast<int64_t*>(places.bytes);
  for (int64_t i = 0; i < s.length; i += width) {
    const int64_t n = std::min(width, s.length - i);
    load_tile({in.data + i * s.in_step, in.col, s.in_step}, s.in, count, n, s.work, tile.bytes);
    for (int64_t l = 0; l < count; ++l)
      running[static_cast<size_t>(l)].step(n, values + l * n, indices + l * n);
    store_tile(tile.bytes, s.work, {out.data + i * s.out_step, out.col, s.out_step}, s.out, count,
               n);
    if (index.data)
      store_tile(places.bytes, DType::Int64,
                 {index.data + i * s.index_step, index.col, s.index_step}, DType::Int64, count, n);
  }
}

// Lines of T accumulated in W where they lie, with no tile in between.
template <class T, class W, template <class> class Running>
void scan_in_place(const Scan& s, const Block& in, const Block& out, const Block&, int64_t count) {
  for (int64_t l = 0; l < count; ++l) {
    const char* from = in.data + l * in.col;
    char* to = out.data + l * out.col;
    Running<W>{}.step(
        s.length,
        [&](int64_t i) {
          T value;
          __builtin_memcpy(&value, from + i * s.in_step, sizeof(T));
          return static_cast<W>(value);
        },
        [&](int64_t i, W sum) {
          const T value = static_cast<T>(sum);
          __builtin_memcpy(to + i * s.out_step, &value, sizeof(T));
        });
  }
}

// `cols` lines side by side, in the order of RunningSum and RunningProduct: a row of results takes
// one row of values after the other.
void scan_side_by_side(const Scan& s, const Block& in, const Block& out, const Block&,
                       int64_t cols) {
  const bool product = s.op == OpId::cumprod;
  const TileKernel combine = kernel_for(product ? OpId::mul : OpId::add, s.work);
  Tile tiles[4];
  char *carry = tiles[0].bytes, *sums = tiles[1].bytes, *local = tiles[2].bytes;
  char* const values = tiles[3].bytes;
  constexpr int64_t kNoRows[3] = {};
  constexpr uint8_t kInner[] = {1, 1, 1};
  const auto apply_to = [&](char* to, char* a, char* b) {
    char* const ptr[] = {to, a, b};
    combine({ptr, 1, cols, kNoRows, kInner});
  };
  std::memset(carry, 0, size_of(s.work) * static_cast<size_t>(cols));
  for (int64_t i = 0; i < s.length; ++i) {
    const bool starts = product ? i == 0 : i % kSumBlock == 0;
    char* const to = !starts ? values : product ? sums : local;
    load_tile({in.data + i * s.in_step, 0, in.col}, s.in, 1, cols, s.work, to);
    if (product) {
      if (!starts) apply_to(sums, sums, values);
    } else {
      if (!starts) apply_to(local, local, values);
      apply_to(sums, carry, local);
    }
    store_tile(sums, s.work, {out.data + i * s.out_step, 0, out.col}, s.out, 1, cols);
    if (!product && i % kSumBlock == kSumBlock - 1) std::swap(sums, carry);
  }
}

// ------------------------------------------------------------------ one driver

using ScanLines = void (*)(const Scan&, const Block& in, const Block& out, const Block& index,
                           int64_t count);

template <template <class> class Running>
ScanLines sums_of(DType in, DType work, bool side_by_side) {
  if (side_by_side) return scan_side_by_side;
  switch (in) {
    case DType::Float32:
      return scan_in_place<float, double, Running>;
    case DType::Float64:
      return scan_in_place<double, double, Running>;
    case DType::Int64:
      return scan_in_place<uint64_t, uint64_t, Running>;  // int64 that wraps
    default:
      return work == DType::Float32 ? scan_gathered<float, OnTile<Running, float>>
                                    : scan_gathered<uint64_t, OnTile<Running, uint64_t>>;
  }
}

template <bool Largest>
ScanLines extremes_of(DType work) {
  switch (work) {
    case DType::Float32:
      return scan_gathered<float, RunningExtreme<float, Largest>>;
    case DType::Float64:
      return scan_gathered<double, RunningExtreme<double, Largest>>;
    default:
      return scan_gathered<int64_t, RunningExtreme<int64_t, Largest>>;
  }
}

ScanLines log_sums_of(DType work) {
  return work == DType::Float32 ? scan_gathered<float, RunningLogSum<float>>
                                : scan_gathered<double, RunningLogSum<double>>;
}

ScanLines lines_of(const Scan& s, bool side_by_side) {
  switch (s.op) {
    case OpId::cumsum:
      return sums_of<RunningSum>(s.in, s.work, side_by_side);
    case OpId::cumprod:
      return sums_of<RunningProduct>(s.in, s.work, side_by_side);
    case OpId::cummax:
      return extremes_of<true>(s.work);
    case OpId::cummin:
      return extremes_of<false>(s.work);
    default:
      return log_sums_of(s.work);
  }
}

// Lines that one call takes. Short lines share a tile.
int64_t lines_at_once(const Scan& s, const Loop& lines, bool side_by_side) {
  if (side_by_side) return std::min(kTileElements, lines.size);
  const bool sums = s.op == OpId::cumsum || s.op == OpId::cumprod;
  const bool converts = s.in != DType::Float32 && size_of(s.in) < sizeof(int64_t);
  if (sums && !converts) return std::max<int64_t>(1, kTileElements / s.length);  // in place
  const bool near = std::abs(lines.stride[2]) < std::abs(s.in_step);
  const int64_t width = std::max(kSumBlock, std::min(kTileElements, s.length));
  const int64_t count = std::max(near ? kGatherLines : 1, kTileElements / width);
  return std::min({lines.size, count, kMaxLines});
}

DType work_dtype(OpId op, DType t) {
  const bool compares = op == OpId::cummax || op == OpId::cummin;
  return compares && !is_integral(t) ? info(t).compute : sum_dtype(t);
}

void kernel_scan(const KernelCall& call) {
  const Tensor &x = call.inputs[0], &out = call.outputs[0];
  if (x.numel() == 0) return;
  const Tensor& places = call.outputs.size() > 1 ? call.outputs[1] : out;
  if (is_complex(x.dtype())) return complex_cumsum(call);
  const auto dim = static_cast<size_t>(AttrReader(call.attrs).integer());
  const bool scalar = x.rank() == 0;
  const auto step = [&](const Tensor& t) {
    return scalar ? 0 : t.stride(dim) * static_cast<int64_t>(t.itemsize());
  };
  const Scan scan{
      call.op, x.dtype(), out.dtype(), work_dtype(call.op, x.dtype()), scalar ? 1 : x.size(dim),
      step(x), step(out), step(places)};
  Dims starts(x.shape());
  if (!scalar) starts[dim] = 1;
  const auto first_of = [&](const Tensor& t) { return t.view(starts, t.strides(), t.offset()); };
  const Tensor to = first_of(out), index = first_of(places), from = first_of(x);
  const Tensor* operands[] = {&to, &index, &from};
  const Loops loops(operands);
  const bool side_by_side = (call.op == OpId::cumsum || call.op == OpId::cumprod) &&
                            loops.cols().stride[0] == static_cast<int64_t>(out.itemsize()) &&
                            loops.cols().size >= kSideBySide;
  const ScanLines body = lines_of(scan, side_by_side);
  for_each_tile(
      TileGrid(loops, 1, lines_at_once(scan, loops.cols(), side_by_side)), 3,
      [&](const TileCursor& at) {
        Block places_at = loops.block(1, index.data() + at.offset(1));
        if (&places == &out) places_at.data = nullptr;
        body(scan, loops.block(2, from.data() + at.offset(2)),
             loops.block(0, to.data() + at.offset(0)), places_at, at.cols());
      },
      scan.length);
}

}  // namespace

void kernel_cumsum(const KernelCall& call) { kernel_scan(call); }
void kernel_cumprod(const KernelCall& call) { kernel_scan(call); }
void kernel_cummax(const KernelCall& call) { kernel_scan(call); }
void kernel_cummin(const KernelCall& call) { kernel_scan(call); }
void kernel_logcumsumexp(const KernelCall& call) { kernel_scan(call); }

}  // namespace tinyt::cpu
