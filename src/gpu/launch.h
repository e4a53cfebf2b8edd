// Runs fused kernels on a device: prints and builds each once, and finds it again by what its text
// depends on.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/graph/fused_kernel.h"
#include "gpu/driver.h"
#include "gpu/fused_source.h"

namespace tinyt::gpu {

// The kernel of a key, made when it is asked for first. Safe from any thread.
BuiltKernel& built_kernel(Device device, const std::string& key,
                          const std::function<std::string()>& source);
// How many kernels a device has built so far.
int64_t built_count(Device device);

// The number in a dtype, on the CPU.
Tensor number_as(const Tensor& number, DType dtype);
// The first element of a tensor of a device, counted from the start of what its handle stands for.
int64_t first_element(const Tensor& t);

// The name of the kernel in every source.
inline constexpr std::string_view kKernelName = "tt_kernel";

// One operand for each load, which broadcasts to the space: on the device, or a number of the CPU,
// which has the load's dtype. Stores of any strides where nothing is reduced, else dense. A store
// may be exactly an operand.
void run_fused(const FusedKernel& kernel, std::span<const Tensor> operands,
               std::span<const Tensor> stores);

// An operation on all elements or of each row, and what it makes, as the only one of a kernel.
FusedKernel single_op(OpId op, DType compute, std::span<const Tensor> operands, DType result,
                      std::span<const int64_t> shape, size_t reduced = 0);

}  // namespace tinyt::gpu
