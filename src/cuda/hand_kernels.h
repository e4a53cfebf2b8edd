// Kernels by hand: what they are in the place of, and how they are built.
#pragma once

#include <string>
#include <vector>

#include "cuda/cuda_driver.h"

namespace tinyt::cuda {

// All of them, of devices that have their instructions.
std::vector<gpu::OwnKernel> hand_kernels();

inline CudaDriver& cuda_driver(Device device) {
  return static_cast<CudaDriver&>(gpu::driver_of(device));
}
// The kernel of a file of kernels/ with what "variant.h" is to say, built when it is asked for
// first.
gpu::BuiltKernel& hand_kernel(Device device, const std::string& file, const std::string& variant);

void run_matmul(const KernelCall& call);
void run_matmul_add(const KernelCall& call);
void run_linear(const KernelCall& call);
void run_int_mm(const KernelCall& call);
void run_attention(const KernelCall& call);
void run_attention_backward(const KernelCall& call);
void run_conv(const KernelCall& call);
void run_conv_backward_input(const KernelCall& call);
void run_conv_backward_weight(const KernelCall& call);

}  // namespace tinyt::cuda
