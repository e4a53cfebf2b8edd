#include "cpu/reduce/scan.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "cpu/elementwise/complex.h"
#include "cpu/schedule/axes.h"
#include "cpu/schedule/levels.h"
#include "cpu/schedule/tiles.h"

namespace tinyt::cpu {
namespace {

// From this many neighbouring lines on, they run side by side.
constexpr int64_t kSideBySide = 16;
// Lines whose neighbours lie closer than the elements of one are gathered this many at a time.
constexpr int64_t kGatherLines = 16;
constexpr int64_t kMaxLines = kTileElements / kScanPart;  // gathered at a time

struct Scan {
  OpId op;
  DType in, out, work;  // work: of the lines that the kernels take
  int64_t length;
  int64_t in_step, out_step, index_step;  // bytes along the dimension

  bool extremes() const { return op == OpId::cummax || op == OpId::cummin; }
  bool log_sums() const { return op == OpId::logcumsumexp; }
  bool direct() const { return in == work && out == work && !log_sums(); }
};

const ScanTable::Combining& combining(const Scan& s) {
  const ScanTable& table = *kernels().scan;
  return (s.op == OpId::cumsum ? table.sum : table.product)[static_cast<int>(s.work)];
}
const ScanTable::Extreme& extreme(const Scan& s) {
  const ScanTable& table = *kernels().scan;
  return (s.op == OpId::cummax ? table.largest : table.smallest)[static_cast<int>(s.work)];
}

// ------------------------------------------------------------------ how far a line has come

struct Carry {
  alignas(8) char value[8] = {};

  Carry() = default;
  explicit Carry(const Scan& s) {
    if (s.op == OpId::cumprod) s.work == DType::Int64 ? start(int64_t{1}) : start(1.0);
  }
  void step(const Scan& s, int64_t n, const char* in, char* out, int64_t*) {
    combining(s).line(in, n, out, value);
  }

 private:
  template <class T>
  void start(T first) {
    std::memcpy(value, &first, sizeof first);
  }
};

struct Extreme {
  ScanExtreme state{};

  Extreme() = default;
  explicit Extreme(const Scan&) {}
  void step(const Scan& s, int64_t n, const char* in, char* out, int64_t* indices) {
    extreme(s).line(in, n, out, indices, state);
  }
};

// log(sum(exp(x))) as m + log(s): m the largest value so far, s the sum of exp(x - m), rescaled
// whenever m grows. The exponentials and logarithms of a tile are taken at once. A new call
// continues the line.
template <class T>
struct RunningLogSum {
  T top = -std::numeric_limits<T>::infinity(), sum = 0;

  void step(int64_t n, T* values) {
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

template <class T>
struct LogSum : RunningLogSum<T> {
  LogSum() = default;
  explicit LogSum(const Scan&) {}
  void step(const Scan&, int64_t n, const char*, char* out, int64_t*) {
    RunningLogSum<T>::step(n, reinterpret_cast<T*>(out));
  }
};

// ------------------------------------------------------------------ ways through the lines

// Lines gathered into dense tiles of the working dtype and written back, `count` at a time.
template <class Line>
void scan_gathered(const Scan& s, const Block& in, const Block& out, const Block& index,
                   int64_t count) {
  std::array<Line, kMaxLines> lines;
  lines.fill(Line(s));
  const int64_t width = kTileElements / count / kScanPart * kScanPart;
  const auto item = static_cast<int64_t>(size_of(s.work));
  Tile tile, places;
  auto* indices = reinterpret_cast<int64_t*>(places.bytes);
  for (int64_t i = 0; i < s.length; i += width) {
    const int64_t n = std::min(width, s.length - i);
    load_tile({in.data + i * s.in_step, in.col, s.in_step}, s.in, count, n, s.work, tile.bytes);
    for (int64_t l = 0; l < count; ++l) {
      char* values = tile.bytes + l * n * item;
      lines[static_cast<size_t>(l)].step(s, n, values, values, indices + l * n);
    }
    store_tile(tile.bytes, s.work, {out.data + i * s.out_step, out.col, s.out_step}, s.out, count,
               n);
    if (index.data)
      store_tile(places.bytes, DType::Int64,
                 {index.data + i * s.index_step, index.col, s.index_step}, DType::Int64, count, n);
  }
}

// Dense lines where they lie.
template <class Line>
void scan_in_place(const Scan& s, const Block& in, const Block& out, const Block& index,
                   int64_t count) {
  for (int64_t l = 0; l < count; ++l) {
    auto* indices = reinterpret_cast<int64_t*>(index.data + (index.data ? l * index.col : 0));
    Line(s).step(s, s.length, in.data + l * in.col, out.data + l * out.col, indices);
  }
}

// Lines side by side, a row of values after the other.
void scan_side_by_side(const Scan& s, const Block& in, const Block& out, const Block& index,
                       int64_t count) {
  const ScanColumns columns{s.length, count,      in.data,    s.in_step,
                            out.data, s.out_step, index.data, s.index_step};
  s.extremes() ? extreme(s).columns(columns) : combining(s).columns(columns);
}

// ------------------------------------------------------------------ one driver

using ScanLines = void (*)(const Scan&, const Block& in, const Block& out, const Block& index,
                           int64_t count);
enum class Way : uint8_t { Gathered, InPlace, SideBySide };

ScanLines lines_of(const Scan& s, Way way) {
  if (way == Way::SideBySide) return scan_side_by_side;
  const bool in_place = way == Way::InPlace;
  if (s.extremes()) return in_place ? scan_in_place<Extreme> : scan_gathered<Extreme>;
  if (!s.log_sums()) return in_place ? scan_in_place<Carry> : scan_gathered<Carry>;
  return s.work == DType::Float32 ? scan_gathered<LogSum<float>> : scan_gathered<LogSum<double>>;
}

// `lines`: the loop over neighbouring lines, with the operands out, index, in.
Way way_of(const Scan& s, const Loop& lines) {
  if (!s.direct()) return Way::Gathered;
  const auto item = static_cast<int64_t>(size_of(s.work));
  constexpr int64_t kPlace = sizeof(int64_t);
  if (s.in_step == item && s.out_step == item && (!s.extremes() || s.index_step == kPlace))
    return Way::InPlace;
  const bool neighbours =
      lines.stride[0] == item && lines.stride[2] == item &&
      (!s.extremes() || (lines.stride[1] == kPlace && s.length <= kMaxScanPlace));
  return neighbours && lines.size >= kSideBySide ? Way::SideBySide : Way::Gathered;
}

// Lines that one call takes. Short lines share a tile.
int64_t lines_at_once(const Scan& s, const Loop& lines, Way way) {
  if (way == Way::SideBySide) return columns_at_once(lines.size, kScanColumns);
  if (way == Way::InPlace) return std::max<int64_t>(1, kTileElements / s.length);
  const bool near = std::abs(lines.stride[2]) < std::abs(s.in_step);
  const int64_t width = std::max(kScanPart, std::min(kTileElements, s.length));
  const int64_t count = std::max(near ? kGatherLines : 1, kTileElements / width);
  return std::min({lines.size, count, kMaxLines});
}

// Log-sum-exps of float32 are taken in float64, as PyTorch's are.
DType work_dtype(OpId op, DType t) {
  if (is_integral(t)) return DType::Int64;
  return op == OpId::logcumsumexp && t == DType::Float32 ? DType::Float64 : info(t).compute;
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
  const Way way = way_of(scan, loops.cols());
  const ScanLines body = lines_of(scan, way);
  for_each_tile(
      TileGrid(loops, 1, lines_at_once(scan, loops.cols(), way)), 3,
      [&](const TileCursor& at) {
        Block places_at = loops.block(1, index.host_data() + at.offset(1));
        if (&places == &out) places_at.data = nullptr;
        body(scan, loops.block(2, from.host_data() + at.offset(2)),
             loops.block(0, to.host_data() + at.offset(0)), places_at, at.cols());
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
