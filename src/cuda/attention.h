// What attention by hand and its gradients share: what they take, and how operands get to kernels.
#pragma once

#include <initializer_list>
#include <string>

#include "core/tensor/tensor.h"

namespace tinyt::cuda {

// Whether kernels by hand take these: not none, and features that there is room for.
bool is_attention_by_hand(const Tensor& query, const Tensor& key, const Tensor& value);
// The element of operands that products are of.
std::string attention_type(DType dtype);
// Features that a kernel has room for.
int attention_room(int64_t features, int64_t width);
// Whether neighbouring features may be written at once, of rows so wide, from such places on.
bool is_in_packs(DType dtype, std::initializer_list<int64_t> numbers);
// What "variant.h" of kernels/attention_warps.cuh is to say.
std::string attention_variant(DType dtype, const std::string& result, int room, const Tensor& mask);

// The same elements where kernels may read 16 bytes of a row at a time: the tensor, or a copy.
Tensor readable(const Tensor& x);
// A mask (0-d: none) of bytes, of that dtype or of float32.
Tensor readable_mask(const Tensor& mask, DType dtype);
// Places of a tensor's elements: of batches, heads and rows; of a mask that is broadcast to all
// scores.
void set_places(const Tensor& x, long long& first, long long (&steps)[3]);
void set_mask(const Tensor& mask, const Tensor& query, const Tensor& key, long long& first,
              long long (&steps)[4]);

}  // namespace tinyt::cuda
