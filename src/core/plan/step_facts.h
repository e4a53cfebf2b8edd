// What a device is told of a program's steps: what they take, and for which others they wait.
#pragma once

#include <unordered_map>
#include <vector>

#include "core/graph/fusion_target.h"
#include "core/plan/buffer_assignment.h"
#include "core/plan/plan.h"

namespace tinyt {

// Memory that a run takes for itself, and the steps that it is alive from and to.
using Liveness = std::unordered_map<const Storage*, Lifetime>;

// Of a device's steps; those of others, and whose results are there after the run, run alone.
// `scratch`: of each step, where that is known.
std::vector<StepFacts> facts_of(const Plan& plan, Device device, const Liveness& liveness,
                                const std::vector<size_t>& scratch);

}  // namespace tinyt
