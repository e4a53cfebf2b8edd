#include "core/program/program.h"

#include "core/base/parallel.h"
#include "core/memory/spare.h"
#include "core/ops/op_profile.h"
#include "core/plan/plan.h"

namespace tinyt {

Program::Program(const Graph& graph, Part part, ResultAlloc result_alloc)
    : numbers_(graph.shared_numbers()) {
  // With less in regions where that keeps below eager's peak.
  Regions best = Regions::Products;
  size_t least = SIZE_MAX;
  for (const Regions hold : {Regions::Products, Regions::Reductions, Regions::Scalars}) {
    Planner planner(*this, graph, part, result_alloc);
    const size_t excess = planner.plan(hold);
    if (excess == 0) {
      planner.place();
      find_gil_use();
      return;
    }
    if (excess < least) {
      least = excess;
      best = hold;
    }
    *this = Program(graph.shared_numbers());
  }
  Planner planner(*this, graph, part, result_alloc);
  planner.plan(best);
  planner.place();
  find_gil_use();
}

void Program::find_gil_use() {
  int64_t elements = 0;
  for (const Tensor& t : operands_) elements += t.numel();
  holds_gil_ = elements < kReleaseLockElements && executables_.empty();
}

std::string_view Program::name(const Step& step) const {
  switch (step.kind) {
    case Kind::Op:
      return name_of(step.op);
    case Kind::ExternalOp:
      return names_[step.index];
    default:
      return "copy";
  }
}

void Program::give_back(ResultBuffer& memory) {
  memory::Block& block = memory.storage->block;
  if (block.from) block.from->release(block);
  block = {.bytes = memory.bytes};
}

void Program::bind(std::span<const Tensor> arguments) {
  require(arguments.size() == arguments_.size(), ErrorKind::Runtime, "program: takes ",
          arguments_.size(), " arguments, got ", arguments.size());
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!arguments_[i].used) continue;
    require(static_cast<bool>(arguments[i]), ErrorKind::Runtime, "program: argument ", i,
            " is missing");
    const Tensor &x = arguments[i], &like = arguments_[i].like;
    require(x.dtype() == like.dtype() && x.shape() == like.shape() &&
                (x.strides() == like.strides() || x.numel() == 0),
            ErrorKind::Runtime, "program: argument ", i, " must be ", name_of(like.dtype()), " ",
            like.shape(), " with strides ", like.strides(), ", got ", name_of(x.dtype()), " ",
            x.shape(), " with strides ", x.strides());
    arguments_[i].storage->block.data =
        x.is_contiguous() || x.numel() == 0 ? x.data() : const_cast<char*>(byte_range(x).first);
  }
}

void Program::set_draws(const RngOffsets& draws) {
  for (const Draw& draw : draws_) {
    require(draw.generator < static_cast<int64_t>(draws.size()), ErrorKind::Runtime,
            "program: draws from ", draw.generator + 1, " generators, got ", draws.size());
    const auto& [seed, first] = draws[draw.generator];
    auto& ints = attrs_[draw.attrs].ints;
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
  for (BufferEvent& turn : allocs_) turn.memory.storage->block = {.bytes = turn.memory.bytes};
  for (ResultBuffer& memory : memories_) memory.storage->block = {.bytes = memory.bytes};
  std::construct_at(&made_);
  arena_ = nullptr;
}

void Program::place(const ResultBuffer& arena) {
  if (arena.storage->block.data == arena_) return;
  arena_ = static_cast<char*>(arena.storage->block.data);
  for (const auto& [storage, offset] : placed_) storage->block.data = arena_ + offset;
}

// Inputs are those of its product, then those of its tiles but the product's result.
void Program::run_region(Region& region, std::span<const Tensor> inputs,
                         std::span<const Tensor> outputs) const {
  const auto& product = region.product;
  size_t next = product ? product->inputs : 0;
  for (size_t i = 0; i < region.operands.size(); ++i) {
    const bool is_made = product && product->operand == static_cast<int>(i);
    region.operands[i].data = (is_made ? product->result : inputs[next++]).data();
  }
  for (size_t i = 0; i < region.outputs.size(); ++i) region.outputs[i] = outputs[i].data();
  if (!product)
    return backend_of({}).run_tiles(region.tiles, region.operands, region.space, region.outputs);
  backend_of({}).run_product(product->kernel,
                             {product->op,
                              inputs.first(product->inputs),
                              {&product->result, 1},
                              attrs_[product->attrs],
                              product->compute},
                             region.tiles, region.operands, region.space, region.outputs);
}

void Program::execute(const Step& step, const RngOffsets& draws) {
  const std::span<const Tensor> inputs = this->inputs(step), outputs = this->outputs(step);
  switch (step.kind) {
    case Kind::Op:
      step.kernel({step.op, inputs, outputs, attrs_[step.index], step.compute});
      return;
    case Kind::Region:
      run_region(regions_[step.index], inputs, outputs);
      return;
    case Kind::Copy:
      backend_of({}).copy_into(inputs[0], outputs[0]);
      return;
    case Kind::ExternalOp:
      executables_[step.index]->run(draws);
      return;
  }
}

void Program::run_step(int64_t step, const RngOffsets& draws, RunObserver* observer,
                       memory::Spare* spare) {
  if (observer) observer->before(static_cast<size_t>(step));
  if (spare) {
    const memory::Substitute instead(spare);
    execute(steps_[step], draws);
  } else {
    execute(steps_[step], draws);
  }
  if (observer) observer->after(static_cast<size_t>(step));
}

// Of a group one lane at most may fail, the one that takes memory.
void Program::run_side(const ConcurrentGroup& side, const RngOffsets& draws, RunObserver* observer,
                       memory::Spare* spare) {
  if (num_threads() == 1 || (observer && !observer->takes_sides())) {
    for (int64_t s = side.first; s <= side.last; ++s) run_step(s, draws, observer, spare);
    return;
  }
  const auto first = static_cast<size_t>(side.first), last = static_cast<size_t>(side.last);
  if (observer) observer->before_side(first, last);
  parallel_for(static_cast<int64_t>(side.lanes.size()), [&](int64_t lane) {
    for (const int64_t s : side.lanes[lane]) run_step(s, draws, observer, spare);
  });
  if (observer) observer->after_side(first, last);
}

void Program::run_steps(const RngOffsets& draws, RunObserver* observer) {
  auto taken = allocs_.begin(), given = frees_.begin();
  auto side = sides_.begin();
  std::optional<memory::Spare> spare;
  for (int64_t s = 0; s < static_cast<int64_t>(steps_.size()); ++s) {
    for (; taken != allocs_.end() && taken->step == s; ++taken) {
      taken->memory.storage->block = memory::current().allocate(taken->memory.bytes);
      if (taken->use == Use::Arena) place(taken->memory);
    }
    if (s == first_write_ && spare_.bytes > 0) spare.emplace(spare_.bytes);
    memory::Spare* const from = spare ? &*spare : nullptr;
    if (side != sides_.end() && side->first == s) {
      run_side(*side, draws, observer, from);
      s = side->last;
      ++side;
    } else {
      run_step(s, draws, observer, from);
    }
    for (; given != frees_.end() && given->step == s; ++given) give_back(given->memory);
  }
}

std::vector<Tensor> Program::results(std::span<const Tensor> arguments) {
  made_.clear();
  for (ResultBuffer& memory : memories_) {
    made_.emplace_back(new Storage);
    made_.back()->block = std::exchange(memory.storage->block, {.bytes = memory.bytes});
  }
  std::vector<Tensor> out;
  out.reserve(results_.size());
  for (const Result& r : results_) {
    const Tensor& t = r.tensor;
    if (r.memory >= 0) {
      out.push_back(t.in(made_[r.memory]));
    } else if (r.argument >= 0) {
      const Tensor& x = arguments[r.argument];
      const char* first = x.numel() == 0 ? x.data() : byte_range(x).first;
      const int64_t bytes = first - static_cast<char*>(x.storage().block.data) +
                            t.offset() * static_cast<int64_t>(t.itemsize());
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
    for (BufferEvent& turn : program.allocs_) give_back(turn.memory);
  }
};

void Program::run_at(std::span<char* const> arguments, std::span<char* const> memories,
                     const RngOffsets& draws) {
  forget_lost_run();
  for (size_t i = 0; i < arguments.size(); ++i) arguments_[i].storage->block.data = arguments[i];
  set_draws(draws);
  const BufferGuard borrowed{*this};
  for (size_t i = 0; i < memories.size(); ++i) memories_[i].storage->block.data = memories[i];
  run_steps(draws, nullptr);
}

std::optional<std::vector<Tensor>> Program::run(std::span<const Tensor> arguments,
                                                std::span<const double> given,
                                                const RngOffsets& draws, RunObserver* observer,
                                                std::vector<double>* numbers) {
  const std::lock_guard lock(*numbers_);
  return run_locked(arguments, given, draws, observer, numbers);
}

std::optional<std::vector<Tensor>> Program::run_locked(std::span<const Tensor> arguments,
                                                       std::span<const double> given,
                                                       const RngOffsets& draws,
                                                       RunObserver* observer,
                                                       std::vector<double>* numbers) {
  const ProfileScope scope("compiled program");
  if (!numbers_->refresh(given)) return std::nullopt;
  if (numbers) *numbers = numbers_->values();
  forget_lost_run();
  bind(arguments);
  set_draws(draws);
  if (first_write_ >= 0 && spare_.threads != num_threads()) spare_ = {num_threads(), spare_bytes()};
  const BufferGuard borrowed{*this};
  struct Observed {
    RunObserver* observer;
    bool ran = false;
    ~Observed() {
      if (observer) observer->end(ran);
    }
  } observed{observer};
  if (observer) observer->begin();
  if (room_ > 0) memory::current().make_room(room_);
  run_steps(draws, observer);
  observed.ran = true;
  for (const Tensor& t : written_) ++t.storage().version;
  for (size_t i = 0; i < arguments_.size(); ++i)
    if (arguments_[i].written) ++arguments[i].storage().version;
  return results(arguments);
}

}  // namespace tinyt
