// Python code that the core calls.
#pragma once

#include <pybind11/pybind11.h>

#include "errors.h"

namespace tinyt {

// Calls with the interpreter's lock; an exception of Python's passes the core as one of C++.
template <class F>
auto in_python(F&& body) {
  namespace py = pybind11;
  const PythonLocked lock;
  try {
    return body();
  } catch (py::error_already_set& e) {
    throw PythonError(py::object(e.value()).release().ptr());
  }
}

}  // namespace tinyt
