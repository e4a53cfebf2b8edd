#include "cuda/pinned.h"

#include <algorithm>
#include <bit>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

#include "cuda/current.h"

namespace tinyt::cuda {

namespace {

using PinnedLock = std::lock_guard<ForkSafeMutex>;

}  // namespace

// ---- the cache

PinnedBlock* PinnedCache::find(const void* host) {
  const auto* const place = static_cast<const char*>(host);
  const PinnedLock lock(mutex_);
  auto it = blocks_.upper_bound(place);
  if (it == blocks_.begin()) return nullptr;
  PinnedBlock* const found = (--it)->second;
  return place < found->host + found->bytes ? found : nullptr;
}

bool PinnedCache::is_free(PinnedBlock& block) noexcept {
  return std::ranges::all_of(block.uses, [&](PinnedBlock::Use& use) {
    if (use.is_pending) use.is_pending = !driver_.has_happened(use.index, use.event);
    return !use.is_pending;
  });
}

PinnedBlock* PinnedCache::take_kept(size_t bytes) {
  const PinnedLock lock(mutex_);
  std::vector<PinnedBlock*>& kept = kept_[bytes];
  const auto found = std::ranges::find_if(kept, [&](PinnedBlock* b) { return is_free(*b); });
  if (found == kept.end()) return nullptr;
  PinnedBlock* const block = *found;
  kept.erase(found);
  return block;
}

PinnedBlock* PinnedCache::make(size_t bytes) {
  void* const host = driver_.allocate_host(bytes);
  if (host == nullptr) return nullptr;
  auto block = std::make_unique<PinnedBlock>(PinnedBlock{static_cast<char*>(host), bytes, {}});
  const PinnedLock lock(mutex_);
  blocks_.emplace(block->host, block.get());
  return block.release();
}

// Gives back all that no copy uses. Their events stay, which is rare.
void PinnedCache::empty() {
  std::vector<PinnedBlock*> unused;
  {
    const PinnedLock lock(mutex_);
    for (auto& [bytes, kept] : kept_) {
      const auto busy =
          std::ranges::partition(kept, [&](PinnedBlock* b) { return !is_free(*b); }).begin();
      unused.insert(unused.end(), busy, kept.end());
      kept.erase(busy, kept.end());
    }
    for (PinnedBlock* block : unused) blocks_.erase(block->host);
  }
  for (PinnedBlock* block : unused) {
    driver_.free_host(*block);
    delete block;
  }
}

Buffer PinnedCache::allocate(size_t bytes) {
  constexpr size_t kLeast = 512;
  if (bytes == 0) return memory::caching().allocate(bytes);
  const size_t size = std::bit_ceil(std::max(bytes, kLeast));
  PinnedBlock* block = take_kept(size);
  if (block == nullptr) block = make(size);
  if (block == nullptr) {
    empty();
    block = make(size);
  }
  if (block == nullptr) return memory::caching().allocate(bytes);
  return {.host = block->host, .bytes = bytes, .from = this, .context = block};
}

void PinnedCache::release(const Buffer& buffer) noexcept {
  auto* const block = static_cast<PinnedBlock*>(buffer.context);
  const PinnedLock lock(mutex_);
  try {
    kept_[block->bytes].push_back(block);
  } catch (const std::bad_alloc&) {  // it is lost to the process
  }
}

// ---- the driver's part

void* CudaDriver::allocate_host(size_t bytes) {
  if (!is_own_process()) return nullptr;
  const Current current(api_, device(0));
  void* host = nullptr;
  const Status status = api_.cuMemHostAlloc(&host, bytes, kPortable);
  if (status == kOutOfMemory) return nullptr;
  check(api_, status, "cuMemHostAlloc");
  return host;
}

void CudaDriver::free_host(const PinnedBlock& block) noexcept {
  try {
    for (const PinnedBlock::Use& use : block.uses) {
      const Current current(api_, device(use.index));
      api_.cuEventDestroy(use.event);
    }
    const Current current(api_, device(0));
    api_.cuMemFreeHost(block.host);
  } catch (const Error&) {
  }
}

// Not where the device has failed: it may have stopped in the midst of a copy.
bool CudaDriver::has_happened(int index, Event event) noexcept {
  if (!is_own_process()) return false;
  try {
    const Current current(api_, device(index));
    return api_.cuEventQuery(event) == kSuccess;
  } catch (const Error&) {
    return false;
  }
}

void CudaDriver::copy_later(const Buffer& to, size_t to_place, const Buffer& from,
                            size_t from_place, size_t bytes) {
  const bool writes = from.handle == nullptr, reads = to.handle == nullptr;
  if (bytes == 0 || writes == reads) return copy(to, to_place, from, from_place, bytes);
  char* const host = static_cast<char*>(writes ? from.host : to.host);
  const int index = (writes ? to : from).device.index;
  CudaDevice& on = device(index);
  const Current current(api_, on);
  const Event done = pinned_.event_of(host, index, on.stream, [&] {
    Event made = nullptr;
    return api_.cuEventCreate(&made, kWithoutTimes) == kSuccess ? made : nullptr;
  });
  if (done == nullptr) return copy(to, to_place, from, from_place, bytes);
  if (writes)
    enqueue(index, "cuMemcpyHtoDAsync", [&](Stream stream) {
      return api_.cuMemcpyHtoDAsync(address_in(to, to_place), host + from_place, bytes, stream);
    });
  else
    enqueue(index, "cuMemcpyDtoHAsync", [&](Stream stream) {
      return api_.cuMemcpyDtoHAsync(host + to_place, address_in(from, from_place), bytes, stream);
    });
  // Without the event nobody could tell when the memory is free again.
  if (const Status status = api_.cuEventRecord(done, on.stream); status != kSuccess) {
    wait(index);
    check(api_, status, "cuEventRecord");
  }
}

}  // namespace tinyt::cuda
