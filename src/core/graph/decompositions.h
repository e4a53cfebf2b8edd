// Fused rows, and rows of complex numbers, in other operations. The front end says once what a row
// is made of, for each kind of call (attributes, dtypes and ranks of the operands); that is
// recorded, kept, and run from then on: by calls on devices that have no kernel for the row, and by
// a pass over graphs.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "core/graph/graph.h"

namespace tinyt {

// The results of a row in other operations, of operands that are recorded; numbers of Python's are
// operands that are weak in promotion.
using Decomposer = std::vector<Tensor> (*)(OpId op, std::span<const Tensor> operands,
                                           const Attrs& attrs);
void register_decomposer(Decomposer decomposer);

// Of a call, as a graph whose arguments are the operands, of which the geometry is enough.
std::unique_ptr<Graph> decomposition_of(OpId op, std::span<const Tensor> operands,
                                        const Attrs& attrs);
// How many are kept, and how many were ever recorded.
std::pair<size_t, size_t> kept_decompositions();
// They hold the numbers in them.
void forget_decompositions();

}  // namespace tinyt
