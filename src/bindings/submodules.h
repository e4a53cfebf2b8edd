// The parts of _core, one file each.
#pragma once

#include <pybind11/pybind11.h>

#include <string>

namespace tinyt {

class Program;

// Makes `cls.__new__(cls)`, which leaves an instance without its C++ object, a TypeError: object's
// own check refuses it where the class allocates by another function than its base. Pickling, whose
// first protocols make an instance of pybind11's own base, is one too.
template <class C>
void forbid_bare_new(C& cls) {
  const newfunc allocate = [](PyTypeObject* type, PyObject*, PyObject*) {
    return pybind11::detail::make_new_instance(type);
  };
  reinterpret_cast<PyTypeObject*>(cls.ptr())->tp_new = allocate;
  cls.def("__reduce__", [](const pybind11::object& self) -> pybind11::object {
    throw pybind11::type_error(std::string("cannot pickle or copy a ") +
                               Py_TYPE(self.ptr())->tp_name);
  });
}

void bind_device_graphs(pybind11::module_& m);
void bind_events(pybind11::module_& m);
void bind_gpu(pybind11::module_& m);
void bind_cuda_interop(pybind11::module_& m);
void bind_memory(pybind11::module_& m);
void bind_graph(pybind11::module_& m);
void bind_limits(pybind11::module_& m);
void bind_host(pybind11::module_& m);
void bind_decompositions(pybind11::module_& m);
void bind_optim(pybind11::module_& m);
void bind_verify(pybind11::module_& m);
void bind_flow(pybind11::module_& m);
void bind_lazy(pybind11::module_& m);
void bind_profile(pybind11::module_& m);
void bind_source(pybind11::module_& m);
void bind_plan_parts(pybind11::class_<Program>& program);
void bind_serialized(pybind11::module_& m);

}  // namespace tinyt
