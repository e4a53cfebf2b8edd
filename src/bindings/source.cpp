// Definitions of scalar ops and their sources in other languages.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "call.h"
#include "casters.h"
#include "core/base/error.h"
#include "core/ops/scalar_definition.h"
#include "gpu/scalar_source.h"
#include "submodules.h"

namespace py = pybind11;

namespace tinyt {

namespace {

const ScalarDefinition& definition(const std::string& name, const py::handle& dtype) {
  const int number = dtype_number(dtype.ptr());
  require(number >= 0, ErrorKind::Type, "dtype must be a dtype, got ",
          std::string(py::str(py::type::handle_of(dtype).attr("__name__"))));
  const auto compute = static_cast<DType>(number);
  const auto op = find_op(name);
  require(op && info(*op).kind == OpKind::Scalar, ErrorKind::Value, "no scalar op ", name);
  const ScalarDefinition* found = scalar_definition(*op, compute);
  require(found != nullptr, ErrorKind::DType, name, ": has no definition in ", name_of(compute));
  return *found;
}

// (operation, type, operands, bits) of each node.
py::list nodes_of(const std::string& name, const py::handle& dtype) {
  py::list nodes;
  for (const ScalarDefinition::Node& n : definition(name, dtype).nodes) {
    py::list in;
    for (int k = 0; k < operands_of(n.op); ++k) in.append(n.in[k]);
    nodes.append(py::make_tuple(name_of(n.op), name_of(n.type), py::tuple(in), n.bits));
  }
  return nodes;
}

// Functions of the given names, each of an op and the dtype that it computes in, as one source.
std::string source_of(const std::vector<std::tuple<std::string, std::string, py::object>>& functions,
                      const std::string& dialect_name) {
  const gpu::Dialect& dialect = gpu::dialect_of(dialect_name);
  std::string text;
  for (const auto& [name, op, dtype] : functions)
    text += "\n" + gpu::function_source(definition(op, dtype), name, dialect);
  return gpu::beginning_of(text, dialect) + text;
}

}  // namespace

void bind_source(py::module_& m) {
  m.def("scalar_definition", nodes_of, py::arg("op"), py::arg("dtype"));
  m.def("scalar_source", source_of, py::arg("functions"), py::arg("dialect"));
}

}  // namespace tinyt
