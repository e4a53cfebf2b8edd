// Tensors to and from Python values, buffers (NumPy) and DLPack.
#pragma once

#include <Python.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "call.h"
#include "dlpack.h"

namespace tinyt {

// float16 and bfloat16 bits to double, one at a time (IEEE 754-2008; bfloat16 is the upper half
// of a float32).
inline double half_to_double(uint16_t h) {
  const int exponent = (h >> 10) & 31, mantissa = h & 1023;
  const double sign = h & 0x8000 ? -1.0 : 1.0;
  if (exponent == 31) return mantissa ? NAN : sign * INFINITY;
  return sign * (exponent ? std::ldexp(1024 + mantissa, exponent - 25) : std::ldexp(mantissa, -24));
}
inline double bfloat16_to_double(uint16_t h) {
  return std::bit_cast<float>(static_cast<uint32_t>(h) << 16);
}

template <class T>
T load_as(const char* p) {
  T v;
  std::memcpy(&v, p, sizeof(T));
  return v;
}

// One element as bool, int, float or complex; a new reference.
inline PyObject* element_to_python(const char* p, DType dtype) {
  switch (dtype) {
    case DType::Bool:
      return PyBool_FromLong(*p);
    case DType::UInt8:
      return PyLong_FromLong(load_as<uint8_t>(p));
    case DType::Int8:
      return PyLong_FromLong(load_as<int8_t>(p));
    case DType::Int16:
      return PyLong_FromLong(load_as<int16_t>(p));
    case DType::Int32:
      return PyLong_FromLong(load_as<int32_t>(p));
    case DType::Int64:
      return PyLong_FromLongLong(load_as<int64_t>(p));
    case DType::Float16:
      return PyFloat_FromDouble(half_to_double(load_as<uint16_t>(p)));
    case DType::BFloat16:
      return PyFloat_FromDouble(bfloat16_to_double(load_as<uint16_t>(p)));
    case DType::Float32:
      return PyFloat_FromDouble(load_as<float>(p));
    case DType::Float64:
      return PyFloat_FromDouble(load_as<double>(p));
    case DType::Complex64:
      return PyComplex_FromDoubles(load_as<ComplexFloat>(p).re, load_as<ComplexFloat>(p).im);
    default:
      return PyComplex_FromDoubles(load_as<ComplexDouble>(p).re, load_as<ComplexDouble>(p).im);
  }
}

inline PyObject* nested_list(const Tensor& t, int64_t dim, const char* p) {
  if (dim == t.rank()) return element_to_python(p, t.dtype());
  const int64_t step = t.stride(dim) * static_cast<int64_t>(t.itemsize());
  PyObject* out = PyList_New(t.size(dim));
  for (int64_t i = 0; out && i < t.size(dim); ++i) {
    PyObject* item = nested_list(t, dim + 1, p + i * step);
    if (!item)
      Py_CLEAR(out);
    else
      PyList_SET_ITEM(out, i, item);
  }
  return out;
}

inline PyObject* to_nested_list(const Tensor& t) {
  require_readable("tolist", t);
  return nested_list(t, 0, t.data());
}

// The struct-module format of a dtype, null where the buffer protocol has none.
inline const char* buffer_format(DType dtype) {
  switch (dtype) {
    case DType::Bool:
      return "?";
    case DType::UInt8:
      return "B";
    case DType::Int8:
      return "b";
    case DType::Int16:
      return "h";
    case DType::Int32:
      return "i";
    case DType::Int64:
      return "q";
    case DType::Float16:
      return "e";
    case DType::Float32:
      return "f";
    case DType::Float64:
      return "d";
    case DType::Complex64:
      return "Zf";
    case DType::Complex128:
      return "Zd";
    default:
      return nullptr;
  }
}

inline DType dtype_of_format(const char* format, Py_ssize_t itemsize) {
  const char* f = format ? format : "B";
  if (*f == '@' || *f == '=' || (*f == '<' && std::endian::native == std::endian::little)) ++f;
  const std::string_view code(f);
  if (code == "l" || code == "q") return itemsize == 8 ? DType::Int64 : DType::Int32;
  for (int i = 0; i < kDTypeCount; ++i) {
    const char* known = buffer_format(static_cast<DType>(i));
    if (known && code == known) return static_cast<DType>(i);
  }
  fail(ErrorKind::Type, "from_numpy: arrays of format '", format ? format : "B",
       "' are not supported; the supported ones are float64, float32, float16, complex64, ",
       "complex128, int64, int32, int16, int8, uint8 and bool");
}

// Shares the memory of any object with the buffer protocol.
inline Tensor from_buffer(PyObject* object) {
  auto* buffer = new Py_buffer;
  if (PyObject_GetBuffer(object, buffer, PyBUF_RECORDS_RO) != 0) {
    delete buffer;
    PyErr_Clear();
    fail(ErrorKind::Type, "from_numpy: expected an array with the buffer protocol, got ",
         Py_TYPE(object)->tp_name);
  }
  auto release = [](void* owner) {
    const PyGILState_STATE state = PyGILState_Ensure();
    PyBuffer_Release(static_cast<Py_buffer*>(owner));
    PyGILState_Release(state);
    delete static_cast<Py_buffer*>(owner);
  };
  Ref<Storage> storage = Storage::foreign(buffer->buf, 0, release, buffer);
  storage->read_only = buffer->readonly;
  const DType dtype = dtype_of_format(buffer->format, buffer->itemsize);
  Dims shape, strides;
  int64_t last = 0;
  bool empty = false;
  for (int d = 0; d < buffer->ndim; ++d) {
    const int64_t step = buffer->strides[d], n = buffer->shape[d];
    require(step >= 0 || n <= 1, ErrorKind::Value, "from_numpy: negative strides are not ",
            "supported, got ", step, " bytes in dimension ", d, "; copy the array first");
    require(step % buffer->itemsize == 0 || n <= 1, ErrorKind::Value, "from_numpy: strides must ",
            "be multiples of the element size, got ", step, " bytes in dimension ", d);
    shape.push_back(n);
    strides.push_back(n <= 1 ? 1 : step / buffer->itemsize);
    last += (n - 1) * strides.back();
    empty |= n == 0;
  }
  storage->block.bytes = empty ? 0 : static_cast<size_t>((last + 1) * buffer->itemsize);
  return Tensor::from_storage(std::move(storage), shape, strides, 0, dtype);
}

// ---- nested Python sequences

inline void check_nested(PyObject* data, const Dims& shape, size_t depth) {
  const bool sequence = PyList_Check(data) || PyTuple_Check(data);
  const bool fits = depth == shape.size()
                        ? !sequence
                        : sequence && PySequence_Fast_GET_SIZE(data) == shape[depth];
  if (!fits)
    fail(ErrorKind::Value, "tensor: the nested sequences must all have the same lengths, expected ",
         shape, " but dimension ", depth, " differs");
}

// Raises `category` to what the numbers below `data` need. What is no number is a wrong type; where
// the dtype is `open`, PyTorch's RuntimeError, but for text.
inline void scan_category(PyObject* data, const Dims& shape, size_t depth, bool open,
                          Category& category) {
  check_nested(data, shape, depth);
  if (depth < shape.size()) {
    for (Py_ssize_t i = 0; i < shape[depth]; ++i)
      scan_category(PySequence_Fast_GET_ITEM(data, i), shape, depth + 1, open, category);
    return;
  }
  Category found;
  if (PyBool_Check(data))
    found = Category::Bool;
  else if (PyFloat_Check(data))
    found = Category::Float;
  else if (PyComplex_Check(data))
    found = Category::Complex;
  else if (PyIndex_Check(data))
    found = Category::Integer;
  else if (PyNumber_Check(data) && Py_TYPE(data)->tp_as_number->nb_float)
    found = Category::Float;
  else
    fail(open && !PyUnicode_Check(data) ? ErrorKind::Runtime : ErrorKind::Type,
         "tensor: cannot make a tensor from ", Py_TYPE(data)->tp_name);
  category = std::max(category, found);
}

template <class T, class Read>
void fill_nested(PyObject* data, const Dims& shape, size_t depth, T*& out, Read read) {
  if (depth == shape.size()) {
    *out++ = read(data);
    return;
  }
  for (Py_ssize_t i = 0; i < shape[depth]; ++i)
    fill_nested(PySequence_Fast_GET_ITEM(data, i), shape, depth + 1, out, read);
}

// Nested lists, tuples and numbers; `wanted` is a dtype number or -1 to infer it. A constant, also
// while recording.
inline Tensor from_sequence(PyObject* data, int wanted) {
  const PausedRecording paused;
  Dims shape;
  for (PyObject* at = data; PyList_Check(at) || PyTuple_Check(at);) {
    const Py_ssize_t n = PySequence_Fast_GET_SIZE(at);
    shape.push_back(n);
    if (n == 0) break;
    at = PySequence_Fast_GET_ITEM(at, 0);
    require(shape.size() <= 64, ErrorKind::Value, "tensor: more than 64 levels of nesting");
  }
  Category category = Category::Bool;
  scan_category(data, shape, 0, wanted < 0, category);
  const DType kDefaults[] = {DType::Bool, DType::Int64, default_dtype(), DType::Complex128};
  DType dtype = numel_of(shape) == 0 ? default_dtype() : kDefaults[static_cast<int>(category)];
  if (dtype == DType::Complex128 && default_dtype() != DType::Float64 && wanted < 0)
    wanted = static_cast<int>(DType::Complex64);
  if (wanted >= 0) dtype = static_cast<DType>(wanted);
  auto checked = [](auto v) {
    if (PyErr_Occurred()) {
      PyErr_Clear();
      fail(ErrorKind::Value, "tensor: a number does not fit the dtype");
    }
    return v;
  };
  if (category == Category::Complex) {
    require(is_complex(dtype), ErrorKind::Type, "tensor: complex numbers do not fit dtype ",
            name_of(dtype));
    Tensor t = Tensor::empty(shape, DType::Complex128);
    auto* out = t.ptr<ComplexDouble>();
    fill_nested(data, shape, 0, out, [&](PyObject* v) {
      const Py_complex c = PyComplex_AsCComplex(v);
      return checked(ComplexDouble{c.real, c.imag});
    });
    return cast(t, dtype);
  }
  if (category == Category::Float) {
    Tensor t = Tensor::empty(shape, DType::Float64);
    auto* out = t.ptr<double>();
    fill_nested(data, shape, 0, out, [&](PyObject* v) { return checked(PyFloat_AsDouble(v)); });
    return cast(t, dtype);
  }
  Tensor t = Tensor::empty(shape, DType::Int64);
  auto* out = t.ptr<int64_t>();
  fill_nested(data, shape, 0, out, [&](PyObject* v) {
    PyObject* index = PyNumber_Index(v);
    const int64_t r = index ? PyLong_AsLongLong(index) : -1;
    Py_XDECREF(index);
    return checked(r);
  });
  return cast(t, dtype);
}

}  // namespace tinyt
