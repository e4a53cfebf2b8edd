// Lets pybind11 pass tensors, through the registration the hot module left in the seam.
#pragma once

#include <pybind11/pybind11.h>

#include "core/graph/graph.h"
#include "core/ops/seam.h"
#include "errors.h"
#include "objects.h"

namespace tinyt {

// A float, and while recording which of the runtime scalars it is.
struct LiveNumber {
  double value = 0;
  int64_t index = -1;
};

}  // namespace tinyt

namespace pybind11::detail {

template <>
struct type_caster<tinyt::LiveNumber> {
  PYBIND11_TYPE_CASTER(tinyt::LiveNumber, const_name("float"));

  bool load(handle source, bool) {
    const auto index = tinyt::python_seam().scalar_index;
    value.index = index ? index(source.ptr()) : -1;
    if (value.index >= 0) {  // its value is not asked for: that would be a guard
      value.value = tinyt::recording()->scalars().value(value.index);
      return true;
    }
    value.value = PyFloat_AsDouble(source.ptr());
    if (value.value == -1 && PyErr_Occurred()) {
      if (tinyt::has_float(source.ptr())) throw error_already_set();
      PyErr_Clear();
      return false;
    }
    return true;
  }
};

template <>
struct type_caster<tinyt::Tensor> {
  PYBIND11_TYPE_CASTER(tinyt::Tensor, const_name("tinyt.Tensor"));

  bool load(handle source, bool) {
    const auto unwrap = tinyt::python_seam().unwrap;
    const tinyt::Tensor* t = unwrap ? unwrap(source.ptr()) : nullptr;
    if (!t) return false;
    value = *t;
    return true;
  }
  static handle cast(const tinyt::Tensor& t, return_value_policy, handle) {
    return static_cast<PyObject*>(tinyt::python_seam().wrap(t));
  }
};

}  // namespace pybind11::detail
