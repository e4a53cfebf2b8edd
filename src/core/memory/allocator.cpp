#include "core/memory/allocator.h"

#include <string>

#include "core/base/error.h"
#include "core/base/fork.h"
#include "core/memory/caching.h"
#include "core/memory/set_to_fail.h"

namespace tinyt::memory {

// Never destroyed: tensors may be released by static destructors of other libraries.
CachingAllocator& instance() {
  static CachingAllocator& allocator = *new CachingAllocator;
  return allocator;
}

CachingAllocator::CachingAllocator() {
  static constexpr AllocatorForkHandlers kHandlers{
      [] { instance().before_fork(); }, [](bool child) { instance().after_fork(child); }};
  set_allocator_fork_handlers(&kHandlers);
}

BackendError CachingAllocator::refusal(const char* why, size_t bytes) {
  const int64_t limit = limit_;
  return {ErrorKind::OutOfMemory, "memory: " + std::string(why) + ", asked for " +
                                      std::to_string(bytes) + " bytes, limit " +
                                      (limit == 0 ? "none" : std::to_string(limit)) + ", in use " +
                                      std::to_string(statistics().current_bytes)};
}

// The failure hook and the limit. True when the bytes count as live already, before they are
// found, so that threads together keep to the limit.
bool CachingAllocator::admit(size_t bytes) {
  int64_t left = fail_in_;
  while (left > 0 && !fail_in_.compare_exchange_weak(left, left - 1)) {
  }
  if (left == 1) {
    update_guard();
    throw SetToFail(refusal("this allocation was set to fail", bytes));
  }
  const int64_t limit = limit_;
  if (limit == 0 || bytes > most_) return false;
  const int64_t n = static_cast<int64_t>(bytes);
  int64_t used = current_;
  do {
    if (n > limit - used) {
      empty_cache();
      throw refusal("the limit is reached", bytes);
    }
  } while (!current_.compare_exchange_weak(used, used + n));
  return true;
}

void CachingAllocator::raise_peak(int64_t used) noexcept {
  int64_t peak = peak_.load(std::memory_order_relaxed);
  while (used > peak && !peak_.compare_exchange_weak(peak, used)) {
  }
}

// The path of small blocks that the thread has; all else is kept out of it.
Buffer CachingAllocator::allocate(size_t bytes) {
  ThreadCache* cache = t_cache;
  if (cache == nullptr || bytes - 1 >= kThreadMax || guarded_.load(std::memory_order_relaxed))
      [[unlikely]] {
    return allocate_slowly(bytes);
  }
  {
    const std::lock_guard own(cache->lock);
    void* data = cache->lists[class_of(bytes + poison::kRedZone)].pop();
    if (data != nullptr) [[likely]] {
      if (cache->out(static_cast<int64_t>(bytes))) [[unlikely]]
        settle(*cache);
      poison::block_out(data, bytes);
      return {data, bytes, this, nullptr};
    }
  }
  return allocate_slowly(bytes);
}

Buffer CachingAllocator::allocate_slowly(size_t bytes) {
  if (bytes == 0) return {nullptr, 0, this, nullptr};
  bool counted = false;
  if (guarded_.load(std::memory_order_relaxed)) counted = admit(bytes);
  if (bytes > most_) throw refusal("more than this machine has", bytes);
  void* data = find(bytes, counted);
  if (data == nullptr) {
    empty_cache();
    data = find(bytes, counted);
    if (data == nullptr) {
      if (counted) current_ -= static_cast<int64_t>(bytes);
      throw refusal("the system refused", bytes);
    }
  }
  if (counted) raise_peak(current_);
  poison::block_out(data, bytes);
  return {data, bytes, this, nullptr};
}

// Null when the system refuses.
void* CachingAllocator::find(size_t bytes, bool counted) {
  const int64_t uncounted = counted ? 0 : static_cast<int64_t>(bytes);
  ThreadCache* cache = t_cache != nullptr ? t_cache : open_thread();
  if (cache == nullptr) {
    void* data = take_shared(bytes);
    if (data == nullptr) return nullptr;
    ++allocations_;
    raise_peak(current_ += uncounted);
    return data;
  }
  const std::lock_guard own(cache->lock);
  const size_t cls = class_of(bytes + poison::kRedZone);
  void* data = cls < kThreadClasses ? cache->lists[cls].pop() : nullptr;
  if (data == nullptr) data = cls < kThreadClasses ? refill(*cache, cls) : take_shared(bytes);
  if (data != nullptr && cache->out(uncounted)) settle(*cache);
  return data;
}

void CachingAllocator::release(const Buffer& block) noexcept {
  if (block.host == nullptr) return;
  const size_t cls = class_of(block.bytes + poison::kRedZone);
  poison::block_in(block.host, block.bytes);
  ThreadCache* cache = t_cache;
  if (cache == nullptr || cls >= kThreadClasses) [[unlikely]] {
    release_slowly(block, cls);
    return;
  }
  const std::lock_guard own(cache->lock);
  // With a limit the sum of all must not lag behind.
  if (cache->in(static_cast<int64_t>(block.bytes)) || guarded_.load(std::memory_order_relaxed))
      [[unlikely]] {
    settle(*cache);
  }
  cache->lists[cls].push(block.host);
  if (cache->lists[cls].count() > kThreadCapacity[cls]) [[unlikely]]
    relieve(*cache, cls);
}

// A block that the thread does not keep, or of a thread that has not begun or is ending.
void CachingAllocator::release_slowly(const Buffer& block, size_t cls) noexcept {
  const int64_t bytes = static_cast<int64_t>(block.bytes);
  ThreadCache* cache = t_cache != nullptr ? t_cache : open_thread();
  if (cache != nullptr) {
    const std::lock_guard own(cache->lock);
    if (cache->in(bytes) || guarded_.load(std::memory_order_relaxed)) settle(*cache);
  } else {
    current_ -= bytes;
    ++releases_;
  }
  const std::lock_guard lock(mutex_);
  if (cls < kClasses) {
    shared_[cls].push(block.host);
    cached_ += kClassBytes[cls];
  } else {
    ranges_.put_back(block.host, size_of_range(block.bytes + poison::kRedZone));
  }
  keep_to_limit();
}

void* CachingAllocator::take_shared(size_t bytes) {
  const size_t padded = bytes + poison::kRedZone;
  const size_t cls = class_of(padded);
  const std::lock_guard lock(mutex_);
  if (cls < kClasses) return carve(cls, false);
  void* data = ranges_.take(size_of_range(padded));
  return data != nullptr ? data : ranges_.grow(size_of_range(padded));
}

void CachingAllocator::make_room(size_t bytes) noexcept {
  const size_t size = size_of_range(bytes);
  if (bytes == 0 || size > most_) return;
  const std::lock_guard lock(mutex_);
  if (size > cache_limit_) return;
  void* data = ranges_.take(size);
  if (data == nullptr) data = ranges_.grow(size);
  if (data != nullptr) ranges_.put_back(data, size);
  keep_to_limit();
}

// A block of a class that lies ready, or else, unless only what is `at_hand` will do, from a slab.
// Blocks that threads do not keep join before a page is touched for the first time, and where much
// is free in all classes that joins before there is one more slab. The lock is held.
void* CachingAllocator::carve(size_t cls, bool at_hand) {
  const size_t bytes = kClassBytes[cls];
  if (void* data = shared_[cls].pop()) {
    cached_ -= bytes;
    return data;
  }
  if (at_hand) return slabs_.at_hand(bytes) ? slabs_.carve(bytes, Slabs::Room::Mapped) : nullptr;
  if (cls >= kThreadClasses) {
    if (void* data = slabs_.carve(bytes, Slabs::Room::Touched)) return data;
    if (cached_ >= bytes) {
      cached_ -= slabs_.sweep(shared_, kThreadClasses);
      if (void* data = slabs_.carve(bytes, Slabs::Room::Touched)) return data;
    }
  }
  const bool little = cached_ < kSweepBytes;
  void* data = slabs_.carve(bytes, little ? Slabs::Room::New : Slabs::Room::Mapped);
  if (data != nullptr || little) return data;
  cached_ -= slabs_.sweep(shared_);
  return slabs_.carve(bytes, Slabs::Room::New);
}

// One block for the caller, and some more for its thread while the lock is held anyway.
void* CachingAllocator::refill(ThreadCache& cache, size_t cls) {
  const std::lock_guard lock(mutex_);
  FreeList& list = cache.lists[cls];
  const size_t batch = kThreadCapacity[cls] / 2;
  for (size_t i = 0; i < batch; ++i) {
    void* data = carve(cls, i > 0);
    if (data == nullptr) break;
    list.push(data);
  }
  return list.pop();
}

void CachingAllocator::set_limit(int64_t bytes) {
  limit_ = bytes;
  update_guard();
  statistics();  // settles what threads are ahead, which from now on is nothing
}

void CachingAllocator::fail_nth(int64_t n) {
  fail_in_ = n;
  update_guard();
}

Allocator& caching() { return instance(); }
Statistics statistics() { return instance().statistics(); }
void reset_peak() { instance().reset_peak(); }
void raise_peak(int64_t bytes) { instance().raise_peak(bytes); }
void empty_cache() { instance().empty_cache(); }
int64_t limit() { return instance().limit(); }

void set_limit(int64_t bytes) {
  require(bytes >= 0, ErrorKind::Value, "memory.set_limit: bytes must be at least 0, got ", bytes);
  instance().set_limit(bytes);
}

void set_cache_limit(int64_t bytes) {
  require(bytes >= 0, ErrorKind::Value, "memory.set_cache_limit: bytes must be at least 0, got ",
          bytes);
  instance().set_cache_limit(static_cast<size_t>(bytes));
}

void fail_nth_allocation(int64_t n) {
  require(n >= 0, ErrorKind::Value, "memory.fail_nth_allocation: n must be at least 0, got ", n);
  instance().fail_nth(n);
}

}  // namespace tinyt::memory
