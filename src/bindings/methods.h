// One vectorcall function, method and in-place method per row of ops.def.
#pragma once

#include <Python.h>

#include "core/ops/ops.h"

namespace tinyt {

// Implemented by the hot module. `into` is the tensor an in-place form writes, or null.
using OpCall = PyObject* (*)(int op, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames,
                             PyObject* into);
inline OpCall op_call = nullptr;

inline constexpr Py_ssize_t kMaxArgs = 16;

// Puts `self` in front of the arguments.
inline PyObject* call_with_self(int op, PyObject* self, PyObject* const* args, Py_ssize_t nargs,
                                PyObject* kwnames, bool in_place) {
  const Py_ssize_t total = nargs + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0);
  if (total >= kMaxArgs) {
    PyErr_Format(PyExc_TypeError, "%s: too many arguments, got %zd", kOps[op].name.data(), total);
    return nullptr;
  }
  PyObject* all[kMaxArgs];
  all[0] = self;
  for (Py_ssize_t i = 0; i < total; ++i) all[i + 1] = args[i];
  return op_call(op, all, nargs + 1, kwnames, in_place ? self : nullptr);
}

template <int op>
PyObject* op_function(PyObject*, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  return op_call(op, args, nargs, kwnames, nullptr);
}
template <int op>
PyObject* op_method(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  return call_with_self(op, self, args, nargs, kwnames, false);
}
template <int op>
PyObject* op_inplace(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  return call_with_self(op, self, args, nargs, kwnames, true);
}

inline PyCFunction as_cfunction(PyObject* (*f)(PyObject*, PyObject* const*, Py_ssize_t,
                                               PyObject*)) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(f));
}

enum class Form { Function, Method, InPlace };

// The static method definition of one op in one form.
inline PyMethodDef* method_def(int op, Form form) {
  constexpr int kFlags = METH_FASTCALL | METH_KEYWORDS;
#define TINYT_ROW(name, suffix, wrapper) \
  {#name suffix, as_cfunction(wrapper<static_cast<int>(OpId::name)>), kFlags, nullptr},
  static PyMethodDef functions[] = {
#define SCALAR_OP(name, ...) TINYT_ROW(name, "", op_function)
#define STRUCT_OP(name, ...) TINYT_ROW(name, "", op_function)
#define REDUCE_OP(name, ...) TINYT_ROW(name, "", op_function)
#include "core/ops/ops.def"
  };
#undef SCALAR_OP
#undef STRUCT_OP
#undef REDUCE_OP
  static PyMethodDef methods[] = {
#define SCALAR_OP(name, ...) TINYT_ROW(name, "", op_method)
#define STRUCT_OP(name, ...) TINYT_ROW(name, "", op_method)
#define REDUCE_OP(name, ...) TINYT_ROW(name, "", op_method)
#include "core/ops/ops.def"
  };
#undef SCALAR_OP
#undef STRUCT_OP
#undef REDUCE_OP
  static PyMethodDef inplace[] = {
#define SCALAR_OP(name, ...) TINYT_ROW(name, "_", op_inplace)
#define STRUCT_OP(name, ...) TINYT_ROW(name, "_", op_inplace)
#define REDUCE_OP(name, ...) TINYT_ROW(name, "_", op_inplace)
#include "core/ops/ops.def"
  };
#undef SCALAR_OP
#undef STRUCT_OP
#undef REDUCE_OP
#undef TINYT_ROW
  switch (form) {
    case Form::Function:
      return &functions[op];
    case Form::Method:
      return &methods[op];
    default:
      return &inplace[op];
  }
}

inline PyObject* make_function(int op) {
  return PyCFunction_NewEx(method_def(op, Form::Function), nullptr, nullptr);
}
inline PyObject* make_method(PyObject* type, int op, bool in_place) {
  return PyDescr_NewMethod(reinterpret_cast<PyTypeObject*>(type),
                           method_def(op, in_place ? Form::InPlace : Form::Method));
}

}  // namespace tinyt
