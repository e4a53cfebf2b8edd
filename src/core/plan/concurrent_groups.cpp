#include "core/plan/concurrent_groups.h"

#include <algorithm>
#include <numeric>

namespace tinyt {

namespace {

constexpr int64_t kMostSteps = 16;     // of a group
constexpr int64_t kMostTime = 20'000;  // nanoseconds of a step: longer ones are better cut up
constexpr int64_t kSharing = 300;      // nanoseconds until all threads have begun and are done
constexpr int64_t kLoss = 10;          // percent that a step loses where it is cut up
constexpr int64_t kLeastGain = 200;    // nanoseconds

bool finds_faults(const Plan::Step& step) {
  if (step.kind != Plan::Kind::Op || !has_flag(step.op, op_flags::value_error)) return false;
  return info(step.op).kind != OpKind::Scalar || is_integral(step.compute);
}

CostEstimate cost_of(const Plan& plan, const Plan::Step& step) {
  const Attrs none{};
  const FusionTarget& target = fusion_target_of({});
  const auto in = plan.inputs(step), out = plan.outputs(step);
  switch (step.kind) {
    case Plan::Kind::Op:
      return target.effort({step.op, in, out, plan.attrs_of(step), step.compute});
    case Plan::Kind::Copy:
      return target.effort({OpId::copy, in, out, none, out[0].dtype()});
    case Plan::Kind::Region: {
      const Plan::Region& region = plan.regions[static_cast<size_t>(step.index)];
      CostEstimate effort = target.tiles_effort(region.tiles, region.space);
      if (const auto& product = region.product) {
        const CostEstimate own = target.effort({product->op,
                                                in.first(product->inputs),
                                                {&product->result, 1},
                                                plan.attrs_of(*product),
                                                product->compute});
        if (own.nanoseconds == 0) return own;
        effort = {effort.nanoseconds + own.nanoseconds, std::max(effort.parts, own.parts),
                  effort.takes_memory || own.takes_memory};
      }
      return effort;
    }
    default:
      return {};
  }
}

}  // namespace

class InterOpScheduler::Window {
 public:
  Window(const InterOpScheduler& chooser, int64_t first) : chooser_(chooser), first_(first) {}

  void add(int64_t step) {
    const CostEstimate& effort = chooser_.efforts_[step];
    const auto own = static_cast<int64_t>(set_.size());
    set_.push_back(own);
    time_.push_back(effort.nanoseconds);
    total_ += effort.nanoseconds;
    for (const int64_t before : chooser_.waits_[step])
      if (before >= first_) join(before - first_, own);
    // One thread takes memory at a time: how much the group takes does not depend on the clock.
    if (!effort.takes_memory) return;
    if (taker_ >= 0) join(taker_, own);
    taker_ = own;
  }

  // The largest set of steps, or an even share of all: no branch can be shorter.
  int64_t bound() const {
    return std::max(*std::max_element(time_.begin(), time_.end()), total_ / chooser_.threads_);
  }

  // The sets by branches: the longest first, each to the branch that is done first.
  std::vector<int64_t> branches(std::vector<int64_t>& branch_of_set) const {
    std::vector<int64_t> sets, ends(static_cast<size_t>(chooser_.threads_), 0);
    for (size_t i = 0; i < set_.size(); ++i)
      if (time_[i] > 0) sets.push_back(static_cast<int64_t>(i));
    std::stable_sort(sets.begin(), sets.end(),
                     [&](int64_t a, int64_t b) { return time_[a] > time_[b]; });
    branch_of_set.assign(set_.size(), -1);
    for (const int64_t s : sets) {
      const auto branch = std::min_element(ends.begin(), ends.end()) - ends.begin();
      branch_of_set[s] = branch;
      ends[branch] += time_[s];
    }
    return ends;
  }

  int64_t root(int64_t i) const {
    while (set_[i] != i) i = set_[i];
    return i;
  }

 private:
  void join(int64_t a, int64_t b) {
    a = root(a);
    b = root(b);
    if (a == b) return;
    set_[std::max(a, b)] = std::min(a, b);
    time_[std::min(a, b)] += std::exchange(time_[std::max(a, b)], 0);
  }

  const InterOpScheduler& chooser_;
  int64_t first_, total_ = 0, taker_ = -1;
  std::vector<int64_t> set_;   // of each step: another one of its set, or itself
  std::vector<int64_t> time_;  // of each set, at its first step
};

InterOpScheduler::InterOpScheduler(const Plan& plan, const Liveness& liveness,
                                   const std::vector<size_t>& scratch, int threads)
    : plan_(plan),
      lives_(liveness),
      scratch_(scratch),
      threads_(threads),
      count_(static_cast<int64_t>(plan.steps.size())),
      waits_(static_cast<size_t>(count_)),
      alive_(static_cast<size_t>(count_) + 1),
      born_(static_cast<size_t>(count_) + 1),
      best_(static_cast<size_t>(count_) + 1, INT64_MAX),
      first_(static_cast<size_t>(count_) + 1) {
  for (const Plan::Step& step : plan.steps) {
    const CostEstimate effort = cost_of(plan, step);
    efforts_.push_back(may_join(step, effort) ? effort : CostEstimate{});
  }
  std::vector<size_t> gone(static_cast<size_t>(count_) + 1);
  for (const auto& [storage, life] : liveness) {
    born_[life.first] += life.bytes;
    gone[life.last + 1] += life.bytes;
  }
  size_t now = 0;
  for (int64_t s = 0; s < count_; ++s) {
    now += born_[s] - gone[s];
    alive_[s] = now;
    most_held_ = std::max(most_held_, now + scratch[s]);
  }
}

// Small, without faults to find, and nothing that it writes is there after the run but its results.
bool InterOpScheduler::may_join(const Plan::Step& step, const CostEstimate& effort) const {
  if (effort.nanoseconds > kMostTime || finds_faults(step)) return false;
  const auto out = plan_.outputs(step);
  return std::all_of(out.begin(), out.end(),
                     [&](const Tensor& x) { return lives_.contains(&x.storage()); });
}

// Nanoseconds where the step has all threads for itself.
int64_t InterOpScheduler::alone(int64_t step) const {
  const auto [time, parts, _] = efforts_[step];
  const int64_t shares = std::min<int64_t>(threads_, parts);
  if (shares <= 1) return time;
  return std::min(time, time * (100 + kLoss) / 100 / shares + kSharing);
}

// Which steps touch memory that an earlier one writes, or write what it touches.
void InterOpScheduler::find_waits() {
  struct Access {
    int64_t step;
    const Tensor* tensor;
    bool writes;
  };
  std::unordered_map<const Storage*, std::vector<Access>> seen;
  for (int64_t s = 0; s < count_; ++s) {
    if (efforts_[s].nanoseconds == 0) {
      seen.clear();
      continue;
    }
    const auto look = [&](const Tensor& x, bool writes) {
      if (!lives_.contains(&x.storage())) return;
      auto& before = seen[&x.storage()];
      std::erase_if(before, [&](const Access& a) { return a.step <= s - kMostSteps; });
      for (const Access& a : before)
        if (a.step != s && (writes || a.writes) && ranges_overlap(*a.tensor, x))
          waits_[s].push_back(a.step);
      before.push_back({s, &x, writes});
    };
    for (const Tensor& x : plan_.inputs(plan_.steps[s])) look(x, false);
    for (const Tensor& x : plan_.outputs(plan_.steps[s])) look(x, true);
  }
}

// Groups that begin with a step.
void InterOpScheduler::try_from(int64_t first) {
  if (efforts_[first].nanoseconds == 0) return;
  Window window(*this, first);
  window.add(first);
  size_t alive = alive_[first], scratch = scratch_[first];
  int64_t one_by_one = alone(first);
  std::vector<int64_t> branch_of_set;
  for (int64_t s = first + 1; s < std::min(count_, first + kMostSteps); ++s) {
    if (efforts_[s].nanoseconds == 0) return;
    alive += born_[s];
    scratch = std::max(scratch, scratch_[s]);
    if (alive + scratch > most_held_) return;
    window.add(s);
    one_by_one += alone(s);
    const int64_t limit = std::min(one_by_one - kLeastGain, best_[s + 1] - best_[first]) - kSharing;
    if (window.bound() >= limit) continue;
    const std::vector<int64_t> ends = window.branches(branch_of_set);
    const int64_t time = *std::max_element(ends.begin(), ends.end());
    if (time >= limit) continue;
    best_[s + 1] = best_[first] + time + kSharing;
    first_[s + 1] = first;
  }
}

Plan::ConcurrentGroup InterOpScheduler::group(int64_t first, int64_t last) const {
  Window window(*this, first);
  for (int64_t s = first; s <= last; ++s) window.add(s);
  std::vector<int64_t> branch_of_set;
  const std::vector<int64_t> ends = window.branches(branch_of_set);
  Plan::ConcurrentGroup group{first, last, {}};
  group.branches.resize(static_cast<size_t>(
      std::count_if(ends.begin(), ends.end(), [](int64_t end) { return end > 0; })));
  for (int64_t s = first; s <= last; ++s)
    group.branches[branch_of_set[window.root(s - first)]].push_back(s);
  return group;
}

std::vector<Plan::ConcurrentGroup> InterOpScheduler::run() {
  find_waits();
  best_[0] = 0;
  for (int64_t s = 0; s < count_; ++s) {
    if (const int64_t time = best_[s] + alone(s); time <= best_[s + 1]) {
      best_[s + 1] = time;
      first_[s + 1] = s;
    }
    try_from(s);
  }
  std::vector<Plan::ConcurrentGroup> groups;
  for (int64_t end = count_; end > 0; end = first_[end])
    if (first_[end] < end - 1) groups.push_back(group(first_[end], end - 1));
  std::reverse(groups.begin(), groups.end());
  return groups;
}

}  // namespace tinyt
