// Optimiser steps for Python: one function per rule. Each takes a list for every kind of tensor,
// one entry a parameter, and returns the numbers of the parameters it left alone (optim.h).
#include "core/ops/optim.h"

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <optional>

#include "casters.h"
#include "core/graph/step_node.h"
#include "submodules.h"

namespace py = pybind11;

namespace tinyt {

namespace {

using Tensors = std::vector<Tensor>;

// The items of a step; `states` in the order of the rule, an empty list for one that is not kept.
std::vector<OptimItem> items_of(const Tensors& params, const Tensors& grads,
                                std::span<const Tensors* const> states) {
  for (const Tensors* list : states)
    require(list->empty() || list->size() == params.size(), ErrorKind::Value,
            "step: needs one state tensor for each of the ", params.size(), " parameters, got ",
            list->size());
  require(grads.size() == params.size(), ErrorKind::Value, "step: needs one gradient for each of ",
          "the ", params.size(), " parameters, got ", grads.size());
  std::vector<OptimItem> items(params.size());
  for (size_t i = 0; i < params.size(); ++i) {
    items[i] = {params[i], grads[i], {}, {}};
    for (size_t s = 0; s < states.size(); ++s)
      if (!states[s]->empty()) items[i].state[s] = (*states[s])[i];
  }
  return items;
}

void add_steps(std::vector<OptimItem>& items, const Tensors& steps) {
  require(steps.size() == items.size(), ErrorKind::Value,
          "step: needs one counter for each of the ", items.size(), " parameters, got ",
          steps.size());
  for (size_t i = 0; i < items.size(); ++i) items[i].step = steps[i];
}

std::vector<int64_t> run(const OptimSettings& settings, std::vector<OptimItem> items,
                         std::initializer_list<LiveNumber> numbers) {
  if (Graph* graph = recording()) {
    std::vector<Tensor> cells;
    for (const LiveNumber& n : numbers)
      cells.push_back(
          graph->cell(n.index < 0 ? graph->scalars().table().real_constant(n.value) : n.index));
    return record_optim_step(*graph, settings, items, cells);
  }
  settle_all();
  const PausedRecording at_once;
  std::vector<double> values;
  for (const LiveNumber& n : numbers) values.push_back(n.value);
  int64_t elements = 0;
  for (const OptimItem& item : items) elements += item.param.numel();
  std::optional<PythonUnlocked> unlocked;
  if (elements >= kReleaseLockElements) unlocked.emplace();
  return optim_step(settings, items, values);
}

std::vector<int64_t> sgd_step(const Tensors& params, const Tensors& grads, const Tensors& momenta,
                              const std::vector<bool>& first, LiveNumber lr, LiveNumber momentum,
                              LiveNumber dampening, LiveNumber weight_decay, bool nesterov,
                              bool maximize) {
  const Tensors* states[] = {&momenta};
  auto items = items_of(params, grads, states);
  for (size_t i = 0; i < items.size() && i < first.size(); ++i) items[i].first = first[i];
  return run({"SGD", OptimRule::Sgd, maximize, nesterov}, std::move(items),
             {lr, momentum, dampening, weight_decay});
}

std::vector<int64_t> adam_step(const Tensors& params, const Tensors& grads, const Tensors& steps,
                               const Tensors& means, const Tensors& squares, const Tensors& largest,
                               LiveNumber lr, LiveNumber beta1, LiveNumber beta2, LiveNumber eps,
                               LiveNumber weight_decay, bool decoupled, bool maximize) {
  const Tensors* states[] = {&means, &squares, &largest};
  auto items = items_of(params, grads, states);
  add_steps(items, steps);
  return run({"Adam", OptimRule::Adam, maximize, false, decoupled}, std::move(items),
             {lr, beta1, beta2, eps, weight_decay});
}

std::vector<int64_t> rmsprop_step(const Tensors& params, const Tensors& grads, const Tensors& steps,
                                  const Tensors& squares, const Tensors& means,
                                  const Tensors& momenta, LiveNumber lr, LiveNumber alpha,
                                  LiveNumber eps, LiveNumber weight_decay, LiveNumber momentum,
                                  bool maximize) {
  const Tensors* states[] = {&squares, &means, &momenta};
  auto items = items_of(params, grads, states);
  add_steps(items, steps);
  return run({"RMSprop", OptimRule::RmsProp, maximize}, std::move(items),
             {lr, alpha, eps, weight_decay, momentum});
}

std::vector<int64_t> adagrad_step(const Tensors& params, const Tensors& grads, const Tensors& steps,
                                  const Tensors& sums, LiveNumber lr, LiveNumber lr_decay,
                                  LiveNumber eps, LiveNumber weight_decay, bool maximize) {
  const Tensors* states[] = {&sums};
  auto items = items_of(params, grads, states);
  add_steps(items, steps);
  return run({"Adagrad", OptimRule::Adagrad, maximize}, std::move(items),
             {lr, lr_decay, eps, weight_decay});
}

std::vector<int64_t> scale_all(const Tensors& tensors, LiveNumber factor) {
  std::vector<OptimItem> items(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) items[i].param = tensors[i];
  return run({"mul_", OptimRule::Scale}, std::move(items), {factor});
}

void set_step_condition(const std::optional<Tensor>& condition) {
  if (Graph* graph = recording()) graph->step_condition = condition.value_or(Tensor());
}

}  // namespace

void bind_optim(py::module_& m) {
  using py::arg;
  m.def("sgd_step", sgd_step, arg("params"), arg("grads"), arg("momenta"), arg("first"), arg("lr"),
        arg("momentum"), arg("dampening"), arg("weight_decay"), arg("nesterov"), arg("maximize"),
        "Updates parameters and momenta; `first` says whose momentum starts now.");
  m.def("adam_step", adam_step, arg("params"), arg("grads"), arg("steps"), arg("means"),
        arg("squares"), arg("largest"), arg("lr"), arg("beta1"), arg("beta2"), arg("eps"),
        arg("weight_decay"), arg("decoupled"), arg("maximize"),
        "Updates parameters, step counters and running means.");
  m.def("rmsprop_step", rmsprop_step, arg("params"), arg("grads"), arg("steps"), arg("squares"),
        arg("means"), arg("momenta"), arg("lr"), arg("alpha"), arg("eps"), arg("weight_decay"),
        arg("momentum"), arg("maximize"), "Updates parameters, step counters and running means.");
  m.def("adagrad_step", adagrad_step, arg("params"), arg("grads"), arg("steps"), arg("sums"),
        arg("lr"), arg("lr_decay"), arg("eps"), arg("weight_decay"), arg("maximize"),
        "Updates parameters, step counters and sums of squares.");
  m.def("set_step_condition", set_step_condition, arg("condition"),
        "Of this recording: optimisers step from here on only where this bool is true; None: "
        "always.");
  m.def("scale_all", scale_all, arg("tensors"), arg("factor"), "Multiplies tensors in place.");
}

}  // namespace tinyt
