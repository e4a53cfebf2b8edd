// Captured graphs of devices, for Python.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/device/runtime.h"
#include "python_lock.h"
#include "submodules.h"

namespace py = pybind11;

namespace tinyt {

namespace {

class PythonGraph {
 public:
  explicit PythonGraph(int64_t code)
      : device_(device_of(code)), graph_(runtime_of(device_).new_graph(device_.index)) {}
  void begin_capture(uint64_t pool) { graph_->begin_capture(pool); }
  void end_capture(const std::vector<std::pair<int64_t, int64_t>>& ranges) {
    std::vector<WordRange> all;
    for (const auto& [first, count] : ranges) all.push_back({first, count});
    graph_->end_capture(all);
  }
  void instantiate() { graph_->instantiate(); }
  void launch(const std::vector<int64_t>& values) { graph_->launch(values); }
  void reset() { graph_->reset(); }
  size_t size() const { return graph_->size(); }
  std::string description() const { return graph_->description(); }
  size_t handle() const { return reinterpret_cast<size_t>(graph_->handle()); }
  size_t instantiated_handle() const {
    return reinterpret_cast<size_t>(graph_->instantiated_handle());
  }

 private:
  const Device device_;
  const std::unique_ptr<DeviceGraph> graph_;
};

}  // namespace

// All of it holds Python's lock: calls of one graph come one at a time.
void bind_device_graphs(py::module_& m) {
  py::class_<PythonGraph> graph(m, "DeviceGraph", "Captured work of a device.");
  forbid_bare_new(graph);
  graph.def(py::init<int64_t>(), py::arg("device"))
      .def("begin_capture", &PythonGraph::begin_capture, py::arg("pool"))
      .def("end_capture", &PythonGraph::end_capture, py::arg("ranges"))
      .def("instantiate", &PythonGraph::instantiate)
      .def("launch", &PythonGraph::launch, py::arg("values"))
      .def("reset", &PythonGraph::reset)
      .def("description", &PythonGraph::description)
      .def_property_readonly("size", &PythonGraph::size)
      .def_property_readonly("handle", &PythonGraph::handle)
      .def_property_readonly("instantiated_handle", &PythonGraph::instantiated_handle);
  m.def(
      "is_capturing",
      [](int64_t code) {
        const Device device = device_of(code);
        return runtime_of(device).is_capturing(device.index);
      },
      py::arg("device"), "Whether this thread's work on a device is being captured.");
}

}  // namespace tinyt
