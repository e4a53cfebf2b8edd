#include "core/ops/optim.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <utility>

#include "core/device/runtime.h"
#include "core/ops/dispatch.h"
#include "core/ops/fallback.h"

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

bool is_plain(const OptimItem& item, OpId op, const Kernels& kernels, Device device) {
  const Tensor& p = item.param;
  bool plain = is_float(p.dtype()) && (!item.step || counts_steps(item.step)) &&
               kernels.takes(op, p.dtype());
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
    const void* memory;  // hidden, which has places alone; null: the host's, which has addresses
    int64_t begin, end;
    bool written;
  };
  std::vector<Range> ranges;
  ranges.reserve(items.size() * 4);
  for (const OptimItem& item : items) {
    for_each_tensor(item, [&](const Tensor& t, bool written) {
      if (t.numel() == 0 || t.is_recorded()) return;
      const Buffer& buffer = t.storage().buffer;
      const auto [begin, end] = byte_span(t);
      const auto start = buffer.host ? static_cast<int64_t>(reinterpret_cast<intptr_t>(buffer.host))
                                     : static_cast<int64_t>(buffer.offset);
      ranges.push_back(
          {buffer.host ? nullptr : buffer.handle, start + begin, start + end, written});
    });
  }
  std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) {
    return a.memory != b.memory ? std::less<>()(a.memory, b.memory) : a.begin < b.begin;
  });
  const void* memory = nullptr;
  int64_t written = INT64_MIN, any = INT64_MIN;  // the ends of the ranges so far
  for (const Range& r : ranges) {
    if (r.memory != std::exchange(memory, r.memory)) written = any = INT64_MIN;
    if (r.begin < written || (r.written && r.begin < any)) return false;
    any = std::max(any, r.end);
    if (r.written) written = std::max(written, r.end);
  }
  return true;
}

void finish(std::string_view name, const Tensor& result, const Tensor& target) {
  if (result.impl() != target.impl()) copy_into(name, result, target);
  target.count_write();
}

// `step`: where the counter stands after the update.
void set_terms(OptimTerms& t, const OptimSettings& settings, const double* n, double step) {
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

void run_update(const OptimSettings& settings, std::span<const OptimItem* const> items,
                std::span<const Tensor> numbers, Kernel kernel) {
  const UpdateOperands operands = operands_of(settings, items, numbers);
  operands.run(settings.rule, kernel);
  for (const Tensor& step : operands.counters()) ++step.storage().version;
  size_t k = 0;
  for (const OptimItem* item : items) finish(settings.name, operands.all[k++], item->param);
  for (int s = 0; s < kOptimStates; ++s)
    for (const OptimItem* item : items)
      if (item->state[s]) finish(settings.name, operands.all[k++], item->state[s]);
}

}  // namespace

StatesOf states_of(OptimRule rule) {
  switch (rule) {
    case OptimRule::Sgd:
      return {0, 1};
    case OptimRule::Adam:
      return {3, 7};
    case OptimRule::RmsProp:
      return {1, 7};
    case OptimRule::Adagrad:
      return {1, 1};
    default:
      return {0, 0};
  }
}

size_t most_items(const OptimItem& one, size_t count, Device device) {
  const size_t most = find_runtime(device.kind)->most_buffers();
  if (most == 0) return count;
  size_t each = one.grad ? 2 : 1;
  for (const Tensor& state : one.state) each += static_cast<bool>(state);
  return most / each;
}

UpdateCall::UpdateCall(const KernelCall& call)
    : call_(call),
      rule_(static_cast<OptimRule>(static_cast<int>(call.op) - static_cast<int>(OpId::sgd_step))) {
  AttrReader read(call.attrs);
  count_ = static_cast<size_t>(read.integer());
  states_ = static_cast<unsigned>(read.integer());
  written_ = call.outputs.size();
  grads_ = takes_grads(rule_) ? count_ : 0;
  steps_ = has_counters(rule_) ? count_ : 0;
  const size_t tensors = written_ + steps_ + grads_;
  require(written_ == count_ * static_cast<size_t>(1 + std::popcount(states_)) &&
              call.inputs.size() > tensors,
          ErrorKind::Runtime, name_of(call.op), ": does not take ", call.inputs.size(),
          " operands for ", written_, " results");
  settings_ = {"", rule_};
  settings_.maximize = read.flag();
  settings_.nesterov = read.flag();
  settings_.decoupled = read.flag();
  first_ = read.list();
  size_t known = 0;
  for (const Tensor& t : call.inputs.subspan(tensors))
    for (int64_t i = 0; i < t.numel() && known < std::size(numbers_); ++i)
      numbers_[known++] = t.ptr<double>()[i];
}

const Tensor* UpdateCall::state(int s, size_t i) const {
  if ((states_ >> s & 1U) == 0) return nullptr;
  const auto before = static_cast<size_t>(std::popcount(states_ & ((1U << s) - 1)));
  return &call_.outputs[count_ * (1 + before) + i];
}

const Tensor* UpdateCall::grad(size_t i) const {
  return grads_ > 0 ? &call_.inputs[written_ + steps_ + i] : nullptr;
}

OptimTerms UpdateCall::terms(size_t i) const {
  OptimTerms out;
  const double step = steps_ > 0 ? double{*call_.inputs[written_ + i].ptr<float>()} : 0.0;
  set_terms(out, settings_, numbers_, step);
  out.first = !first_.empty() && first_[i] != 0;
  return out;
}

UpdateOperands operands_of(const OptimSettings& settings, std::span<const OptimItem* const> items,
                           std::span<const Tensor> numbers, bool recorded) {
  UpdateOperands out;
  std::vector<Tensor>& all = out.all;
  all.reserve(items.size() * (3 + kOptimStates) + numbers.size());
  const auto add = [&](const Tensor& t) { all.push_back(recorded ? t : contiguous(t)); };
  int64_t states = 0;
  for (const OptimItem* item : items) add(item->param);
  for (int s = 0; s < kOptimStates; ++s) {
    if (!items[0]->state[s]) continue;
    states |= int64_t{1} << s;
    for (const OptimItem* item : items) add(item->state[s]);
  }
  out.written = all.size();
  if (has_counters(settings.rule))
    for (const OptimItem* item : items) all.push_back(item->step);
  out.counted = all.size() - out.written;
  if (takes_grads(settings.rule))
    for (const OptimItem* item : items) add(item->grad);
  all.insert(all.end(), numbers.begin(), numbers.end());
  std::vector<int64_t> first;
  if (std::ranges::any_of(items, [](const OptimItem* item) { return item->first; }))
    for (const OptimItem* item : items) first.push_back(item->first);
  out.attrs.add(std::ssize(items)).add(states);
  out.attrs.add(int64_t{settings.maximize}).add(int64_t{settings.nesterov});
  out.attrs.add(int64_t{settings.decoupled}).add(std::span<const int64_t>(first));
  return out;
}

void UpdateOperands::run(OptimRule rule, Kernel kernel) const {
  for (const Tensor& step : counters()) *step.ptr<float>() += 1.0F;
  try {
    kernel(call(rule));
  } catch (...) {
    for (const Tensor& step : counters()) *step.ptr<float>() -= 1.0F;
    throw;
  }
}

std::vector<int64_t> left_alone(const OptimSettings& settings, std::span<const OptimItem> items) {
  std::vector<int64_t> left;
  const Device device = items.empty() ? Device{} : items[0].param.device();
  const Kernels& kernels = kernels_of(device);
  const bool can = are_apart(items) && (items.empty() || most_items(items[0], 1, device) > 0);
  for (size_t i = 0; i < items.size(); ++i)
    if (!can || !is_plain(items[i], op_of(settings.rule), kernels, device))
      left.push_back(static_cast<int64_t>(i));
  return left;
}

std::vector<int64_t> optim_step(const OptimSettings& settings, std::span<const OptimItem> items,
                                std::span<const double> numbers) {
  std::vector<int64_t> left = left_alone(settings, items);
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
  for (const OptimItem* item : ready)
    for_each_tensor(*item, [&](const Tensor& t, bool written) {
      if (written) require_writable(settings.name, t);
    });
  // Where they are: a step takes no memory.
  const Dims all{std::ssize(numbers)}, one{1};
  const Tensor cells = Tensor::from_storage(
      Storage::foreign(
          const_cast<double*>(numbers.data()), numbers.size_bytes(), [](void*) {}, nullptr),
      all, one, 0, DType::Float64);
  const Device device = items[0].param.device();
  const Kernel kernel = eager_kernels_of(device).row(op_of(settings.rule));
  const size_t most = most_items(*ready[0], ready.size(), device);
  for (std::span<const OptimItem* const> rest = ready; !rest.empty();) {
    const size_t now = std::min(most, rest.size());
    run_update(settings, rest.first(now), {&cells, 1}, kernel);
    rest = rest.subspan(now);
  }
  return left;
}

}  // namespace tinyt
