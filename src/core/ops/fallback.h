// Calls that a device has no kernel for, or not for as many operands. A fused row runs as its
// decomposition, and so does arithmetic of complex numbers where the device computes on their
// parts; what is left runs on the CPU where the user asks for that (TINYT_HOST_FALLBACK=1, which
// warns once an operation).
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "core/ops/dispatch.h"
#include "core/ops/infer.h"
#include "core/ops/kernels.h"

namespace tinyt {

// The results of a row that has a decomposition, of operands on that device or numbers. The graph
// registers it.
using Decompose = std::vector<Tensor> (*)(OpId op, std::span<const Tensor> inputs,
                                          const Attrs& attrs, Device device);
void register_decompose(Decompose decompose);

// Tells the user; the front end registers it.
void register_warning(void (*warn)(const std::string& text));

// The results of a checked call, contiguous. NotImplementedError that names operation and device
// where there is no way.
Outputs run_without_kernel(OpId op, std::span<const Tensor> inputs, const Inferred& inferred,
                           Device device);

// What writes the results of checked calls where they are to be: the device's kernel, or what the
// calls fall back to.
Kernel kernel_of(OpId op, DType compute, size_t inputs, Device device);

// Whether a call of a row with any number of operands has more than a kernel of the device binds,
// and the same call in parts.
bool binds_too_many(OpId op, size_t inputs, Device device);
Outputs run_in_parts(OpId op, std::span<const Tensor> inputs, const Attrs& attrs, Device device);

// Kernels::copy_into of the target's device, and what it does where there is none. `op` is named
// in errors.
void copy_into(std::string_view op, const Tensor& from, const Tensor& to);
// Kernels::count_nonzero in the same way.
int64_t count_nonzero(OpId op, const Tensor& x);

}  // namespace tinyt
