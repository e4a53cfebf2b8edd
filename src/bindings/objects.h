// Python objects that C++ owns, and what their types convert to.
#pragma once

#include <Python.h>

#include "errors.h"

namespace tinyt {

// A Python object owned by a scope.
class OwnedObject {
 public:
  explicit OwnedObject(PyObject* object = nullptr) : object_(object) {}
  ~OwnedObject() { Py_XDECREF(object_); }
  OwnedObject(const OwnedObject&) = delete;
  OwnedObject& operator=(const OwnedObject&) = delete;
  PyObject* get() const { return object_; }

 private:
  PyObject* object_;
};

// A tuple of a list's or tuple's items as they are now, owned: converting an item runs Python code,
// which may change the list.
inline PyObject* items_of(PyObject* sequence) {
  if (!PyList_Check(sequence)) {
    Py_INCREF(sequence);
    return sequence;
  }
  PyObject* items = PyList_AsTuple(sequence);
  if (!items) throw_python_error();
  return items;
}

// Whether an object can become a real number; what its own conversion raises is another matter.
inline bool has_float(PyObject* value) {
  const PyNumberMethods* methods = Py_TYPE(value)->tp_as_number;
  return methods && (methods->nb_float || methods->nb_index);
}

}  // namespace tinyt
