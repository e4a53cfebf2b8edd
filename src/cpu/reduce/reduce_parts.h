// Units of work of a reduction whose parts lie [chunk][result], and the tree that joins parts.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/base/parallel.h"
#include "cpu/copy/gather.h"

namespace tinyt::cpu {

// The pairwise tree over `count` neighbouring parts (ADR 0003): join(i, k) adds part k, with
// what has joined it, to part i < k. Part 0 is the result.
template <class F>
void join_pairwise(int64_t count, F&& join) {
  for (int64_t step = 1; step < count; step *= 2)
    for (int64_t i = 0; i + step < count; i += 2 * step) join(i, i + step);
}

// Elements [begin, end) of results [first, first + count).
struct RowPart {
  int64_t chunk, first, count, begin, end;
};

// All parts of `results` rows of n > 0 elements, each a chunk of some rows: body(part), in
// parallel. A unit has a multiple of `at_once` rows.
template <class F>
void for_row_parts(int64_t results, int64_t n, int64_t chunks, int64_t at_once, F&& body) {
  const int64_t wanted = std::max<int64_t>(1, kChunkElements / std::min(n, kRowChunk));
  const int64_t group = ceil_div(wanted, at_once) * at_once;
  const int64_t groups = ceil_div(results, group);
  parallel_for(groups * chunks, [&](int64_t unit) {
    const int64_t chunk = unit / groups, first = unit % groups * group;
    const int64_t begin = chunk * kRowChunk;
    body(RowPart{chunk, first, std::min(group, results - first), begin,
                 std::min(n, begin + kRowChunk)});
  });
}

// Rows [begin, end) of columns [col, col + cols); `node` is chunk * outer + row of the outer ones.
struct ColumnPart {
  int64_t node, col, cols, begin, end;
};

// All parts of `all` columns of n > 0 rows, `outer` times, each a chunk of at most `width` columns:
// body(part), in parallel.
template <class F>
void for_column_parts(int64_t outer, int64_t n, int64_t all, int64_t chunks, int64_t width,
                      F&& body) {
  const int64_t tiles = ceil_div(all, width), units = chunks * outer * tiles;
  const int64_t grain = std::max<int64_t>(1, kChunkElements / (width * std::min(n, kColumnChunk)));
  parallel_ranges(units, grain, [&](int64_t first, int64_t last) {
    for (int64_t unit = first; unit < last; ++unit) {
      const int64_t col = unit % tiles * width, node = unit / tiles;
      const int64_t begin = node / outer * kColumnChunk;
      body(ColumnPart{node, col, std::min(width, all - col), begin,
                      std::min(n, begin + kColumnChunk)});
    }
  });
}

}  // namespace tinyt::cpu
