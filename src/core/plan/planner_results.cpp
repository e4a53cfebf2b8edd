// Results and writes: the memory that they lie in, and what is made there at once.
#include <algorithm>

#include "core/plan/planner.h"

namespace tinyt {

// Whether a write that is still to come changes what the value's tensor sees.
bool Planner::is_overwritten(int64_t v) const {
  for (size_t w = 0; w < done_.size(); ++w) {
    const Graph::Write& write = graph_.writes()[w];
    const Storage* target = write.argument < 0 ? &write.target.storage()
                                               : plan_.arguments[write.argument].storage.get();
    if (!done_[w] && target == &value(v).storage()) return true;
  }
  return false;
}

// The memory of a result, which the step that makes it writes at once where it has its own.
int64_t Planner::memory_for(int64_t v) {
  Tensor made = value(v);
  const auto buffer = buffer_of_.find(&made.storage());
  if (buffer == buffer_of_.end() || !covers_storage(made)) made = copied(made);
  const auto number = static_cast<int64_t>(plan_.memories.size());
  Buffer& taken = buffers_[buffer_of_.at(&made.storage())];
  plan_.memories.push_back({taken.storage, taken.storage->buffer.bytes});
  buffer_of_.erase(&made.storage());
  const auto last = static_cast<int64_t>(plan_.steps.size()) - 1;
  if (result_alloc_ == Plan::ResultAlloc::PerRun)
    plan_.allocs.push_back({std::min(taken.first, last), plan_.memories.back(), Plan::Use::Result});
  taken.storage = {};
  memory_of_[&made.storage()] = number;
  return number;
}

void Planner::plan_results() {
  std::unordered_map<const Storage*, int64_t> returned;  // recorded memory: one for all its views
  for (const Graph::Output& output : outputs_) {
    const Tensor& t = output.tensor;
    if (output.argument >= 0) plan_.arguments[output.argument].used = true;
    if (output.argument >= 0 || !t.is_recorded()) {
      plan_.results.push_back({t, -1, output.argument});
      continue;
    }
    const auto it = returned.find(&t.storage());
    const int64_t memory = it != returned.end() ? it->second : memory_for(output.value);
    returned[&t.storage()] = memory;
    plan_.results.push_back({t, memory, -1});
  }
  if (part_ != Plan::Part::First) return;
  for (int64_t v : partition_.saved) {
    const Graph::Value& kept = graph_.values()[v];
    // What is returned, too, is kept as it is: its version tells whether it was written to.
    const auto it = memory_of_.find(&value(v).storage());
    const bool is_returned =
        it != memory_of_.end() && value(v).is_contiguous() && value(v).offset() == 0;
    const int64_t memory = is_returned ? it->second : memory_for(v);
    plan_.results.push_back({Tensor::from_storage(Ref<Storage>(new Storage), kept.shape,
                                                  contiguous_strides(kept.shape), 0, kept.dtype),
                             memory, -1});
  }
}

// Whether a step may make its result, and all later ones read it, where it is to be written: nobody
// else touches that memory but the step itself, as it writes over it.
bool Planner::may_make_in(int64_t made_by, const Storage& made, const Storage& target) const {
  const auto touches = [](std::span<const Tensor> operands, const Storage& storage) {
    return std::any_of(operands.begin(), operands.end(),
                       [&](const Tensor& x) { return &x.storage() == &storage; });
  };
  for (int64_t s = made_by; s < std::ssize(plan_.steps); ++s) {
    const Plan::Step& step = plan_.steps[s];
    const auto in = plan_.inputs(step), out = plan_.outputs(step);
    if (touches(out, target)) return false;
    if (step.kind == Plan::Kind::ExternalOp && (touches(in, made) || touches(out, made)))
      return false;  // it is bound
    if (touches(in, target) && (s > made_by || !plan_.may_replace(step, target, made)))
      return false;
  }
  for (size_t w = 0; w < done_.size(); ++w)  // a copy that is still to come
    if (!done_[w] && &value(graph_.writes()[w].value).storage() == &target) return false;
  const Plan::Step& step = plan_.steps[made_by];
  const auto in = plan_.inputs(step), out = plan_.outputs(step);
  const bool is_product = step.kind == Plan::Kind::Region && plan_.regions[step.index].product;
  return !(is_product && touches(in, made)) &&
         std::all_of(out.begin(), out.end(),
                     [&](const Tensor& x) { return &x.storage() != &made || covers_storage(x); });
}

// Values with memory of their own are made where they are to be written, if from there on no step
// fails or takes memory: else the run could stop with some of them written.
void Planner::write_at_once() {
  struct Found {
    size_t write;
    int64_t made_by = -1;   // the last step that writes it
    Ref<Storage> target{};  // where it is made instead
  };
  std::unordered_map<const Storage*, Found> found;
  for (size_t w = 0; w < done_.size(); ++w) {
    const Tensor& target = graph_.writes()[w].target;
    if (done_[w] || !target.is_contiguous() || target.offset() != 0) continue;
    const Tensor& made = value(graph_.writes()[w].value);
    if (buffer_of_.contains(&made.storage()) && covers_storage(made) &&
        made.shape() == target.shape() && made.dtype() == target.dtype())
      found.try_emplace(&made.storage(), Found{w});
  }
  if (found.empty()) return;
  std::vector<std::pair<int64_t, const Storage*>> last_first;
  for (int64_t s = std::ssize(plan_.steps); s-- > safe_;)
    for (const Tensor& x : plan_.outputs(plan_.steps[s]))
      if (const auto it = found.find(&x.storage()); it != found.end() && it->second.made_by < 0) {
        it->second.made_by = s;
        last_first.emplace_back(s, it->first);
      }
  int64_t taken = safe_ - 1;  // the last step that takes memory, as far as that is known
  for (const Plan::BufferEvent& turn : plan_.allocs) taken = std::max(taken, turn.step);
  for (const Buffer& buffer : buffers_)
    if (is_used(buffer) && !found.contains(buffer.storage.get()))
      taken = std::max(taken, buffer.first);
  for (const auto& [made_by, storage] : last_first) {
    Found& value = found[storage];
    const Graph::Write& write = graph_.writes()[value.write];
    const Ref<Storage>& target =
        write.argument < 0 ? write.target.impl()->storage : plan_.arguments[write.argument].storage;
    Buffer& buffer = buffers_[buffer_of_.at(storage)];
    if (made_by > taken && may_make_in(made_by, *storage, *target)) {
      value.target = target;
      finish_write(value.write);
      buffer.last = buffer.first < made_by ? made_by : -1;
    }
    if (is_used(buffer)) taken = std::max(taken, buffer.first);
  }
  const auto move = [&](int64_t step, Tensor& x) {
    const auto it = x ? found.find(&x.storage()) : found.end();
    if (it != found.end() && it->second.target && step >= it->second.made_by)
      x = Tensor::from_storage(it->second.target, x.shape(), x.strides(), x.offset(), x.dtype());
  };
  for (int64_t s = safe_; s < std::ssize(plan_.steps); ++s) {
    const Plan::Step& step = plan_.steps[s];
    Tensor* const operands = plan_.operands.data() + step.first;
    for (int32_t i = 0; i < step.inputs; ++i) move(s - 1, operands[i]);
    for (int32_t i = 0; i < step.outputs; ++i) move(s, operands[step.inputs + i]);
    if (step.kind == Plan::Kind::Region && plan_.regions[step.index].product)
      move(s, plan_.regions[step.index].product->result);
  }
  for (Plan::ValueAccess& touch : plan_.accesses) move(touch.step - !touch.made, touch.tensor);
  for (Tensor& x : values_) move(kAlways, x);
}

// Of what is written once the steps are done.
void Planner::finish_write(size_t w) {
  const Graph::Write& write = graph_.writes()[w];
  done_[w] = true;
  if (write.argument < 0) {
    plan_.written.push_back(write.target);
  } else {
    Plan::Argument& argument = plan_.arguments[write.argument];
    argument.used = argument.written = true;
  }
}

void Planner::plan_writes() {
  write_at_once();
  // What lies in memory that is written is taken from there before.
  std::vector<Tensor> sources(done_.size());
  for (size_t w = 0; w < done_.size(); ++w) {
    const int64_t v = graph_.writes()[w].value;
    if (!done_[w]) sources[w] = is_overwritten(v) ? copied(value(v)) : value(v);
  }
  for (size_t w = 0; w < done_.size(); ++w) {
    if (done_[w]) continue;
    const Graph::Write& write = graph_.writes()[w];
    const Tensor& target = write.target;
    add_copy(sources[w],
             write.argument < 0
                 ? target
                 : Tensor::from_storage(plan_.arguments[write.argument].storage, target.shape(),
                                        target.strides(), 0, target.dtype()));
    finish_write(w);
  }
}

}  // namespace tinyt
