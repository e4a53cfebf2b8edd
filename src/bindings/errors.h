// The one exception translator, used by both modules.
#pragma once

#include <Python.h>

#include <memory>
#include <new>

#include "core/ops/seam.h"
#include "python_lock.h"

namespace tinyt {

// A Python exception on its way through C++.
class PythonError : public Error {
 public:
  // Takes it over.
  explicit PythonError(PyObject* raised)
      : Error(ErrorKind::Runtime, "a Python exception"), raised_(raised, [](PyObject* p) {
          const PythonLocked lock;
          Py_DECREF(p);
        }) {}
  void raise() const {
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(raised_.get())), raised_.get());
  }

 private:
  std::shared_ptr<PyObject> raised_;
};

// Throws the Python exception that is set.
[[noreturn]] inline void throw_python_error() {
  PyObject *type, *error, *trace;
  PyErr_Fetch(&type, &error, &trace);
  PyErr_NormalizeException(&type, &error, &trace);
  if (trace) PyException_SetTraceback(error, trace);
  Py_XDECREF(type);
  Py_XDECREF(trace);
  throw PythonError(error);
}

// Turns the C++ exception being handled into the current Python exception.
inline void raise_python_error() {
  try {
    throw;
  } catch (const PythonError& e) {
    e.raise();
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
