// The caching allocator of a device that has memory of its own: a driver takes long to give memory
// and may wait for the device when it takes it back.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <span>
#include <thread>
#include <vector>

#include "core/base/fork.h"
#include "core/device/runtime.h"
#include "core/memory/allocator.h"

namespace tinyt::memory {

// Whole buffers of the runtime's, kept by size. A size is rounded up by at most an eighth, so that
// those of many shapes serve each other. Safe from any thread: what a device does with a buffer, it
// does in the order of the calls, so the next owner's work waits for the last one's.
class DeviceCache final : public Allocator {
 public:
  DeviceCache(Device device, Runtime& runtime) : device_(device), runtime_(runtime) {}
  Buffer allocate(size_t bytes) override { return allocate_again(bytes, {}); }
  // The same, of these handles' blocks the first one that is free, if any is.
  Buffer allocate_again(size_t bytes, std::span<void* const> handles);
  void release(const Buffer& buffer) noexcept override;

  // A private pool has blocks that a captured graph works on: one that comes back is given to
  // captures of that pool only, as long as one graph or more use it.
  void use_pool(uint64_t pool);
  void leave_pool(uint64_t pool) noexcept;
  // What this thread allocates in between is of a pool that is used; one at a time.
  void begin_pool(uint64_t pool) noexcept;
  void end_pool() noexcept;

  DeviceStatistics statistics();
  void reset_peak();
  void reset_reserved_peak();
  // How many blocks went back to the driver.
  int64_t empty_cache() noexcept;
  void set_limit(int64_t bytes);  // 0: none
  int64_t limit();

 private:
  using Blocks = std::map<size_t, std::vector<Buffer>>;
  struct Pool {
    Blocks free;
    int users = 0;
  };
  Buffer take(size_t bytes, std::span<void* const> handles);
  // This thread's: 0 where it allocates for everybody.
  uint64_t current_pool() const;
  // Free blocks of a pool; of everybody's, where there is none of that number.
  Blocks& free_blocks(uint64_t pool);
  [[noreturn]] void refuse(size_t bytes, size_t size);

  const Device device_;
  Runtime& runtime_;
  ForkSafeMutex mutex_;  // of all that follows; not held while the runtime works
  Blocks free_;
  std::map<uint64_t, Pool> pools_;
  std::atomic<uint64_t> filled_pool_ = 0;  // by the thread below; 0: none
  std::atomic<std::thread::id> filling_thread_;
  DeviceStatistics counts_{};
  int64_t limit_ = 0;
};

// One for each device, from the first call on; not for the CPU. DeviceError where this process has
// no such device.
DeviceCache& cache_of(Device device);

}  // namespace tinyt::memory
