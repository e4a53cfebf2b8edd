#include "core/graph/step_node.h"

#include <algorithm>

#include "core/ops/dry_run.h"
#include "core/ops/kernels.h"

namespace tinyt {

namespace {

// Calls visit(tensor) for what an item's update writes: the parameter, its states, its counter.
template <class Item, class F>
void for_each_written(Item& item, F&& visit) {
  visit(item.param);
  for (auto& state : item.state)
    if (state) visit(state);
  if (item.step) visit(item.step);
}

class BoundStep : public ExternalOp::Executable {
 public:
  BoundStep(const OptimSettings& settings, std::vector<OptimItem> items,
            std::vector<std::pair<Tensor, Tensor>> copies, std::vector<Tensor> cells,
            Tensor condition)
      : settings_(settings),
        items_(std::move(items)),
        copies_(std::move(copies)),
        cells_(std::move(cells)),
        condition_(std::move(condition)) {}

  void run(const RngOffsets&) const override {
    const Kernels& kernels = kernels_of({});
    for (const auto& [from, to] : copies_) kernels.copy_into(from, to);
    if (condition_ && *condition_.ptr<uint8_t>() == 0) return;
    double numbers[8];
    for (size_t i = 0; i < cells_.size(); ++i) numbers[i] = *cells_[i].ptr<double>();
    for (OptimItem& item : items_) {
      set_terms(item.terms, settings_, {numbers, cells_.size()}, next_step(item));
      if (item.step) *item.step.ptr<float>() += 1.0F;
    }
    kernels.optim_step(settings_.rule, items_);
  }
  size_t scratch_bytes() const override {
    DryRun dry;
    std::vector<OptimItem> items = items_;
    for (OptimItem& item : items) {
      for_each_written(item, [&](Tensor& t) { t = dry.fake_tensor(t); });
      if (item.grad) item.grad = dry.fake_tensor(item.grad);
    }
    return dry.bytes_of([&] { kernels_of({}).optim_step(settings_.rule, items); });
  }

 private:
  OptimSettings settings_;
  mutable std::vector<OptimItem> items_;
  std::vector<std::pair<Tensor, Tensor>> copies_;
  std::vector<Tensor> cells_;
  Tensor condition_;
};

class OptimNode : public ExternalOp {
 public:
  OptimNode(const OptimSettings& settings, std::vector<OptimItem> items, bool has_condition)
      : settings_(settings), items_(std::move(items)), has_condition_(has_condition) {
    // Only that there is one counts: no recorded tensor outlives its recording.
    for (OptimItem& item : items_)
      if (item.grad) item.grad = item.param;
  }

  std::string_view name() const override { return settings_.name; }
  std::vector<int64_t> numbers() const override {
    std::vector<int64_t> out{static_cast<int64_t>(settings_.rule), settings_.maximize,
                             settings_.nesterov, settings_.decoupled, has_condition_};
    for (const OptimItem& item : items_) {  // which of its tensors are there
      out.push_back(static_cast<bool>(item.grad));
      for (const Tensor& state : item.state) out.push_back(static_cast<bool>(state));
      out.push_back(static_cast<bool>(item.step));
    }
    return out;
  }

  std::unique_ptr<Executable> bind(std::span<const Tensor> inputs,
                                   std::span<const Tensor> outputs) const override {
    std::vector<OptimItem> items = items_;
    std::vector<std::pair<Tensor, Tensor>> copies;
    size_t at = 0;
    for (OptimItem& item : items)
      for_each_written(item, [&](Tensor& t) {
        t = outputs[at];
        if (inputs[at].impl() != t.impl()) copies.emplace_back(inputs[at], t);
        ++at;
      });
    for (OptimItem& item : items)
      if (item.grad) item.grad = inputs[at++];
    const Tensor condition = has_condition_ ? inputs.back() : Tensor();
    const auto cells = inputs.subspan(at, inputs.size() - at - has_condition_);
    return std::make_unique<BoundStep>(settings_, std::move(items), std::move(copies),
                                       std::vector<Tensor>(cells.begin(), cells.end()), condition);
  }

 private:
  OptimSettings settings_;
  std::vector<OptimItem> items_;
  bool has_condition_;  // the last input: whether to do anything
};

}  // namespace

std::vector<int64_t> record_optim_step(Graph& graph, const OptimSettings& settings,
                                       std::span<const OptimItem> items,
                                       std::span<const Tensor> cells) {
  for (const OptimItem& item : items)
    if (item.grad) item.grad.observe_shape();
  std::vector<int64_t> left = left_alone(items);
  const Tensor& condition = graph.step_condition;
  require(!condition || left.empty(), ErrorKind::Capture, settings.name,
          ": a step that may be left out needs dense parameters of one floating dtype each, with "
          "gradients and states of their shape");
  std::vector<OptimItem> plain;
  for (size_t i = 0; i < items.size(); ++i)
    if (std::find(left.begin(), left.end(), static_cast<int64_t>(i)) == left.end())
      plain.push_back(items[i]);
  if (plain.empty()) return left;
  std::vector<Tensor> inputs;
  for (const OptimItem& item : plain)
    for_each_written(item, [&](const Tensor& t) { inputs.push_back(t); });
  const size_t written = inputs.size();
  for (const OptimItem& item : plain)
    if (item.grad) inputs.push_back(item.grad);
  inputs.insert(inputs.end(), cells.begin(), cells.end());
  if (condition) inputs.push_back(condition);
  const bool has_condition = static_cast<bool>(condition);
  graph.record(std::make_shared<OptimNode>(settings, std::move(plain), has_condition), inputs,
               written);
  return left;
}

}  // namespace tinyt
