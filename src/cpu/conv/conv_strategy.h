// Which strategy computes a convolution: the one choice, for the forward product, the gradient of
// the input (a product for each phase of its positions) and that of the weights. The other files
// of the family run what was chosen.
//
// The strategies order their sums differently, so the choice shows in the bits. It reads dtype,
// sizes and the level in use, never threads, strides or addresses.
#pragma once

#include <cstdint>
#include <span>

#include "cpu/conv/conv_problem.h"

namespace tinyt::cpu {

// In the order in which they are preferred. The conditions: conv_strategy.cpp.
enum class ConvStrategy : uint8_t {
  Lowp,      // bfloat16 on the level's units (AMX tiles, AVX512-BF16): conv_lowp*
  Direct,    // few channels per group, a chain of fma for an output: conv_direct*
  Winograd,  // 3x3 in float32 with a quarter of the products: winograd*
  Lines,     // a product whose columns are read in the source's lines: conv_lines*
  Dilated,   // a product for each region whose positions meet the same taps: conv_dilated*
  Product,   // a product whose columns are packed as they are needed (im2col): conv.cpp
};

// Of the product that forward and the gradient of the input are; any. `finite`: false where
// Winograd's result was not, and the definition has to compute it.
ConvStrategy choose_product(const ConvProblem& p, bool finite = true);

// Of the gradient of the weights, for a problem in the dtype of the result or of the work: Lowp,
// Direct, Winograd or Product. `finite`, as above.
ConvStrategy choose_weights(const ConvProblem& p, bool finite = true);

// The dtype in which all products of a call are computed: that of its operands where units for it
// take each, else `compute`.
DType choose_dtype(DType operands, DType compute, std::span<const ConvProblem> products);

}  // namespace tinyt::cpu
