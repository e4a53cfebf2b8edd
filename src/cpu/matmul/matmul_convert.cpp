#include "cpu/matmul/matmul_convert.h"

#include <algorithm>

#include "cpu/schedule/tiles.h"

namespace tinyt::cpu {
namespace {

constexpr int64_t kStrip = 128;  // of depth, converted at a time

struct alignas(64) Strip {
  char bytes[kMaxTileLines * kStrip * sizeof(int64_t)];
};

// Lines [first, first + count) at depth [k, k + depth), depth <= kStrip, in the dtype `to`. They
// run along memory or lie next to each other, as they did.
StridedLines convert(const ConvertedLines& c, DType to, int64_t first, int64_t count, int64_t k,
                     int64_t depth, Strip& strip) {
  const auto item = static_cast<int64_t>(size_of(c.from));
  const auto size = static_cast<int64_t>(size_of(to));
  const StridedLines& m = c.lines;
  const char* from = static_cast<const char*>(m.data) + (first * m.line + k * m.depth) * item;
  if (m.line == 1 && m.depth != 1) {
    for (int64_t i = 0; i < depth; ++i) {
      cast_elements(from + i * m.depth * item, c.from, strip.bytes + i * count * size, to, count);
    }
    return {strip.bytes, 1, count};
  }
  for (int64_t i = 0; i < count; ++i) {
    const Block line = {const_cast<char*>(from) + i * m.line * item, 0, m.depth * item};
    load_tile(line, c.from, 1, depth, to, strip.bytes + i * kStrip * size);
  }
  return {strip.bytes, kStrip, 1};
}

// int16 lines as lines of pairs, in place; a missing last one is zero.
StridedLines join_pairs(const StridedLines& lines, int64_t count, int64_t depth, Strip& strip) {
  auto* values = reinterpret_cast<int16_t*>(strip.bytes);
  if (lines.depth == 1) {
    for (int64_t i = 0; depth % 2 != 0 && i < count; ++i) values[i * kStrip + depth] = 0;
    return {strip.bytes, kStrip / 2, 1};
  }
  if (depth % 2 != 0) std::fill_n(values + depth * count, count, int16_t{0});
  for (int64_t k = 0; k < depth; k += 2, values += 2 * count) {
    int16_t pairs[2 * kMaxTileLines];
    for (int64_t i = 0; i < count; ++i) {
      pairs[2 * i] = values[i];
      pairs[2 * i + 1] = values[count + i];
    }
    std::copy_n(pairs, 2 * count, values);
  }
  return {strip.bytes, 1, count};
}

}  // namespace

void pack_converted(const void* context, const Panel& p, void* out) {
  const auto& c = *static_cast<const ConvertedLines*>(context);
  const PackKernel pack = kernels().gemm->pack[static_cast<int>(c.to)];
  const auto size = static_cast<int64_t>(size_of(c.to));
  Strip strip;
  for (int64_t k = 0; k < p.depth; k += kStrip) {
    const int64_t depth = std::min(kStrip, p.depth - k);
    const StridedLines lines = convert(c, c.to, p.first, p.count, p.k0 + k, depth, strip);
    pack(&lines, {0, p.count, 0, depth, p.width}, static_cast<char*>(out) + k * p.width * size);
  }
}

void pack_pairs(const void* context, const Panel& p, void* out) {
  const auto& c = *static_cast<const ConvertedLines*>(context);
  // Packing moves bits.
  const PackKernel pack = kernels().gemm->pack[static_cast<int>(DType::Float32)];
  Strip strip;
  for (int64_t pair = 0; pair < p.depth; pair += kStrip / 2) {
    const int64_t pairs = std::min(kStrip / 2, p.depth - pair), k = 2 * (p.k0 + pair);
    const int64_t depth = std::min(2 * pairs, c.k - k);
    const StridedLines values = convert(c, DType::Int16, p.first, p.count, k, depth, strip);
    const StridedLines lines = join_pairs(values, p.count, depth, strip);
    pack(&lines, {0, p.count, 0, pairs, p.width}, static_cast<int32_t*>(out) + pair * p.width);
  }
}

}  // namespace tinyt::cpu
