// What a call falls back to where a device has no kernel: decompositions, which are Python
// functions (tinyt.decompositions), and the warning that it runs on the CPU.
#include "core/graph/decompositions.h"

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <map>
#include <memory>

#include "call.h"
#include "casters.h"
#include "core/ops/fallback.h"
#include "core/ops/kernels.h"
#include "in_python.h"
#include "submodules.h"

namespace py = pybind11;

namespace tinyt {

namespace {

using Tensors = std::vector<Tensor>;

Tensors decompose(OpId op, std::span<const Tensor> operands, const Attrs& attrs) {
  return in_python([&] {
    py::list given;
    for (const Tensor& t : operands) given.append(py::cast(t));
    if (info(op).inputs < 0) given = py::list(py::make_tuple(given));
    const auto numbers = py::reinterpret_steal<py::tuple>(attrs_tuple(op, attrs));
    const py::tuple all = py::make_tuple(name_of(op), given, numbers);
    const auto found = py::reinterpret_steal<py::object>(call_or_sleep([&]() -> PyObject* {
      PyObject* const module = PyImport_ImportModule("tinyt.decompositions");
      PyObject* const call = module ? PyObject_GetAttrString(module, "call") : nullptr;
      PyObject* const result = call ? PyObject_CallObject(call, all.ptr()) : nullptr;
      Py_XDECREF(call);
      Py_XDECREF(module);
      return result;
    }));
    if (!found) throw py::error_already_set();
    return found.cast<Tensors>();
  });
}

void warn(const std::string& text) {
  in_python([&] {
    const int failed =
        call_or_sleep([&] { return PyErr_WarnEx(PyExc_RuntimeWarning, text.c_str(), 2); });
    if (failed < 0) throw py::error_already_set();
  });
}

// Shape, dtype and whether it is a number of Python's.
using Operand = std::tuple<std::vector<int64_t>, int, bool>;

std::shared_ptr<Graph> graph_of(std::string_view name, const std::vector<py::object>& attributes,
                                const std::vector<Operand>& operands) {
  const std::optional<OpId> found = find_op(name);
  require(found.has_value(), ErrorKind::Value, "decomposition: there is no operation ", name);
  const OpId op = *found;
  Attrs attrs;
  for (size_t i = 0; i < attributes.size(); ++i)
    add_attr_at(static_cast<int>(op), i, attributes[i].ptr(), attrs);
  Tensors given;
  for (const auto& [shape, dtype, is_number] : operands) {
    given.push_back(Tensor::from_storage(Ref<Storage>(new Storage), shape,
                                         contiguous_strides(Dims(shape)), 0,
                                         static_cast<DType>(dtype)));
    given.back().impl()->is_scalar = is_number;
  }
  return decomposition_of(op, given, attrs);
}

// Dtypes as bits, by name; rows that lack none are left out.
std::map<std::string_view, uint32_t> lacking_rows(int64_t device) {
  std::map<std::string_view, uint32_t> found;
  const Kernels& kernels = kernels_of(device_of(device));
  for (int i = 0; i < kOpCount; ++i) {
    const auto op = static_cast<OpId>(i);
    if (!has_flag(op, op_flags::fused)) continue;
    uint32_t types = kernels.row(op) ? 0 : ~uint32_t{0};
    if (kernels.lacks) types |= (*kernels.lacks)[i];
    if (types != 0) found[kOps[i].name] = types;
  }
  return found;
}

bool has_kernel(std::string_view name, const py::object& dtype, int64_t device) {
  const std::optional<OpId> op = find_op(name);
  require(op.has_value(), ErrorKind::Value, "has_kernel: there is no operation ", name);
  return kernels_of(device_of(device)).takes(*op, dtype_in(dtype.ptr()));
}

}  // namespace

void bind_decompositions(py::module_& m) {
  register_decomposer(decompose);
  register_warning(warn);
  m.def("decomposition", graph_of, py::arg("op"), py::arg("attributes"), py::arg("operands"),
        "A fused row as a graph, for operands given by shape, dtype and whether they are numbers.");
  m.def("lacking_rows", lacking_rows, py::arg("device"),
        "The fused rows that a device, as an attribute says it, has no kernel for, and the numbers "
        "of the dtypes in which it has none, as bits.");
  m.def(
      "has_kernel", has_kernel, py::arg("op"), py::arg("dtype"), py::arg("device"),
      "Whether a device, as an attribute says it, has a kernel of an operation that computes in a "
      "dtype.");
  m.def("kept_decompositions", kept_decompositions,
        "How many recorded decompositions the core keeps, and how many it ever recorded.");
  m.def("forget_decompositions", forget_decompositions, "Gives up those that are kept.");
}

}  // namespace tinyt
