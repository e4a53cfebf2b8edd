#include "core/plan/planner.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <memory>
#include <numeric>
#include <set>
#include <unordered_set>

#include "core/base/checked.h"
#include "core/base/parallel.h"
#include "core/device/runtime.h"
#include "core/memory/size_class.h"
#include "core/ops/fallback.h"
#include "core/plan/buffer_assignment.h"
#include "core/plan/liveness.h"
#include "core/plan/step_facts.h"

namespace tinyt {

namespace {

// From this size on, a block of its own costs nothing beside what is done with it, and leaves room
// for others outside its lifetime: results, too.
constexpr size_t kOwnBlock = size_t{1} << 15;

// What kernels are expected to take for themselves meanwhile.
constexpr size_t kScratch = size_t{16} << 20;

// Bytes that a step reads, and that a run holds, where its kernels are asked for their scratch.
constexpr size_t kSmallStep = size_t{4} << 20;

// Whether a node may find its operands wanting when it runs, as an index out of range.
bool may_fail(const Graph::Node& node) {
  if (node.opaque) return node.opaque->may_fail();
  if (info(node.op).kind == OpKind::Scalar) return is_integral(node.compute) && divides(node.op);
  return info(node.op).kind != OpKind::Reduce && !has_flag(node.op, op_flags::view);
}

}  // namespace

namespace {

// From the first step of any of some blocks to the last.
std::pair<int64_t, int64_t> span_of(const std::vector<Lifetime>& blocks) {
  int64_t first = kAlways, last = -1;
  for (const Lifetime& block : blocks) {
    first = std::min(first, block.first);
    last = std::max(last, block.last);
  }
  return {first, last};
}

// What an arena of a device is at most; 0: any size.
size_t largest_arena(Device device) {
  if (device == Device{}) return 0;
  const size_t most = runtime_of(device).properties(device.index).most_bytes;
  return most == 0 ? 0 : std::max(kOwnBlock, most / memory::kAlignment * memory::kAlignment);
}

// Whether the last dimension's two elements lie as those of complex numbers do.
bool holds_pairs(const Tensor& x) {
  const int64_t last = x.rank() - 1;
  bool even = x.stride(last) == 1 && x.offset() % 2 == 0;
  for (int64_t d = 0; d < last; ++d) even &= x.stride(d) % 2 == 0;
  return even;
}

}  // namespace

Planner::Planner(Plan& plan, const Graph& graph, Plan::Part part, Plan::ResultAlloc result_alloc)
    : plan_(plan),
      graph_(graph),
      part_(part),
      result_alloc_(result_alloc),
      outputs_(graph.outputs()),
      values_(graph.values().size()),
      last_read_(graph.values().size(), -1),
      is_number_(graph.values().size(), false),
      done_(graph.writes().size(), false) {
  if (part != Plan::Part::All) partition_ = partition_of(graph);
  const size_t first = graph.split_point().output;
  if (part == Plan::Part::First) outputs_ = outputs_.first(first);
  if (part == Plan::Part::Later) outputs_ = outputs_.subspan(first);
  for (const Graph::Output& output : outputs_) last_read_[output.value] = kAlways;
  if (part == Plan::Part::First)
    for (int64_t v : partition_.saved) last_read_[v] = kAlways;
  for (size_t w = 0; w < done_.size(); ++w) {
    const int64_t v = graph.writes()[w].value;
    done_[w] = part != Plan::Part::All &&
               (graph.values()[v].node >= partition_.node) != (part == Plan::Part::Later);
    if (!done_[w]) last_read_[v] = kAlways;
  }
}

bool Planner::is_in_part(int64_t node) const {
  switch (part_) {
    case Plan::Part::First:
      return node < partition_.node;
    case Plan::Part::Later:
      return node >= partition_.node ||
             std::binary_search(partition_.repeated.begin(), partition_.repeated.end(), node);
    default:
      return true;
  }
}

// Who reads a value last, of what runs in this part.
void Planner::find_readers(std::span<const Group> groups) {
  for (size_t i = 0; i < groups.size(); ++i) {
    const auto now = static_cast<int64_t>(i);
    if (!is_in_part(groups[i].nodes[0])) continue;
    for (const int64_t n : groups[i].nodes) {
      for (const int64_t v : graph_.nodes()[n].inputs) last_read_[v] = std::max(last_read_[v], now);
      if ((!groups[i].is_region() || n == groups[i].product) && may_fail(graph_.nodes()[n]))
        last_failing_ = now;
    }
  }
}

size_t Planner::plan(Regions hold) {
  const std::vector<Group> groups = Fuser(graph_, hold).run();
  find_readers(groups);
  plan_.step_of_node.assign(graph_.nodes().size(), -1);
  take_inputs();
  convert_numbers(groups);
  for (size_t i = 0; i < groups.size(); ++i)
    if (is_in_part(groups[i].nodes[0])) {
      plan_group(groups[i], static_cast<int64_t>(i));
      if (static_cast<int64_t>(i) <= last_failing_) safe_ = std::ssize(plan_.steps);
    }
  plan_results();
  plan_writes();
  find_unfused_peak();
  const size_t most = knows_scratch_ ? peak(least_own_block()) : 0;
  return most - std::min(most, unfused_peak_);
}

// A storage whose address is set at each run.
Tensor Planner::add_argument(const Tensor& like, std::span<const int64_t> shape, DType dtype,
                             size_t bytes) {
  Ref<Storage> storage = Storage::without_memory(bytes, like.device());
  argument_of_[storage.get()] = plan_.arguments.size();
  plan_.arguments.push_back({storage, like});
  return Tensor::from_storage(std::move(storage), shape, contiguous_strides(shape), 0, dtype);
}

// Arguments and what another part carried; captured memory is read where it lies.
void Planner::take_inputs() {
  for (const Graph::Input& input : graph_.inputs()) {
    is_number_[input.value] = input.number;
    const Tensor& t = input.tensor;
    if (input.argument < 0) {
      values_[input.value] = t;
      if (!input.number && last_read_[input.value] >= 0) plan_.captured.push_back(t);
    } else {
      values_[input.value] = add_argument(graph_.arguments()[input.argument], t.shape(), t.dtype(),
                                          t.storage().buffer.bytes);
    }
  }
  if (part_ != Plan::Part::Later) return;
  for (int64_t v : partition_.saved) {
    const Graph::Value& kept = graph_.values()[v];
    const Tensor like =
        Tensor::from_storage(Storage::without_memory(kept.bytes(), kept.device), kept.shape,
                             contiguous_strides(kept.shape), 0, kept.dtype);
    values_[v] = add_argument(like, kept.shape, kept.dtype, kept.bytes());
  }
}

void Planner::set(int64_t v, Tensor t) {
  int64_t& until = until_.try_emplace(&t.storage(), -1).first->second;
  until = std::max(until, last_read_[v]);
  values_[v] = std::move(t);
}

Tensor Planner::fresh(std::span<const int64_t> shape, DType dtype, Device device) {
  Ref<Storage> storage = Storage::without_memory(bytes_of("compile", shape, dtype), device);
  buffer_of_[storage.get()] = static_cast<int64_t>(buffers_.size());
  buffers_.push_back({storage, kAlways, -1});
  return Tensor::from_storage(std::move(storage), shape, contiguous_strides(shape), 0, dtype);
}

Tensor Planner::copied(const Tensor& t) {
  Tensor out = fresh(t.shape(), t.dtype(), t.device());
  add_copy(t, out);
  return out;
}

Plan::Step& Planner::add_step(Plan::Kind kind, std::span<const Tensor> inputs,
                              std::span<const Tensor> outputs) {
  const auto now = static_cast<int64_t>(plan_.steps.size());
  auto& operands = plan_.operands;
  Plan::Step step{.kind = kind, .first = static_cast<int64_t>(operands.size())};
  step.inputs = static_cast<int32_t>(inputs.size());
  step.outputs = static_cast<int32_t>(outputs.size());
  operands.insert(operands.end(), inputs.begin(), inputs.end());
  operands.insert(operands.end(), outputs.begin(), outputs.end());
  for (size_t i = static_cast<size_t>(step.first); i < operands.size(); ++i) {
    if (const auto it = buffer_of_.find(&operands[i].storage()); it != buffer_of_.end()) {
      Buffer& buffer = buffers_[it->second];
      buffer.first = std::min(buffer.first, now);
      buffer.last = now;
    }
    if (const auto it = argument_of_.find(&operands[i].storage()); it != argument_of_.end())
      plan_.arguments[it->second].used = true;
  }
  plan_.steps.push_back(step);
  return plan_.steps.back();
}

void Planner::plan_group(const Group& group, int64_t now) {
  const Graph::Node& node = graph_.nodes()[group.nodes[0]];
  const size_t steps = plan_.steps.size();
  note_touches(group, false);
  if (group.is_region()) {
    if (!group.outputs.empty() || group.product >= 0) plan_region(group, now);
  } else if (node.opaque) {
    plan_opaque(node, now);
  } else {
    plan_op(node, now);
  }
  if (plan_.steps.size() == steps) return;
  for (const int64_t n : group.nodes)
    plan_.step_of_node[n] = static_cast<int64_t>(plan_.steps.size()) - 1;
  plan_.steps.back().barrier = group.barrier;
  plan_.steps.back().barrier_bytes = group.barrier_bytes;
  note_touches(group, true);
}

// Where the values that a group reads or has made lie, for who watches a run.
void Planner::note_touches(const Group& group, bool made) {
  const int64_t step = static_cast<int64_t>(plan_.steps.size()) - (made ? 1 : 0);
  const auto note = [&](int64_t v) {
    if (values_[v]) plan_.accesses.push_back({step, v, values_[v], made});
  };
  for (int64_t n : group.nodes) {
    const Graph::Node& node = graph_.nodes()[n];
    if (made) {
      for (int64_t v : node.outputs) note(v);
    } else {
      for (int64_t v : node.inputs) note(v);
    }
  }
}

// Nobody reads the memory of `base` after this group, so that it may write there.
bool Planner::may_overwrite(const Tensor& base, int64_t now) const {
  return buffer_of_.contains(&base.storage()) && base.is_contiguous() &&
         until_.at(&base.storage()) <= now;
}

// The operand of an elementwise op whose memory the result may take: nobody reads it any more, and
// whatever else lies there is the same tensor.
const Tensor* Planner::operand_to_take(const std::vector<Tensor>& in, const Inferred& inferred,
                                       Device device, int64_t now) const {
  for (const Tensor& t : in) {
    if (t.device() != device || t.shape() != inferred.shape[0] ||
        t.itemsize() != size_of(inferred.dtype[0]) || !until_.contains(&t.storage()) ||
        !may_overwrite(t, now))
      continue;
    if (std::all_of(in.begin(), in.end(), [&](const Tensor& other) {
          return &other.storage() != &t.storage() ||
                 (other.shape() == t.shape() && other.strides() == t.strides() &&
                  other.offset() == t.offset());
        }))
      return &t;
  }
  return nullptr;
}

const Tensor* Planner::addend_to_take(const std::vector<Tensor>& in, const Inferred& inferred,
                                      int64_t now) const {
  const Tensor& addend = in[2];
  if (!until_.contains(&addend.storage()) || !may_overwrite(addend, now) ||
      &addend.storage() == &in[0].storage() || &addend.storage() == &in[1].storage())
    return nullptr;
  const Tensor like =
      Tensor::from_storage(Ref<Storage>(new Storage), inferred.shape[0],
                           contiguous_strides(inferred.shape[0]), 0, inferred.dtype[0]);
  const KernelCall call{OpId::matmul_add, in, {&like, 1}, inferred.attrs, inferred.compute};
  const FusionTarget* target = find_fusion_target(addend.device());
  return target && target->adds_in_place(call) ? &addend : nullptr;
}

void Planner::plan_op(const Graph::Node& node, int64_t now) {
  std::vector<Tensor> in;
  for (int64_t v : node.inputs) in.push_back(value(v));
  // A single number is there before the first run.
  if (node.op == OpId::fill && numel_of(graph_.values()[node.outputs[0]].shape) == 1) {
    const PausedRecording paused;
    values_[node.outputs[0]] = dispatch(OpId::fill, {}, node.attrs).first;
    return;
  }
  // Geometry attributes count from the start of a dense value.
  if (node.op == OpId::as_strided) {
    const Tensor base = in[0].is_contiguous() ? in[0] : copied(in[0]);
    AttrReader read(node.attrs);
    const auto shape = read.list(), strides = read.list();
    set(node.outputs[0], base.view(shape, strides, base.offset() + read.integer()));
    return;
  }
  if (node.op == OpId::update && may_overwrite(in[0], now) &&
      &in[0].storage() != &in[1].storage()) {
    AttrReader read(node.attrs);
    const auto shape = read.list(), strides = read.list();
    add_copy(in[1], in[0].view(shape, strides, in[0].offset() + read.integer()));
    set(node.outputs[0], in[0]);
    return;
  }
  // A pass may have left out the copy that laid the parts of complex numbers side by side. An
  // argument may begin between two of them, which memory without addresses must not.
  if (node.op == OpId::view_as_complex && (!holds_pairs(in[0]) || is_hidden_argument(in[0])))
    in[0] = copied(in[0]);
  Inferred inferred;
  infer(node.op, in, node.attrs, inferred);
  if (inferred.is_view) {
    set(node.outputs[0],
        in[0].view_as(inferred.dtype[0], inferred.shape[0], inferred.strides, inferred.offset));
    return;
  }
  std::vector<Tensor> out;
  const Device device = graph_.values()[node.outputs[0]].device;
  const Tensor* taken = info(node.op).kind == OpKind::Scalar
                            ? operand_to_take(in, inferred, device, now)
                        : node.op == OpId::matmul_add ? addend_to_take(in, inferred, now)
                                                      : nullptr;
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    out.push_back(taken ? taken->view_as(inferred.dtype[i], inferred.shape[i],
                                         contiguous_strides(inferred.shape[i]), taken->offset())
                        : fresh(inferred.shape[i], inferred.dtype[i], device));
    set(node.outputs[i], out[i]);
  }
  Plan::Step& step = add_step(Plan::Kind::Op, in, out);
  step.op = node.op;
  step.compute = inferred.compute;
  step.kernel = kernel_of(node.op, inferred.compute, in.size(), device);
  step.index = static_cast<int64_t>(plan_.attrs.size());
  if (has_flag(node.op, op_flags::random)) {
    const auto& ints = inferred.attrs.ints;
    plan_.draws.push_back({step.index, ints[ints.size() - 2], ints[ints.size() - 1]});
  }
  plan_.attrs.push_back(inferred.attrs);
}

// Whether output i of the last node may be written where its captured input lies: the step works
// in place, nothing reads the old value after it, and no step that could fail comes after it.
bool Planner::writes_captured(const Graph::Node& node, int64_t now, size_t i) const {
  const Tensor& old = value(node.inputs[i]);
  const auto until = until_.find(&old.storage());  // of its views
  if (until != until_.end() && until->second > now) return false;
  if (now < last_failing_ || last_read_[node.inputs[i]] > now ||
      std::count(node.inputs.begin(), node.inputs.end(), node.inputs[i]) != 1)
    return false;
  for (const Graph::Write& w : graph_.writes())
    if (w.argument < 0 && w.value == node.outputs[i] && w.target.impl() == old.impl()) return true;
  return false;
}

void Planner::plan_opaque(const Graph::Node& node, int64_t now) {
  const bool in_place = node.opaque->outputs().empty();
  std::vector<Tensor> in, out;
  for (int64_t v : node.inputs) {
    const bool written = in_place && in.size() < node.outputs.size();
    in.push_back(written || value(v).is_contiguous() ? value(v) : copied(value(v)));
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (in_place && writes_captured(node, now, i)) {
      out.push_back(in[i]);
      // The same value may be written elsewhere, too.
      for (size_t w = 0; w < done_.size(); ++w) {
        const Graph::Write& write = graph_.writes()[w];
        if (write.argument < 0 && write.value == node.outputs[i] &&
            write.target.impl() == in[i].impl())
          done_[w] = true;
      }
      plan_.written.push_back(in[i]);
      values_[node.outputs[i]] = in[i];
    } else {
      const Graph::Value& made = graph_.values()[node.outputs[i]];
      out.push_back(fresh(made.shape, made.dtype, made.device));
      set(node.outputs[i], out[i]);
    }
  }
  add_step(Plan::Kind::ExternalOp, in, out).index = static_cast<int64_t>(plan_.executables.size());
  plan_.executables.push_back(node.opaque->bind(in, out));
  plan_.names.emplace_back(node.opaque->name());
}

// The same kernels take the same scratch memory in eager mode. Where a program is small that may be
// much of its peak, and asking them takes next to no time.
void Planner::find_unfused_peak() {
  const std::vector<size_t> held = unfused_held(
      graph_, [&](int64_t n) { return is_in_part(n); }, result_alloc_ == Plan::ResultAlloc::PerRun);
  for (const size_t bytes : held) unfused_peak_ = std::max(unfused_peak_, bytes);
  scratch_.assign(plan_.steps.size(), 0);
  knows_scratch_ = unfused_peak_ <= kSmallStep;
  if (!knows_scratch_) return;
  for (size_t s = 0; s < scratch_.size(); ++s) {
    const Plan::Step& step = plan_.steps[s];
    size_t bytes = 0;
    for (const Tensor& t : plan_.inputs(step)) bytes += t ? t.storage().buffer.bytes : 0;
    if (step.kind != Plan::Kind::ExternalOp && bytes <= kSmallStep)
      scratch_[s] = plan_.scratch_of(step);
  }
  for (size_t n = 0; n < held.size(); ++n) {
    const int64_t number = plan_.step_of_node[n];
    if (number < 0 || graph_.nodes()[n].opaque) continue;
    const Plan::Step& step = plan_.steps[number];
    const auto* region = step.kind == Plan::Kind::Region ? &plan_.regions[step.index] : nullptr;
    const OpId op = region == nullptr ? step.op
                    : region->product ? region->product->op
                                      : OpId::kCount;
    if (op == graph_.nodes()[n].op)
      unfused_peak_ = std::max(unfused_peak_, held[n] + scratch_[number]);
  }
}

// What a run will hold at most, with the lifetimes as they are, where buffers of at least so many
// bytes have blocks of their own.
size_t Planner::peak(size_t own_block) const {
  const auto steps = static_cast<int64_t>(plan_.steps.size());
  std::vector<int64_t> change(static_cast<size_t>(steps) + 1, 0);
  std::map<Device, std::vector<Lifetime>> small;
  const auto add = [&](int64_t first, int64_t last, size_t bytes) {
    change[first] += static_cast<int64_t>(bytes);
    change[last + 1] -= static_cast<int64_t>(bytes);
  };
  for (const Plan::BufferEvent& turn : plan_.allocs)
    if (turn.step >= 0) add(turn.step, steps - 1, turn.memory.bytes);
  for (const Buffer& buffer : buffers_) {
    if (!is_used(buffer)) continue;
    const size_t bytes = buffer.storage->buffer.bytes;
    if (bytes < own_block) {
      small[buffer.storage->buffer.device].push_back({buffer.first, buffer.last, bytes});
    } else {
      add(buffer.first, buffer.last, bytes);
    }
  }
  for (const auto& [device, blocks] : small) {
    const auto [first, last] = span_of(blocks);
    add(first, last, pack(blocks, steps, memory::kAlignment, largest_arena(device)).bytes);
  }
  int64_t held = 0;
  size_t most = 0;
  for (size_t s = 0; s < scratch_.size(); ++s)
    most = std::max(most, static_cast<size_t>(held += change[s]) + scratch_[s]);
  return most;
}

// The smallest buffer that has a block of its own: the arena, which is there for as long as
// anything lies in it, must not add to a peak that eager mode stays below.
size_t Planner::least_own_block() const {
  for (size_t own = kOwnBlock; own > memory::kAlignment; own /= 4)
    if (peak(own) <= unfused_peak_) return own;
  return 0;
}

// What steps of a group use is there from its first step to its last.
void Planner::stretch(std::span<const ConcurrentGroup> groups) {
  std::vector<int64_t> from(plan_.steps.size());
  std::iota(from.begin(), from.end(), 0);
  std::vector<int64_t> to = from;
  for (const ConcurrentGroup& group : groups)
    for (int64_t s = group.first; s <= group.last; ++s) from[s] = group.first, to[s] = group.last;
  for (Buffer& buffer : buffers_) {
    if (buffer.last < 0) continue;
    buffer.first = from[buffer.first];
    buffer.last = to[buffer.last];
  }
  for (Plan::BufferEvent& turn : plan_.allocs)
    if (turn.step >= 0) turn.step = from[turn.step];
}

// Steps that run side by side, as far as the run holds no more for that.
void Planner::plan_groups() {
  const auto steps = static_cast<int64_t>(plan_.steps.size());
  Liveness liveness;
  for (const Buffer& buffer : buffers_)
    if (is_used(buffer))
      liveness[buffer.storage.get()] = {buffer.first, buffer.last, buffer.storage->buffer.bytes};
  for (const Plan::BufferEvent& turn : plan_.allocs)
    if (turn.step >= 0)
      liveness[turn.memory.storage.get()] = {turn.step, steps - 1, turn.memory.bytes};
  for (const Plan::ResultBuffer& memory : plan_.memories)
    liveness.try_emplace(memory.storage.get(), Lifetime{0, steps - 1, 0});  // given
  for (const auto& [key, x] : converted_) liveness[&x.storage()] = {0, steps - 1, 0};
  std::set<Device> devices;
  for (const Buffer& buffer : buffers_)
    devices.insert(buffer.storage ? buffer.storage->buffer.device : Device{});
  for (const Plan::ResultBuffer& memory : plan_.memories)
    devices.insert(memory.storage->buffer.device);
  std::vector<ConcurrentGroup> groups;
  for (const Device device : devices)
    if (const FusionTarget* target = find_fusion_target(device)) {
      const auto facts = facts_of(plan_, device, liveness, scratch_);
      std::ranges::move(target->side_by_side(facts, std::max(2, num_threads())),
                        std::back_inserter(groups));
    }
  if (groups.empty()) return;
  std::ranges::sort(groups, {}, &ConcurrentGroup::first);
  const size_t enough = peak(least_own_block());
  const std::vector<Buffer> buffers = buffers_;
  const std::vector<Plan::BufferEvent> taken = plan_.allocs;
  for (; !groups.empty(); groups.resize(groups.size() / 2)) {
    stretch(groups);
    if (peak(least_own_block()) <= enough) break;
    buffers_ = buffers;
    plan_.allocs = taken;
  }
  plan_.groups = std::move(groups);
}

// The first step that writes memory which is there after the run, results aside, or the first of
// the steps beside it; kAlways without one.
int64_t Planner::first_lasting_write() const {
  std::unordered_set<const Storage*> lasting;
  for (const Tensor& x : plan_.written) lasting.insert(&x.storage());
  for (const Plan::Argument& argument : plan_.arguments)
    if (argument.written) lasting.insert(argument.storage.get());
  for (int64_t s = 0; s < std::ssize(plan_.steps); ++s) {
    const auto out = plan_.outputs(plan_.steps[s]);
    if (std::ranges::none_of(out, [&](const Tensor& x) { return lasting.contains(&x.storage()); }))
      continue;
    for (const ConcurrentGroup& group : plan_.groups)
      if (group.first <= s && s <= group.last) return group.first;
    return s;
  }
  return kAlways;
}

// What steps after the first write need is taken before it: a run that memory is too short for
// leaves all that is there as it was.
void Planner::take_before_writes() {
  const int64_t write = first_lasting_write();
  plan_.first_write = write == kAlways ? -1 : write;
  for (Buffer& buffer : buffers_)
    if (is_used(buffer)) buffer.first = std::min(buffer.first, write);
  for (Plan::BufferEvent& turn : plan_.allocs) turn.step = std::min(turn.step, write);
}

// In one arena, or as few as the device's allocations are large enough for.
void Planner::place_small(Device device, const SmallBuffers& of) {
  const size_t most = largest_arena(device);
  const Packing packing = pack(of.blocks, std::ssize(plan_.steps), memory::kAlignment, most);
  const size_t pieces = most == 0 ? 1 : std::max<size_t>(1, (packing.bytes + most - 1) / most);
  for (size_t p = 0; p < pieces; ++p) {
    const size_t begin = p * most, bytes = p + 1 < pieces ? most : packing.bytes - begin;
    const Plan::ResultBuffer memory{Storage::without_memory(bytes, device), bytes};
    Plan::Arena arena{memory, {}};
    std::vector<Lifetime> blocks;
    for (size_t i = 0; i < of.storages.size(); ++i) {
      if (most != 0 && packing.offsets[i] / most != p) continue;
      arena.placed.emplace_back(of.storages[i], packing.offsets[i] - begin);
      blocks.push_back(of.blocks[i]);
    }
    const auto [first, last] = span_of(blocks);
    plan_.allocs.push_back({first, memory, Plan::Use::Arena, plan_.arenas.size()});
    plan_.frees.push_back({last, memory, Plan::Use::Arena, plan_.arenas.size()});
    plan_.arenas.push_back(std::move(arena));
  }
}

// Small buffers lie in arenas from their first step to their last; large ones have blocks of their
// own, for which a run asks for room.
void Planner::place() {
  plan_groups();
  take_before_writes();
  const auto steps = static_cast<int64_t>(plan_.steps.size());
  std::map<Device, SmallBuffers> small;
  std::vector<Lifetime> large;  // of the CPU's
  const auto add_large = [&](int64_t first, int64_t last, const tinyt::Buffer& buffer) {
    if (buffer.bytes > memory::kSlabMax && buffer.device == Device{})
      large.push_back({first, last, buffer.bytes});
  };
  const size_t own_block = least_own_block();
  for (const Plan::BufferEvent& turn : plan_.allocs)  // of results
    if (turn.step >= 0) add_large(turn.step, steps - 1, turn.memory.storage->buffer);
  for (const Buffer& buffer : buffers_) {
    if (!is_used(buffer)) continue;
    const size_t bytes = buffer.storage->buffer.bytes;
    if (bytes < own_block) {
      SmallBuffers& of = small[buffer.storage->buffer.device];
      of.blocks.push_back({buffer.first, buffer.last, bytes});
      of.storages.push_back(buffer.storage);
      continue;
    }
    plan_.allocs.push_back({buffer.first, {buffer.storage, bytes}});
    plan_.frees.push_back({buffer.last, {buffer.storage, bytes}});
    add_large(buffer.first, buffer.last, buffer.storage->buffer);
  }
  for (const auto& [device, of] : small) place_small(device, of);
  if (!large.empty()) plan_.room = pack(large, steps, memory::kRangeStep).bytes + kScratch;
  const auto by_step = [](const Plan::BufferEvent& a, const Plan::BufferEvent& b) {
    return a.step < b.step;
  };
  std::stable_sort(plan_.allocs.begin(), plan_.allocs.end(), by_step);
  std::stable_sort(plan_.frees.begin(), plan_.frees.end(), by_step);
}

// With less in regions where that keeps below eager's peak.
Plan make_plan(const Graph& graph, Plan::Part part, Plan::ResultAlloc result_alloc) {
  struct Candidate {
    Candidate(const Graph& graph, Plan::Part part, Plan::ResultAlloc result_alloc, Regions hold)
        : planner(plan, graph, part, result_alloc), excess(planner.plan(hold)) {}

    Plan plan;
    Planner planner;
    size_t excess;  // bytes that it holds at most beyond what eager does
  };
  std::unique_ptr<Candidate> best;
  for (const Regions hold : {Regions::Products, Regions::Reductions, Regions::Scalars}) {
    auto next = std::make_unique<Candidate>(graph, part, result_alloc, hold);
    if (!best || next->excess < best->excess) best = std::move(next);
    if (best->excess == 0) break;
  }
  best->planner.place();
  return std::move(best->plan);
}

}  // namespace tinyt
