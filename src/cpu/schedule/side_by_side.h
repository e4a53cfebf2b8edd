// Chooses which steps of a program run side by side on threads.
#pragma once

#include <span>
#include <vector>

#include "core/graph/fusion_target.h"

namespace tinyt::cpu {

// Steps that follow each other in the list, are each too small to be worth cutting up for the
// threads, and do not all wait for each other: in the list's best partition by the time that steps
// would take. What a group reads and writes is alive throughout, so that its memory is apart from
// that of all others in it.
std::vector<ConcurrentGroup> side_by_side(std::span<const StepFacts> steps, int threads);

}  // namespace tinyt::cpu
