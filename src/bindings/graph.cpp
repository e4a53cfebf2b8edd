// Recording for Python: begin, end, and the flat arrays of a graph.
#include "core/graph/graph.h"

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <set>

#include "call.h"
#include "casters.h"
#include "core/graph/step_node.h"
#include "core/plan/planner.h"
#include "cpu/fused/tile_kernel.h"
#include "measure.h"
#include "submodules.h"

namespace py = pybind11;

namespace tinyt {

namespace {

py::list nodes_of(const Graph& g) {
  py::list out;
  for (const Graph::Node& n : g.nodes()) {
    py::object attrs = py::tuple();
    if (n.opaque) {
      attrs = tuple_of(n.opaque->numbers());
    } else {
      attrs = py::reinterpret_steal<py::object>(attrs_tuple(n.op, n.attrs));
    }
    out.append(py::make_tuple(n.name(), attrs, tuple_of(n.inputs), tuple_of(n.outputs)));
  }
  return out;
}

py::list inputs_of(const Graph& g) {
  py::list out;
  for (const Graph::Input& i : g.inputs()) {
    py::object tensor = py::none();
    if (i.argument < 0) tensor = py::cast(i.tensor);
    const bool weak = i.argument < 0 && !i.number && i.tensor.impl()->is_scalar;
    out.append(py::make_tuple(i.value, tensor, i.argument, i.number, weak));
  }
  return out;
}

py::list outputs_of(const Graph& g) {
  py::list out;
  for (const Graph::Output& o : g.outputs())
    out.append(py::make_tuple(o.value, tuple_of(o.tensor.shape()), tuple_of(o.tensor.strides()),
                              o.tensor.offset()));
  return out;
}

py::list writes_of(const Graph& g) {
  py::list out;
  for (const Graph::Write& w : g.writes()) {
    py::object target = py::none();
    if (w.argument < 0) target = py::cast(w.target);
    out.append(py::make_tuple(w.value, target, w.argument));
  }
  return out;
}

// With the scalars of a graph, which programs that run may be reading.
template <class F>
auto with_scalars(Graph& g, const F& what) {
  const PythonUnlocked unlocked;
  const std::lock_guard lock(g.scalars());
  return what(g.scalars());
}

py::list scalars_of(Graph& g) {
  using Op = SymbolicScalars::Op;
  const auto [rows, values] = with_scalars(g, [](RuntimeScalars& all) {
    std::vector<SymbolicScalars::Expression> rows;
    for (size_t i = 0; i < all.table().size(); ++i)
      rows.push_back(all.table().at(static_cast<int64_t>(i)));
    return std::pair(rows, all.values());
  });
  py::list out;
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto& row = rows[i];
    const char* kind = row.op == Op::Given  ? "given"
                       : row.op == Op::Item ? "item"
                       : row.op == Op::Real ? "constant"
                                            : "computed";
    out.append(py::make_tuple(kind, static_cast<int>(row.op), row.left, row.right, values[i]));
  }
  return out;
}

using NumberRow = std::tuple<int, int64_t, int64_t, int64_t>;  // operation, left, right, bits
using NumberGuard = std::tuple<int, bool, int64_t, int64_t>;   // test, outcome, left, right

// What the numbers of a graph are: how many are given, their rows, the tensors that items are read
// from, the cells of those that nodes read, and what must hold.
py::tuple number_parts(Graph& g) {
  const RuntimeScalars::Restorable all =
      with_scalars(g, [](RuntimeScalars& scalars) { return scalars.restorable(); });
  std::vector<NumberRow> rows;
  for (const auto& e : all.expressions)
    rows.emplace_back(static_cast<int>(e.op), e.left, e.right, e.value);
  std::vector<NumberGuard> guards;
  for (const auto& guard : all.guards)
    guards.emplace_back(static_cast<int>(guard.test), guard.outcome, guard.left, guard.right);
  std::vector<std::pair<int64_t, Tensor>> cells;
  for (const Graph::Input& input : g.inputs())
    if (input.number) cells.emplace_back(g.scalars().number_of(input.tensor), input.tensor);
  return py::make_tuple(all.given, rows, all.items, cells, guards);
}

// Of a graph that has recorded nothing yet.
void set_numbers(Graph& g, int64_t given, const std::vector<NumberRow>& rows,
                 std::vector<Tensor> items, const std::vector<NumberGuard>& guards) {
  require(g.values().empty() && given >= 0, ErrorKind::Value,
          "set_numbers: something has been recorded already");
  for (const Tensor& x : items)
    require(x.numel() == 1 && !x.is_recorded(), ErrorKind::Value,
            "set_numbers: an item is of a tensor of one element");
  RuntimeScalars::Restorable all{given, std::move(items), {}, {}};
  for (const auto& [op, left, right, bits] : rows) {
    require(op >= 0 && op < 256, ErrorKind::Value, "set_numbers: there is no operation ", op);
    all.expressions.push_back({static_cast<SymbolicScalars::Op>(op), left, right, bits});
  }
  for (const auto& [test, outcome, left, right] : guards) {
    require(test >= 0 && test < 256, ErrorKind::Value, "set_numbers: there is no test ", test);
    all.guards.push_back({static_cast<SymbolicScalars::Test>(test), outcome, left, right});
  }
  g.set_scalars(std::make_shared<RuntimeScalars>(std::move(all)));
}

// The operand that a number is, of a graph that is recorded now.
Tensor cell_of(Graph& g, int64_t number) {
  const SymbolicScalars& table = g.scalars().table();
  require(number >= 0 && number < static_cast<int64_t>(table.size()) &&
              SymbolicScalars::is_real(table.at(number).op),
          ErrorKind::Value, "cell: there is no float with number ", number);
  return g.cell(number);
}

// A step of an optimiser whose numbers a text has; how many of its operands it writes.
size_t record_step(const std::string& name, const std::vector<int64_t>& numbers,
                   const std::vector<Tensor>& inputs) {
  require(recording() && !inputs.empty(), ErrorKind::Capture, "step: recorded outside a recording");
  Words words(numbers);
  const std::shared_ptr<const ExternalOp> step = step_of(name, words);
  require(words.at_end(), ErrorKind::Value, name, ": there are more numbers than it has");
  const size_t written = step->written();
  require(written <= inputs.size(), ErrorKind::Value, name, ": takes other operands");
  std::vector<ExternalOp::Geometry> kinds;
  for (const Tensor& x : inputs) kinds.push_back({x.shape(), x.dtype(), x.device()});
  step->check_operands(kinds, std::span(kinds).first(written));
  recording()->record(step, inputs, written);
  return written;
}

std::shared_ptr<Graph> rewritten(
    const Graph& g, const py::bytes& flat, const std::vector<Tensor>& inputs,
    const std::vector<std::pair<int64_t, std::vector<std::shared_ptr<Graph>>>>& parts) {
  const std::string_view bytes = flat;
  std::vector<int64_t> words(bytes.size() / sizeof(int64_t));
  require(words.size() * sizeof(int64_t) == bytes.size(), ErrorKind::Runtime,
          "graph: the array holds int64s, got ", bytes.size(), " bytes");
  std::copy_n(bytes.data(), bytes.size(), reinterpret_cast<char*>(words.data()));
  std::unordered_map<int64_t, ExternalOp::Graphs> graphs;
  for (const auto& [node, list] : parts) graphs[node].assign(list.begin(), list.end());
  return g.rewritten(words, inputs, graphs);
}

// The recordings that a node runs.
py::list parts_of(const Graph& g, size_t node) {
  py::list out;
  const auto& opaque = g.nodes().at(node).opaque;
  if (opaque)
    for (const auto& part : opaque->graphs()) out.append(std::const_pointer_cast<Graph>(part));
  return out;
}

// What an opaque node makes of given inputs.
py::tuple run_opaque(const Graph& g, size_t node, const std::vector<Tensor>& inputs,
                     const RngOffsets& draws) {
  const Graph::Node& n = g.nodes().at(node);
  require(n.opaque != nullptr, ErrorKind::Value, "run_opaque: node ", node,
          " is a row of the op table");
  std::vector<Tensor> outputs;
  for (int64_t v : n.outputs)
    outputs.push_back(
        Tensor::empty(g.values()[v].shape, g.values()[v].dtype, g.values()[v].device));
  std::vector<Tensor> dense;
  for (const Tensor& t : inputs) dense.push_back(contiguous(t));
  n.opaque->bind(dense, outputs)->run(draws);
  py::tuple out(outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) out[i] = py::cast(outputs[i]);
  return out;
}

py::list steps_of(const Program& p) {
  py::list out;
  for (const Plan::Step& s : p.plan().steps) {
    py::list names;
    if (s.kind == Plan::Kind::Region) {
      for (const OpId op : p.plan().regions[static_cast<size_t>(s.index)].ops)
        names.append(name_of(op));
    } else {
      names.append(p.plan().name(s));
    }
    out.append(py::tuple(names));
  }
  return out;
}

py::list boundaries_of(const Program& p) {
  py::list out;
  for (const Plan::Step& s : p.plan().steps)
    out.append(py::make_tuple(text_of(s.barrier), s.barrier_bytes));
  return out;
}

py::list sides_of(const Program& p) {
  py::list out;
  for (const ConcurrentGroup& s : p.plan().groups)
    out.append(py::make_tuple(s.first, s.last, s.branches));
  return out;
}

// Runs a program, without the interpreter's lock; None where its numbers make it stale.
std::optional<py::tuple> run_program(Program& p,
                                     const std::vector<std::optional<Tensor>>& given_arguments,
                                     const std::vector<double>& given, const RngOffsets& draws,
                                     std::optional<Measures*> measures) {
  settle_all();
  std::vector<Tensor> arguments;
  for (const std::optional<Tensor>& x : given_arguments) arguments.push_back(x.value_or(Tensor()));
  std::optional<std::vector<Tensor>> values;
  {
    const PythonUnlocked unlocked;
    values = p.run(arguments, given, draws, measures.value_or(nullptr));
  }
  if (!values) return std::nullopt;
  py::tuple out(values->size());
  for (size_t i = 0; i < values->size(); ++i) out[i] = py::cast((*values)[i]);
  return out;
}

// What a recording that is under way keeps alive: itself and its owner, so that neither is gone
// while a thread still records into it, wherever an interrupt comes between.
struct UnderWay {
  std::shared_ptr<Graph> graph;
  py::object owner;
};

void begin(const std::shared_ptr<Graph>& g, const py::object& owner) {
  require(recording() == g->outer(), ErrorKind::Capture,
          "record: a recording is already under way");
  g->owner = std::shared_ptr<void>(std::make_shared<UnderWay>(UnderWay{g, owner}), owner.ptr());
  set_recording(g.get());
}

bool is_open(const Graph& g) {
  const Graph* at = recording();
  while (at && at != &g) at = at->outer();
  return at;
}

void end(Graph& g) {
  if (!g.owner || !is_open(g)) return;  // it has not begun, or in another thread
  while (recording() != &g) {
    Graph* const part = recording();  // one that an interrupt has left open
    set_recording(part->outer());
    part->owner.reset();
  }
  set_recording(g.outer());
  g.log = nullptr;
  g.owner.reset();
  g.finish();
}

using GraphClass = py::class_<Graph, std::shared_ptr<Graph>>;

void bind_recording(GraphClass& graph) {
  using py::arg;
  graph.def(py::init<>())
      .def("begin", begin, arg("owner"), "Records this thread's operations until `end`.")
      .def("end", end,
           "Ends the recording and the parts left open in it; nothing where it has not begun.")
      .def("add_output", &Graph::add_output, arg("x"))
      .def(
          "add_argument",
          [](Graph& g, const std::vector<int64_t>& shape, int dtype, int64_t device) {
            require(device >= 0 && device < kDeviceCodes, ErrorKind::Value,
                    "add_argument: no device has the number ", device);
            require(dtype >= 0 && dtype < kDTypeCount, ErrorKind::Type,
                    "add_argument: no dtype has the number ", dtype);
            for (int64_t n : shape)
              require(n >= 0, ErrorKind::Value, "add_argument: sizes must not be negative");
            return g.add_argument(
                Tensor::from_storage(Storage::without_memory(0, device_of(device)), shape,
                                     contiguous_strides(shape), 0, static_cast<DType>(dtype)));
          },
          arg("shape"), arg("dtype"), arg("device") = 0,
          "What stands for a dense argument of that geometry.")
      .def_property_readonly("arguments", [](const Graph& g) { return g.arguments().size(); })
      .def_property_readonly(
          "address", [](const Graph& g) { return reinterpret_cast<size_t>(&g); },
          "Where the hot module finds it.")
      .def("add_result", &Graph::add_result, arg("x"),
           "Marks what a tensor holds as an output; which one.")
      .def("parts", parts_of, arg("node"), "The recordings that a node runs.")
      .def("set_mark", &Graph::set_mark,
           "What is recorded from here on is a program that runs later.");
}

void bind_nodes(GraphClass& graph) {
  using py::arg;
  graph.def_property_readonly("node_count", [](const Graph& g) { return g.nodes().size(); })
      .def("nodes", nodes_of, "(op, attributes, input values, output values) per node.")
      .def(
          "values",
          [](const Graph& g) {
            py::list out;
            for (const Graph::Value& v : g.values())
              out.append(py::make_tuple(tuple_of(v.shape), static_cast<int>(v.dtype), v.node,
                                        code_of(v.device)));
            return out;
          },
          "(shape, dtype number, producing node or -1, device as an attribute has it) per value.")
      .def(
          "devices",
          [](const Graph& g) {
            std::set<int64_t> found;
            for (const Graph::Value& v : g.values()) found.insert(code_of(v.device));
            return found;
          },
          "Where its values lie, as attributes have that.")
      .def(
          "inputs", inputs_of,
          "(value, tensor or None, argument or -1, whether it is a number read anew, whether it is "
          "one of Python's that is not) per input.")
      .def(
          "split_point",
          [](const Graph& g) {
            return std::make_pair(g.split_point().node, g.split_point().output);
          },
          "The first node and the first output of what runs later; -1: all is one program.")
      .def("rewritten", rewritten, arg("flat"), arg("inputs") = std::vector<Tensor>(),
           arg("parts") = std::vector<std::pair<int64_t, std::vector<std::shared_ptr<Graph>>>>(),
           "Other nodes over the same inputs, new ones, and the same outputs and writes, as int64s "
           "(graph.h has the format), with other recordings that nodes run. RuntimeError where "
           "they are no graph, or the ends are others.")
      .def("outputs", outputs_of, "(value, shape, strides, offset) per output.")
      .def("writes", writes_of, "(value, tensor or None, argument or -1) per write.");
}

void bind_scalars(GraphClass& graph) {
  using py::arg;
  graph
      .def(
          "is_ordered", [](const Graph& g, size_t node) { return g.nodes().at(node).is_ordered(); },
          arg("node"), "Whether a node has an effect beside its results.")
      .def(
          "has_effects",
          [](const Graph& g) { return std::ranges::any_of(g.nodes(), &Graph::Node::is_ordered); },
          "Whether any node has an effect beside its results.")
      .def("run_opaque", run_opaque, arg("node"), arg("inputs"), arg("draws"),
           "The outputs of a node that is no row of the op table.")
      .def(
          "holds",
          [](Graph& g, const std::vector<double>& given) {
            return with_scalars(g, [&](RuntimeScalars& all) { return all.holds(given); });
          },
          arg("given"), "Whether the graph stands for a call with these numbers.")
      .def(
          "refresh",
          [](Graph& g, const std::vector<double>& given) {
            return with_scalars(g, [&](RuntimeScalars& all) { return all.refresh(given); });
          },
          arg("given"), "Sets the numbers that are read anew; false where the graph is stale.")
      .def("scalars", scalars_of, "(kind, operation, left, right, value) per number.")
      .def("number_parts", number_parts,
           "(how many are given, (operation, left, right, bits) per number, tensors that items are "
           "read from, (number, cell) of those that nodes read, (test, outcome, left, right) of "
           "what must hold).")
      .def("set_numbers", set_numbers, arg("given"), arg("rows"), arg("items"), arg("guards"),
           "The numbers that `number_parts` has, before anything is recorded.")
      .def("cell", cell_of, arg("number"), "The operand that a number is, while it is recorded.")
      .def(
          "guard_on",
          [](Graph& g, int64_t position) {
            with_scalars(g, [&](RuntimeScalars& all) { all.table().guard_on(position); });
          },
          arg("position"), "The graph stands for calls in which this number is what it is.");
}

void bind_runs(py::class_<Program>& program) {
  using py::arg;
  program
      .def(py::init([](const Graph& g, int part) {
             require(
                 part >= 0 && part <= 2 && (part == 0) == (g.split_point().node < 0),
                 ErrorKind::Value,
                 "program: a graph with a split point has parts 1 and 2, one without is part 0");
             return std::make_unique<Program>(g, static_cast<Plan::Part>(part));
           }),
           arg("graph"), arg("part") = 0)
      .def("run", run_program, arg("arguments"), arg("given"), arg("draws"),
           arg("measures") = std::nullopt,
           "The outputs; None where the numbers given make the program stale. Draws: (seed, first "
           "counter) of every generator.")
      .def(
          "uses",
          [](const Program& p) {
            py::list out;
            for (size_t i = 0; i < p.plan().arguments.size(); ++i)
              out.append(p.plan().arguments[i].used);
            return out;
          },
          "Of each argument, whether a run needs it; None will do for others.")
      .def(
          "captured", [](const Program& p) -> const auto& { return p.plan().captured; },
          "The captured tensors that a run reads.")
      .def("steps", steps_of,
           "The op names of every step; more than one where a region fused them.")
      .def("sides", sides_of,
           "(first step, last step, the steps of each branch) of every group that runs side by "
           "side.")
      .def("boundaries", boundaries_of,
           "(why it ends there, bytes written and read because of that) of every step.")
      .def_property_readonly(
          "address", [](const Program& p) { return reinterpret_cast<size_t>(&p); },
          "Where the hot module finds it.");
}

void bind_plan(py::class_<Program>& program) {
  using py::arg;
  program
      .def("describe", describe_steps,
           "(kind, op names, dtype number, attributes, elements of each op of a region, inputs, "
           "outputs) per "
           "step; an operand is (place, first byte, shape, strides, dtype number).")
      .def(
          "parts",
          [](const py::object& self, size_t step) {
            const auto& p = self.cast<const Program&>();
            py::list out;
            const Plan::Step& s = p.plan().steps.at(step);
            if (s.kind == Plan::Kind::ExternalOp)
              for (const auto& [program, times] :
                   p.plan().executables[static_cast<size_t>(s.index)]->parts())
                out.append(py::make_tuple(
                    py::cast(program, py::return_value_policy::reference_internal, self), times));
            return out;
          },
          arg("step"),
          "(program, how often it runs) of all that a step of control flow runs; what is not known "
          "before is that of the last run, or -1.")
      .def("places", describe_places,
           "(kind, bytes, position, first and last step) of all memory that steps use.")
      .def(
          "held_bytes", [](const Program& p) { return p.plan().held_bytes(); },
          "What a run holds at each step.")
      .def(
          "steps_of_nodes", [](const Program& p) -> const auto& { return p.plan().step_of_node; },
          "Of each node of the graph the step that computes it, or -1.")
      .def(
          "held_values",
          [](const Program& p, int64_t step) {
            std::vector<std::pair<int64_t, size_t>> out;
            for (const Plan::LiveBuffer& held : p.plan().held_values(step))
              out.emplace_back(held.value, held.bytes);
            return out;
          },
          arg("step"), "(value, bytes) of all memory that a run holds then; -1: no value's.")
      .def(
          "scratch_bytes", [](const Program& p) { return p.plan().scratch_bytes(); },
          py::call_guard<PythonUnlocked>(),
          "What each step's kernel takes for itself, with as many threads as there are now.")
      .def_property_readonly(
          "peak_bytes", [](const Program& p) { return p.plan().peak_bytes(); },
          "The most that a run holds, kernels' scratch memory included.")
      .def_property_readonly("arena_bytes",
                             [](const Program& p) { return p.plan().arena_bytes(); });
}

}  // namespace

void bind_graph(py::module_& m) {
  m.attr("GATHERED_BYTES") = cpu::kGatheredBytes;
  py::class_<Measures> measures(m, "Measures", "What one run of a program was like.");
  GraphClass graph(m, "Graph", "A recording: nodes over values, in order.");
  bind_recording(graph);
  bind_nodes(graph);
  bind_scalars(graph);
  py::class_<Program> program(m, "Program",
                              "A planned graph: a flat list of steps over placed values.");
  bind_runs(program);
  bind_plan(program);
  bind_plan_parts(program);
  bind_measures(measures);
  forbid_bare_new(measures);
  forbid_bare_new(graph);
  forbid_bare_new(program);
  m.def("is_recording", [] { return recording() != nullptr; });
  m.def(
      "step_names",
      [] {
        std::vector<std::pair<std::string, std::string>> out;
        for (const char* name : step_names()) {
          const auto rule = static_cast<OptimRule>(out.size());
          out.emplace_back(name, name_of(op_of(rule)));
        }
        return out;
      },
      "(name of an optimiser, name of its row) of those with steps of their own, in the order of "
      "their rules.");
  m.def("record_step", record_step, py::arg("name"), py::arg("numbers"), py::arg("inputs"),
        "Records a step of an optimiser of these numbers (step_node.h); how many operands it "
        "writes.");
}

}  // namespace tinyt
