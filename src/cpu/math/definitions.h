#pragma once

#include "core/ops/scalar_definition.h"

namespace tinyt::cpu {

// Of each op of math.h in the dtypes that it is computed in, and of conversions.
const DefinitionSource& definitions();
// Of float32, without a 64-bit type: double words in the place of float64.
const ScalarDefinition* single_definition_of(OpId op);

}  // namespace tinyt::cpu
