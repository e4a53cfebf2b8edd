// Nanoseconds to get and release a block: this allocator, aligned_alloc (64 bytes, what tensors
// need) and malloc. `pair`: one block at a time; `burst`: 50 at a time; `threads`: pairs on two
// threads at once, the slower one. Run by hand.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "core/memory/allocator.h"

namespace {

using tinyt::Buffer;
using tinyt::memory::Allocator;

constexpr size_t kBurst = 50;
constexpr int kRounds = 7;

struct Cache {
  Allocator& allocator = tinyt::memory::caching();
  void* get(size_t bytes) { return allocator.allocate(bytes).host; }
  void release(void* data, size_t bytes) { allocator.release({data, bytes, &allocator, nullptr}); }
};

struct Aligned {
  void* get(size_t bytes) { return std::aligned_alloc(64, (bytes + 63) / 64 * 64); }
  void release(void* data, size_t) { std::free(data); }
};

struct Malloc {
  void* get(size_t bytes) { return std::malloc(bytes); }
  void release(void* data, size_t) { std::free(data); }
};

template <class F>
double best_nanoseconds(size_t calls, F&& f) {
  double best = 1e30;
  for (int round = 0; round < kRounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    f();
    const std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - start;
    best = std::min(best, spent.count() / static_cast<double>(calls));
  }
  return best;
}

template <class A>
double burst(size_t bytes, size_t at_once, size_t calls) {
  A allocator;
  std::vector<void*> blocks(at_once);
  return best_nanoseconds(calls, [&] {
    for (size_t done = 0; done < calls; done += at_once) {
      for (void*& block : blocks) {
        block = allocator.get(bytes);
        *static_cast<volatile char*>(block) = 1;
      }
      for (void* block : blocks) allocator.release(block, bytes);
    }
  });
}

template <class A>
double threads(size_t bytes, size_t calls) {
  double other = 0;
  std::thread thread([&] { other = burst<A>(bytes, 1, calls); });
  const double own = burst<A>(bytes, 1, calls);
  thread.join();
  return std::max(own, other);
}

template <class A>
void print(const char* name, size_t bytes) {
  const size_t calls = bytes > 40000 ? 20000 : 200000;
  std::printf("%9zu  %-14s %8.1f %8.1f %8.1f\n", bytes, name, burst<A>(bytes, 1, calls),
              burst<A>(bytes, kBurst, calls), threads<A>(bytes, calls));
}

}  // namespace

int main() {
  std::printf("%9s  %-14s %8s %8s %8s\n", "bytes", "ns per pair", "pair", "burst", "threads");
  for (size_t bytes : {4, 1024, 1200, 16384, 65536, 1 << 20, 3 << 20}) {
    print<Cache>("cache", bytes);
    print<Aligned>("aligned_alloc", bytes);
    print<Malloc>("malloc", bytes);
  }
  return 0;
}
