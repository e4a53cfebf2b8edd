#pragma once

#include "core/ops/scalar_definition.h"

namespace tinyt::cpu {

// Of each op of math.h in the dtypes that it is computed in, and of conversions.
const DefinitionSource& definitions();

}  // namespace tinyt::cpu
