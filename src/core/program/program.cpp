#include "core/program/program.h"

#include "core/base/backend_error.h"
#include "core/base/parallel.h"
#include "core/memory/device_cache.h"
#include "core/memory/spare.h"
#include "core/ops/fallback.h"
#include "core/ops/op_profile.h"

namespace tinyt {

namespace {

// Where the bytes of a tensor begin in its storage.
int64_t first_byte(const Tensor& x) {
  if (x.is_contiguous() || x.numel() == 0) return x.offset() * static_cast<int64_t>(x.itemsize());
  return byte_span(x).first;
}

// It has its bytes there from now on.
void put_in(Storage& storage, const Buffer& where) {
  storage.buffer.host = where.host;
  storage.buffer.handle = where.handle;
  storage.buffer.offset = where.offset;
}

}  // namespace

Program::Program(const Graph& graph, Plan::Part part, Plan::ResultAlloc result_alloc)
    : scalars_(graph.shared_scalars()), plan_(make_plan(graph, part, result_alloc)) {
  int64_t elements = 0;
  for (const Tensor& t : plan_.operands) elements += t.numel();
  last_handles_.resize(plan_.allocs.size());
  holds_gil_ = elements < kReleaseLockElements && plan_.executables.empty();
}

void Program::give_back(Plan::ResultBuffer& memory) {
  Buffer& block = memory.storage->buffer;
  if (block.from) block.from->release(block);
  forget(memory);
}

// The memory is not there any more.
void Program::forget(Plan::ResultBuffer& memory) {
  Buffer& block = memory.storage->buffer;
  block = {.bytes = memory.bytes, .device = block.device};
}

void Program::bind(std::span<const Tensor> arguments) {
  require(arguments.size() == plan_.arguments.size(), ErrorKind::Runtime, "program: takes ",
          plan_.arguments.size(), " arguments, got ", arguments.size());
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!plan_.arguments[i].used) continue;
    require(static_cast<bool>(arguments[i]), ErrorKind::Runtime, "program: argument ", i,
            " is missing");
    const Tensor &x = arguments[i], &like = plan_.arguments[i].like;
    if (x.device() != like.device()) [[unlikely]]
      fail(ErrorKind::Device, "program: argument ", i, " must be on ", name_of(like.device()),
           ", got one on ", name_of(x.device()));
    require(x.dtype() == like.dtype() && x.shape() == like.shape() &&
                (x.strides() == like.strides() || x.numel() == 0),
            ErrorKind::Runtime, "program: argument ", i, " must be ", name_of(like.dtype()), " ",
            like.shape(), " with strides ", like.strides(), ", got ", name_of(x.dtype()), " ",
            x.shape(), " with strides ", x.strides());
    put_in(*plan_.arguments[i].storage,
           x.storage().buffer.part(static_cast<size_t>(first_byte(x)), 0));
  }
}

void Program::set_draws(const RngOffsets& draws) {
  for (const Plan::Draw& draw : plan_.draws) {
    require(draw.generator < static_cast<int64_t>(draws.size()), ErrorKind::Runtime,
            "program: draws from ", draw.generator + 1, " generators, got ", draws.size());
    const auto& [seed, first] = draws[draw.generator];
    auto& ints = plan_.attrs[draw.attrs].ints;
    ints[ints.size() - 2] = seed;
    ints[ints.size() - 1] = first + draw.first;
  }
}

// In a child after fork: what a run of another thread, which the child has not got, may have left.
// Blocks that it held are lost, and nothing is read that it may have been writing.
void Program::forget_lost_run() {
  if (forks_ == fork_count()) [[likely]]
    return;
  forks_ = fork_count();
  for (Plan::BufferEvent& turn : plan_.allocs) forget(turn.memory);
  for (Plan::ResultBuffer& memory : plan_.memories) forget(memory);
  std::construct_at(&made_);
}

void Program::take(Plan::BufferEvent& event) {
  Buffer& block = event.memory.storage->buffer;
  try {
    if (block.device == Device{}) {
      block = memory::current().allocate(event.memory.bytes);
    } else {
      auto& last = last_handles_[static_cast<size_t>(&event - plan_.allocs.data())];
      block = memory::cache_of(block.device).allocate_again(event.memory.bytes, last);
      if (block.handle != last[0]) last = {block.handle, last[0]};
    }
  } catch (BackendError& error) {
    error.name_op(ops_of(plan_.steps[event.step]));
    throw;
  }
  if (event.use == Plan::Use::Arena) place(plan_.arenas[event.arena]);
}

void Program::place(const Plan::Arena& arena) {
  const Buffer& all = arena.memory.storage->buffer;
  const auto& [first, offset] = arena.placed[0];
  const Buffer there = all.part(offset, 0);
  const Buffer& was = first->buffer;
  if (was.host == there.host && was.handle == there.handle && was.offset == there.offset) return;
  for (const auto& [storage, from] : arena.placed) put_in(*storage, all.part(from, 0));
}

// What a step runs, in errors; empty of what runs programs of its own.
std::string Program::ops_of(const Plan::Step& step) const {
  constexpr size_t kMostNames = 4;
  if (step.kind == Plan::Kind::ExternalOp) return "";
  if (step.kind == Plan::Kind::Copy) return "copy";
  if (step.kind == Plan::Kind::Op) return std::string(name_of(step.op));
  const std::vector<OpId>& ops = plan_.regions[step.index].ops;
  std::string names;
  for (size_t i = 0; i < std::min(ops.size(), kMostNames); ++i)
    names.append(i == 0 ? "" : ", ").append(name_of(ops[i]));
  return ops.size() > kMostNames ? names + ", ..." : names;
}

void Program::execute(const Plan::Step& step, const RngOffsets& draws) {
  const std::span<const Tensor> inputs = plan_.inputs(step), outputs = plan_.outputs(step);
  switch (step.kind) {
    case Plan::Kind::Op:
      step.kernel({step.op, inputs, outputs, plan_.attrs[step.index], step.compute});
      return;
    case Plan::Kind::Region:
      plan_.run_region(plan_.regions[step.index], inputs, outputs);
      return;
    case Plan::Kind::Copy:
      if (const Kernels& kernels = kernels_of(outputs[0].device()); kernels.copy_into) [[likely]]
        return kernels.copy_into(inputs[0], outputs[0]);
      return copy_into("copy", inputs[0], outputs[0]);
    case Plan::Kind::ExternalOp:
      plan_.executables[step.index]->run(draws);
      return;
  }
}

void Program::run_step(int64_t step, const RngOffsets& draws, RunObserver* observer,
                       memory::Spare* spare) {
  if (observer) observer->before(static_cast<size_t>(step));
  try {
    if (spare) {
      const memory::Substitute instead(spare);
      execute(plan_.steps[step], draws);
    } else {
      execute(plan_.steps[step], draws);
    }
  } catch (BackendError& error) {
    error.name_op(ops_of(plan_.steps[step]));
    throw;
  }
  if (observer) observer->after(static_cast<size_t>(step));
}

// Of a group one branch at most may fail, the one that takes memory.
void Program::run_group(const ConcurrentGroup& group, const RngOffsets& draws,
                        RunObserver* observer, memory::Spare* spare) {
  if (num_threads() == 1 || (observer && !observer->allows_concurrency())) {
    for (int64_t s = group.first; s <= group.last; ++s) run_step(s, draws, observer, spare);
    return;
  }
  const auto first = static_cast<size_t>(group.first), last = static_cast<size_t>(group.last);
  if (observer) observer->before_group(first, last);
  parallel_for(static_cast<int64_t>(group.branches.size()), [&](int64_t branch) {
    for (const int64_t s : group.branches[branch]) run_step(s, draws, observer, spare);
  });
  if (observer) observer->after_group(first, last);
}

void Program::run_steps(const RngOffsets& draws, RunObserver* observer) {
  auto taken = plan_.allocs.begin(), given = plan_.frees.begin();
  auto group = plan_.groups.begin();
  std::optional<memory::Spare> spare;
  for (int64_t s = 0; s < static_cast<int64_t>(plan_.steps.size()); ++s) {
    for (; taken != plan_.allocs.end() && taken->step == s; ++taken) take(*taken);
    if (s == plan_.first_write && spare_.bytes > 0) spare.emplace(spare_.bytes);
    memory::Spare* const from = spare ? &*spare : nullptr;
    if (group != plan_.groups.end() && group->first == s) {
      run_group(*group, draws, observer, from);
      s = group->last;
      ++group;
    } else {
      run_step(s, draws, observer, from);
    }
    for (; given != plan_.frees.end() && given->step == s; ++given) give_back(given->memory);
  }
}

std::vector<Tensor> Program::results(std::span<const Tensor> arguments) {
  made_.clear();
  for (Plan::ResultBuffer& memory : plan_.memories) {
    made_.emplace_back(new Storage);
    made_.back()->buffer = memory.storage->buffer;
    forget(memory);
  }
  std::vector<Tensor> out;
  out.reserve(plan_.results.size());
  for (const Plan::Result& r : plan_.results) {
    const Tensor& t = r.tensor;
    if (r.memory >= 0) {
      out.push_back(t.in(made_[r.memory]));
    } else if (r.argument >= 0) {
      const Tensor& x = arguments[r.argument];
      const int64_t bytes = first_byte(x) + t.offset() * static_cast<int64_t>(t.itemsize());
      out.push_back(
          x.view_as(t.dtype(), t.shape(), t.strides(), bytes / static_cast<int64_t>(t.itemsize())));
    } else {
      out.push_back(t);
    }
  }
  made_.clear();
  return out;
}

// What the steps of a run have taken: given back at the end, come what may.
struct Program::BufferGuard {
  Program& program;

  ~BufferGuard() {
    for (Plan::BufferEvent& turn : program.plan_.allocs) give_back(turn.memory);
  }
};

void Program::run_at(std::span<const Buffer> arguments, std::span<const Buffer> memories,
                     const RngOffsets& draws) {
  forget_lost_run();
  for (size_t i = 0; i < arguments.size(); ++i) put_in(*plan_.arguments[i].storage, arguments[i]);
  set_draws(draws);
  const BufferGuard borrowed{*this};
  for (size_t i = 0; i < memories.size(); ++i) put_in(*plan_.memories[i].storage, memories[i]);
  run_steps(draws, nullptr);
}

std::optional<std::vector<Tensor>> Program::run(std::span<const Tensor> arguments,
                                                std::span<const double> given,
                                                const RngOffsets& draws, RunObserver* observer,
                                                std::vector<double>* numbers) {
  const std::lock_guard lock(*scalars_);
  return run_locked(arguments, given, draws, observer, numbers);
}

std::optional<std::vector<Tensor>> Program::run_locked(std::span<const Tensor> arguments,
                                                       std::span<const double> given,
                                                       const RngOffsets& draws,
                                                       RunObserver* observer,
                                                       std::vector<double>* numbers) {
  const ProfileScope scope("compiled program");
  if (!scalars_->refresh(given)) return std::nullopt;
  if (numbers) *numbers = scalars_->values();
  forget_lost_run();
  bind(arguments);
  set_draws(draws);
  if (plan_.first_write >= 0 && spare_.threads != num_threads())
    spare_ = {num_threads(), plan_.spare_bytes()};
  const BufferGuard borrowed{*this};
  struct Observed {
    RunObserver* observer;
    bool ran = false;
    ~Observed() {
      if (observer) observer->end(ran);
    }
  } observed{observer};
  if (observer) observer->begin();
  if (plan_.room > 0) memory::current().make_room(plan_.room);
  if (observer) {
    run_steps(draws, observer);
  } else {
    if (!device_runs_) device_runs_.emplace(plan_);
    device_runs_->run([&] { run_steps(draws, nullptr); });
  }
  observed.ran = true;
  for (const Tensor& t : plan_.written) ++t.storage().version;
  for (size_t i = 0; i < plan_.arguments.size(); ++i)
    if (plan_.arguments[i].written) ++arguments[i].storage().version;
  return results(arguments);
}

}  // namespace tinyt
