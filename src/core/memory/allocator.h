// Where tensor memory comes from: on the CPU the caching allocator, or the arena of the current
// scope; on other devices a cache of what their runtimes give (device_cache.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/device/buffer.h"

namespace tinyt::memory {

inline constexpr size_t kAlignment = 64;

class Allocator {
 public:
  virtual ~Allocator() = default;
  // 64-byte aligned. Fails with OutOfMemoryError; zero bytes have no address.
  virtual Buffer allocate(size_t bytes) = 0;
  virtual void release(const Buffer& block) noexcept = 0;
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

// current() for the CPU; DeviceError where this process has no such device.
Allocator& allocator_of(Device device);

// For its lifetime everything that this thread allocates on the CPU, scratch memory of kernels
// included, comes from another allocator; with null as it would without one.
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
// Of a device whose memory a driver gives.
struct DeviceStatistics : Statistics {
  int64_t peak_reserved_bytes;  // most since the start or reset_reserved_peak()
  int64_t system_frees;         // blocks that went back to the driver
  int64_t retries;              // allocations for which what was kept went back
  int64_t refusals;             // OutOfMemoryErrors
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
