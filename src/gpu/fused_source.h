// Fused kernels as functions of a language.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/graph/fused_kernel.h"
#include "gpu/dialect.h"

namespace tinyt::gpu {

// How a load's elements lie along the last dimension of the space.
enum class Inner : uint8_t {
  Strided,   // as its stride says
  Dense,     // one after another
  Repeated,  // one element for all
};

// Functions by their names. One of a name is the same in whatever kernel it stands.
using Functions = std::vector<std::pair<std::string, std::string>>;
struct KernelSource {
  Functions functions;  // that it calls
  std::string text;
};

// A function of that name. Its arguments: the sizes of the space
// (int64, as many as it has dimensions), for each load its first element and its strides in
// elements (int64, as many), for each store its first element. Shapes share it: only the rank, the
// number of reduced dimensions and `inner` (one for each load) are in its text.
//
// In C a store may be in the memory of a load of its dtype whose elements lie in the same order:
// each element is read for the last time before it is written.
//
// NotImplementedError for a product in front, complex numbers, and what the dialect cannot spell.
KernelSource kernel_source(const FusedKernel& kernel, const std::vector<Inner>& inner,
                           std::string_view name, const Dialect& dialect);

}  // namespace tinyt::gpu
