// Where tensor memory comes from: the caching allocator, or the arena of the current scope.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tinyt::memory {

inline constexpr size_t kAlignment = 64;

class Allocator;

// One live block. `data` is 64-byte aligned; `context` belongs to the allocator.
struct Block {
  void* data = nullptr;
  size_t bytes = 0;  // as asked for
  Allocator* from = nullptr;
  void* context = nullptr;
};

class Allocator {
 public:
  virtual ~Allocator() = default;
  // Fails with OutOfMemoryError; never returns null for bytes > 0. Zero bytes gives data == null.
  virtual Block allocate(size_t bytes) = 0;
  virtual void release(const Block& block) noexcept = 0;
  // Sees to it that blocks of so many bytes find room side by side. A hint: nothing is taken, and
  // where there is no memory nothing happens.
  virtual void make_room(size_t) noexcept {}
};

// The process-wide caching allocator of the CPU. Safe from any thread.
Allocator& caching();
// This thread's Substitute, else its innermost active Arena, else caching().
Allocator& current();
// This thread's Substitute, or null.
Allocator* substitute();

// For its lifetime everything that this thread allocates, scratch memory of kernels included, comes
// from another allocator; with null as it would without one.
class Substitute {
 public:
  explicit Substitute(Allocator* from);
  ~Substitute();
  Substitute(const Substitute&) = delete;
  Substitute& operator=(const Substitute&) = delete;

 private:
  Allocator* outer_;
};

struct Statistics {
  int64_t current_bytes;  // live blocks, as asked for
  // Most since the start or reset_peak(). Exact while one thread allocates; each further one may
  // be off by 64 KiB.
  int64_t peak_bytes;
  int64_t cached_bytes;        // freed blocks kept for reuse, those of threads included
  int64_t reserved_bytes;      // held from the system: live, cached, and what rounding costs
  int64_t allocations;         // calls since the start
  int64_t live_blocks;         // blocks not yet released
  int64_t system_allocations;  // calls that had to ask the operating system
};
Statistics statistics();
void reset_peak();
// The peak is at least this: for who has reset it and lets others see none of that.
void raise_peak(int64_t bytes);

// Bytes that may be live at once (0: no limit). More raises OutOfMemoryError after the cache
// was emptied; nothing else changes.
void set_limit(int64_t bytes);
int64_t limit();

// Freed bytes kept at most (at first a quarter of main memory); large ones go first, blocks up to
// 1 MiB all together. What threads keep for themselves (up to 64 KiB or four blocks of a class)
// does not count. Only whole huge pages go, so that reuse stays fast.
void set_cache_limit(int64_t bytes);
// Gives every page back on which no live block lies, those of other threads' lists included.
void empty_cache();

// Test hook: the n-th allocation from now fails (1: the next), once. 0 turns it off.
void fail_nth_allocation(int64_t n);

}  // namespace tinyt::memory
