#include "core/graph/step_node.h"

#include <algorithm>

#include "core/ops/dry_run.h"
#include "core/ops/fallback.h"

namespace tinyt {

namespace {

using Tensors = std::vector<Tensor>;

class BoundStep : public ExternalOp::Executable {
 public:
  BoundStep(const OptimSettings& settings, UpdateOperands operands, Tensors steps,
            std::vector<std::pair<Tensor, Tensor>> copies, Tensor condition)
      : settings_(settings),
        operands_(std::move(operands)),
        steps_(std::move(steps)),
        copies_(std::move(copies)),
        condition_(std::move(condition)),
        device_(operands_.all[0].device()) {}

  void run(const RngOffsets&) const override {
    for (const auto& [from, to] : copies_) copy_into(settings_.name, from, to);
    if (condition_ && *condition_.ptr<uint8_t>() == 0) return;
    for (const Tensor& step : steps_) *step.ptr<float>() += 1.0F;
    kernels_of(device_).row(op_of(settings_.rule))(operands_.call(settings_.rule));
  }
  size_t scratch_bytes() const override {
    DryRun dry;
    UpdateOperands operands = operands_;
    for (Tensor& t : operands.all) t = dry.fake_tensor(t);
    const KernelCall call = operands.call(settings_.rule);
    return dry.bytes_of([&] { kernels_of(device_).row(call.op)(call); });
  }

 private:
  OptimSettings settings_;
  UpdateOperands operands_;
  Tensors steps_;
  std::vector<std::pair<Tensor, Tensor>> copies_;
  Tensor condition_;
  Device device_;
};

// Its operands: what the row writes, the step counters, which it writes, too; gradients; numbers;
// the condition.
class OptimNode : public ExternalOp {
 public:
  OptimNode(const OptimSettings& settings, const UpdateOperands& row, bool has_condition)
      : settings_(settings),
        attrs_(row.attrs),
        written_(row.written),
        has_condition_(has_condition) {}

  std::string_view name() const override { return settings_.name; }
  std::vector<int64_t> numbers() const override {
    std::vector<int64_t> out{static_cast<int64_t>(settings_.rule), has_condition_};
    out.insert(out.end(), attrs_.ints.begin(), attrs_.ints.end());
    return out;
  }

  std::unique_ptr<Executable> bind(std::span<const Tensor> inputs,
                                   std::span<const Tensor> outputs) const override {
    std::vector<std::pair<Tensor, Tensor>> copies;
    for (size_t i = 0; i < outputs.size(); ++i)
      if (inputs[i].impl() != outputs[i].impl()) copies.emplace_back(inputs[i], outputs[i]);
    const auto changed = outputs.first(written_), steps = outputs.subspan(written_);
    const auto read = inputs.subspan(outputs.size());
    const auto grads = read.first(settings_.rule == OptimRule::Scale ? 0 : count());
    const auto numbers =
        read.subspan(grads.size(), read.size() - grads.size() - (has_condition_ ? 1 : 0));
    UpdateOperands row{{}, written_, attrs_};
    for (const auto& part : {changed, grads, steps, numbers})
      row.all.insert(row.all.end(), part.begin(), part.end());
    return std::make_unique<BoundStep>(settings_, std::move(row),
                                       Tensors(steps.begin(), steps.end()), std::move(copies),
                                       has_condition_ ? inputs.back() : Tensor());
  }

 private:
  size_t count() const { return static_cast<size_t>(attrs_.ints[0]); }

  OptimSettings settings_;
  Attrs attrs_;
  size_t written_;
  bool has_condition_;  // the last input: whether to do anything
};

void record_node(Graph& graph, const OptimSettings& settings,
                 std::span<const OptimItem* const> items, std::span<const Tensor> cells) {
  const UpdateOperands row = operands_of(settings, items, cells, true);
  Tensors inputs(row.all.begin(), row.all.begin() + static_cast<int64_t>(row.written));
  for (const OptimItem* item : items)
    if (item->step) inputs.push_back(item->step);
  const size_t written = inputs.size();
  for (const OptimItem* item : items)
    if (item->grad) inputs.push_back(item->grad);
  inputs.insert(inputs.end(), cells.begin(), cells.end());
  const Tensor& condition = graph.step_condition;
  if (condition) inputs.push_back(condition);
  graph.record(std::make_shared<OptimNode>(settings, row, static_cast<bool>(condition)), inputs,
               written);
}

}  // namespace

std::vector<int64_t> record_optim_step(Graph& graph, const OptimSettings& settings,
                                       std::span<const OptimItem> items,
                                       std::span<const Tensor> cells) {
  for (const OptimItem& item : items)
    if (item.grad) item.grad.observe_shape();
  std::vector<int64_t> left = left_alone(settings, items);
  const Tensor& condition = graph.step_condition;
  require(!condition || left.empty(), ErrorKind::Capture, settings.name,
          ": a step that may be left out needs dense parameters of one floating dtype each, with "
          "gradients and states of their shape");
  std::vector<const OptimItem*> plain;
  for (size_t i = 0; i < items.size(); ++i)
    if (std::ranges::find(left, static_cast<int64_t>(i)) == left.end()) plain.push_back(&items[i]);
  if (plain.empty()) return left;
  const size_t most = most_items(*plain[0], plain.size(), plain[0]->param.device());
  for (std::span<const OptimItem* const> rest = plain; !rest.empty();) {
    const size_t now = std::min(most, rest.size());
    record_node(graph, settings, rest.first(now), cells);
    rest = rest.subspan(now);
  }
  return left;
}

}  // namespace tinyt
