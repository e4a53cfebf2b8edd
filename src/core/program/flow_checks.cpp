// Nodes of control flow of numbers that may be anybody's: runs believe all that is checked here.
#include <algorithm>

#include "core/base/checked.h"
#include "core/program/control_flow.h"

namespace tinyt {

namespace {

constexpr int64_t kMostFlowSteps = int64_t{1} << 40;

template <class... Parts>
void check_flow_numbers(bool ok, const Parts&... parts) {
  require(ok, ErrorKind::Runtime, "control flow: ", parts...);
}

FlowPart part_of(Words& numbers, std::shared_ptr<const Graph> graph,
                 FunctionRef<void(int64_t, int64_t)> check_draw) {
  FlowPart out{std::move(graph), {}, {}};
  for (size_t n = numbers.count(); n > 0; --n) {
    const auto kind = static_cast<FlowSource::Kind>(numbers.below(FlowSource::kNext + 1, "source"));
    const int64_t at = numbers.next();
    out.sources.push_back({kind, at, numbers.next()});
  }
  for (size_t n = numbers.count(); n > 0; --n) {
    const int64_t generator = numbers.next(), first = numbers.next(), count = numbers.next();
    check_draw(generator, first);
    check_draw(generator, count);
    out.draws.push_back({generator, first, count});
  }
  return out;
}

std::vector<int64_t> list_of(Words& numbers) {
  const auto list = numbers.list();
  return {list.begin(), list.end()};
}

const Graph::Value& value_of(const FlowPart& part, int64_t result) {
  return part.graph->values()[part.graph->outputs()[result].value];
}
int64_t results_of(const FlowPart& part) { return std::ssize(part.graph->outputs()); }

// What a value takes of an operand, `times` after each other.
bool fits(const Graph::Value& value, const ExternalOp::Geometry& operand, int64_t times) {
  int64_t all = 0;
  return value.dtype == operand.dtype && value.device == operand.device &&
         !__builtin_mul_overflow(numel_of(value.shape), times, &all) &&
         numel_of(operand.shape) == all;
}

bool is_condition(DType dtype, const Dims& shape) { return is_bool(dtype) && numel_of(shape) == 1; }

// Where each argument of a part lies.
class Sources {
 public:
  Sources(const FlowPart& part, Geometries inputs) : part_(part), inputs_(inputs) {}

  int64_t steps = 1;
  int64_t carries = 0;   // of a loop: the first operands
  bool is_scan = false;  // a carry is the result `other` then
  std::span<const FlowSource::Kind> allowed;

  void check_all() const {
    const Graph& graph = *part_.graph;
    check_flow_numbers(part_.sources.size() == graph.arguments().size(), "a part has ",
                       graph.arguments().size(), " arguments, but ", part_.sources.size(),
                       " sources");
    std::vector<bool> is_read(graph.values().size(), false);
    for (const Graph::Node& node : graph.nodes())
      for (int64_t v : node.inputs) is_read[v] = true;
    for (const Graph::Output& output : graph.outputs()) {
      is_read[output.value] = true;
      check_flow_numbers(
          output.argument < 0 && output.tensor.is_recorded() && covers_storage(output.tensor),
          "a part returns what is no value of its own");
    }
    for (const Graph::Input& input : graph.inputs())
      if (input.argument >= 0)
        check_source(part_.sources[static_cast<size_t>(input.argument)],
                     graph.values()[input.value], is_read[input.value]);
  }

 private:
  void check_source(const FlowSource& source, const Graph::Value& value, bool is_read) const {
    check_flow_numbers(std::ranges::find(allowed, source.kind) != allowed.end(),
                       "an argument lies where nothing of this node does");
    if (source.kind == FlowSource::kNowhere) {
      check_flow_numbers(!is_read, "an argument is read, but lies nowhere");
      return;
    }
    const bool is_slice = source.kind == FlowSource::kSlice || source.kind == FlowSource::kNext;
    check_flow_numbers(fits(value, operand(source.at), is_slice ? steps : 1),
                       "an argument is another type than its operand");
    if (source.kind == FlowSource::kNext)
      check_flow_numbers(fits(value, operand(source.other), 1),
                         "an argument is another type than its operand");
    if (source.kind != FlowSource::kCarry) return;
    if (!is_scan) {
      check_flow_numbers(source.at < carries, "there is no such carry");
      return;
    }
    check_flow_numbers(source.other >= 0 && source.other < results_of(part_),
                       "there is no such result");
    const Graph::Value& result = value_of(part_, source.other);
    check_flow_numbers(
        result.shape == value.shape && result.dtype == value.dtype && result.device == value.device,
        "an argument is another type than the result that is carried");
  }

  const ExternalOp::Geometry& operand(int64_t at) const {
    check_flow_numbers(at >= 0 && at < std::ssize(inputs_), "there is no operand ", at);
    return inputs_[static_cast<size_t>(at)];
  }

  const FlowPart& part_;
  Geometries inputs_;
};

constexpr FlowSource::Kind kOfScan[] = {FlowSource::kNowhere, FlowSource::kWhole,
                                        FlowSource::kSlice, FlowSource::kCarry, FlowSource::kNext};
constexpr FlowSource::Kind kOfCond[] = {FlowSource::kNowhere, FlowSource::kWhole};
constexpr FlowSource::Kind kOfWhile[] = {FlowSource::kNowhere, FlowSource::kWhole,
                                         FlowSource::kCarry};

void check_results(const ExternalOp& node, Geometries outputs) {
  const auto made = node.outputs();
  check_flow_numbers(made.size() == outputs.size(), "there are ", outputs.size(), " results, not ",
                     made.size());
  for (size_t i = 0; i < made.size(); ++i)
    check_flow_numbers(made[i].shape == outputs[i].shape && made[i].dtype == outputs[i].dtype &&
                           made[i].device == outputs[i].device,
                       "result ", i, " is another type than its part gives");
}

}  // namespace

void check_flow(const ScanSettings& settings, Geometries inputs, Geometries outputs) {
  Sources sources(settings.body, inputs);
  sources.steps = settings.steps;
  sources.is_scan = true;
  sources.allowed = kOfScan;
  sources.check_all();
  check_results(*scan_node(settings), outputs);
}

void check_flow(const CondSettings& settings, Geometries inputs, Geometries outputs) {
  check_flow_numbers(!inputs.empty() && is_condition(inputs[0].dtype, inputs[0].shape),
                     "the first operand of cond is one bool");
  for (const FlowPart& part : settings.parts) {
    Sources sources(part, inputs);
    sources.allowed = kOfCond;
    sources.check_all();
  }
  for (size_t o = 0; o < settings.results[0].size(); ++o) {
    const int64_t a = settings.results[0][o], b = settings.results[1][o];
    if (a < 0 || b < 0) continue;
    const Graph::Value &x = value_of(settings.parts[0], a), &y = value_of(settings.parts[1], b);
    check_flow_numbers(x.shape == y.shape && x.dtype == y.dtype && x.device == y.device,
                       "the parts of cond give a result in two types");
  }
  check_results(*cond_node(settings), outputs);
}

void check_flow(const WhileSettings& settings, Geometries inputs, Geometries outputs) {
  check_flow_numbers(results_of(settings.condition) == 1, "a condition returns one bool");
  const Graph::Value& condition = value_of(settings.condition, 0);
  check_flow_numbers(is_condition(condition.dtype, condition.shape),
                     "a condition returns one bool");
  check_flow_numbers(settings.carries.size() <= inputs.size(),
                     "there are more carries than operands");
  for (const FlowPart* part : {&settings.condition, &settings.body}) {
    Sources sources(*part, inputs);
    sources.carries = std::ssize(settings.carries);
    sources.allowed = kOfWhile;
    sources.check_all();
  }
  for (size_t i = 0; i < settings.carries.size(); ++i) {
    const Graph::Value& made = value_of(settings.body, settings.carries[i]);
    check_flow_numbers(made.shape == inputs[i].shape && made.dtype == inputs[i].dtype &&
                           made.device == inputs[i].device,
                       "carry ", i, " is another type than its operand");
  }
  check_results(*while_node(settings), outputs);
}

std::shared_ptr<const ExternalOp> flow_of(std::string_view name, Words& numbers,
                                          const ExternalOp::Graphs& parts,
                                          FunctionRef<void(int64_t, int64_t)> check_draw) {
  const bool is_scan = name == "scan", is_cond = name == "cond";
  check_flow_numbers(is_scan || is_cond || name == "while_loop", "there is no node ", name);
  check_flow_numbers(parts.size() == (is_scan ? 1 : 2), name, " has other parts");
  const auto check_list = [](const std::vector<int64_t>& list, const FlowPart& part,
                             int64_t least) {
    for (int64_t r : list)
      check_flow_numbers(r >= least && r < results_of(part), "a part has no result ", r);
  };
  if (is_scan) {
    ScanSettings out{};
    out.steps = numbers.below(kMostFlowSteps, "count of steps");
    check_flow_numbers(out.steps > 0, "scan takes at least one step");
    out.reversed = numbers.flag("flag");
    out.body = part_of(numbers, parts[0], check_draw);
    out.finals = list_of(numbers);
    out.stacks = list_of(numbers);
    check_list(out.finals, out.body, 0);
    check_list(out.stacks, out.body, 0);
    for (int64_t r : out.stacks) {
      const Graph::Value& value = value_of(out.body, r);
      Dims shape{out.steps};
      for (int64_t size : value.shape) shape.push_back(size);
      bytes_of("scan", shape, value.dtype);
    }
    return scan_node(std::move(out));
  }
  if (is_cond) {
    CondSettings out{};
    for (size_t b = 0; b < 2; ++b) {
      out.parts[b] = part_of(numbers, parts[b], check_draw);
      out.results[b] = list_of(numbers);
      check_list(out.results[b], out.parts[b], kZeros);
    }
    check_flow_numbers(out.results[0].size() == out.results[1].size(),
                       "the parts of cond have different numbers of results");
    for (size_t o = 0; o < out.results[0].size(); ++o)
      check_flow_numbers(out.results[0][o] >= 0 || out.results[1][o] >= 0, "no part gives result ",
                         o);
    return cond_node(std::move(out));
  }
  WhileSettings out{};
  out.carries = list_of(numbers);
  out.condition = part_of(numbers, parts[0], check_draw);
  out.body = part_of(numbers, parts[1], check_draw);
  check_list(out.carries, out.body, 0);
  check_flow_numbers(!out.carries.empty(), "a loop carries something");
  return while_node(std::move(out));
}

}  // namespace tinyt
