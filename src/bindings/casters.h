// Lets pybind11 pass tensors, through the registration the hot module left in the seam.
#pragma once

#include <pybind11/pybind11.h>

#include "errors.h"
#include "seam.h"

namespace pybind11::detail {

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
