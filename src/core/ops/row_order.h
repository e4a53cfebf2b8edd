// The order of a reduction, fixed by its length alone (ADR 0003), of kernels and of their sources.
#pragma once

#include <cstdint>

namespace tinyt {

// A row is cut into blocks of kRowBlock elements; element k of a block goes to lane
// k % kReduceLanes, each lane takes its elements in order, and lanes combine in halves (16, 8, 4,
// 2, 1). Columns are cut into blocks of kColumnBlock rows, each taken in order. Blocks combine in a
// pairwise tree: neighbours first, an odd one out moves up unchanged. Products have kProductBlock
// in place of kColumnBlock: those of more numbers become subnormal, and processors are slow at
// that.
inline constexpr int kReduceLanes = 32;
inline constexpr int64_t kColumnBlock = 128;
inline constexpr int64_t kProductBlock = 32;
inline constexpr int64_t kRowBlock = kColumnBlock * kReduceLanes;

}  // namespace tinyt
