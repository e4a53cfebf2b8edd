#include "core/program/control_flow.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>

#include "core/base/parallel.h"
#include "core/device/runtime.h"
#include "core/graph/lazy.h"
#include "core/ops/to_device.h"

namespace tinyt {

namespace {

// Lists come after their lengths.
void add_numbers(const FlowPart& part, std::vector<int64_t>& out) {
  out.push_back(static_cast<int64_t>(part.sources.size()));
  for (const FlowSource& source : part.sources)
    out.insert(out.end(), {static_cast<int64_t>(source.kind), source.at, source.other});
  out.push_back(static_cast<int64_t>(part.draws.size()));
  for (const FlowDraw& draw : part.draws)
    out.insert(out.end(), {draw.generator, draw.first, draw.count});
}

void add_numbers(const std::vector<int64_t>& list, std::vector<int64_t>& out) {
  out.push_back(static_cast<int64_t>(list.size()));
  out.insert(out.end(), list.begin(), list.end());
}

// What a result of a part is.
const Graph::Value& result_of(const FlowPart& part, int64_t r) {
  return part.graph->values()[part.graph->outputs()[r].value];
}

bool is_same(const Graph& a, int64_t v, const Graph& b, int64_t w) {
  const Graph::Value &x = a.values()[v], &y = b.values()[w];
  return x.shape == y.shape && x.dtype == y.dtype && x.device == y.device;
}

// The part with another recording, which takes and gives what the first one does.
FlowPart with_graph(const FlowPart& part, std::shared_ptr<const Graph> graph) {
  const Graph &was = *part.graph, &now = *graph;
  bool fits = was.arguments().size() == now.arguments().size() &&
              was.outputs().size() == now.outputs().size() && now.split_point().node < 0;
  for (size_t i = 0; fits && i < was.outputs().size(); ++i)
    fits = is_same(was, was.outputs()[i].value, now, now.outputs()[i].value);
  require(fits, ErrorKind::Runtime,
          "control flow: a part has other arguments or results than were recorded");
  return {std::move(graph), part.sources, part.draws};
}

// Asks the front end now and then, in loops that may take long, whether the user wants it to stop.
class InterruptPoll {
 public:
  void operator()() {
    const auto now = Clock::now();
    if (now < next_) return;
    next_ = now + kInterval;
    if (const auto check = lazy_hooks().check_interrupt) check();
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr auto kInterval = std::chrono::milliseconds(20);
  Clock::time_point next_ = Clock::now() + kInterval;
};

void clear(const Buffer& to) {
  if (to.bytes == 0) return;
  if (to.device == Device{}) {
    std::memset(to.host, 0, to.bytes);
  } else {
    runtime_of(to.device).fill(to, 0, to.bytes, 0);
  }
}

bool is_true(const Buffer& one) {
  uint8_t value = 0;
  copy_bytes({.host = &value, .bytes = 1}, one, 1);
  return value != 0;
}

// A part's program with the memory of one step.
class PartRun {
 public:
  explicit PartRun(const FlowPart& part)
      : program_(*part.graph, Plan::Part::All, Plan::ResultAlloc::Caller),
        sources_(part.sources),
        draws_(part.draws),
        arguments(program_.plan().arguments.size()),
        memories(program_.plan().memories.size()) {
    require(sources_.size() == arguments.size(), ErrorKind::Runtime, "control flow: a part takes ",
            arguments.size(), " arguments, but ", sources_.size(), " sources were given");
    for (const Graph::Input& input : part.graph->inputs())
      if (input.argument >= 0) argument_bytes_.push_back(part.graph->values()[input.value].bytes());
    for (const Graph::Output& output : part.graph->outputs())
      result_bytes_.push_back(part.graph->values()[output.value].bytes());
  }

  const Program* program() const { return &program_; }
  const std::vector<FlowSource>& sources() const { return sources_; }
  size_t argument_bytes(size_t i) const { return argument_bytes_[i]; }
  size_t result_bytes(int64_t r) const { return result_bytes_[r]; }
  size_t memory_bytes(size_t m) const { return program_.plan().memories[m].bytes; }
  size_t memory_of(int64_t result) const {
    return static_cast<size_t>(program_.plan().results[result].memory);
  }
  // Whether what a step writes to a memory may lie where the step before it wrote: `is_carried`
  // tells whether an argument is the result that lies there.
  bool updates(size_t memory, FunctionRef<bool(const FlowSource&)> is_carried) const {
    int64_t found = -1;
    for (size_t a = 0; a < sources_.size(); ++a) {
      if (!is_carried(sources_[a])) continue;
      if (found >= 0 || argument_bytes(a) != memory_bytes(memory)) return false;
      found = static_cast<int64_t>(a);
    }
    return found >= 0 && program_.plan().may_replace(static_cast<size_t>(found), memory);
  }
  // Whether the memory of a result holds nothing else.
  bool is_whole(int64_t result) const {
    return memory_bytes(memory_of(result)) == result_bytes(result);
  }
  Device device_of(size_t m) const { return program_.plan().memories[m].storage->buffer.device; }
  const Buffer& result(int64_t r) const { return memories[memory_of(r)]; }

  void run(const RngOffsets& draws, int64_t step) {
    own_draws_.clear();
    for (const FlowDraw& d : draws_) {
      require(d.generator < static_cast<int64_t>(draws.size()), ErrorKind::Runtime,
              "program: draws from ", d.generator + 1, " generators, got ", draws.size());
      const auto& [seed, first] = draws[d.generator];
      own_draws_.emplace_back(seed, first + d.first + step * d.count);
    }
    program_.run_at(arguments, memories, own_draws_);
  }
  // What a run takes, its results aside.
  size_t peak_bytes() const { return program_.plan().peak_bytes(); }

 private:
  Program program_;
  std::vector<FlowSource> sources_;
  std::vector<FlowDraw> draws_;
  RngOffsets own_draws_;
  std::vector<size_t> argument_bytes_, result_bytes_;

 public:
  std::vector<Buffer> arguments, memories;
};

// Places for some memories, one after another, two for each: what a step makes of what the step
// before it made. One, where it updates that.
class Pairs {
 public:
  // One for each device, for the length of a run.
  using Blocks = std::vector<Ref<Storage>>;

  void add(const PartRun& part, size_t memory, bool updates = false) {
    const size_t bytes = (part.memory_bytes(memory) + memory::kAlignment - 1) / memory::kAlignment *
                         memory::kAlignment;
    const auto on = std::ranges::find(totals_, part.device_of(memory), &Total::first);
    const auto block = static_cast<size_t>(on - totals_.begin());
    if (on == totals_.end()) totals_.emplace_back(part.device_of(memory), 0);
    size_t& total = totals_[block].second;
    places_.push_back({memory, block, total, bytes, updates ? 0 : bytes});
    total += updates ? bytes : 2 * bytes;
  }
  size_t bytes() const {
    size_t bytes = 0;
    for (const auto& [device, total] : totals_) bytes += total;
    return bytes;
  }
  Blocks allocate() const {
    Blocks blocks;
    for (const auto& [device, total] : totals_) blocks.push_back(Storage::allocate(total, device));
    return blocks;
  }
  void set(const Blocks& blocks, int64_t step, std::vector<Buffer>& memories) const {
    for (const Allocation& p : places_)
      memories[p.memory] =
          blocks[p.block]->buffer.part(p.offset + static_cast<size_t>(step & 1) * p.next, p.bytes);
  }

 private:
  struct Allocation {
    size_t memory, block, offset, bytes, next;
  };
  using Total = std::pair<Device, size_t>;  // bytes
  std::vector<Allocation> places_;
  std::vector<Total> totals_;
};

using Tensors = std::vector<Tensor>;
using Parts = std::vector<std::pair<const Program*, int64_t>>;

class BoundScan : public ExternalOp::Executable {
 public:
  BoundScan(const ScanSettings& settings, Tensors inputs, Tensors outputs)
      : settings_(settings),
        inputs_(std::move(inputs)),
        outputs_(std::move(outputs)),
        body_(settings.body) {
    // A result goes to the first of its stacks at once; to others, and in the end, it is copied.
    std::vector<bool> has_place(body_.memories.size(), false);
    for (size_t i = 0; i < settings.stacks.size(); ++i) {
      const int64_t r = settings.stacks[i];
      const size_t m = body_.memory_of(r), output = settings.finals.size() + i;
      const bool at_once = !has_place[m] && body_.is_whole(r);
      has_place[m] = has_place[m] || at_once;
      (at_once ? direct_ : copied_).push_back({output, m, body_.result_bytes(r)});
    }
    for (size_t m = 0; m < has_place.size(); ++m)
      if (!has_place[m])
        pairs_.add(body_, m, body_.updates(m, [&](const FlowSource& source) {
          return source.kind == FlowSource::kCarry && body_.memory_of(source.other) == m;
        }));
  }

  Parts parts() const override { return {{body_.program(), settings_.steps}}; }

  void run(const RngOffsets& draws) const override {
    const Pairs::Blocks rolling = pairs_.allocate();
    InterruptPoll poll_interrupt;
    for (int64_t s = 0; s < settings_.steps; ++s) {
      poll_interrupt();
      for (size_t a = 0; a < body_.arguments.size(); ++a) set_argument(a, s);
      pairs_.set(rolling, s, body_.memories);
      for (const Stack& stack : direct_) body_.memories[stack.memory] = slice(stack, s);
      body_.run(draws, s);
      for (const Stack& stack : copied_)
        copy_bytes(slice(stack, s), body_.memories[stack.memory], stack.bytes);
    }
    for (size_t i = 0; i < settings_.finals.size(); ++i) {
      const int64_t r = settings_.finals[i];
      copy_bytes(memory_of(outputs_[i]), body_.result(r), body_.result_bytes(r));
    }
  }
  size_t scratch_bytes() const override {
    return pairs_.bytes() + (settings_.steps > 0 ? body_.peak_bytes() : 0);
  }

 private:
  struct Stack {
    size_t output, memory, bytes;
  };

  int64_t index(int64_t step) const {
    return settings_.reversed ? settings_.steps - 1 - step : step;
  }
  Buffer slice(const Stack& stack, int64_t step) const {
    const size_t from = static_cast<size_t>(index(step)) * stack.bytes;
    return memory_of(outputs_[stack.output]).part(from, stack.bytes);
  }
  void set_argument(size_t a, int64_t step) const {
    const FlowSource& source = body_.sources()[a];
    const auto slice_of = [&](int64_t s) {
      const size_t bytes = body_.argument_bytes(a);
      return memory_of(inputs_[source.at]).part(static_cast<size_t>(index(s)) * bytes, bytes);
    };
    Buffer& to = body_.arguments[a];
    switch (source.kind) {
      case FlowSource::kNowhere:
        to = {};
        return;
      case FlowSource::kWhole:
        to = memory_of(inputs_[source.at]);
        return;
      case FlowSource::kSlice:
        to = slice_of(step);
        return;
      case FlowSource::kCarry:
        to = step == 0 ? memory_of(inputs_[source.at]) : body_.result(source.other);
        return;
      case FlowSource::kNext:
        to = step + 1 < settings_.steps ? slice_of(step + 1) : memory_of(inputs_[source.other]);
        return;
    }
  }

  const ScanSettings settings_;
  const Tensors inputs_, outputs_;
  mutable PartRun body_;
  std::vector<Stack> direct_, copied_;
  Pairs pairs_;
};

class ScanNode : public ExternalOp {
 public:
  explicit ScanNode(ScanSettings settings) : settings_(std::move(settings)) {}

  std::string_view name() const override { return "scan"; }
  bool may_fail() const override { return true; }
  std::vector<Geometry> outputs() const override {
    std::vector<Geometry> out;
    for (int64_t r : settings_.finals) {
      const Graph::Value& value = result_of(settings_.body, r);
      out.push_back({value.shape, value.dtype, value.device});
    }
    for (int64_t r : settings_.stacks) {
      const Graph::Value& value = result_of(settings_.body, r);
      Dims shape{settings_.steps};
      for (int64_t size : value.shape) shape.push_back(size);
      out.push_back({shape, value.dtype, value.device});
    }
    return out;
  }
  Graphs graphs() const override { return {settings_.body.graph}; }
  std::shared_ptr<const ExternalOp> with_graphs(const Graphs& graphs) const override {
    ScanSettings changed = settings_;
    changed.body = with_graph(settings_.body, graphs.at(0));
    return scan_node(std::move(changed));
  }
  std::string_view form() const override { return "flow"; }
  void check_operands(Geometries inputs, Geometries outputs) const override {
    check_flow(settings_, inputs, outputs);
  }
  std::vector<int64_t> numbers() const override {
    std::vector<int64_t> out{settings_.steps, settings_.reversed};
    add_numbers(settings_.body, out);
    add_numbers(settings_.finals, out);
    add_numbers(settings_.stacks, out);
    return out;
  }
  std::unique_ptr<Executable> bind(std::span<const Tensor> inputs,
                                   std::span<const Tensor> outputs) const override {
    return std::make_unique<BoundScan>(settings_, Tensors(inputs.begin(), inputs.end()),
                                       Tensors(outputs.begin(), outputs.end()));
  }

 private:
  ScanSettings settings_;
};

class BoundCond : public ExternalOp::Executable {
 public:
  BoundCond(const CondSettings& settings, Tensors inputs, Tensors outputs)
      : inputs_(std::move(inputs)), outputs_(std::move(outputs)) {
    for (size_t b = 0; b < 2; ++b) {
      Branch& branch = branches_[b];
      branch.run = std::make_unique<PartRun>(settings.parts[b]);
      std::vector<bool> has_place(branch.run->memories.size(), false);
      for (size_t o = 0; o < settings.results[b].size(); ++o) {
        const int64_t r = settings.results[b][o];
        if (r == kZeros) branch.zeros.push_back(o);
        if (r < 0) continue;
        const size_t m = branch.run->memory_of(r);
        const bool at_once = !has_place[m] && branch.run->is_whole(r);
        has_place[m] = has_place[m] || at_once;
        (at_once ? branch.direct : branch.copied).push_back({o, m, branch.run->result_bytes(r)});
      }
      for (size_t m = 0; m < has_place.size(); ++m)
        if (!has_place[m]) branch.others.add(*branch.run, m);
    }
  }

  Parts parts() const override {
    const int64_t last = allocs_;
    return {{branches_[0].run->program(), last < 0 ? -1 : last == 0},
            {branches_[1].run->program(), last}};
  }

  void run(const RngOffsets& draws) const override {
    allocs_ = is_true(memory_of(inputs_[0]));
    const Branch& branch = branches_[allocs_];
    PartRun& part = *branch.run;
    const Pairs::Blocks rest = branch.others.allocate();
    for (size_t a = 0; a < part.arguments.size(); ++a) {
      const FlowSource& source = part.sources()[a];
      part.arguments[a] =
          source.kind == FlowSource::kWhole ? memory_of(inputs_[source.at]) : Buffer{};
    }
    branch.others.set(rest, 0, part.memories);
    for (const Result& r : branch.direct) part.memories[r.memory] = memory_of(outputs_[r.output]);
    part.run(draws, 0);
    for (size_t o : branch.zeros) clear(memory_of(outputs_[o]));
    for (const Result& r : branch.copied)
      copy_bytes(memory_of(outputs_[r.output]), part.memories[r.memory], r.bytes);
  }
  size_t scratch_bytes() const override {
    size_t most = 0;
    for (const Branch& branch : branches_)
      most = std::max(most, branch.others.bytes() + branch.run->peak_bytes());
    return most;
  }

 private:
  struct Result {
    size_t output, memory, bytes;
  };
  struct Branch {
    std::unique_ptr<PartRun> run;
    std::vector<Result> direct, copied;
    std::vector<size_t> zeros;
    Pairs others;
  };
  const Tensors inputs_, outputs_;
  std::array<Branch, 2> branches_;
  mutable std::atomic<int64_t> allocs_{-1};  // by the last run
};

class CondNode : public ExternalOp {
 public:
  explicit CondNode(CondSettings settings) : settings_(std::move(settings)) {}

  std::string_view name() const override { return "cond"; }
  bool may_fail() const override { return true; }
  std::vector<Geometry> outputs() const override {
    std::vector<Geometry> out;
    for (size_t o = 0; o < settings_.results[0].size(); ++o) {
      const size_t b = settings_.results[0][o] >= 0 ? 0 : 1;
      const Graph::Value& value = result_of(settings_.parts[b], settings_.results[b][o]);
      out.push_back({value.shape, value.dtype, value.device});
    }
    return out;
  }
  Graphs graphs() const override { return {settings_.parts[0].graph, settings_.parts[1].graph}; }
  std::shared_ptr<const ExternalOp> with_graphs(const Graphs& graphs) const override {
    CondSettings changed = settings_;
    for (size_t b = 0; b < 2; ++b) changed.parts[b] = with_graph(settings_.parts[b], graphs.at(b));
    return cond_node(std::move(changed));
  }
  std::string_view form() const override { return "flow"; }
  void check_operands(Geometries inputs, Geometries outputs) const override {
    check_flow(settings_, inputs, outputs);
  }
  std::vector<int64_t> numbers() const override {
    std::vector<int64_t> out;
    for (size_t b = 0; b < 2; ++b) {
      add_numbers(settings_.parts[b], out);
      add_numbers(settings_.results[b], out);
    }
    return out;
  }
  std::unique_ptr<Executable> bind(std::span<const Tensor> inputs,
                                   std::span<const Tensor> outputs) const override {
    return std::make_unique<BoundCond>(settings_, Tensors(inputs.begin(), inputs.end()),
                                       Tensors(outputs.begin(), outputs.end()));
  }

 private:
  CondSettings settings_;
};

class BoundWhile : public ExternalOp::Executable {
 public:
  BoundWhile(const WhileSettings& settings, Tensors inputs, Tensors outputs)
      : carries_(settings.carries),
        inputs_(std::move(inputs)),
        outputs_(std::move(outputs)),
        condition_(settings.condition),
        body_(settings.body) {
    for (size_t m = 0; m < condition_.memories.size(); ++m) answer_.add(condition_, m);
    for (size_t m = 0; m < body_.memories.size(); ++m)
      pairs_.add(body_, m, body_.updates(m, [&](const FlowSource& source) {
        return source.kind == FlowSource::kCarry && body_.memory_of(carries_[source.at]) == m;
      }));
  }

  Parts parts() const override {
    const int64_t steps = steps_;
    return {{condition_.program(), steps < 0 ? -1 : steps + 1}, {body_.program(), steps}};
  }

  void run(const RngOffsets& draws) const override {
    const Pairs::Blocks answer = answer_.allocate(), rolling = pairs_.allocate();
    answer_.set(answer, 0, condition_.memories);
    std::vector<Buffer> carry;
    for (size_t i = 0; i < carries_.size(); ++i) carry.push_back(memory_of(inputs_[i]));
    int64_t step = 0;
    InterruptPoll poll_interrupt;
    for (;; ++step) {
      poll_interrupt();
      set_arguments(condition_, carry);
      condition_.run(draws, 0);
      if (!is_true(condition_.result(0))) break;
      set_arguments(body_, carry);
      pairs_.set(rolling, step, body_.memories);
      body_.run(draws, 0);
      for (size_t i = 0; i < carry.size(); ++i) carry[i] = body_.result(carries_[i]);
    }
    steps_ = step;
    for (size_t i = 0; i < carry.size(); ++i) {
      const Buffer to = memory_of(outputs_[i]);
      copy_bytes(to, carry[i], to.bytes);
    }
  }
  size_t scratch_bytes() const override {
    return answer_.bytes() + pairs_.bytes() + std::max(condition_.peak_bytes(), body_.peak_bytes());
  }

 private:
  void set_arguments(PartRun& part, const std::vector<Buffer>& carry) const {
    for (size_t a = 0; a < part.arguments.size(); ++a) {
      const FlowSource& source = part.sources()[a];
      part.arguments[a] = source.kind == FlowSource::kCarry   ? carry[source.at]
                          : source.kind == FlowSource::kWhole ? memory_of(inputs_[source.at])
                                                              : Buffer{};
    }
  }

  const std::vector<int64_t> carries_;
  const Tensors inputs_, outputs_;
  mutable PartRun condition_, body_;
  Pairs answer_, pairs_;
  mutable std::atomic<int64_t> steps_{-1};  // of the last run
};

class WhileNode : public ExternalOp {
 public:
  explicit WhileNode(WhileSettings settings) : settings_(std::move(settings)) {}

  std::string_view name() const override { return "while_loop"; }
  bool may_fail() const override { return true; }
  std::vector<Geometry> outputs() const override {
    std::vector<Geometry> out;
    for (int64_t r : settings_.carries) {
      const Graph::Value& value = result_of(settings_.body, r);
      out.push_back({value.shape, value.dtype, value.device});
    }
    return out;
  }
  Graphs graphs() const override { return {settings_.condition.graph, settings_.body.graph}; }
  std::shared_ptr<const ExternalOp> with_graphs(const Graphs& graphs) const override {
    return while_node({with_graph(settings_.condition, graphs.at(0)),
                       with_graph(settings_.body, graphs.at(1)), settings_.carries});
  }
  std::string_view form() const override { return "flow"; }
  void check_operands(Geometries inputs, Geometries outputs) const override {
    check_flow(settings_, inputs, outputs);
  }
  std::vector<int64_t> numbers() const override {
    std::vector<int64_t> out;
    add_numbers(settings_.carries, out);
    add_numbers(settings_.condition, out);
    add_numbers(settings_.body, out);
    return out;
  }
  std::unique_ptr<Executable> bind(std::span<const Tensor> inputs,
                                   std::span<const Tensor> outputs) const override {
    return std::make_unique<BoundWhile>(settings_, Tensors(inputs.begin(), inputs.end()),
                                        Tensors(outputs.begin(), outputs.end()));
  }

 private:
  WhileSettings settings_;
};

}  // namespace

std::shared_ptr<const ExternalOp> scan_node(ScanSettings settings) {
  return std::make_shared<ScanNode>(std::move(settings));
}

std::shared_ptr<const ExternalOp> cond_node(CondSettings settings) {
  return std::make_shared<CondNode>(std::move(settings));
}

std::shared_ptr<const ExternalOp> while_node(WhileSettings settings) {
  return std::make_shared<WhileNode>(std::move(settings));
}

}  // namespace tinyt
