// Convolutions in three dimensions, as kernels by hand take them.
#pragma once

#include <algorithm>
#include <array>
#include <span>

#include "gpu/convolution.h"

namespace tinyt::cuda {

// Three dimensions, of which some in front may be of one element.
inline constexpr size_t kSpatial = 3;
using Spatial = std::array<int64_t, kSpatial>;

inline Spatial spatial(std::span<const int64_t> dims, int64_t fill) {
  Spatial s;
  s.fill(fill);
  std::ranges::copy(dims, s.end() - static_cast<std::ptrdiff_t>(dims.size()));
  return s;
}
inline int64_t count_of(const Spatial& s) { return s[0] * s[1] * s[2]; }
inline void set(int (&to)[kSpatial], const Spatial& from) {
  for (size_t d = 0; d < kSpatial; ++d) to[d] = static_cast<int>(from[d]);
}

// The sizes of a convolution in three dimensions.
struct Sizes {
  int64_t images, groups, in, out;  // channels of a group
  Spatial source, kernel, positions, stride, padding, dilation;

  explicit Sizes(const gpu::ConvSizes& c)
      : images(c.images),
        groups(c.groups),
        in(c.in),
        out(c.out),
        source(spatial(c.source, 1)),
        kernel(spatial(c.kernel, 1)),
        positions(spatial(c.positions, 1)),
        stride(spatial(c.stride, 1)),
        padding(spatial(c.padding, 0)),
        dilation(spatial(c.dilation, 1)) {}

  // Whether each position is a product of its own channels.
  bool is_pointwise() const {
    return count_of(kernel) == 1 && count_of(stride) == 1 && positions == source;
  }
};

// [image, group, channel of the group, place], with strides.
struct Images {
  Tensor x;
  int64_t image, group, channel;
  Spatial stride;

  Images(const Tensor& t, int64_t channels)
      : x(t),
        image(t.stride(0)),
        group(channels * t.stride(1)),
        channel(t.stride(1)),
        stride(spatial(std::span<const int64_t>(t.strides()).subspan(2), 0)) {}
};

// What is left of a convolution whose channels of images are read by groups of their own: the
// result of `convolution` with `Pass` kForward, kImages or kWeights (kernels/depthwise.cu), of
// operands as that has them.
enum class Pass { Forward, Images, Weights };
bool is_depthwise(const Sizes& sizes);
void run_depthwise(Pass pass, const Sizes& sizes, const Tensor& a, const Tensor& b,
                   const Tensor& out);

}  // namespace tinyt::cuda
