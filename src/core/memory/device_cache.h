// The caching allocator of a device that has memory of its own: a driver takes long to give memory
// and may wait for the device when it takes it back.
#pragma once

#include <map>
#include <span>
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

  DeviceStatistics statistics();
  void reset_peak();
  void reset_reserved_peak();
  void empty_cache() noexcept;
  void set_limit(int64_t bytes);  // 0: none
  int64_t limit();

 private:
  Buffer take(size_t bytes, std::span<void* const> handles);
  [[noreturn]] void refuse(size_t bytes, size_t size);

  const Device device_;
  Runtime& runtime_;
  ForkSafeMutex mutex_;  // of all that follows; not held while the runtime works
  std::map<size_t, std::vector<Buffer>> free_;
  DeviceStatistics counts_{};
  int64_t limit_ = 0;
};

// One for each device, from the first call on; not for the CPU. DeviceError where this process has
// no such device.
DeviceCache& cache_of(Device device);

}  // namespace tinyt::memory
