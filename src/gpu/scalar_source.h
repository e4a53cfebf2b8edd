// Scalar definitions as functions of a language.
#pragma once

#include <string>
#include <string_view>

#include "gpu/dialect.h"

namespace tinyt::gpu {

// What an op that computes in such a dtype is in that language: without float64 where it has none.
// Null where the op does not take the dtype.
const ScalarDefinition* definition_in(const Dialect& dialect, OpId op, DType compute);

// A function of that name, of one element each. NotImplementedError where the dialect has no
// spelling for something in it, with its name and type.
std::string function_source(const ScalarDefinition& definition, std::string_view name,
                            const Dialect& dialect);

// The same without its rare paths (rare_paths.h): right but where it sets its last argument, a
// flag.
std::string common_source(const ScalarDefinition& definition, std::string_view name,
                          const Dialect& dialect);

// A constant of a type, given its bits.
std::string literal(ScalarType type, uint64_t bits, const Dialect& dialect);

// What a source begins with: the dialect's own lines, and the helpers that the text calls.
std::string beginning_of(std::string_view text, const Dialect& dialect);

}  // namespace tinyt::gpu
