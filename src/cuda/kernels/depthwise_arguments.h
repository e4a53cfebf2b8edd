// What kernels/depthwise.cu is told. Read by the host's compiler and by NVRTC. All places fit in 31
// bits.
#pragma once

constexpr int kDepthwiseThreads = 256;  // of a block

struct DepthwiseArguments {
  long long first_a, first_b, first_out;  // in elements
  long long count;                        // threads, or blocks of weights' gradients
  int channels, of_group;                 // of results, of which so many read one of images
  int kernel[3], positions[3], source[3], stride[3], padding[3], dilation[3];
  int image_step[5], gradient_step[5];  // image, channel, and places
  long long sums, sums_of_part;         // of weights' gradients: images' positions
};
