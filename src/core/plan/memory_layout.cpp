// Where a program's operands lie, and how much a run holds at each step.
#include <algorithm>

#include "core/base/parallel.h"
#include "core/plan/plan.h"

namespace tinyt {

Plan::MemoryLayout Plan::layout() const {
  using Kind = Allocation::Kind;
  MemoryLayout out;
  const auto add = [&](const Storage* storage, Allocation place) {
    if (out.place_of.emplace(storage, out.places.size()).second) out.places.push_back(place);
  };
  for (const Arena& arena : arenas)
    for (const auto& [storage, offset] : arena.placed)
      add(storage.get(), {Kind::Arena, storage->buffer.bytes, static_cast<int64_t>(offset)});
  for (size_t i = 0; i < memories.size(); ++i)
    add(memories[i].storage.get(), {Kind::Result, memories[i].bytes, static_cast<int64_t>(i)});
  for (const BufferEvent& turn : allocs)
    if (turn.use == Use::Value) add(turn.memory.storage.get(), {Kind::Block, turn.memory.bytes});
  for (size_t i = 0; i < arguments.size(); ++i)
    add(arguments[i].storage.get(),
        {Kind::Argument, arguments[i].storage->buffer.bytes, static_cast<int64_t>(i)});
  for (size_t s = 0; s < steps.size(); ++s) {
    const Step& step = steps[s];
    for (int64_t i = step.first; i < step.first + step.inputs + step.outputs; ++i) {
      const Storage* storage = &operands[i].storage();
      add(storage, {Kind::Outside, storage->buffer.bytes});
      Allocation& place = out.places[out.place_of.at(storage)];
      if (place.first < 0) place.first = static_cast<int64_t>(s);
      place.last = static_cast<int64_t>(s);
    }
  }
  for (const ConcurrentGroup& group : groups)  // all of them hold what one of them does
    for (Allocation& place : out.places) {
      if (place.first >= group.first && place.first <= group.last) place.first = group.first;
      if (place.last >= group.first && place.last <= group.last) place.last = group.last;
    }
  for (const BufferEvent& turn : allocs)
    if (turn.use != Use::Arena)
      out.places[out.place_of.at(turn.memory.storage.get())].first = turn.step;
  for (Allocation& place : out.places)
    if (place.kind == Kind::Result) place.last = static_cast<int64_t>(steps.size()) - 1;
  return out;
}

std::vector<size_t> Plan::held_bytes() const {
  std::vector<size_t> out;
  size_t held = 0;
  auto taken = allocs.begin(), given = frees.begin();
  for (int64_t s = 0; s < static_cast<int64_t>(steps.size()); ++s) {
    for (; taken != allocs.end() && taken->step == s; ++taken) held += taken->memory.bytes;
    if (s == first_write) held += spare_bytes();
    out.push_back(held);
    for (; given != frees.end() && given->step == s; ++given) held -= given->memory.bytes;
  }
  return out;
}

std::vector<Plan::LiveBuffer> Plan::held_values(int64_t step) const {
  const MemoryLayout layout = this->layout();
  std::vector<int64_t> value(layout.places.size(), -1);
  for (const ValueAccess& touch : accesses) {
    const auto it = layout.place_of.find(&touch.tensor.storage());
    if (touch.made && touch.step <= step && it != layout.place_of.end())
      value[it->second] = touch.value;
  }
  std::vector<LiveBuffer> out;
  for (size_t p = 0; p < layout.places.size(); ++p) {
    const Allocation& place = layout.places[p];
    const bool is_own = place.kind == Allocation::Kind::Arena ||
                        place.kind == Allocation::Kind::Block ||
                        place.kind == Allocation::Kind::Result;
    if (is_own && place.first >= 0 && place.first <= step && step <= place.last)
      out.push_back({value[p], place.bytes});
  }
  return out;
}

bool Plan::may_replace(size_t argument, size_t memory) const {
  const Storage &from = *arguments[argument].storage, &to = *memories[memory].storage;
  const auto lies_in = [](std::span<const Tensor> tensors, const Storage& storage) {
    return std::any_of(tensors.begin(), tensors.end(),
                       [&](const Tensor& t) { return &t.storage() == &storage; });
  };
  for (const Result& r : results)
    if (r.argument == static_cast<int64_t>(argument)) return false;
  int64_t last_read = -1, first_written = -1;
  for (int64_t s = std::ssize(steps); s-- > 0;) {
    const auto in = inputs(steps[s]), out = outputs(steps[s]);
    if (lies_in(out, from)) return false;
    if (lies_in(out, to)) first_written = s;
    if (last_read < 0 && lies_in(in, from)) last_read = s;
  }
  if (last_read < 0 || first_written < 0) return last_read < 0;
  for (const ConcurrentGroup& group : groups)
    if (last_read < first_written && group.first <= last_read && first_written <= group.last)
      return false;
  return last_read < first_written ||
         (last_read == first_written && may_replace(steps[last_read], from, to));
}

// Of the step that reads what lies in `from`, and writes the memory `to`.
bool Plan::may_replace(const Step& step, const Storage& from, const Storage& to) const {
  const auto in = inputs(step), out = outputs(step);
  size_t output = out.size();
  for (size_t o = 0; o < out.size(); ++o) {
    if (&out[o].storage() != &to) continue;
    if (output < out.size()) return false;
    output = o;
  }
  for (size_t i = 0; i < in.size(); ++i) {
    if (&in[i].storage() != &from) continue;
    const bool fits = in[i].itemsize() == out[output].itemsize() && in[i].offset() == 0;
    if (step.kind == Kind::Region) {
      const Region& region = regions[step.index];
      if (!fits || region.product || !region.kernel->may_replace(i, output)) return false;
      continue;
    }
    if (!fits || step.kind != Kind::Op || in[i].shape() != out[output].shape() ||
        in[i].strides() != out[output].strides())
      return false;
    if (info(step.op).kind == OpKind::Scalar) continue;
    const KernelCall call{step.op, in, out, attrs_of(step), step.compute};
    const FusionTarget* target = find_fusion_target(out[output].device());
    if (step.op != OpId::matmul_add || i != 2 || !target || !target->adds_in_place(call))
      return false;
  }
  return true;
}

// The device says it, from geometry.
size_t Plan::scratch_of(const Step& step) const {
  if (step.kind == Kind::ExternalOp) return executables[step.index]->scratch_bytes();
  const auto in = inputs(step), out = outputs(step);
  if (step.kind == Kind::Region) return scratch_of(regions[step.index], in, out);
  const FusionTarget* target = find_fusion_target(out[0].device());
  if (step.kind == Kind::Copy || !target) return 0;  // copies take none
  return target->workspace({step.op, in, out, attrs_of(step), step.compute});
}

std::vector<size_t> Plan::scratch_bytes() const {
  std::vector<size_t> out;
  for (const Step& step : steps) {
    const bool is_held = first_write >= 0 && std::ssize(out) >= first_write;
    out.push_back(is_held ? 0 : scratch_of(step));
  }
  if (num_threads() == 1) return out;
  for (const ConcurrentGroup& group : groups) {  // of which one step at a time takes some
    const auto first = out.begin() + group.first, end = out.begin() + group.last + 1;
    std::fill(first, end, *std::max_element(first, end));
  }
  return out;
}

// The most that a step from the first write on takes.
size_t Plan::spare_bytes() const {
  size_t most = 0;
  for (int64_t s = first_write; s >= 0 && s < std::ssize(steps); ++s)
    most = std::max(most, scratch_of(steps[s]));
  return most;
}

size_t Plan::arena_bytes() const {
  size_t bytes = 0;
  for (const Arena& arena : arenas) bytes += arena.memory.bytes;
  return bytes;
}

size_t Plan::peak_bytes() const {
  const std::vector<size_t> held = held_bytes(), scratch = scratch_bytes();
  size_t peak = 0;
  for (size_t s = 0; s < held.size(); ++s) peak = std::max(peak, held[s] + scratch[s]);
  return peak;
}

}  // namespace tinyt
