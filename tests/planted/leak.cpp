// Planted bug: forgets an object that owns a block, as a lost reference to a tensor would.
#include <cstdio>

#include "core/memory/allocator.h"

namespace {

struct Owner {
  tinyt::Buffer block;
  explicit Owner(size_t bytes) : block(tinyt::memory::caching().allocate(bytes)) {}
  ~Owner() { block.from->release(block); }
};

// Not inlined, and the stack below it is written again, so that no stale pointer hides the leak.
__attribute__((noinline)) void forget() {
  for (size_t i = 0; i < 10; ++i) {
    Owner* volatile owner = new Owner(1000 + i);
    static_cast<char*>(owner->block.host)[0] = 1;
    owner = nullptr;
  }
}

__attribute__((noinline)) void overwrite_stack() {
  volatile char bytes[4096];
  for (volatile char& b : bytes) b = 0;
}

}  // namespace

int main() {
  forget();
  overwrite_stack();
  std::printf("live blocks: %lld\n",
              static_cast<long long>(tinyt::memory::statistics().live_blocks));
  return 0;
}
