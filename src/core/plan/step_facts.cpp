#include "core/plan/step_facts.h"

#include <algorithm>

namespace tinyt {

namespace {

bool finds_faults(const Plan::Step& step) {
  if (step.kind != Plan::Kind::Op || !has_flag(step.op, op_flags::value_error)) return false;
  return info(step.op).kind != OpKind::Scalar || is_integral(step.compute);
}

CostEstimate cost_of(const Plan& plan, const Plan::Step& step, const FusionTarget& target) {
  const Attrs none{};
  const auto in = plan.inputs(step), out = plan.outputs(step);
  switch (step.kind) {
    case Plan::Kind::Op:
      return target.cost({step.op, in, out, plan.attrs_of(step), step.compute});
    case Plan::Kind::Copy:
      return target.cost({OpId::copy, in, out, none, out[0].dtype()});
    case Plan::Kind::Region: {
      const Plan::Region& region = plan.regions[step.index];
      const CostEstimate cost = region.kernel->cost();
      if (!region.product) return cost;
      const CostEstimate own = target.cost(plan.front_of(*region.product, in).call);
      if (own.nanoseconds == 0) return own;
      return {cost.nanoseconds + own.nanoseconds, std::max(cost.parts, own.parts)};
    }
    default:
      return {};
  }
}

// Which steps touch memory that an earlier one writes, or write what it touches.
void find_waits(const Plan& plan, const Liveness& liveness, std::vector<StepFacts>& facts) {
  struct Access {
    int64_t step;
    const Tensor* tensor;
    bool writes;
  };
  std::unordered_map<const Storage*, std::vector<Access>> seen;
  for (int64_t s = 0; s < std::ssize(facts); ++s) {
    if (facts[s].cost.nanoseconds == 0) {
      seen.clear();
      continue;
    }
    const auto look = [&](const Tensor& x, bool writes) {
      if (!liveness.contains(&x.storage())) return;
      auto& before = seen[&x.storage()];
      std::erase_if(before, [&](const Access& a) { return a.step <= s - kSeenBefore; });
      for (const Access& a : before)
        if (a.step != s && (writes || a.writes) && ranges_overlap(*a.tensor, x))
          facts[s].waits.push_back(a.step);
      before.push_back({s, &x, writes});
    };
    for (const Tensor& x : plan.inputs(plan.steps[s])) look(x, false);
    for (const Tensor& x : plan.outputs(plan.steps[s])) look(x, true);
  }
}

}  // namespace

std::vector<StepFacts> facts_of(const Plan& plan, Device device, const Liveness& liveness,
                                const std::vector<size_t>& scratch) {
  const FusionTarget& target = *find_fusion_target(device);
  std::vector<StepFacts> facts;
  std::vector<size_t> gone(plan.steps.size() + 1);
  for (size_t s = 0; s < plan.steps.size(); ++s) {
    const Plan::Step& step = plan.steps[s];
    const auto out = plan.outputs(step);
    // Without faults to find, and nothing that it writes is there after the run but its results.
    const bool may_join = !finds_faults(step) && std::ranges::all_of(out, [&](const Tensor& x) {
      return x.device() == device && liveness.contains(&x.storage());
    });
    const CostEstimate cost = may_join ? cost_of(plan, step, target) : CostEstimate{};
    facts.push_back({.cost = cost,
                     .takes_memory = cost.nanoseconds > 0 && plan.scratch_of(step) > 0,
                     .waits = {},
                     .born = 0,
                     .alive = 0,
                     .scratch = scratch[s]});
  }
  for (const auto& [storage, life] : liveness) {
    facts[life.first].born += life.bytes;
    gone[life.last + 1] += life.bytes;
  }
  size_t now = 0;
  for (size_t s = 0; s < facts.size(); ++s) facts[s].alive = now += facts[s].born - gone[s];
  find_waits(plan, liveness, facts);
  return facts;
}

}  // namespace tinyt
