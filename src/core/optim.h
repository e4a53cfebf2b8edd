// One step of an optimiser over all of its parameters, or a part of one, as one call.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "optim_terms.h"
#include "tensor.h"

namespace tinyt {

// What one parameter's update reads and writes. Absent tensors are null. The states of a rule:
//   Sgd: momentum;  Adam: mean, mean of squares, largest mean of squares;
//   RmsProp: mean of squares, mean, momentum;  Adagrad: sum of squares;  Scale: none.
struct OptimItem {
  Tensor param;
  Tensor grad;  // absent: the rule only changes the parameter
  Tensor state[kOptimStates];
  Tensor step;  // 0-d float32, counts the updates
  OptimTerms terms;
};

// Where an item's step counter will stand after the update; 0 where it has none that is known.
double next_step(const OptimItem& item);

// Updates the parameters of all items that are plain enough (one floating dtype and shape each, no
// memory shared) and returns the numbers of the others, which are as they were: they need the
// composite. `name` is the optimiser's in errors.
std::vector<int64_t> optim_step(std::string_view name, OptimRule rule,
                                std::span<const OptimItem> items);

}  // namespace tinyt
