// Products of matrices by groups of threads that share memory.
#pragma once

#include "gpu/matmul.h"

namespace tinyt::gpu {

// Threads that `multiply_by_tiles` takes.
int64_t tile_threads(const Product& product);
// As `multiply`, of at least one element and one sum, which one launch takes. Only where threads
// share memory.
void multiply_by_tiles(const Product& product, const Tensor& out);

}  // namespace tinyt::gpu
