#include "cpu/schedule/side_by_side.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "cpu/schedule/machine_model.h"

namespace tinyt::cpu {

namespace {

class Chooser {
 public:
  Chooser(std::span<const StepFacts> steps, int threads)
      : steps_(steps),
        threads_(threads),
        count_(std::ssize(steps)),
        best_(steps.size() + 1, INT64_MAX),
        first_(steps.size() + 1) {
    for (const StepFacts& step : steps)
      most_held_ = std::max(most_held_, step.alive + step.scratch);
  }
  std::vector<ConcurrentGroup> run();

 private:
  // A group under way: sets of steps of which none waits for one of another set.
  class Window;

  // Nanoseconds; 0 of a step that runs alone.
  int64_t time(int64_t step) const {
    const int64_t own = steps_[step].cost.nanoseconds;
    return own > kLongStepTime ? 0 : own;
  }
  int64_t alone(int64_t step) const;
  void try_from(int64_t first);
  ConcurrentGroup group(int64_t first, int64_t last) const;

  std::span<const StepFacts> steps_;
  int64_t threads_;
  int64_t count_;
  size_t most_held_ = 0;
  std::vector<int64_t> best_;   // nanoseconds of the steps before
  std::vector<int64_t> first_;  // of the best group that ends before
};

class Chooser::Window {
 public:
  Window(const Chooser& chooser, int64_t first) : chooser_(chooser), first_(first) {}

  void add(int64_t step) {
    const int64_t time = chooser_.time(step);
    const auto own = static_cast<int64_t>(set_.size());
    set_.push_back(own);
    time_.push_back(time);
    total_ += time;
    for (const int64_t before : chooser_.steps_[step].waits)
      if (before >= first_) join(before - first_, own);
    // One thread takes memory at a time: how much the group takes does not depend on the clock.
    if (!chooser_.steps_[step].takes_memory) return;
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

  const Chooser& chooser_;
  int64_t first_, total_ = 0, taker_ = -1;
  std::vector<int64_t> set_;   // of each step: another one of its set, or itself
  std::vector<int64_t> time_;  // of each set, at its first step
};

// Nanoseconds where the step has all threads for itself.
int64_t Chooser::alone(int64_t step) const {
  const int64_t time = this->time(step), parts = steps_[step].cost.parts;
  const int64_t shares = std::min<int64_t>(threads_, parts);
  if (shares <= 1) return time;
  return std::min(time, time * (100 + kSharingLoss) / 100 / shares + kSharingTime);
}

// Groups that begin with a step.
void Chooser::try_from(int64_t first) {
  if (time(first) == 0) return;
  Window window(*this, first);
  window.add(first);
  size_t alive = steps_[first].alive, scratch = steps_[first].scratch;
  int64_t one_by_one = alone(first);
  std::vector<int64_t> branch_of_set;
  for (int64_t s = first + 1; s < std::min(count_, first + kSeenBefore); ++s) {
    if (time(s) == 0) return;
    alive += steps_[s].born;
    scratch = std::max(scratch, steps_[s].scratch);
    if (alive + scratch > most_held_) return;
    window.add(s);
    one_by_one += alone(s);
    const int64_t limit =
        std::min(one_by_one - kLeastGainTime, best_[s + 1] - best_[first]) - kSharingTime;
    if (window.bound() >= limit) continue;
    const std::vector<int64_t> ends = window.branches(branch_of_set);
    const int64_t longest = *std::max_element(ends.begin(), ends.end());
    if (longest >= limit) continue;
    best_[s + 1] = best_[first] + longest + kSharingTime;
    first_[s + 1] = first;
  }
}

ConcurrentGroup Chooser::group(int64_t first, int64_t last) const {
  Window window(*this, first);
  for (int64_t s = first; s <= last; ++s) window.add(s);
  std::vector<int64_t> branch_of_set;
  const std::vector<int64_t> ends = window.branches(branch_of_set);
  ConcurrentGroup group{first, last, {}};
  group.branches.resize(static_cast<size_t>(
      std::count_if(ends.begin(), ends.end(), [](int64_t end) { return end > 0; })));
  for (int64_t s = first; s <= last; ++s)
    group.branches[branch_of_set[window.root(s - first)]].push_back(s);
  return group;
}

std::vector<ConcurrentGroup> Chooser::run() {
  best_[0] = 0;
  for (int64_t s = 0; s < count_; ++s) {
    if (const int64_t end = best_[s] + alone(s); end <= best_[s + 1]) {
      best_[s + 1] = end;
      first_[s + 1] = s;
    }
    try_from(s);
  }
  std::vector<ConcurrentGroup> groups;
  for (int64_t end = count_; end > 0; end = first_[end])
    if (first_[end] < end - 1) groups.push_back(group(first_[end], end - 1));
  std::reverse(groups.begin(), groups.end());
  return groups;
}

}  // namespace

std::vector<ConcurrentGroup> side_by_side(std::span<const StepFacts> steps, int threads) {
  return Chooser(steps, threads).run();
}

}  // namespace tinyt::cpu
