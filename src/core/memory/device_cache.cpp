#include "core/memory/device_cache.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <memory>
#include <mutex>
#include <new>
#include <sstream>
#include <string>
#include <utility>

#include "core/base/backend_error.h"

namespace tinyt::memory {

namespace {

constexpr size_t kLeast = 256;
constexpr size_t kMost = size_t{1} << 47;

// Eight sizes for each power of two.
constexpr size_t rounded(size_t bytes) {
  if (bytes <= kLeast) return kLeast;
  const size_t step = std::bit_ceil(bytes) / 16;
  return (bytes + step - 1) / step * step;
}
static_assert(rounded(257) == 288 && rounded(1024) == 1024 && rounded(1025) == 1152);

using Lock = std::lock_guard<ForkSafeMutex>;

// Of what is free: a block that was asked for, else the one that was given back last.
Buffer taken_from(std::vector<Buffer>& free, std::span<void* const> handles) {
  auto found = free.end() - 1;
  for (void* const handle : handles)
    if (const auto it = std::ranges::find(free, handle, &Buffer::handle); it != free.end()) {
      found = it;
      break;
    }
  const Buffer block = *found;
  free.erase(found);
  return block;
}

}  // namespace

// Says who holds what, when all that was kept went back to the driver.
void DeviceCache::refuse(size_t bytes, size_t size) {
  {
    const Lock lock(mutex_);
    ++counts_.refusals;
  }
  if (const size_t most = runtime_.properties(device_.index).most_bytes; most > 0 && size > most)
    fail_in_backend(ErrorKind::OutOfMemory, "memory: ", name_of(device_), " gives at most ", most,
                    " bytes at once, asked for ", bytes, " bytes");
  const DeviceStatistics held = statistics();
  const int64_t live = held.current_bytes - static_cast<int64_t>(bytes);
  std::ostringstream driver;
  try {
    const MemoryInfo info = runtime_.memory_info(device_.index);
    driver << "; of its " << info.bytes << " bytes " << info.free_bytes
           << " are free, and other libraries and processes hold "
           << static_cast<int64_t>(info.bytes - info.free_bytes) - held.reserved_bytes;
  } catch (const Error&) {  // a driver that does not say so
  }
  fail_in_backend(ErrorKind::OutOfMemory, "memory: ", name_of(device_), " has no more, asked for ",
                  bytes, " bytes, in use ", live, ", kept for reuse or by rounding ",
                  held.reserved_bytes - live, driver.str());
}

// ---- private pools

uint64_t DeviceCache::current_pool() const {
  const uint64_t pool = filled_pool_.load(std::memory_order_acquire);
  return pool != 0 && filling_thread_.load(std::memory_order_relaxed) == std::this_thread::get_id()
             ? pool
             : 0;
}

DeviceCache::Blocks& DeviceCache::free_blocks(uint64_t pool) {
  if (pool == 0) return free_;
  const auto it = pools_.find(pool);
  return it == pools_.end() ? free_ : it->second.free;
}

void DeviceCache::use_pool(uint64_t pool) {
  const Lock lock(mutex_);
  ++pools_[pool].users;
}

// Blocks that tensors still hold come back to everybody later.
void DeviceCache::leave_pool(uint64_t pool) noexcept {
  const Lock lock(mutex_);
  const auto it = pools_.find(pool);
  if (it == pools_.end() || --it->second.users > 0) return;
  for (auto& [size, blocks] : it->second.free) {
    for (Buffer& block : blocks) block.context = nullptr;
    std::vector<Buffer>& all = free_[size];
    all.insert(all.end(), blocks.begin(), blocks.end());
  }
  pools_.erase(it);
}

void DeviceCache::begin_pool(uint64_t pool) noexcept {
  filling_thread_.store(std::this_thread::get_id(), std::memory_order_relaxed);
  filled_pool_.store(pool, std::memory_order_release);
}

void DeviceCache::end_pool() noexcept { filled_pool_.store(0, std::memory_order_relaxed); }

// ---- blocks

// Of the cache, else of the runtime, which is asked again when all that is kept went back to it.
Buffer DeviceCache::take(size_t bytes, std::span<void* const> handles) {
  const size_t size = rounded(bytes);
  const uint64_t pool = current_pool();
  for (int attempt = 0;; ++attempt) {
    {
      const Lock lock(mutex_);
      Blocks& free = free_blocks(pool);
      if (const auto it = free.find(size); it != free.end() && !it->second.empty()) {
        const Buffer found = taken_from(it->second, handles);
        counts_.cached_bytes -= static_cast<int64_t>(size);
        return found;
      }
    }
    Buffer made = runtime_.allocate(size, device_.index);
    made.context = reinterpret_cast<void*>(pool);
    if (made.host != nullptr || made.handle != nullptr) {
      const Lock lock(mutex_);
      counts_.reserved_bytes += static_cast<int64_t>(size);
      counts_.peak_reserved_bytes = std::max(counts_.peak_reserved_bytes, counts_.reserved_bytes);
      ++counts_.system_allocations;
      return made;
    }
    if (attempt > 0) refuse(bytes, size);
    if (empty_cache() == 0) continue;
    const Lock lock(mutex_);
    ++counts_.retries;
  }
}

Buffer DeviceCache::allocate_again(size_t bytes, std::span<void* const> handles) {
  Buffer buffer;
  const auto n = static_cast<int64_t>(bytes);
  if (bytes > 0 && runtime_.has_memory()) {
    if (bytes > kMost)
      fail_in_backend(ErrorKind::OutOfMemory, "memory: ", name_of(device_), " was asked for ",
                      bytes, " bytes");
    {
      const Lock lock(mutex_);
      if (limit_ != 0 && n > limit_ - counts_.current_bytes) {
        ++counts_.refusals;
        fail_in_backend(ErrorKind::OutOfMemory, "memory: the limit of ", name_of(device_),
                        " is reached, asked for ", bytes, " bytes, limit ", limit_, ", in use ",
                        counts_.current_bytes);
      }
      counts_.current_bytes += n;  // threads together keep to the limit
    }
    try {
      buffer = take(bytes, handles);
    } catch (...) {
      const Lock lock(mutex_);
      counts_.current_bytes -= n;
      throw;
    }
    const Lock lock(mutex_);
    ++counts_.allocations;
    ++counts_.live_blocks;
    counts_.peak_bytes = std::max(counts_.peak_bytes, counts_.current_bytes);
  }
  buffer.bytes = bytes;
  buffer.from = this;
  buffer.device = device_;
  return buffer;
}

void DeviceCache::release(const Buffer& buffer) noexcept {
  if (buffer.bytes == 0 || !runtime_.has_memory()) return;
  const size_t size = rounded(buffer.bytes);
  Buffer whole = buffer;
  whole.bytes = size;
  {
    const Lock lock(mutex_);
    counts_.current_bytes -= static_cast<int64_t>(buffer.bytes);
    --counts_.live_blocks;
    try {
      Blocks& free = free_blocks(reinterpret_cast<uint64_t>(whole.context));
      if (&free == &free_) whole.context = nullptr;
      free[size].push_back(whole);
      counts_.cached_bytes += static_cast<int64_t>(size);
      return;
    } catch (const std::bad_alloc&) {
      counts_.reserved_bytes -= static_cast<int64_t>(size);
      ++counts_.system_frees;
    }
  }
  runtime_.free(whole);
}

DeviceStatistics DeviceCache::statistics() {
  const Lock lock(mutex_);
  return counts_;
}

void DeviceCache::reset_peak() {
  const Lock lock(mutex_);
  counts_.peak_bytes = counts_.current_bytes;
}

void DeviceCache::reset_reserved_peak() {
  const Lock lock(mutex_);
  counts_.peak_reserved_bytes = counts_.reserved_bytes;
}

void DeviceCache::set_limit(int64_t bytes) {
  require(bytes >= 0, ErrorKind::Value, "memory.set_limit: bytes must be at least 0, got ", bytes);
  const Lock lock(mutex_);
  limit_ = bytes;
}

int64_t DeviceCache::limit() {
  const Lock lock(mutex_);
  return limit_;
}

int64_t DeviceCache::empty_cache() noexcept {
  int64_t total = 0;
  Blocks kept;
  {
    const Lock lock(mutex_);
    kept = std::exchange(free_, {});
    for (const auto& [size, buffers] : kept) {
      const auto count = static_cast<int64_t>(buffers.size());
      counts_.reserved_bytes -= count * static_cast<int64_t>(size);
      counts_.cached_bytes -= count * static_cast<int64_t>(size);
      total += count;
    }
    counts_.system_frees += total;
  }
  for (const auto& [size, buffers] : kept)
    for (const Buffer& buffer : buffers) runtime_.free(buffer);
  return total;
}

DeviceCache& cache_of(Device device) {
  // Never destroyed: tensors may be released by static destructors of other libraries.
  static auto& caches =
      *new std::array<std::array<std::atomic<DeviceCache*>, 256>, kMaxDeviceKinds>{};
  static ForkSafeMutex& mutex = *new ForkSafeMutex;
  std::atomic<DeviceCache*>& place = caches[static_cast<size_t>(device.kind)][device.index];
  if (DeviceCache* cache = place.load(std::memory_order_acquire)) return *cache;
  // It has a mutex, which is made and destroyed while no other one is held.
  auto made = std::make_unique<DeviceCache>(device, runtime_of(device));
  {
    const Lock lock(mutex);
    if (place.load(std::memory_order_acquire) == nullptr)
      place.store(made.release(), std::memory_order_release);
  }
  return *place.load(std::memory_order_acquire);
}

}  // namespace tinyt::memory
