// Planted bug: reads a block of the caching allocator after its release.
#include <cstdio>

#include "core/memory/allocator.h"

int main() {
  tinyt::memory::Allocator& allocator = tinyt::memory::caching();
  const tinyt::Buffer block = allocator.allocate(1000);
  auto* values = static_cast<float*>(block.host);
  values[100] = 1.0f;
  allocator.release(block);
  std::printf("read %g\n", static_cast<double>(values[100]));
  return 0;
}
