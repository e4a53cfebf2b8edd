// One step of an optimiser over all of its parameters, or a part of one: the update rows of
// ops.def.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "core/ops/kernels.h"
#include "core/ops/optim_terms.h"
#include "core/tensor/tensor.h"

namespace tinyt {

// What one parameter's update reads and writes. Absent tensors are null, for all of a step's items
// or for none. The states of a rule:
//   Sgd: momentum;  Adam: mean, mean of squares, largest mean of squares;
//   RmsProp: mean of squares, mean, momentum;  Adagrad: sum of squares;  Scale: none.
struct OptimItem {
  Tensor param;
  Tensor grad;  // of all rules but Scale
  Tensor state[kOptimStates];
  Tensor step;         // 0-d float32, counts the updates: of Adam, RmsProp and Adagrad
  bool first = false;  // Sgd: the momentum starts with this gradient
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

// The states that a rule has always, and at most: a bit for each.
struct StatesOf {
  unsigned least, most;
};
StatesOf states_of(OptimRule rule);
// Whether a rule reads gradients, and whether it counts its updates.
inline bool takes_grads(OptimRule rule) { return rule != OptimRule::Scale; }
inline bool has_counters(OptimRule rule) {
  return rule != OptimRule::Scale && rule != OptimRule::Sgd;
}

inline OpId op_of(OptimRule rule) {
  return static_cast<OpId>(static_cast<int>(OpId::sgd_step) + static_cast<int>(rule));
}

// A call of an update row, as its kernels see it.
class UpdateCall {
 public:
  explicit UpdateCall(const KernelCall& call);
  OptimRule rule() const { return rule_; }
  size_t count() const { return count_; }
  // Where the results go. Null: there is none.
  const Tensor* param(size_t i) const { return &call_.outputs[i]; }
  const Tensor* state(int s, size_t i) const;
  const Tensor* grad(size_t i) const;
  // The numbers of one parameter's update: reads host memory.
  OptimTerms terms(size_t i) const;

 private:
  const KernelCall& call_;
  OptimRule rule_;
  size_t count_, written_, steps_, grads_;  // how many of each
  unsigned states_;
  OptimSettings settings_;
  std::span<const int64_t> first_;
  double numbers_[8] = {};
};

// The operands of an update row; the results lie where the first of them do.
struct UpdateOperands {
  std::vector<Tensor> all;
  size_t written = 0;
  size_t counted = 0;  // step counters, which follow
  Attrs attrs;

  std::span<const Tensor> counters() const { return std::span(all).subspan(written, counted); }
  KernelCall call(OptimRule rule) const {
    return {op_of(rule), all, std::span(all).first(written), attrs, all[0].dtype()};
  }
  // Advances the counters and calls the kernel; where that fails they are as they were.
  void run(OptimRule rule, Kernel kernel) const;
};
// In contiguous memory, in copies where it must be, unless they are only recorded.
UpdateOperands operands_of(const OptimSettings& settings, std::span<const OptimItem* const> items,
                           std::span<const Tensor> numbers, bool recorded = false);

// Of so many items like one, how many a device takes at once, by the buffers that it binds; 0: not
// even one. Operands in host memory are none.
size_t most_items(const OptimItem& one, size_t count, Device device);

// The numbers of the items that are not plain enough for the row.
std::vector<int64_t> left_alone(const OptimSettings& settings, std::span<const OptimItem> items);

// Updates the parameters of all items that are plain enough (one floating dtype and shape each, no
// memory shared) and returns the numbers of the others, which are as they were: they need the
// composite.
std::vector<int64_t> optim_step(const OptimSettings& settings, std::span<const OptimItem> items,
                                std::span<const double> numbers);

}  // namespace tinyt
