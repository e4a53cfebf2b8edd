// What a call falls back to where a device has no kernel: decompositions, which are Python
// functions (tinyt.decompositions), and the warning that it runs on the CPU.
#include "core/graph/decompositions.h"

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "call.h"
#include "casters.h"
#include "core/ops/fallback.h"
#include "errors.h"
#include "submodules.h"

namespace py = pybind11;

namespace tinyt {

namespace {

using Tensors = std::vector<Tensor>;

// Calls with the interpreter's lock; an exception of Python's passes the core as one of C++.
template <class F>
auto in_python(F&& body) {
  const PythonLocked lock;
  try {
    return body();
  } catch (py::error_already_set& e) {
    throw PythonError(py::object(e.value()).release().ptr());
  }
}

Tensors decompose(OpId op, std::span<const Tensor> operands, const Attrs& attrs) {
  return in_python([&] {
    py::list given;
    for (const Tensor& t : operands) given.append(py::cast(t));
    const auto numbers = py::reinterpret_steal<py::tuple>(attrs_tuple(op, attrs));
    return py::module_::import("tinyt.decompositions")
        .attr("call")(name_of(op), given, numbers)
        .cast<Tensors>();
  });
}

void warn(const std::string& text) {
  in_python([&] {
    if (PyErr_WarnEx(PyExc_RuntimeWarning, text.c_str(), 2) < 0) throw py::error_already_set();
  });
}

}  // namespace

void bind_decompositions(py::module_& m) {
  register_decomposer(decompose);
  register_warning(warn);
  m.def("kept_decompositions", kept_decompositions,
        "How many recorded decompositions the core keeps, and how many it ever recorded.");
  m.def("forget_decompositions", forget_decompositions, "Gives up those that are kept.");
}

}  // namespace tinyt
