// Planted bug: writes one element past a block of the caching allocator.
#include <cstdio>

#include "core/memory/allocator.h"

int main() {
  tinyt::memory::Allocator& allocator = tinyt::memory::caching();
  const tinyt::Buffer block = allocator.allocate(250 * sizeof(float));
  auto* values = static_cast<float*>(block.host);
  for (int i = 0; i <= 250; ++i) values[i] = 1.0f;
  std::printf("wrote %g\n", static_cast<double>(values[0]));
  allocator.release(block);
  return 0;
}
