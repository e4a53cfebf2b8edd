// The first argument of an extension type's methods: an instance of that type.
//
// Cython compiles `def f(self)` of a `cdef class` into a function that reads any first argument as
// such an instance: `Tensor.item(3)` would read a number's memory as a tensor's.
#pragma once

#include <Python.h>

namespace tinyt {

// How Cython's functions are called: by one of a few functions, which depends on the arguments.
inline constexpr int kMostCallers = 8;
inline vectorcallfunc method_callers[kMostCallers];

template <int caller>
PyObject* call_with_own_self(PyObject* method, PyObject* const* args, size_t count,
                             PyObject* names) {
  PyTypeObject* type = reinterpret_cast<PyCMethodObject*>(method)->mm_class;
  if (PyVectorcall_NARGS(count) > 0 && !PyObject_TypeCheck(args[0], type)) [[unlikely]] {
    PyErr_Format(PyExc_TypeError, "%s.%s: the first argument must be a %s, got %.200s",
                 type->tp_name, reinterpret_cast<PyCFunctionObject*>(method)->m_ml->ml_name,
                 type->tp_name, Py_TYPE(args[0])->tp_name);
    return nullptr;
  }
  return method_callers[caller](method, args, count, names);
}

// Makes a Cython function, which is a PyCMethodObject, check its first argument. Returns whether
// it could.
inline bool check_self(PyObject* method, PyObject* type) {
  static constexpr vectorcallfunc kChecked[kMostCallers] = {
      call_with_own_self<0>, call_with_own_self<1>, call_with_own_self<2>, call_with_own_self<3>,
      call_with_own_self<4>, call_with_own_self<5>, call_with_own_self<6>, call_with_own_self<7>};
  auto* function = reinterpret_cast<PyCMethodObject*>(method);
  const vectorcallfunc caller = function->func.vectorcall;
  for (int i = 0; caller != nullptr && i < kMostCallers; ++i) {
    if (method_callers[i] == nullptr) method_callers[i] = caller;
    if (method_callers[i] != caller) continue;
    Py_INCREF(type);
    Py_XSETREF(function->mm_class, reinterpret_cast<PyTypeObject*>(type));
    function->func.vectorcall = kChecked[i];
    return true;
  }
  return false;
}

}  // namespace tinyt
