#include "core/ops/optim.h"

#include <algorithm>
#include <cmath>

#include "core/ops/dispatch.h"
#include "core/ops/fallback.h"
#include "core/ops/kernels.h"

namespace tinyt {

namespace {

// Calls visit(tensor, written) for every tensor of the item, the step counter last.
template <class F>
void for_each_tensor(const OptimItem& item, F&& visit) {
  visit(item.param, true);
  if (item.grad) visit(item.grad, false);
  for (const Tensor& state : item.state)
    if (state) visit(state, true);
  if (item.step) visit(item.step, true);
}

bool counts_steps(const Tensor& step) {
  return !step.is_recorded() && step.dtype() == DType::Float32 && step.numel() == 1 &&
         step.device() == Device{};
}

bool is_plain(const OptimItem& item, Device device) {
  const Tensor& p = item.param;
  bool plain = is_float(p.dtype()) && (!item.step || counts_steps(item.step));
  for_each_tensor(item, [&](const Tensor& t, bool written) {
    if (t.impl() == item.step.impl()) return;
    plain = plain && t.dtype() == p.dtype() && t.shape() == p.shape() && t.device() == device &&
            !(written && t.is_recorded());
  });
  return plain;
}

// Whether nothing that is written is also read or written as part of another tensor: then the
// order of the updates does not matter.
bool are_apart(std::span<const OptimItem> items) {
  struct Range {
    const char *begin, *end;
    bool written;
  };
  std::vector<Range> ranges;
  ranges.reserve(items.size() * 4);
  for (const OptimItem& item : items) {
    for_each_tensor(item, [&](const Tensor& t, bool written) {
      if (t.numel() == 0 || t.is_recorded()) return;
      const auto [begin, end] = byte_range(t);
      ranges.push_back({begin, end, written});
    });
  }
  std::sort(ranges.begin(), ranges.end(),
            [](const Range& a, const Range& b) { return a.begin < b.begin; });
  const char *written = nullptr, *any = nullptr;  // the ends of the ranges so far
  for (const Range& r : ranges) {
    if (r.begin < written || (r.written && r.begin < any)) return false;
    any = std::max(any, r.end);
    if (r.written) written = std::max(written, r.end);
  }
  return true;
}

// The same item in contiguous memory, in copies where it must be.
OptimItem dense(const OptimItem& item) {
  OptimItem out = item;
  out.param = contiguous(item.param);
  if (item.grad) out.grad = contiguous(item.grad);
  for (int i = 0; i < kOptimStates; ++i)
    if (item.state[i]) out.state[i] = contiguous(item.state[i]);
  return out;
}

void finish(const Tensor& result, const Tensor& target) {
  if (result.impl() != target.impl()) copy_into("step", result, target);
  target.count_write();
}

}  // namespace

double next_step(const OptimItem& item) {
  return item.step && counts_steps(item.step) ? double{*item.step.ptr<float>() + 1.0F} : 0;
}

void set_terms(OptimTerms& t, const OptimSettings& settings, std::span<const double> n,
               double step) {
  t.maximize = settings.maximize;
  t.nesterov = settings.nesterov;
  switch (settings.rule) {
    case OptimRule::Sgd:
      t.decay = n[3];
      t.momentum = n[1];
      t.take = 1 - n[2];
      t.rate = -n[0];
      return;
    case OptimRule::Adam:
      t.shrink = settings.decoupled && n[4] != 0 ? 1 - n[0] * n[4] : 1;
      t.decay = settings.decoupled ? 0 : n[4];
      t.take = 1 - n[1];
      t.keep = n[2];
      t.join = 1 - n[2];
      t.eps = n[3];
      t.correction = std::pow(1 - std::pow(n[2], step), 0.5);
      t.rate = -n[0] / (1 - std::pow(n[1], step));
      return;
    case OptimRule::RmsProp:
      t.decay = n[3];
      t.momentum = n[4];
      t.take = 1 - n[1];
      t.keep = n[1];
      t.join = 1 - n[1];
      t.eps = n[2];
      t.rate = -n[0];
      return;
    case OptimRule::Adagrad:
      t.decay = n[3];
      t.eps = n[2];
      t.rate = -(n[0] / (1 + (step - 1) * n[1]));
      return;
    default:
      t.rate = n[0];
  }
}

std::vector<int64_t> left_alone(std::span<const OptimItem> items) {
  std::vector<int64_t> left;
  const Device device = items.empty() ? Device{} : items[0].param.device();
  const bool can = kernels_of(device).optim_step != nullptr && are_apart(items);
  for (size_t i = 0; i < items.size(); ++i)
    if (!can || !is_plain(items[i], device)) left.push_back(static_cast<int64_t>(i));
  return left;
}

std::vector<int64_t> optim_step(std::string_view name, OptimRule rule,
                                std::span<const OptimItem> items) {
  std::vector<int64_t> left = left_alone(items);
  std::vector<const OptimItem*> ready;
  auto skipped = left.begin();
  for (size_t i = 0; i < items.size(); ++i) {
    if (skipped != left.end() && *skipped == static_cast<int64_t>(i)) {
      ++skipped;
    } else {
      ready.push_back(&items[i]);
    }
  }
  if (ready.empty()) return left;
  const Device device = items[0].param.device();
  for (const OptimItem* item : ready)
    for_each_tensor(*item, [&](const Tensor& t, bool written) {
      if (written) require_writable(name, t);
    });
  std::vector<OptimItem> work;
  work.reserve(ready.size());
  for (const OptimItem* item : ready) work.push_back(dense(*item));
  // From here on nothing can fail.
  eager_kernels_of(device).optim_step(rule, work);
  for (size_t i = 0; i < work.size(); ++i) {
    finish(work[i].param, ready[i]->param);
    for (int s = 0; s < kOptimStates; ++s)
      if (work[i].state[s]) finish(work[i].state[s], ready[i]->state[s]);
    if (const Tensor& step = work[i].step; step) {
      *step.ptr<float>() += 1.0F;
      ++step.storage().version;
    }
  }
  return left;
}

}  // namespace tinyt
