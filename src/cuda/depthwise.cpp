// Convolutions of channels by themselves, by kernels/depthwise.cu.
#include <string>

#include "core/base/parallel.h"
#include "cuda/convolution.h"
#include "cuda/hand_kernels.h"
#include "cuda/kernels/depthwise_arguments.h"
#include "cuda/tiles.h"
#include "gpu/kernels.h"
#include "gpu/launch.h"
#include "gpu/matmul.h"

namespace tinyt::cuda {

namespace {

void set_steps(int (&to)[5], const Tensor& x) {
  const Images from(x, 1);
  to[0] = static_cast<int>(from.image);
  to[1] = static_cast<int>(from.channel);
  for (size_t d = 0; d < kSpatial; ++d) to[2 + d] = static_cast<int>(from.stride[d]);
}

}  // namespace

bool is_depthwise(const Sizes& c) { return c.in == 1 && c.groups > 1; }

void run_depthwise(Pass pass, const Sizes& c, const Tensor& a, const Tensor& given_b,
                   const Tensor& out) {
  constexpr std::string_view kPasses[] = {"kForward", "kImages", "kWeights"};
  const Device device = out.device();
  const bool is_weights = pass == Pass::Weights;
  const Tensor b = is_weights ? given_b : gpu::contiguous_in(given_b, out.dtype());
  DepthwiseArguments args{};
  args.channels = static_cast<int>(c.groups * c.out);
  args.of_group = static_cast<int>(c.out);
  set(args.kernel, c.kernel);
  set(args.positions, c.positions);
  set(args.source, c.source);
  set(args.stride, c.stride);
  set(args.padding, c.padding);
  set(args.dilation, c.dilation);
  if (pass != Pass::Images) set_steps(args.image_step, is_weights ? b : a);
  if (pass != Pass::Forward) set_steps(args.gradient_step, a);
  args.count = out.numel();
  // Parts of the positions where weights are too few for all processors.
  constexpr int64_t kLeastSums = 4096, kMostParts = 32, kBlocksOfProcessor = 8;
  args.sums = c.images * count_of(c.positions);
  const int64_t busy = kBlocksOfProcessor * cuda_driver(device).processors(device.index);
  const int64_t most_parts =
      is_weights ? std::clamp<int64_t>(
                       std::min<int64_t>(args.sums / kLeastSums, busy / out.numel()), 1, kMostParts)
                 : 1;
  args.sums_of_part = ceil_div(args.sums, most_parts);
  const int64_t parts = ceil_div(args.sums, args.sums_of_part);
  const Tensor to =
      parts > 1 ? Tensor::empty(Dims{parts, out.numel()}, DType::Float32, device) : out;
  args.first_a = gpu::first_element(a);
  args.first_b = gpu::first_element(b);
  args.first_out = gpu::first_element(to);
  const std::string variant =
      "using T = " + std::string(element_of(out.dtype())) + ";\nusing Result = " +
      std::string(to.dtype() == DType::Float32 ? whole_element_of(DType::Float32)
                                               : element_of(to.dtype())) +
      ";\nconstexpr Pass kPass = " + std::string(kPasses[static_cast<int>(pass)]) + ";\n";
  const Buffer* const memory[] = {&a.storage().buffer, &b.storage().buffer, &to.storage().buffer};
  const int64_t blocks = is_weights ? parts * out.numel() : ceil_div(args.count, kDepthwiseThreads);
  cuda_driver(device).launch_blocks(
      hand_kernel(device, "depthwise.cu", variant), device.index,
      {blocks, kDepthwiseThreads, is_weights ? kDepthwiseThreads * sizeof(float) : 0}, memory,
      &args);
  if (parts > 1) gpu::add_parts(to, out);
}

}  // namespace tinyt::cuda
