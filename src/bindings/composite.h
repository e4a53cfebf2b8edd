// A Python function of the package as its users call it: first its fast path in C, where it has
// one and the arguments are plain, then the function itself; errors pass a handler on their way.
#pragma once

#include <Python.h>

#include <cstddef>

#include "core/ops/mode.h"
#include "core/ops/seam.h"

namespace tinyt {

// Returns a new reference, NotImplemented for arguments that it leaves to the function, or null
// with an error set: unless that is final, or about memory, the function is called then too, so
// that every message is its own.
using FastPath = PyObject* (*)(PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames);

struct Composite {
  PyObject ob_base;
  vectorcallfunc vectorcall;
  FastPath fast_path;
  bool final;
  PyObject* function;
  PyObject* handler;  // handler(function, args, kwargs, error): (result,), or the error to raise
  PyObject* policy;   // null, or the call inside `autocast`: policy(composite, args, kwargs)
  PyObject* weak_references;
};

inline Composite* as_composite(PyObject* self) { return reinterpret_cast<Composite*>(self); }

// The arguments of a call as a tuple and a dictionary.
struct Packed {
  PyObject* args;
  PyObject* kwargs;
  bool complete;

  Packed(PyObject* const* values, Py_ssize_t nargs, PyObject* kwnames)
      : args(PyTuple_New(nargs)), kwargs(PyDict_New()), complete(args && kwargs) {
    for (Py_ssize_t i = 0; complete && i < nargs; ++i) {
      Py_INCREF(values[i]);
      PyTuple_SET_ITEM(args, i, values[i]);
    }
    for (Py_ssize_t i = 0; complete && kwnames && i < PyTuple_GET_SIZE(kwnames); ++i)
      complete = PyDict_SetItem(kwargs, PyTuple_GET_ITEM(kwnames, i), values[nargs + i]) == 0;
  }
  ~Packed() {
    Py_XDECREF(args);
    Py_XDECREF(kwargs);
  }
  Packed(const Packed&) = delete;
  Packed& operator=(const Packed&) = delete;
};

// Ends a call that raised: the handler may call the function again, or change the error.
inline PyObject* composite_failed(Composite* self, PyObject* const* args, Py_ssize_t nargs,
                                  PyObject* kwnames) {
  PyObject *type, *error, *trace;
  PyErr_Fetch(&type, &error, &trace);
  PyErr_NormalizeException(&type, &error, &trace);
  if (trace) PyException_SetTraceback(error, trace);
  const Packed packed(args, nargs, kwnames);
  PyObject* verdict = nullptr;
  if (packed.complete) {
    PyObject* all[] = {self->function, packed.args, packed.kwargs, error};
    verdict = PyObject_Vectorcall(self->handler, all, 4, nullptr);
  }
  PyObject* result = nullptr;
  if (verdict && PyTuple_Check(verdict)) {
    result = PyTuple_GET_ITEM(verdict, 0);
    Py_INCREF(result);
  } else if (verdict) {
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(verdict)), verdict);
  }
  for (PyObject* owned : {type, error, trace, verdict}) Py_XDECREF(owned);
  return result;
}

// Whether the error that is set may be about an argument; memory that runs out is not.
inline bool may_be_an_argument() {
  void* memory = python_seam().exceptions[static_cast<int>(ErrorKind::OutOfMemory)];
  return PyErr_ExceptionMatches(PyExc_Exception) && !PyErr_ExceptionMatches(PyExc_MemoryError) &&
         !(memory && PyErr_ExceptionMatches(static_cast<PyObject*>(memory)));
}

inline PyObject* composite_autocast(Composite* self, PyObject* const* args, Py_ssize_t nargs,
                                    PyObject* kwnames) {
  const Packed packed(args, nargs, kwnames);
  if (!packed.complete) return nullptr;
  PyObject* all[] = {reinterpret_cast<PyObject*>(self), packed.args, packed.kwargs};
  return PyObject_Vectorcall(self->policy, all, 3, nullptr);
}

// The device that a call names, borrowed; null where it names none.
inline PyObject* named_device(PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
  const Py_ssize_t named = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
  for (Py_ssize_t i = 0; i < named; ++i)
    if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(kwnames, i), "device") == 0)
      return args[nargs + i] == Py_None ? nullptr : args[nargs + i];
  return nullptr;
}

// Where a call makes tensors of nothing: on the device that it names, else where its first tensor
// is, else where the thread does. `count`: of its arguments, those by keyword among them.
class CreationScope {
 public:
  CreationScope(PyObject* named, PyObject* const* args, Py_ssize_t count) {
    device_.enter(chosen(named, args, count));
  }

 private:
  Device chosen(PyObject* named, PyObject* const* args, Py_ssize_t count) const {
    if (named) {
      const int64_t code = python_seam().named_device_code(named);
      if (code >= 0) return device_of(code);
      PyErr_Clear();  // the function says so
    }
    for (Py_ssize_t i = 0; i < count; ++i)
      if (const Tensor* t = tensor_in(args[i])) return t->device();
    return device_.before();
  }
  static const Tensor* tensor_in(PyObject* argument) {
    const bool is_list = PyTuple_Check(argument) || PyList_Check(argument);
    if (is_list && PySequence_Fast_GET_SIZE(argument) == 0) return nullptr;
    return python_seam().unwrap(is_list ? PySequence_Fast_GET_ITEM(argument, 0) : argument);
  }

  CreationDevice device_;
};

inline PyObject* composite_run(PyObject* object, PyObject* const* args, size_t nargsf,
                               PyObject* kwnames) {
  Composite* self = as_composite(object);
  const Py_ssize_t nargs = PyVectorcall_NARGS(nargsf);
  if (self->policy && t_modes.autocast.active)
    return composite_autocast(self, args, nargs, kwnames);
  if (self->fast_path) {
    PyObject* result = self->fast_path(args, nargs, kwnames);
    if (result && result != Py_NotImplemented) return result;
    if (result)
      Py_DECREF(result);
    else if (self->final || !may_be_an_argument())
      return composite_failed(self, args, nargs, kwnames);
    else
      PyErr_Clear();
  }
  PyObject* result = PyObject_Vectorcall(self->function, args, nargsf, kwnames);
  return result ? result : composite_failed(self, args, nargs, kwnames);
}

inline PyObject* composite_call(PyObject* object, PyObject* const* args, size_t nargsf,
                                PyObject* kwnames) {
  // A backward pass runs code of the user's, which makes tensors where the user said.
  if (as_composite(object)->final) return composite_run(object, args, nargsf, kwnames);
  const Py_ssize_t nargs = PyVectorcall_NARGS(nargsf);
  PyObject* const named = named_device(args, nargs, kwnames);
  // Naming one may bring the first that is not the CPU: `meta`.
  if (!named && !has_other_devices()) [[likely]]
    return composite_run(object, args, nargsf, kwnames);
  const CreationScope scope(named, args, nargs + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0));
  return composite_run(object, args, nargsf, kwnames);
}

inline PyObject* composite_bind(PyObject* self, PyObject* object, PyObject*) {
  if (object && object != Py_None) return PyMethod_New(self, object);
  Py_INCREF(self);
  return self;
}

// Name, documentation, signature and all else are the function's.
inline PyObject* composite_attribute(PyObject* self, PyObject* name) {
  PyObject* value = PyObject_GenericGetAttr(self, name);
  if (value || !PyErr_ExceptionMatches(PyExc_AttributeError)) return value;
  PyErr_Clear();
  return PyObject_GetAttr(as_composite(self)->function, name);
}
inline PyObject* composite_forward(PyObject* self, void* name) {
  return PyObject_GetAttrString(as_composite(self)->function, static_cast<const char*>(name));
}
inline PyObject* composite_wrapped(PyObject* self, void*) {
  Py_INCREF(as_composite(self)->function);
  return as_composite(self)->function;
}
inline PyObject* composite_repr(PyObject* self) {
  return PyObject_Repr(as_composite(self)->function);
}
// For copies and pickles: by name, as a function.
inline PyObject* composite_reduce(PyObject* self, PyObject*) {
  return composite_forward(self, const_cast<char*>("__qualname__"));
}

inline int composite_traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(as_composite(self)->function);
  Py_VISIT(as_composite(self)->handler);
  Py_VISIT(as_composite(self)->policy);
  return 0;
}
inline int composite_clear(PyObject* self) {
  Py_CLEAR(as_composite(self)->function);
  Py_CLEAR(as_composite(self)->handler);
  Py_CLEAR(as_composite(self)->policy);
  return 0;
}
inline void composite_free(PyObject* self) {
  PyObject_GC_UnTrack(self);
  if (as_composite(self)->weak_references) PyObject_ClearWeakRefs(self);
  composite_clear(self);
  PyObject_GC_Del(self);
}

inline PyTypeObject* composite_type() {
  static PyMethodDef methods[] = {{"__reduce__", composite_reduce, METH_NOARGS, nullptr}, {}};
  // What every type has itself, so that a search would end there.
  static PyGetSetDef facts[] = {
      {"__wrapped__", composite_wrapped, nullptr, nullptr, nullptr},
      {"__doc__", composite_forward, nullptr, nullptr, const_cast<char*>("__doc__")},
      {"__module__", composite_forward, nullptr, nullptr, const_cast<char*>("__module__")},
      {}};
  static PyTypeObject type = [] {
    PyTypeObject t = {PyVarObject_HEAD_INIT(nullptr, 0)};
    t.tp_name = "tinyt._tensor.Composite";
    t.tp_basicsize = sizeof(Composite);
    t.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
                 Py_TPFLAGS_METHOD_DESCRIPTOR;
    t.tp_vectorcall_offset = offsetof(Composite, vectorcall);
    t.tp_weaklistoffset = offsetof(Composite, weak_references);
    t.tp_call = PyVectorcall_Call;
    t.tp_descr_get = composite_bind;
    t.tp_getattro = composite_attribute;
    t.tp_repr = composite_repr;
    t.tp_traverse = composite_traverse;
    t.tp_clear = composite_clear;
    t.tp_dealloc = composite_free;
    t.tp_methods = methods;
    t.tp_getset = facts;
    return t;
  }();
  static const bool ready = PyType_Ready(&type) == 0;
  return ready ? &type : nullptr;
}

inline PyObject* composite_class() {
  PyObject* type = reinterpret_cast<PyObject*>(composite_type());
  Py_XINCREF(type);
  return type;
}

// `policy` and `fast_path` may be null. A new reference.
inline PyObject* make_composite(PyObject* function, PyObject* handler, PyObject* policy,
                                FastPath fast_path, bool final) {
  PyTypeObject* type = composite_type();
  auto* self = type ? PyObject_GC_New(Composite, type) : nullptr;
  if (!self) return nullptr;
  Py_INCREF(function);
  Py_INCREF(handler);
  Py_XINCREF(policy);
  self->vectorcall = composite_call;
  self->fast_path = fast_path;
  self->final = final;
  self->function = function;
  self->handler = handler;
  self->policy = policy;
  self->weak_references = nullptr;
  PyObject_GC_Track(self);
  return reinterpret_cast<PyObject*>(self);
}

}  // namespace tinyt
