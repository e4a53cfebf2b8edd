// The one exception translator, used by both modules.
#pragma once

#include <Python.h>

#include <new>

#include "seam.h"

namespace tinyt {

// Turns the C++ exception being handled into the current Python exception.
inline void raise_python_error() {
  try {
    throw;
  } catch (const Error& e) {
    auto* type = static_cast<PyObject*>(python_seam().exceptions[static_cast<int>(e.kind())]);
    PyErr_SetString(type ? type : PyExc_RuntimeError, e.what());
  } catch (const std::bad_alloc&) {
    auto* type =
        static_cast<PyObject*>(python_seam().exceptions[static_cast<int>(ErrorKind::OutOfMemory)]);
    PyErr_SetString(type ? type : PyExc_MemoryError, "memory: out of memory");
  } catch (const std::exception& e) {
    PyErr_SetString(PyExc_RuntimeError, e.what());
  }
}

}  // namespace tinyt
