// What the files of shape rules share.
#pragma once

#include "core/ops/infer.h"

namespace tinyt {

inline void no_complex(OpId op, DType dtype) {
  if (is_complex(dtype))
    fail(ErrorKind::DType, name_of(op), ": not defined for dtype ", name_of(dtype));
}

inline void first_shape(const Tensor& x, Inferred& out) {
  out.compute = out.dtype[0] = x.dtype();
  out.shape[0] = x.shape();
}

// The shape of a reduction, from its attributes "dims:I keepdim:b", which it normalises.
void reduce_dims(OpId op, const Tensor& x, AttrReader& read, bool needs_element, Inferred& out);

inline void refuse_bool(OpId op, DType dtype) {
  require(!is_bool(dtype), ErrorKind::DType, name_of(op), ": not defined for dtype bool");
}

}  // namespace tinyt
