// The caching allocator. Blocks come in size classes; those up to 1 MiB are carved from slabs,
// larger ones are mappings of their own. A released block goes to a free list of its class: first
// of the thread (no lock), beyond some blocks of the process. Blocks carry no header: the class
// follows from the bytes asked for.
#include "memory/allocator.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <string>

#include "error.h"
#include "memory/pages.h"
#include "memory/poison.h"
#include "memory/size_class.h"
#include "memory/slabs.h"

#if !defined(_WIN32)
#include <pthread.h>
#endif

namespace tinyt::memory {
namespace {

// Trivially destructible: it must serve releases that come while its thread is ending.
struct ThreadCache {
  enum class State : uint8_t { New, Open, Closed };
  State state = State::New;
  FreeList lists[kThreadClasses];
  std::atomic<int64_t> allocations{0};
  std::atomic<int64_t> releases{0};
  ThreadCache* next = nullptr;
};
constinit thread_local ThreadCache t_cache;

class CachingAllocator final : public Allocator {
 public:
  CachingAllocator();
  Block allocate(size_t bytes) override;
  void release(const Block& block) noexcept override;

  Statistics statistics();
  void reset_peak() { peak_ = current_.load(); }
  void empty_cache() noexcept;
  void set_cache_limit(size_t bytes);
  void set_limit(int64_t bytes) { limit_ = bytes; }
  int64_t limit() const { return limit_; }
  void fail_nth(int64_t n) { fail_in_ = n; }

  void close_thread(ThreadCache& cache) noexcept;
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }
  void forget_other_threads();

 private:
  [[noreturn]] void refuse(const char* why, size_t bytes);
  int64_t charge(size_t bytes);
  void raise_peak(int64_t used);
  bool open_thread(ThreadCache& cache);
  void* take(ThreadCache& cache, size_t cls);
  void* take_shared(size_t cls);
  void* refill(ThreadCache& cache, size_t cls);
  void spill(FreeList& list, size_t cls, size_t keep) noexcept;
  void* carve(size_t cls, bool may_grow);
  void trim(size_t target, bool sweep_now) noexcept;

  std::atomic<int64_t> current_{0};
  std::atomic<int64_t> peak_{0};
  std::atomic<int64_t> limit_{0};
  std::atomic<int64_t> fail_in_{0};
  std::atomic<int64_t> system_{0};
  // Counts of threads that have ended.
  std::atomic<int64_t> allocations_{0};
  std::atomic<int64_t> releases_{0};
  const size_t physical_ = physical_memory();

  alignas(64) std::mutex mutex_;  // guards all that follows
  FreeList shared_[kClasses];
  size_t cached_ = 0;  // bytes in shared_
  size_t cache_limit_ = physical_ / 4;
  size_t sweep_at_ = 0;  // a sweep is worth its time only after more was freed
  Slabs slabs_;
  ThreadCache* threads_ = nullptr;
};

// Never destroyed: tensors may be released by static destructors of other libraries.
CachingAllocator& instance() {
  static CachingAllocator& allocator = *new CachingAllocator;
  return allocator;
}

// Gives the free blocks of a thread back when it ends.
struct ThreadGuard {
  bool armed = false;
  ~ThreadGuard() {
    if (armed) instance().close_thread(t_cache);
  }
};
thread_local ThreadGuard t_guard;

CachingAllocator::CachingAllocator() {
#if !defined(_WIN32)
  pthread_atfork([] { instance().lock(); }, [] { instance().unlock(); },
                 [] {
                   instance().forget_other_threads();
                   instance().unlock();
                 });
#endif
}

void CachingAllocator::refuse(const char* why, size_t bytes) {
  const int64_t limit = limit_;
  fail(ErrorKind::OutOfMemory, "memory: ", why, ", asked for ", bytes, " bytes, limit ",
       limit == 0 ? "none" : std::to_string(limit), ", in use ", current_.load());
}

// Counts the bytes as live before they are found, so that threads together keep to the limit.
int64_t CachingAllocator::charge(size_t bytes) {
  int64_t left = fail_in_.load(std::memory_order_relaxed);
  while (left > 0 && !fail_in_.compare_exchange_weak(left, left - 1)) {
  }
  if (left == 1) [[unlikely]]
    refuse("this allocation was set to fail", bytes);
  if (bytes > std::min(kMaxBytes, physical_)) [[unlikely]] {
    refuse("more than this machine has", bytes);
  }
  const int64_t n = static_cast<int64_t>(bytes);
  const int64_t limit = limit_.load(std::memory_order_relaxed);
  if (limit == 0) return current_.fetch_add(n, std::memory_order_relaxed) + n;
  int64_t used = current_.load();
  do {
    if (n > limit - used) {
      empty_cache();
      refuse("the limit is reached", bytes);
    }
  } while (!current_.compare_exchange_weak(used, used + n));
  return used + n;
}

void CachingAllocator::raise_peak(int64_t used) {
  int64_t peak = peak_.load(std::memory_order_relaxed);
  while (used > peak && !peak_.compare_exchange_weak(peak, used)) {
  }
}

// True when the calling thread has its own free lists (not while it is ending).
bool CachingAllocator::open_thread(ThreadCache& cache) {
  if (cache.state == ThreadCache::State::New) {
    t_guard.armed = true;
    const std::lock_guard lock(mutex_);
    cache.next = threads_;
    threads_ = &cache;
    cache.state = ThreadCache::State::Open;
  }
  return cache.state == ThreadCache::State::Open;
}

Block CachingAllocator::allocate(size_t bytes) {
  if (bytes == 0) return {nullptr, 0, this, nullptr};
  const int64_t used = charge(bytes);
  const size_t cls = class_of(bytes + poison::kRedZone);
  ThreadCache& cache = t_cache;
  void* data = take(cache, cls);
  if (data == nullptr) [[unlikely]] {
    empty_cache();
    data = take(cache, cls);
    if (data == nullptr) {
      current_ -= static_cast<int64_t>(bytes);
      refuse("the system refused", bytes);
    }
  }
  raise_peak(used);
  poison::block_out(data, bytes);
  return {data, bytes, this, nullptr};
}

void CachingAllocator::release(const Block& block) noexcept {
  if (block.data == nullptr) return;
  current_.fetch_sub(static_cast<int64_t>(block.bytes), std::memory_order_relaxed);
  const size_t cls = class_of(block.bytes + poison::kRedZone);
  poison::block_in(block.data, block.bytes);
  ThreadCache& cache = t_cache;
  if (cache.state != ThreadCache::State::Open && !open_thread(cache)) [[unlikely]] {
    ++releases_;
  } else {
    cache.releases.store(cache.releases.load(std::memory_order_relaxed) + 1,
                         std::memory_order_relaxed);
    if (cls < kThreadClasses) {
      FreeList& list = cache.lists[cls];
      list.push(block.data);
      const size_t capacity = kThreadCapacity[cls];
      if (list.count() > capacity) [[unlikely]] {
        const std::lock_guard lock(mutex_);
        spill(list, cls, capacity / 2);
      }
      return;
    }
  }
  const std::lock_guard lock(mutex_);
  shared_[cls].push(block.data);
  cached_ += kClassBytes[cls];
  if (cached_ > cache_limit_) trim(cache_limit_, false);
}

void* CachingAllocator::take(ThreadCache& cache, size_t cls) {
  void* data = nullptr;
  if (cache.state != ThreadCache::State::Open && !open_thread(cache)) [[unlikely]] {
    data = take_shared(cls);
    if (data != nullptr) ++allocations_;
    return data;
  }
  if (cls < kThreadClasses) {
    data = cache.lists[cls].pop();
    if (data == nullptr) [[unlikely]]
      data = refill(cache, cls);
  } else {
    data = take_shared(cls);
  }
  if (data != nullptr) {
    cache.allocations.store(cache.allocations.load(std::memory_order_relaxed) + 1,
                            std::memory_order_relaxed);
  }
  return data;
}

void* CachingAllocator::take_shared(size_t cls) {
  {
    const std::lock_guard lock(mutex_);
    if (void* data = shared_[cls].pop()) {
      cached_ -= kClassBytes[cls];
      return data;
    }
    if (cls < kFirstLarge) return carve(cls, true);
  }
  void* data = map_pages(kClassBytes[cls], kHugePage);
  if (data != nullptr) {
    ++system_;
    poison::close(data, kClassBytes[cls]);
  }
  return data;
}

// One block for the caller, and some more for its thread while the lock is held anyway.
void* CachingAllocator::refill(ThreadCache& cache, size_t cls) {
  const std::lock_guard lock(mutex_);
  FreeList& list = cache.lists[cls];
  const size_t batch = kThreadCapacity[cls] / 2;
  for (size_t i = 0; i < batch; ++i) {
    void* data = shared_[cls].pop();
    if (data != nullptr) {
      cached_ -= kClassBytes[cls];
    } else {
      data = carve(cls, i == 0);
    }
    if (data == nullptr) break;
    list.push(data);
  }
  return list.pop();
}

// Moves all but `keep` blocks of a thread's list to the shared one; the lock is held.
void CachingAllocator::spill(FreeList& list, size_t cls, size_t keep) noexcept {
  while (list.count() > keep) {
    shared_[cls].push(list.pop());
    cached_ += kClassBytes[cls];
  }
  if (cached_ > cache_limit_) trim(cache_limit_, false);
}

// A new block from a slab, or from one more where that is allowed; the lock is held.
void* CachingAllocator::carve(size_t cls, bool may_grow) {
  const size_t bytes = kClassBytes[cls];
  if (!slabs_.has_room(bytes)) {
    if (!may_grow || !slabs_.grow()) return nullptr;
    ++system_;
  }
  return slabs_.carve(bytes);
}

// Gives memory back until `target` bytes are cached: the largest blocks first, then slabs of
// which every block is free. The lock is held.
void CachingAllocator::trim(size_t target, bool sweep_now) noexcept {
  for (size_t cls = kClasses; cls-- > kFirstLarge && cached_ > target;) {
    while (cached_ > target) {
      void* data = shared_[cls].pop();
      if (data == nullptr) break;
      cached_ -= kClassBytes[cls];
      poison::open(data, kClassBytes[cls]);
      unmap_pages(data, kClassBytes[cls], kHugePage);
    }
  }
  if (cached_ > target && (sweep_now || cached_ >= sweep_at_)) {
    cached_ -= slabs_.sweep({shared_, kFirstLarge});
    sweep_at_ = cached_ + Slabs::kSlabBytes;
  }
}

void CachingAllocator::empty_cache() noexcept {
  ThreadCache& cache = t_cache;
  const std::lock_guard lock(mutex_);
  for (size_t cls = 0; cls < kThreadClasses; ++cls) spill(cache.lists[cls], cls, 0);
  trim(0, true);
}

void CachingAllocator::set_cache_limit(size_t bytes) {
  const std::lock_guard lock(mutex_);
  cache_limit_ = bytes;
  if (cached_ > bytes) trim(bytes, true);
}

void CachingAllocator::close_thread(ThreadCache& cache) noexcept {
  const std::lock_guard lock(mutex_);
  for (size_t cls = 0; cls < kThreadClasses; ++cls) spill(cache.lists[cls], cls, 0);
  for (ThreadCache** at = &threads_; *at != nullptr; at = &(*at)->next) {
    if (*at == &cache) {
      *at = cache.next;
      break;
    }
  }
  allocations_ += cache.allocations;
  releases_ += cache.releases;
  cache.state = ThreadCache::State::Closed;
}

// In the child of a fork only this thread goes on. The free blocks of the others are lost to it,
// since they may have been in the middle of a change.
void CachingAllocator::forget_other_threads() {
  ThreadCache* own = t_cache.state == ThreadCache::State::Open ? &t_cache : nullptr;
  for (ThreadCache* cache = threads_; cache != nullptr; cache = cache->next) {
    if (cache == own) continue;
    allocations_ += cache->allocations;
    releases_ += cache->releases;
  }
  if (own != nullptr) own->next = nullptr;
  threads_ = own;
}

Statistics CachingAllocator::statistics() {
  const std::lock_guard lock(mutex_);
  int64_t allocations = allocations_;
  int64_t releases = releases_;
  size_t cached = cached_;
  for (const ThreadCache* cache = threads_; cache != nullptr; cache = cache->next) {
    allocations += cache->allocations.load(std::memory_order_relaxed);
    releases += cache->releases.load(std::memory_order_relaxed);
    for (size_t cls = 0; cls < kThreadClasses; ++cls) {
      cached += cache->lists[cls].count() * kClassBytes[cls];
    }
  }
  return {current_, peak_, static_cast<int64_t>(cached), allocations, allocations - releases,
          system_};
}

}  // namespace

Allocator& caching() { return instance(); }
Statistics statistics() { return instance().statistics(); }
void reset_peak() { instance().reset_peak(); }
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
