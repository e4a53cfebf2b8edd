// A lazy recording as a program: found by its words, or planned; or its operations one by one.
#pragma once

#include <memory>

#include "core/graph/graph.h"
#include "core/graph/lazy.h"

namespace tinyt {

// Stands for the recording that should have made a value, where an operation before it failed.
inline Lazy* const kNeverMade = reinterpret_cast<Lazy*>(1);

// Gives memory to what the region makes and is still seen, and writes what it writes. An error is
// that of the first operation that has one.
void run_region(LazyRegion& region);

// How a recorded graph is simplified before it is planned; null: not at all.
using Simplify = std::shared_ptr<const Graph> (*)(const std::shared_ptr<Graph>& graph);
void set_lazy_simplify(Simplify simplify);

struct LazyCacheInfo {
  int64_t hits = 0, misses = 0, most = 0, programs = 0;
};
LazyCacheInfo lazy_cache_info();
void clear_lazy_cache();

}  // namespace tinyt
