// Buffers and shapes of what reductions gather from rows or columns that lie scattered.
#pragma once

#include <cstdint>
#include <cstdlib>

#include "cpu/schedule/axes.h"
#include "cpu/schedule/levels.h"
#include "cpu/schedule/tiles.h"

namespace tinyt::cpu {

inline constexpr int64_t kMaxAccumulator = 8;  // bytes of the largest dtype kernels accumulate in
// One unit of work takes this many blocks of one result: a power of two, so that its value is a
// node of the tree.
inline constexpr int64_t kChunkBlocks = 16;
inline constexpr int64_t kRowChunk = kChunkBlocks * kRowBlock;
inline constexpr int64_t kColumnChunk = kChunkBlocks * kColumnBlock;
inline constexpr int64_t kGatherRows = 16;  // results gathered side by side from rows, at most
inline constexpr int64_t kTileCols = 32;    // and from columns

// The dimensions of a reduction: those reduced, the kept ones around and inside of them.
struct ReduceAxes {
  Axes outer, reduced, cols;  // cols: kept dimensions inside the innermost reduced one

  ReduceAxes(const Tensor& x, std::span<const int64_t> dims) {
    SmallVec<bool, 8> is_reduced(static_cast<size_t>(x.rank()), false);
    for (const int64_t d : dims) {
      if (d < x.rank()) is_reduced[static_cast<size_t>(d)] = true;  // 0-d takes dimension 0
    }
    size_t inner = is_reduced.size();  // where the kept dimensions inside all reduced ones begin
    while (inner > 0 && (!is_reduced[inner - 1] || x.size(inner - 1) == 1)) --inner;
    const auto item = static_cast<int64_t>(x.itemsize());
    for (size_t d = 0; d < is_reduced.size(); ++d) {
      Axes& axes = is_reduced[d] ? reduced : d < inner ? outer : cols;
      axes.add(x.size(d), x.stride(d) * item);
    }
  }
};

// Room for one gathered rectangle: a tile, or more where nothing is converted.
inline constexpr int64_t kGatherElements = 8 * kTileElements;
struct alignas(64) Gathered {
  char bytes[kGatherElements * kMaxAccumulator];
};
inline int64_t gather_limit(bool converts) { return converts ? kTileElements : kGatherElements; }

// How many results to gather side by side from their rows: many where neighbours lie closer than
// the elements of one, and for short rows.
inline int64_t rows_at_once(const Axes& results, const Axes& reduced) {
  if (results.size() > 1 && std::abs(results.stride()) < std::abs(reduced.stride())) {
    return kGatherRows;
  }
  int64_t rows = 1;
  while (rows < kGatherRows && 2 * rows * reduced.size() <= kTileElements) rows *= 2;
  return rows;
}

}  // namespace tinyt::cpu
