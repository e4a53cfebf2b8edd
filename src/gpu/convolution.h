// What convolutions and their gradients are told, for kernels that are made of them.
#pragma once

#include "core/ops/kernels.h"
#include "core/tensor/tensor.h"

namespace tinyt::gpu {

// The sizes of a convolution: of images [batch, channels, ...] and weights [channels out, channels
// of a group, ...].
struct ConvSizes {
  int64_t images, groups, in, out;  // channels of a group
  Dims source, kernel, positions, stride, padding, dilation;
  int64_t taps, places;

  ConvSizes(const Dims& image, const Dims& weight, const Dims& result, AttrReader& read)
      : stride(read.list()), padding(read.list()), dilation(read.list()) {
    groups = read.integer();
    images = image[0];
    in = weight[1];
    out = weight[0] / groups;
    const auto spatial = [](const Dims& d) { return std::span<const int64_t>(d).subspan(2); };
    source = Dims(spatial(image));
    kernel = Dims(spatial(weight));
    positions = Dims(spatial(result));
    taps = numel_of(kernel);
    places = numel_of(positions);
  }
  size_t rank() const { return source.size(); }
  int64_t rows() const { return in * taps; }  // of the columns of a group
};

}  // namespace tinyt::gpu
