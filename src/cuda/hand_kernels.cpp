#include "cuda/hand_kernels.h"

#include "cuda/kernel_text.h"
#include "gpu/launch.h"

namespace tinyt::cuda {

std::vector<gpu::OwnKernel> hand_kernels() {
  using enum OpId;
  return {{matmul, run_matmul},
          {matmul_add, run_matmul_add},
          {linear, run_linear},
          {int_mm, run_int_mm},
          {attention, run_attention},
          {attention_backward, run_attention_backward},
          {conv, run_conv},
          {conv_backward_input, run_conv_backward_input},
          {conv_backward_weight, run_conv_backward_weight}};
}

gpu::BuiltKernel& hand_kernel(Device device, const std::string& file, const std::string& variant) {
  // Of few arguments at any rate.
  return gpu::built_kernel(device, file + "\n" + variant, {0, 0},
                           [&] { return kernel_text(file, variant); });
}

}  // namespace tinyt::cuda
