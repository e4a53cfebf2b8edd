// Products with few rows or few columns, by threads in groups.
#pragma once

#include "gpu/matmul.h"

namespace tinyt::gpu {

// Whether a product has so few rows, or columns.
bool is_narrow(const Product& product);
// Threads that `multiply_narrow` takes, about; it depends on shapes alone.
int64_t narrow_threads(const Product& product);
// As `multiply`, of at least one element and one sum, which one launch takes. Only where threads
// share memory.
void multiply_narrow(const Product& product, const Tensor& out);

}  // namespace tinyt::gpu
