// Recording for Python: begin, end, and the flat arrays of a graph.
#include "graph.h"

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "call.h"
#include "casters.h"
#include "program.h"
#include "submodules.h"

namespace py = pybind11;

namespace tinyt {

namespace {

py::object tuple_from(std::span<const int64_t> dims) {
  py::tuple out(dims.size());
  for (size_t i = 0; i < dims.size(); ++i) out[i] = dims[i];
  return out;
}

py::list nodes_of(const Graph& g) {
  py::list out;
  for (const Graph::Node& n : g.nodes())
    out.append(py::make_tuple(name_of(n.op),
                              py::reinterpret_steal<py::object>(attrs_tuple(n.op, n.attrs)),
                              tuple_from(n.inputs), tuple_from(n.outputs)));
  return out;
}

py::list values_of(const Graph& g) {
  py::list out;
  for (const Graph::Value& v : g.values())
    out.append(py::make_tuple(tuple_from(v.shape), static_cast<int>(v.dtype), v.node));
  return out;
}

}  // namespace

void bind_graph(py::module_& m) {
  py::class_<Graph>(m, "Graph", "A recording: nodes over values, in order.")
      .def(py::init<>())
      .def("begin",
           [](Graph& g) {
             require(!recording(), ErrorKind::Capture, "record: a recording is already under way");
             set_recording(&g);
           })
      .def("end",
           [](Graph& g) {
             set_recording(nullptr);
             g.finish();
           })
      .def("add_output", &Graph::add_output)
      .def("nodes", nodes_of, "(op, attributes, input values, output values) per node.")
      .def("values", values_of, "(shape, dtype number, producing node or -1) per value.")
      .def("inputs",
           [](const Graph& g) {
             py::list out;
             for (const Graph::Input& i : g.inputs()) out.append(py::make_tuple(i.value, i.tensor));
             return out;
           })
      .def("outputs", &Graph::outputs)
      .def("writes", [](const Graph& g) {
        py::list out;
        for (const Graph::Write& w : g.writes()) out.append(py::make_tuple(w.value, w.target));
        return out;
      });
  py::class_<Program>(m, "Program", "A planned graph: single ops, and regions run tile by tile.")
      .def(py::init<const Graph&>(), py::arg("graph"))
      .def("run",
           [](const Program& p) {
             py::tuple out(p.outputs());
             const std::vector<Tensor> values = p.run();
             for (size_t i = 0; i < values.size(); ++i) out[i] = py::cast(values[i]);
             return out;
           })
      .def(
          "steps",
          [](const Program& p) {
            py::list out;
            for (const Program::Step& s : p.steps()) {
              py::list names;
              if (s.region < 0) {
                names.append(name_of(p.nodes()[s.node].op));
              } else {
                const TileProgram& tiles = p.regions()[s.region].tiles;
                for (const TileProgram::Step& t : tiles.steps) names.append(name_of(t.op));
                if (tiles.reduces) names.append(name_of(tiles.reduction));
              }
              out.append(py::tuple(names));
            }
            return out;
          },
          "The op names of every step; more than one where a region fused them.");
  m.def("is_recording", [] { return recording() != nullptr; });
}

}  // namespace tinyt
