// Definitions of scalar ops and their sources in other languages.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>

#include "call.h"
#include "casters.h"
#include "core/base/error.h"
#include "core/graph/fused_kernel.h"
#include "core/ops/scalar_definition.h"
#include "gpu/fused_source.h"
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

const ScalarDefinition& definition(const gpu::Dialect& dialect, const std::string& name,
                                   const py::handle& dtype) {
  const DType compute = dtype_in(dtype.ptr());
  const ScalarDefinition* found = gpu::definition_in(dialect, scalar_op(name), compute);
  require(found != nullptr, ErrorKind::DType, name, ": has no definition in ", name_of(compute));
  return *found;
}

// In float32 alone.
const ScalarDefinition& single(const std::string& name) {
  const ScalarDefinition* found = single_definition(scalar_op(name));
  require(found != nullptr, ErrorKind::DType, name, ": has no definition in float32");
  return *found;
}

using NodeTuple = std::tuple<std::string, std::string, std::vector<int>, uint64_t>;

// (operation, type, operands, bits) of each node.
std::vector<NodeTuple> nodes_of(const ScalarDefinition& definition) {
  std::vector<NodeTuple> nodes;
  for (const ScalarDefinition::Node& n : definition.nodes)
    nodes.emplace_back(name_of(n.op), name_of(n.type),
                       std::vector<int>(n.in, n.in + operands_of(n.op)), n.bits);
  return nodes;
}

// Functions of the given names, each of an op and the dtype that it computes in, as one source;
// `in_single`: by their definitions in float32 alone.
std::string source_of(
    const std::vector<std::tuple<std::string, std::string, py::object>>& functions,
    const std::string& dialect_name, bool in_single) {
  const gpu::Dialect& dialect = gpu::dialect_of(dialect_name);
  std::string text;
  for (const auto& [name, op, dtype] : functions) {
    require(!in_single || dtype_in(dtype.ptr()) == DType::Float32, ErrorKind::DType, op,
            ": has a definition of single floats in float32 alone");
    const ScalarDefinition& found = in_single ? single(op) : definition(dialect, op, dtype);
    text += "\n" + gpu::function_source(found, name, dialect);
  }
  return gpu::beginning_of(text, dialect) + text;
}

// (op, dtype of the call, dtype of the result, per row, operands as (value, whether it is single)).
using OpTuple =
    std::tuple<std::string, py::object, py::object, bool, std::vector<std::pair<int, bool>>>;

FusedKernel kernel_of(const std::vector<int64_t>& shape, size_t reduced,
                      const std::vector<py::object>& loads, const std::vector<OpTuple>& ops,
                      const std::vector<int>& stores) {
  FusedKernel kernel;
  kernel.shape = Dims(shape);
  kernel.reduced = reduced;
  kernel.loads = static_cast<int>(loads.size());
  for (const py::object& dtype : loads) kernel.values.push_back({dtype_in(dtype.ptr()), false});
  for (const auto& [name, compute, dtype, per_row, in] : ops) {
    const auto op = find_op(name);
    require(op.has_value(), ErrorKind::Value, "no op ", name);
    kernel.values.push_back({dtype_in(dtype.ptr()), per_row});
    kernel.ops.push_back({*op, dtype_in(compute.ptr()), {}});
    for (const auto& [value, single] : in) kernel.ops.back().in.push_back({value, single});
  }
  kernel.stores = stores;
  verify(kernel);
  return kernel;
}

// What a source begins with that holds this text.
std::string beginning(const std::string& text, const std::string& dialect_name) {
  return gpu::beginning_of(text, gpu::dialect_of(dialect_name));
}

// (name, text) of each function that a kernel calls, and its own text.
std::pair<gpu::Functions, std::string> source_parts(const FusedKernel& kernel,
                                                    const std::vector<int>& inner,
                                                    const std::string& name,
                                                    const std::string& dialect_name,
                                                    bool by_lanes) {
  gpu::KernelForm form;
  form.by_lanes = by_lanes;
  for (const int layout : inner) {
    require(layout >= 0 && layout <= 2, ErrorKind::Value, "no layout ", layout);
    form.loads.push_back(static_cast<gpu::Inner>(layout));
  }
  const gpu::KernelSource source =
      gpu::kernel_source(kernel, form, name, gpu::dialect_of(dialect_name));
  return {source.functions, source.text};
}

std::string fused_source(const FusedKernel& kernel, const std::vector<int>& inner,
                         const std::string& name, const std::string& dialect_name, bool by_lanes) {
  const auto [functions, own] = source_parts(kernel, inner, name, dialect_name, by_lanes);
  return gpu::whole_source({functions, own}, gpu::dialect_of(dialect_name));
}

// The same over a space of other sizes: neighbouring dimensions as one, say.
FusedKernel over_shape(const FusedKernel& kernel, const std::vector<int64_t>& shape,
                       size_t reduced) {
  FusedKernel out = kernel;
  out.shape = Dims(shape);
  out.reduced = reduced;
  verify(out);
  return out;
}

}  // namespace

void bind_source(py::module_& m) {
  py::class_<FusedKernel> kernel(m, "FusedKernel",
                                 "What a region of fused operations computes, for any device.");
  kernel
      .def(py::init(&kernel_of), py::arg("shape"), py::arg("reduced"), py::arg("loads"),
           py::arg("ops"), py::arg("stores"))
      .def(
          "interpret",
          [](const FusedKernel& self, const std::vector<Tensor>& loads) {
            return interpret(self, loads);
          },
          py::arg("loads"), "Its stores, one operation after another.")
      .def("source", fused_source, py::arg("inner"), py::arg("name"), py::arg("dialect"),
           py::arg("by_lanes") = false,
           "A function of that name; ``inner``: how each load lies along the last dimension, "
           "0 strided, 1 dense, 2 repeated; ``by_lanes``: rows by the threads of a group.");
  kernel
      .def("source_parts", source_parts, py::arg("inner"), py::arg("name"), py::arg("dialect"),
           py::arg("by_lanes") = false,
           "The same in parts: (name, text) of each function that it calls, which is the same in "
           "all kernels that call it, and its own text, without what a source begins with.")
      .def("over", over_shape, py::arg("shape"), py::arg("reduced"),
           "The same over a space of other sizes.")
      .def_property_readonly("shape",
                             [](const FusedKernel& self) {
                               return std::vector<int64_t>(self.shape.begin(), self.shape.end());
                             })
      .def_property_readonly("reduced", [](const FusedKernel& self) { return self.reduced; })
      .def_property_readonly("reduces",
                             [](const FusedKernel& self) {
                               return std::ranges::any_of(self.ops, [](const FusedKernel::Op& op) {
                                 return info(op.op).kind == OpKind::Reduce;
                               });
                             })
      .def_property_readonly(
          "row_stores",
          [](const FusedKernel& self) {
            std::vector<bool> out;
            for (const int v : self.stores)
              out.push_back(self.values[static_cast<size_t>(v)].per_row);
            return out;
          },
          "Of each store, whether it has one element a row.");
  forbid_bare_new(kernel);
  m.def("source_beginning", beginning, py::arg("text"), py::arg("dialect"),
        "What a source begins with that holds this text: the language's own lines and helpers.");
  m.def(
      "scalar_definition",
      [](const std::string& op, const py::object& dtype) {
        return nodes_of(definition(gpu::kC99, op, dtype));
      },
      py::arg("op"), py::arg("dtype"));
  m.def(
      "single_definition", [](const std::string& op) { return nodes_of(single(op)); },
      py::arg("op"));
  m.def("scalar_source", source_of, py::arg("functions"), py::arg("dialect"), py::kw_only(),
        py::arg("single") = false);
}

}  // namespace tinyt
