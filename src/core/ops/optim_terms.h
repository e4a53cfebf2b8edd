// The rules and numbers of an optimiser's step. No tensors: the kernels of every level read this.
#pragma once

#include <cstdint>

namespace tinyt {

// How a parameter follows its gradient; the formulas are in cpu/optim/optim.simd.cpp.
enum class OptimRule : uint8_t { Sgd, Adam, RmsProp, Adagrad, Scale, Count };
inline constexpr int kOptimRules = static_cast<int>(OptimRule::Count);
inline constexpr int kOptimStates = 3;

// The numbers of one parameter's update; a rule reads those it knows.
struct OptimTerms {
  bool maximize = false;  // follows the negative gradient
  bool nesterov = false;
  bool first = false;  // the momentum starts with this gradient
  double shrink = 1;   // decoupled weight decay: a factor on the parameter, before all else
  double decay = 0;    // weight decay: this times the parameter is added to the gradient
  double momentum = 0;
  double take = 1;        // how much of the gradient joins a running mean, or the momentum
  double keep = 0;        // how much of the running mean of squares stays,
  double join = 1;        // and how much of the new square joins it
  double correction = 1;  // divides the root of the mean of squares
  double eps = 0;
  double rate = 0;  // factor on what is added to the parameter
};

}  // namespace tinyt
