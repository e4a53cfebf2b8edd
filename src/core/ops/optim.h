// One step of an optimiser over all of its parameters, or a part of one, as one call.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "core/ops/optim_terms.h"
#include "core/tensor/tensor.h"

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

// What an optimiser is asked for. Its numbers, in the order of the rule:
//   Sgd: rate, momentum, dampening, decay;  Adam: rate, keep of the mean, keep of the mean of
//   squares, eps, decay;  RmsProp: rate, keep, eps, decay, momentum;  Adagrad: rate, decay of the
//   rate, eps, decay;  Scale: factor.
struct OptimSettings {
  const char* name;  // the optimiser's, in errors
  OptimRule rule;
  bool maximize = false;
  bool nesterov = false;
  bool decoupled = false;  // the decay acts on the parameter, not on the gradient
};

// Sets what an update is made with; `step` is where its counter will stand after it.
void set_terms(OptimTerms& terms, const OptimSettings& settings, std::span<const double> numbers,
               double step);

// Where an item's step counter will stand after the update; 0 where it has none that is known.
double next_step(const OptimItem& item);

// The numbers of the items that are not plain enough for optim_step.
std::vector<int64_t> left_alone(std::span<const OptimItem> items);

// Updates the parameters of all items that are plain enough (one floating dtype and shape each, no
// memory shared) and returns the numbers of the others, which are as they were: they need the
// composite. `name` is the optimiser's in errors.
std::vector<int64_t> optim_step(std::string_view name, OptimRule rule,
                                std::span<const OptimItem> items);

}  // namespace tinyt
