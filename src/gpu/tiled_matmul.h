// Products of matrices by groups of threads that share memory.
#pragma once

#include "gpu/matmul.h"

namespace tinyt::gpu {

// Whether threads of a device can share memory in groups.
bool has_tiles(Device device);
// As `multiply`, of at least one element and one sum, which one launch takes. Only where there are
// tiles.
void multiply_by_tiles(const Product& product, const Tensor& out);

}  // namespace tinyt::gpu
