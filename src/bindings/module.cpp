// _core: everything that is not hot. Tables, memory, threads, recording, build facts.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "call.h"
#include "casters.h"
#include "core/base/build_info.h"
#include "core/base/cgroup.h"
#include "core/base/dtype.h"
#include "core/base/error.h"
#include "core/base/parallel.h"
#include "core/graph/external_fusion.h"
#include "core/memory/arena.h"
#include "core/ops/external_backend.h"
#include "core/ops/precision.h"
#include "core/ops/seam.h"
#include "cpu/register.h"
#include "cpu/schedule/levels.h"
#include "devices.h"
#include "submodules.h"

namespace py = pybind11;

namespace tinyt {

namespace {

py::list op_table() {
  static constexpr const char* kKinds[] = {"scalar", "struct", "reduce"};
  static constexpr const char* kRules[] = {"same",  "float", "bool", "sum",
                                           "index", "first", "attr"};
  static constexpr std::pair<uint32_t, const char*> kFlags[] = {
#define FLAG(name) {op_flags::name, #name},
      TINYT_OP_FLAGS(FLAG)
#undef FLAG
  };
  // Keys and words are made once: tinyt reads the table each time that it is imported.
  const py::str name("name"), inputs("inputs"), outputs("outputs"), kind("kind"),
      dtype_rule("dtype_rule"), flags("flags"), attributes("attributes"), identity("identity");
  std::vector<py::str> words;
  for (const auto& flag : kFlags) words.emplace_back(flag.second);
  py::list table;
  for (const OpInfo& info : std::span(kOps).first(kCallableCount)) {
    py::set set;
    for (size_t i = 0; i < words.size(); ++i)
      if (info.flags & kFlags[i].first) set.add(words[i]);
    py::dict row;
    row[name] = info.name;
    row[inputs] = int{info.inputs};
    row[outputs] = int{info.outputs};
    row[kind] = kKinds[static_cast<int>(info.kind)];
    row[dtype_rule] = kRules[static_cast<int>(info.dtype_rule)];
    row[flags] = py::frozenset(set);
    row[attributes] = info.attributes;
    row[identity] = info.identity;
    table.append(row);
  }
  return table;
}

py::list dtype_table() {
  static constexpr const char* kCategories[] = {"bool", "integer", "float", "complex"};
  py::list table;
  for (const DTypeInfo& row : kDTypes)
    table.append(py::dict(py::arg("name") = row.name, py::arg("alias") = row.alias,
                          py::arg("itemsize") = row.size,
                          py::arg("category") = kCategories[static_cast<int>(row.category)]));
  return table;
}

py::dict build_info() {
  py::dict levels;
  for (const cpu::LevelInfo& level : cpu::levels()) levels[py::str(level.name)] = level.supported;
  const BuildInfo build = core_build_info();
  return py::dict(py::arg("isa") = cpu::kernels().level, py::arg("levels") = levels,
                  py::arg("threads") = num_threads(), py::arg("build") = build.compiler,
                  py::arg("sanitizers") = build.sanitizers);
}

// One Python class per error kind; they also derive from what PyTorch's users catch.
void bind_errors(py::module_& m) {
  auto make = [&](ErrorKind kind, const char* name, const py::tuple& bases, const char* doc,
                  const py::dict& members = {}) {
    PyObject* type = PyErr_NewExceptionWithDoc((std::string("tinyt.") + name).c_str(), doc,
                                               bases.ptr(), members.ptr());
    if (!type) throw py::error_already_set();
    m.attr(name) = py::reinterpret_steal<py::object>(type);
    Py_INCREF(type);  // the seam's own reference
    python_seam().exceptions[static_cast<int>(kind)] = type;
  };
  auto of = [](PyObject* a) { return py::make_tuple(py::handle(a)); };
  PyObject* runtime = PyExc_RuntimeError;
  make(ErrorKind::Shape, "ShapeError", of(runtime), "Sizes that do not fit together.");
  make(ErrorKind::DType, "DTypeError", of(runtime), "A dtype the operation does not take.");
  make(ErrorKind::Device, "DeviceError", of(runtime), "Operands on different or unknown devices.");
  make(ErrorKind::Dim, "DimError", of(PyExc_IndexError), "A dimension number out of range.");
  // PyTorch raises IndexError in some operations, RuntimeError in others.
  make(ErrorKind::Index, "OutOfRangeError",
       py::make_tuple(py::handle(PyExc_IndexError), py::handle(runtime)),
       "An element index out of range.");
  make(ErrorKind::OutOfMemory, "OutOfMemoryError",
       py::make_tuple(py::handle(runtime), py::handle(PyExc_MemoryError)),
       "The limit or the machine refused an allocation.");
  // The recording remembers it, as the recorded function may catch it.
  const py::cpp_function noted(
      [](const py::object& error, const py::args&) {
        if (PyObject* owner = recording_owner()) py::handle(owner).attr("refuse")(error);
      },
      py::is_method(py::none()), py::name("noted"));
  make(ErrorKind::Capture, "CaptureError", of(runtime), "Something that cannot be recorded.",
       py::dict(py::arg("__init__") = noted));
  auto builtin = [](ErrorKind kind, PyObject* type) {
    Py_INCREF(type);
    python_seam().exceptions[static_cast<int>(kind)] = type;
  };
  builtin(ErrorKind::Runtime, runtime);
  builtin(ErrorKind::Value, PyExc_ValueError);
  builtin(ErrorKind::Type, PyExc_TypeError);
  builtin(ErrorKind::NotImplemented, PyExc_NotImplementedError);
}

}  // namespace

PYBIND11_MODULE(_core, m) {
  m.doc() = "The C++ core of tinyt: tables, memory, threads and recording.";
  bind_errors(m);
  py::register_exception_translator([](std::exception_ptr p) {
    try {
      if (p) std::rethrow_exception(p);
    } catch (const Error&) {
      raise_python_error();
    }
  });
  cpu::register_cpu();
  m.def("op_table", op_table, "Every primitive: one dict per row of ops.def.");
  m.def("dtype_table", dtype_table, "Every dtype: one dict per row of dtype.def.");
  m.def("build_info", build_info, "Instruction-set level, threads, compiler and flags.");
  m.def(
      "load_backend",
      [](const std::string& path) {
        const DeviceKind kind = load_backend(path);
        register_external_fusion(kind);
        return std::string(name_of(kind));
      },
      py::arg("path"), "Loads a library that brings a device; its name.");
  m.def(
      "look_for_devices", look_for_devices, py::arg("kind"),
      "(hardware, bytes, why it can be used no more or \"\") of each device of a kind in the tree, "
      "without registering it.");
  m.def("num_threads", num_threads, "Threads that kernels use.");
  m.def("set_num_threads", set_num_threads, py::arg("n"), "Sets the threads that kernels use.");
  m.def("allow_rounded_products", allow_rounded_products, py::arg("allowed"),
        "Whether devices may round operands of float32 products to TF32.");
  m.def(
      "cpu_quota", cpu_quota, py::arg("root"),
      "Cores that the control groups grant, None without a quota; root stands before /proc, /sys.");
  m.def("live_tensors", live_tensors, "Tensors that exist now, for leak checks.");
  m.def("default_dtype", [] { return static_cast<int>(default_dtype()); });
  m.def("set_default_dtype", [](int t) { set_default_dtype(static_cast<DType>(t)); });
  m.def("promote", [](int a, int b) {
    return static_cast<int>(promote(static_cast<DType>(a), static_cast<DType>(b)));
  });
  bind_device_graphs(m);
  bind_events(m);
  bind_gpu(m);
  bind_cuda_interop(m);
  bind_memory(m);
  bind_source(m);
  bind_graph(m);
  bind_limits(m);
  bind_host(m);
  bind_decompositions(m);
  bind_optim(m);
  bind_verify(m);
  bind_flow(m);
  bind_serialized(m);
  bind_lazy(m);
  bind_profile(m);
}

}  // namespace tinyt
