#pragma once

#include "core/ops/scalar_definition.h"

namespace tinyt::cpu {

// What scalar_definition() gives: of each op of math.h, in the dtypes that it is computed in.
const ScalarDefinition* definition_of(OpId op, DType compute);

}  // namespace tinyt::cpu
