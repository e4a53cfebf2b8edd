// Chooses which steps of a program run side by side.
#pragma once

#include <unordered_map>

#include "core/graph/fusion_target.h"
#include "core/plan/buffer_assignment.h"
#include "core/plan/plan.h"

namespace tinyt {

// Memory that a run takes for itself, and the steps that it is alive from and to.
using Liveness = std::unordered_map<const Storage*, Lifetime>;

// Looks for steps that follow each other in the list, are each too small to be worth cutting up
// for the threads, and do not all wait for each other: in the list's best partition by the time
// that steps would take. What a group reads and writes is alive throughout, so that its memory is
// apart from that of all others in it.
class InterOpScheduler {
 public:
  // `scratch`: of each step, where that is known.
  InterOpScheduler(const Plan& plan, const Liveness& liveness, const std::vector<size_t>& scratch,
                   int threads);
  // In the order of the steps.
  std::vector<Plan::ConcurrentGroup> run();

 private:
  // A group under way: sets of steps of which none waits for one of another set.
  class Window;

  bool may_join(const Plan::Step& step, const CostEstimate& effort) const;
  int64_t alone(int64_t step) const;
  void find_waits();
  void try_from(int64_t first);
  Plan::ConcurrentGroup group(int64_t first, int64_t last) const;

  const Plan& plan_;
  const Liveness& lives_;
  const std::vector<size_t>& scratch_;
  int threads_;
  int64_t count_;
  std::vector<CostEstimate> efforts_;        // of no nanoseconds: of a step that runs alone
  std::vector<std::vector<int64_t>> waits_;  // for which steps, of the last few
  std::vector<size_t> alive_, born_;         // bytes, per step
  size_t most_held_ = 0;
  std::vector<int64_t> best_;   // nanoseconds of the steps before
  std::vector<int64_t> first_;  // of the best group that ends before
};

}  // namespace tinyt
