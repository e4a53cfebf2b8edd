// The parts of _core, one file each.
#pragma once

#include <pybind11/pybind11.h>

namespace tinyt {

void bind_memory(pybind11::module_& m);
void bind_graph(pybind11::module_& m);
void bind_limits(pybind11::module_& m);
void bind_host(pybind11::module_& m);
void bind_optim(pybind11::module_& m);
void bind_verify(pybind11::module_& m);
void bind_flow(pybind11::module_& m);
void bind_lazy(pybind11::module_& m);

}  // namespace tinyt
