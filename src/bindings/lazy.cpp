// Lazy recordings for Python, and the interpreter's lock while they run.
#include "core/graph/lazy.h"

#include <pybind11/pybind11.h>

#include "casters.h"
#include "core/program/replay.h"
#include "in_python.h"
#include "submodules.h"

namespace py = pybind11;

namespace tinyt {

namespace {

PyObject* g_simplify = nullptr;  // lives as long as the interpreter

std::shared_ptr<const Graph> simplified(const std::shared_ptr<Graph>& graph) {
  return in_python([&] {
    const py::object given = py::cast(graph);
    const auto simpler = py::reinterpret_steal<py::object>(
        call_or_sleep([&] { return PyObject_CallOneArg(g_simplify, given.ptr()); }));
    if (!simpler) throw py::error_already_set();
    return simpler.cast<std::shared_ptr<Graph>>();
  });
}

}  // namespace

void bind_lazy(py::module_& m) {
  lazy_hooks() = {
      [] { return PyGILState_Check() ? static_cast<void*>(PyEval_SaveThread()) : nullptr; },
      [](void* state) { take_python_lock(static_cast<PyThreadState*>(state)); },
      [] {
        const PythonLocked lock;
        if (PyErr_CheckSignals() == 0) return;
        throw PythonError(py::object(py::error_already_set().value()).release().ptr());
      }};
  m.def("begin_lazy", begin_lazy,
        "Records this thread's operations; false where it does so already.");
  m.def("is_lazy", [] { return lazily() != nullptr; }, "Whether this thread is in a lazy block.");
  m.def("end_lazy", end_lazy, "Runs what is left of a recording, and ends it.");
  m.def(
      "set_lazy_simplify",
      [](const py::object& simplify) {
        g_simplify = py::object(simplify).release().ptr();
        set_lazy_simplify(simplified);
      },
      py::arg("simplify"), "What makes of a recorded Graph the one that is planned.");
  m.def(
      "lazy_cache_info",
      [] {
        const LazyCacheInfo info = lazy_cache_info();
        return std::make_tuple(info.hits, info.misses, info.most, info.programs);
      },
      "(hits, misses, most programs, programs).");
  m.def("clear_lazy_cache", clear_lazy_cache);
}

}  // namespace tinyt
