#include "core/graph/step_node.h"

#include <algorithm>
#include <bit>

#include "core/graph/fusion_target.h"
#include "core/ops/fallback.h"

namespace tinyt {

namespace {

class BoundStep : public ExternalOp::Executable {
 public:
  BoundStep(const OptimSettings& settings, UpdateOperands operands,
            std::vector<std::pair<Tensor, Tensor>> copies, Tensor condition)
      : settings_(settings),
        operands_(std::move(operands)),
        copies_(std::move(copies)),
        condition_(std::move(condition)) {}

  void run(const RngOffsets&) const override {
    for (const auto& [from, to] : copies_) copy_into(settings_.name, from, to);
    if (condition_ && !is_true(condition_)) return;
    operands_.run(settings_.rule, kernel());
  }
  size_t scratch_bytes() const override {
    const FusionTarget* target = find_fusion_target(operands_.all[0].device());
    return target ? target->workspace(operands_.call(settings_.rule)) : 0;
  }

 private:
  static bool is_true(const Tensor& one) {
    const PausedRecording at_once;
    return *to_device(one, {}).ptr<uint8_t>() != 0;
  }
  Kernel kernel() const { return kernels_of(operands_.all[0].device()).row(op_of(settings_.rule)); }

  OptimSettings settings_;
  UpdateOperands operands_;
  std::vector<std::pair<Tensor, Tensor>> copies_;
  Tensor condition_;
};

// Its operands are those of the row, then the condition. It writes the counters, too.
class OptimNode : public ExternalOp {
 public:
  OptimNode(const OptimSettings& settings, UpdateOperands row, bool has_condition)
      : settings_(settings), row_(std::move(row)), has_condition_(has_condition) {
    row_.all.clear();  // no recorded tensor outlives its recording
  }

  std::string_view name() const override { return settings_.name; }
  std::vector<int64_t> numbers() const override {
    std::vector<int64_t> out{static_cast<int64_t>(settings_.rule), has_condition_};
    out.insert(out.end(), row_.attrs.ints.begin(), row_.attrs.ints.end());
    return out;
  }

  std::string_view form() const override { return "step"; }
  size_t written() const override { return row_.written + row_.counted; }
  void check_operands(std::span<const Geometry> inputs,
                      std::span<const Geometry> outputs) const override;

  std::unique_ptr<Executable> bind(std::span<const Tensor> inputs,
                                   std::span<const Tensor> outputs) const override {
    std::vector<std::pair<Tensor, Tensor>> copies;
    for (size_t i = 0; i < outputs.size(); ++i)
      if (inputs[i].impl() != outputs[i].impl()) copies.emplace_back(inputs[i], outputs[i]);
    UpdateOperands row = row_;
    row.all.assign(outputs.begin(), outputs.end());
    row.all.insert(row.all.end(), inputs.begin() + std::ssize(outputs), inputs.end());
    Tensor condition;
    if (has_condition_) {
      condition = std::move(row.all.back());
      row.all.pop_back();
    }
    return std::make_unique<BoundStep>(settings_, std::move(row), std::move(copies),
                                       std::move(condition));
  }

 private:
  OptimSettings settings_;
  UpdateOperands row_;  // without tensors
  bool has_condition_;  // the last input: whether to do anything
};

// The names of the optimisers of each rule.
constexpr const char* kNames[] = {"SGD", "Adam", "RMSprop", "Adagrad", "mul_"};
static_assert(std::size(kNames) == kOptimRules);

bool is_like(const ExternalOp::Geometry& a, const ExternalOp::Geometry& b) {
  return a.shape == b.shape && a.dtype == b.dtype && a.device == b.device;
}

void OptimNode::check_operands(std::span<const Geometry> inputs,
                               std::span<const Geometry> outputs) const {
  const auto count = static_cast<size_t>(row_.attrs.ints[0]);
  const size_t changed = row_.written + row_.counted;
  const size_t grads = takes_grads(settings_.rule) ? count : 0;
  check_graph(outputs.size() == changed && inputs.size() > changed + grads + has_condition_,
              settings_.name, ": takes other operands");
  for (size_t i = 0; i < changed; ++i)
    check_graph(is_like(inputs[i], outputs[i]), settings_.name, ": gives operand ", i,
                " another shape, dtype or device");
  for (size_t i = 0; i < changed + grads; ++i) {
    const Geometry& x = inputs[i];
    const bool is_counter = i >= row_.written && i < changed;
    const Geometry& param = inputs[i < row_.written ? i % count : (i - changed) % count];
    check_graph(
        is_counter ? x.dtype == DType::Float32 && numel_of(x.shape) == 1 && x.device == Device{}
                   : is_like(x, param) && is_float(x.dtype) &&
                         kernels_of(x.device).takes(op_of(settings_.rule), x.dtype),
        settings_.name, ": operand ", i, " is no ", is_counter ? "counter" : "tensor of a step");
  }
  const size_t numbers = inputs.size() - has_condition_;
  for (size_t i = changed + grads; i < inputs.size(); ++i) {
    const Geometry& x = inputs[i];
    check_graph(i < numbers ? x.dtype == DType::Float64 && x.device == Device{}
                            : is_bool(x.dtype) && numel_of(x.shape) == 1,
                settings_.name, ": operand ", i, " is no number of a step");
  }
}

void record_node(Graph& graph, const OptimSettings& settings,
                 std::span<const OptimItem* const> items, std::span<const Tensor> cells) {
  UpdateOperands row = operands_of(settings, items, cells, true);
  std::vector<Tensor> inputs = row.all;
  const size_t written = row.written + row.counted;
  const Tensor& condition = graph.step_condition;
  if (condition) inputs.push_back(condition);
  const bool has_condition = static_cast<bool>(condition);
  graph.record(std::make_shared<OptimNode>(settings, std::move(row), has_condition), inputs,
               written);
}

}  // namespace

std::span<const char* const> step_names() { return kNames; }

std::shared_ptr<const ExternalOp> step_of(std::string_view name, Words& numbers) {
  OptimSettings settings{};
  settings.rule = static_cast<OptimRule>(numbers.below(kOptimRules, "rule"));
  settings.name = kNames[static_cast<int>(settings.rule)];
  check_graph(name == settings.name, "there is no optimiser ", name, " of this rule");
  const bool has_condition = numbers.flag("condition");
  const int64_t count = numbers.below(INT32_MAX, "count"), states = numbers.below(8, "states");
  const StatesOf of = states_of(settings.rule);
  check_graph(count > 0 && (states & of.least) == of.least && (states & ~of.most) == 0, name,
              ": there are no such states");
  settings.maximize = numbers.flag("flag");
  settings.nesterov = numbers.flag("flag");
  settings.decoupled = numbers.flag("flag");
  const std::span<const int64_t> first = numbers.list();
  check_graph(first.empty() || std::ssize(first) == count, name, ": there are ", first.size(),
              " marks of first steps");
  UpdateOperands row;
  row.attrs.add(count).add(states).add(int64_t{settings.maximize}).add(int64_t{settings.nesterov});
  row.attrs.add(int64_t{settings.decoupled}).add(first);
  row.written = static_cast<size_t>(count * (1 + std::popcount(static_cast<unsigned>(states))));
  row.counted = has_counters(settings.rule) ? static_cast<size_t>(count) : 0;
  return std::make_shared<OptimNode>(settings, std::move(row), has_condition);
}

std::vector<int64_t> record_optim_step(Graph& graph, const OptimSettings& settings,
                                       std::span<const OptimItem> items,
                                       std::span<const Tensor> cells) {
  for (const OptimItem& item : items)
    if (item.grad) item.grad.observe_shape();
  std::vector<int64_t> left = left_alone(settings, items);
  const Tensor& condition = graph.step_condition;
  const Device device = items.empty() ? Device{} : items[0].param.device();
  require(!condition || device == Device{} || left.empty(), ErrorKind::Capture, settings.name, ": ",
          name_of(device),
          " has no kernel for a step that may be left out; call the scaler's "
          "step() and update() outside the compiled function");
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
