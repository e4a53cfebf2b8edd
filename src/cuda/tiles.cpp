#include "cuda/tiles.h"

#include <algorithm>

#include "core/base/parallel.h"
#include "core/ops/precision.h"
#include "cuda/kernels/tile_sizes.h"

namespace tinyt::cuda {

namespace {

constexpr int kStages = 4;  // 48 KB in flight of the largest tile, which a processor has room for
constexpr std::string_view kFloat32 = "Float32", kTfloat32 = "Tfloat32";

}  // namespace

std::string_view element_of(DType dtype) {
  switch (dtype) {
    case DType::Float32:
      return may_round_products() ? kTfloat32 : kFloat32;
    case DType::Float16:
      return "Float16";
    case DType::BFloat16:
      return "Bfloat16";
    case DType::Int8:
      return "Int8";
    case DType::UInt8:
      return "UInt8";
    default:
      return "";
  }
}

std::string_view whole_element_of(DType sums) {
  return sums == DType::Int32 ? "Whole<int>" : "Whole<float>";
}

Tiling Tiling::of(int64_t rows, int64_t columns, int64_t sums, int64_t batches,
                  std::string_view element, int64_t processors) {
  const bool by_threads = element == kFloat32;
  Tiling t;
  const auto try_tile = [&](int tile_rows, int tile_columns) {
    t.rows = tile_rows;
    t.columns = tile_columns;
    return t.down(rows) * t.across(columns) * batches;
  };
  // The largest of which there is one for each processor, and that is not empty for the most part.
  const bool is_high = rows > 64, is_wide = columns > 128;
  if (by_threads || !is_high || !is_wide || try_tile(128, 256) < processors)
    if (!is_high || try_tile(128, 128) < processors) try_tile(64, 64);
  if (!by_threads) t.warp_rows = t.warp_columns = t.is_small() ? 32 : 64;
  // Where there are too few tiles, parts of the sums, which another kernel adds up.
  constexpr int64_t kLeastSums = 512, kMostParts = 32, kWholeSums = 64, kTilesOfProcessor = 2;
  const int64_t tiles = t.down(rows) * t.across(columns) * batches;
  t.parts = std::clamp<int64_t>(
      std::min(sums / kLeastSums, kTilesOfProcessor * processors / std::max<int64_t>(1, tiles)), 1,
      kMostParts);
  t.sums_of_part = ceil_div(ceil_div(sums, t.parts), kWholeSums) * kWholeSums;
  t.parts = std::max<int64_t>(1, ceil_div(sums, t.sums_of_part));
  return t;
}

Tiling Tiling::small() const {
  Tiling t = *this;
  t.rows = t.columns = 64;
  if (warp_rows > 0) t.warp_rows = t.warp_columns = 32;
  return t;
}

Tiling Tiling::whole(int64_t sums) const {
  Tiling t = *this;
  t.parts = 1;
  t.sums_of_part = sums;
  return t;
}

int Tiling::threads() const {
  return warp_rows > 0 ? 32 * (rows / warp_rows) * (columns / warp_columns) : kProductThreads;
}

size_t Tiling::shared_bytes() const {
  return size_t{kStages} * kStripBytes * static_cast<size_t>(rows + columns);
}

size_t Tiling::table_bytes(int operands) const {
  constexpr size_t kEntry = 16, kMostSums = 2 * kStripBytes;  // of two strips of bytes
  return static_cast<size_t>(operands) * kEntry *
         (static_cast<size_t>(std::max(rows, columns)) + kMostSums);
}

std::string Tiling::text(std::string_view element) const {
  const auto number = [](int n) { return std::to_string(n); };
  const std::string products = warp_rows > 0 ? "WarpProducts<T, " + number(rows) + ", " +
                                                   number(columns) + ", " + number(warp_rows) +
                                                   ", " + number(warp_columns) + ">"
                                             : "ThreadProducts<" + number(rows / 16) + ">";
  return "using T = " + std::string(element) + ";\nusing Products = " + products +
         ";\nconstexpr int kStages = " + number(kStages) + ";\n";
}

}  // namespace tinyt::cuda
