// The seam between the Python modules: the hot ones (_tensor, _capture) register their types and
// conversions, the pybind11 module (_core) its exception classes. Untyped, so that the core needs
// no Python.
#pragma once

#include "core/base/error.h"
#include "core/tensor/tensor.h"

namespace tinyt {

struct PythonSeam {
  void* (*wrap)(const Tensor& t) = nullptr;         // a new reference to a Python Tensor
  const Tensor* (*unwrap)(void* object) = nullptr;  // null when it is not a Tensor
  int64_t (*scalar_index)(void* object) = nullptr;  // of the recording's runtime scalars, or -1
  int (*dtype_number)(void* object) = nullptr;      // of a dtype object; -1 for another
  int64_t (*device_code)(void* object) = nullptr;   // of a device or its code; -1 with an error set
  // The same, but an int is the index of an accelerator.
  int64_t (*named_device_code)(void* object) = nullptr;
  int64_t (*symbol_row)(void* object) = nullptr;  // of a live symbolic int, or -1
  void* (*symbol_of_row)(int64_t row) = nullptr;  // a new reference
  void* exceptions[static_cast<int>(ErrorKind::Count)] = {};
};
extern PythonSeam g_python_seam;
inline PythonSeam& python_seam() { return g_python_seam; }

// Work below this many elements is not worth giving up the interpreter lock for.
inline constexpr int64_t kReleaseLockElements = 16384;

}  // namespace tinyt
