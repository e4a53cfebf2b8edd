// Tensors to and from Python values, buffers (NumPy) and DLPack.
#pragma once

#include <Python.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>

#include "call.h"
#include "dlpack.h"
#include "python_lock.h"

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
  return nested_list(t, 0, t.host_data());
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
    const auto dtype = static_cast<DType>(i);
    const char* known = buffer_format(dtype);
    if (known && code == known && size_of(dtype) == static_cast<size_t>(itemsize)) return dtype;
  }
  fail(ErrorKind::Type, "from_numpy: arrays of format '", format ? format : "B",
       "' are not supported; the supported ones are float64, float32, float16, complex64, ",
       "complex128, int64, int32, int16, int8, uint8 and bool");
}

// Owns a view of a Python object's memory, by the buffer protocol.
inline Py_buffer* acquire_buffer(PyObject* object) {
  auto buffer = std::make_unique<Py_buffer>();
  if (PyObject_GetBuffer(object, buffer.get(), PyBUF_RECORDS_RO) == 0) return buffer.release();
  // What an exporter refuses is no array for tinyt; another error is the exporter's own.
  for (PyObject* refusal : {PyExc_TypeError, PyExc_ValueError, PyExc_BufferError})
    if (PyErr_ExceptionMatches(refusal)) {
      PyErr_Clear();
      fail(ErrorKind::Type, "from_numpy: expected an array with the buffer protocol, got ",
           Py_TYPE(object)->tp_name);
    }
  throw_python_error();
}
inline void release_buffer(void* owner) {
  const PythonLocked lock;
  PyBuffer_Release(static_cast<Py_buffer*>(owner));
  delete static_cast<Py_buffer*>(owner);
}

// The boundary that an element's parts lie at in memory that tensors may share.
inline size_t alignment_of(DType dtype) { return size_of(dtype) / (is_complex(dtype) ? 2 : 1); }
inline bool is_aligned(const void* data, DType dtype) {
  return reinterpret_cast<uintptr_t>(data) % alignment_of(dtype) == 0;
}

// A buffer's sizes and byte strides, which an exporter may leave out where they follow.
inline void read_layout(const Py_buffer& buffer, Dims& shape, Dims& steps) {
  const auto rank = static_cast<size_t>(buffer.ndim);
  for (size_t d = 0; d < rank; ++d)
    shape.push_back(buffer.shape ? buffer.shape[d] : buffer.len / buffer.itemsize);
  steps = contiguous_strides(shape);
  for (size_t d = 0; d < rank; ++d)
    steps[d] = buffer.strides ? buffer.strides[d] : steps[d] * buffer.itemsize;
}

// Why a tensor cannot lie over the memory of a buffer as it is; empty where it can.
inline std::string sharing_obstacle(const Py_buffer& buffer, const Dims& shape, const Dims& steps,
                                    DType dtype) {
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] <= 1) continue;
    const char* rule = steps[d] < 0 ? "negative strides are not supported"
                       : steps[d] % buffer.itemsize
                           ? "strides must be multiples of the element size"
                           : nullptr;
    if (rule)
      return std::string(rule) + ", got " + std::to_string(steps[d]) + " bytes in dimension " +
             std::to_string(d);
  }
  if (numel_of(shape) > 0 && !is_aligned(buffer.buf, dtype))
    return "the memory must be aligned to " + std::to_string(alignment_of(dtype)) +
           " bytes for elements of " + std::string(name_of(dtype));
  return "";
}

// Shares the memory of any object with the buffer protocol. Where its layout is none that tensors
// have, `may_copy` takes a copy; ValueError otherwise.
inline Tensor from_buffer(PyObject* object, bool may_copy) {
  Py_buffer* buffer = acquire_buffer(object);
  Ref<Storage> storage = Storage::foreign(buffer->buf, 0, release_buffer, buffer);
  storage->read_only = buffer->readonly;
  const DType dtype = dtype_of_format(buffer->format, buffer->itemsize);
  Dims shape, strides;
  read_layout(*buffer, shape, strides);
  if (const std::string obstacle = sharing_obstacle(*buffer, shape, strides, dtype);
      !obstacle.empty()) {
    require(may_copy, ErrorKind::Value, "from_numpy: ", obstacle, "; copy the array first");
    Tensor copy = Tensor::empty(shape, dtype);
    if (PyBuffer_ToContiguous(copy.host_data(), buffer, buffer->len, 'C') != 0)
      throw_python_error();
    return copy;
  }
  for (size_t d = 0; d < shape.size(); ++d)
    strides[d] = shape[d] <= 1 ? 1 : strides[d] / buffer->itemsize;
  check_reach("from_numpy", shape, strides);
  int64_t last = 0;
  bool empty = false;
  for (size_t d = 0; d < shape.size(); ++d) {
    const int64_t n = shape[d];
    last += (n - 1) * strides[d];
    empty |= n == 0;
  }
  storage->buffer.bytes = empty ? 0 : static_cast<size_t>((last + 1) * buffer->itemsize);
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

// A nested sequence with tuples for its lists, as it is now: a new reference. Converting an element
// runs Python code, which may change a list; building this runs none of the elements'.
inline PyObject* frozen_nested(PyObject* data, size_t depth) {
  if (depth == 0 || !(PyList_Check(data) || PyTuple_Check(data))) {
    Py_INCREF(data);
    return data;
  }
  const OwnedObject items(items_of(data));
  const Py_ssize_t n = PyTuple_GET_SIZE(items.get());
  PyObject* out = PyTuple_New(n);
  if (!out) throw_python_error();
  for (Py_ssize_t i = 0; i < n; ++i)
    PyTuple_SET_ITEM(out, i, frozen_nested(PyTuple_GET_ITEM(items.get(), i), depth - 1));
  return out;
}

// What a nested sequence of numbers holds.
struct NestedNumbers {
  Category category = Category::Bool;
  bool exact = true;   // Python's own numbers only, whose conversion runs no Python code
  bool alone = false;  // tensors and arrays of one element are refused: their dtypes count
};

inline bool is_exact_number(PyObject* x) {
  return PyFloat_CheckExact(x) || PyLong_CheckExact(x) || PyBool_Check(x) ||
         PyComplex_CheckExact(x);
}

// Raises the category to what the numbers below `data` need. What is no number is a wrong type;
// where the dtype is `open`, PyTorch's RuntimeError, but for text.
inline void scan_numbers(PyObject* data, const Dims& shape, size_t depth, bool open,
                         NestedNumbers& numbers) {
  check_nested(data, shape, depth);
  if (depth < shape.size()) {
    for (Py_ssize_t i = 0; i < shape[depth]; ++i)
      scan_numbers(PySequence_Fast_GET_ITEM(data, i), shape, depth + 1, open, numbers);
    return;
  }
  Category found;
  if (PyBool_Check(data))
    found = Category::Bool;
  else if (PyFloat_Check(data))
    found = Category::Float;
  else if (PyComplex_Check(data))
    found = Category::Complex;
  else if (numbers.alone && !PyLong_CheckExact(data) && PyObject_HasAttrString(data, "__dlpack__"))
    fail(ErrorKind::Type, "tensor: an array stands among numbers");
  else if (PyIndex_Check(data))
    found = Category::Integer;
  else if (has_float(data))
    found = Category::Float;
  else
    fail(open && !PyUnicode_Check(data) ? ErrorKind::Runtime : ErrorKind::Type,
         "tensor: cannot make a tensor from ", Py_TYPE(data)->tp_name);
  numbers.category = std::max(numbers.category, found);
  numbers.exact = numbers.exact && is_exact_number(data);
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

// The lengths of nested lists and tuples, along the first item of each.
inline Dims nested_shape(PyObject* data) {
  Dims shape;
  for (PyObject* at = data; PyList_Check(at) || PyTuple_Check(at);) {
    const Py_ssize_t n = PySequence_Fast_GET_SIZE(at);
    require(shape.size() < 64, ErrorKind::Value, "tensor: more than 64 levels of nesting");
    shape.push_back(n);
    if (n == 0) break;
    at = PySequence_Fast_GET_ITEM(at, 0);
  }
  return shape;
}

// The dtype of a tensor of such numbers: `wanted`, or what holds them all.
inline DType dtype_of_numbers(Category category, bool empty, int wanted) {
  if (wanted >= 0) return static_cast<DType>(wanted);
  const DType real = default_dtype();
  if (empty || category == Category::Float) return real;
  if (category == Category::Complex)
    return real == DType::Float64 ? DType::Complex128 : DType::Complex64;
  return category == Category::Bool ? DType::Bool : DType::Int64;
}

// A conversion's result; its own exception where it raised one, ValueError for an int too large.
template <class T>
T converted_number(PyObject* from, T v) {
  if (!PyErr_Occurred()) return v;
  if (!PyLong_Check(from)) throw_python_error();
  PyErr_Clear();
  fail(ErrorKind::Value, "tensor: a number does not fit the dtype");
}

// A number as an element of an integer dtype, before it wraps in an unsigned one; RuntimeError for
// one beyond the dtype's limits.
inline int64_t whole_number(PyObject* v, DType dtype) {
  if (PyIndex_Check(v)) {
    const OwnedObject index(PyNumber_Index(v));
    if (!index.get()) throw_python_error();
    const int64_t whole = converted_number(index.get(), PyLong_AsLongLong(index.get()));
    // Float64 cannot tell the ends of int64 from their neighbours.
    require(dtype == DType::Int64 || holds(dtype, static_cast<double>(whole), true),
            ErrorKind::Runtime, "tensor: the value ", whole, " cannot be converted to ",
            name_of(dtype), " without overflow");
    return whole;
  }
  const double value = converted_number(v, PyFloat_AsDouble(v));
  require(holds(dtype, value, false), ErrorKind::Runtime, "tensor: the value ", value,
          " cannot be converted to ", name_of(dtype), " without overflow");
  return static_cast<int64_t>(value);
}

// Nested lists, tuples and numbers; `wanted` is a dtype number or -1 to infer it; `alone` refuses
// arrays among the numbers. A constant, also while recording.
inline Tensor from_sequence(PyObject* data, int wanted, bool alone) {
  const PausedRecording paused;
  const Dims shape = nested_shape(data);
  NestedNumbers numbers;
  numbers.alone = alone;
  scan_numbers(data, shape, 0, wanted < 0, numbers);
  const OwnedObject frozen(numbers.exact ? nullptr : frozen_nested(data, shape.size()));
  if (frozen.get()) {  // building it may have run finalisers
    data = frozen.get();
    scan_numbers(data, shape, 0, wanted < 0, numbers);
  }
  const DType dtype = dtype_of_numbers(numbers.category, numel_of(shape) == 0, wanted);
  if (numbers.category == Category::Complex) {
    require(is_complex(dtype), ErrorKind::Type, "tensor: complex numbers do not fit dtype ",
            name_of(dtype));
    Tensor t = Tensor::empty(shape, DType::Complex128);
    auto* out = t.ptr<ComplexDouble>();
    fill_nested(data, shape, 0, out, [](PyObject* v) {
      const Py_complex c = PyComplex_AsCComplex(v);
      return converted_number(v, ComplexDouble{c.real, c.imag});
    });
    return cast(t, dtype);
  }
  if (is_integral(dtype) && !is_bool(dtype) && numbers.category != Category::Bool) {
    Tensor t = Tensor::empty(shape, DType::Int64);
    auto* out = t.ptr<int64_t>();
    fill_nested(data, shape, 0, out, [dtype](PyObject* v) { return whole_number(v, dtype); });
    return cast(t, dtype);
  }
  if (numbers.category == Category::Float) {
    Tensor t = Tensor::empty(shape, DType::Float64);
    auto* out = t.ptr<double>();
    fill_nested(data, shape, 0, out,
                [](PyObject* v) { return converted_number(v, PyFloat_AsDouble(v)); });
    return cast(t, dtype);
  }
  Tensor t = Tensor::empty(shape, DType::Int64);
  auto* out = t.ptr<int64_t>();
  fill_nested(data, shape, 0, out, [](PyObject* v) {
    const OwnedObject index(PyNumber_Index(v));
    if (!index.get()) throw_python_error();
    return converted_number(index.get(), PyLong_AsLongLong(index.get()));
  });
  return cast(t, dtype);
}

}  // namespace tinyt
