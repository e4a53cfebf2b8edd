// The checks of every op and what comes out of it: shapes, dtypes, normalised attributes. Pure
// functions of shapes, dtypes and attributes; nothing here looks at data.
#pragma once

#include <span>

#include "core/ops/ops.h"
#include "core/tensor/tensor.h"

namespace tinyt {

struct Inferred {
  Dims shape[kMostOutputs];
  DType dtype[kMostOutputs];
  DType compute = DType::Float32;  // the promoted dtype of the inputs
  Attrs attrs;
  // Views only: how the output sees the input's storage. A reshape that needs a copy has none.
  bool is_view = false;
  Dims strides;
  int64_t offset = 0;
};

void infer(OpId op, std::span<const Tensor> inputs, const Attrs& attrs, Inferred& out);

// What an elementwise op or reduction makes of a dtype.
DType apply_rule(DTypeRule rule, DType compute);

// The dtype operands promote to; Python numbers are weak, 0-d tensors weaker than others.
DType result_dtype(std::span<const Tensor> inputs);

// Shape rules by family, each in its own file. `where` names the op in errors.
using InferRule = void (*)(OpId op, std::span<const Tensor> inputs, const Attrs& attrs,
                           Inferred& out);
InferRule rule_for(OpId op);

#define STRUCT_OP(name, ...) \
  void infer_##name(OpId op, std::span<const Tensor> inputs, const Attrs& attrs, Inferred& out);
#define SCALAR_OP(...)
#define REDUCE_OP(...)
#include "core/ops/ops.def"
#undef STRUCT_OP
#undef SCALAR_OP
#undef REDUCE_OP

}  // namespace tinyt
