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

OpId scalar_op(const std::string& name) {
  const auto op = find_op(name);
  require(op && info(*op).kind == OpKind::Scalar, ErrorKind::Value, "no scalar op ", name);
  return *op;
}

const ScalarDefinition& definition(const std::string& name, const py::handle& dtype) {
  const int number = dtype_number(dtype.ptr());
  require(number >= 0, ErrorKind::Type, "dtype must be a dtype, got ",
          std::string(py::str(py::type::handle_of(dtype).attr("__name__"))));
  const auto compute = static_cast<DType>(number);
  const ScalarDefinition* found = scalar_definition(scalar_op(name), compute);
  require(found != nullptr, ErrorKind::DType, name, ": has no definition in ", name_of(compute));
  return *found;
}

// In float32 alone.
const ScalarDefinition& single(const std::string& name) {
  const ScalarDefinition* found = single_definition(scalar_op(name));
  require(found != nullptr, ErrorKind::DType, name, ": has no definition in float32");
  return *found;
}

// (operation, type, operands, bits) of each node.
py::list nodes_of(const ScalarDefinition& definition) {
  py::list nodes;
  for (const ScalarDefinition::Node& n : definition.nodes) {
    py::list in;
    for (int k = 0; k < operands_of(n.op); ++k) in.append(n.in[k]);
    nodes.append(py::make_tuple(name_of(n.op), name_of(n.type), py::tuple(in), n.bits));
  }
  return nodes;
}

// Functions of the given names, each of an op and the dtype that it computes in, as one source.
std::string source_of(
    const std::vector<std::tuple<std::string, std::string, py::object>>& functions,
    const std::string& dialect_name) {
  const gpu::Dialect& dialect = gpu::dialect_of(dialect_name);
  std::string text;
  for (const auto& [name, op, dtype] : functions)
    text += "\n" + gpu::function_source(definition(op, dtype), name, dialect);
  return gpu::beginning_of(text, dialect) + text;
}

// The same of definitions in float32 alone.
std::string single_source_of(const std::vector<std::pair<std::string, std::string>>& functions,
                             const std::string& dialect_name) {
  const gpu::Dialect& dialect = gpu::dialect_of(dialect_name);
  std::string text;
  for (const auto& [name, op] : functions)
    text += "\n" + gpu::function_source(single(op), name, dialect);
  return gpu::beginning_of(text, dialect) + text;
}

}  // namespace

void bind_source(py::module_& m) {
  m.def(
      "scalar_definition",
      [](const std::string& op, const py::object& dtype) {
        return nodes_of(definition(op, dtype));
      },
      py::arg("op"), py::arg("dtype"));
  m.def(
      "single_definition", [](const std::string& op) { return nodes_of(single(op)); },
      py::arg("op"));
  m.def("scalar_source", source_of, py::arg("functions"), py::arg("dialect"));
  m.def("single_source", single_source_of, py::arg("functions"), py::arg("dialect"));
}

}  // namespace tinyt
