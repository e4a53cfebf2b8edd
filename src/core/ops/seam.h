// Where the two Python modules meet: the hot module (_tensor) registers its type and wrap function,
// the pybind11 module (_core) its exception classes. Untyped, so that the core needs no Python.
#pragma once

#include "core/base/error.h"
#include "core/tensor/tensor.h"

namespace tinyt {

struct PythonSeam {
  void* (*wrap)(const Tensor& t) = nullptr;         // a new reference to a Python Tensor
  const Tensor* (*unwrap)(void* object) = nullptr;  // null when it is not a Tensor
  int64_t (*number_index)(void* object) = nullptr;  // in the recording's table; -1: a plain number
  void* exceptions[static_cast<int>(ErrorKind::Count)] = {};
};
PythonSeam& python_seam();

// Work below this many elements is not worth giving up the interpreter lock for.
inline constexpr int64_t kReleaseLockElements = 16384;

}  // namespace tinyt
