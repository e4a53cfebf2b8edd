// The caching allocator. Blocks come in size classes; those up to kSlabMax are carved from slabs,
// larger ones are mappings of their own. A released block goes to a free list of its class: that
// of the thread (no lock, no atomic addition), beyond some blocks that of the process. Blocks carry
// no header: the class follows from the bytes asked for.
//
// Locks are taken in this order: registry_, a thread's own, mutex_.
#include "memory/allocator.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <new>
#include <string>

#include "error.h"
#include "memory/pages.h"
#include "memory/poison.h"
#include "memory/size_class.h"
#include "memory/slabs.h"
#include "memory/thread_cache.h"
#include "memory/thread_pointer.h"

#if !defined(_WIN32)
#include <pthread.h>
#endif

namespace tinyt::memory {
namespace {

// Null before the first call of a thread and after its end.
TINYT_THREAD_POINTER ThreadCache* t_cache = nullptr;

class CachingAllocator final : public Allocator {
 public:
  CachingAllocator();
  Block allocate(size_t bytes) override;
  void release(const Block& block) noexcept override;

  Statistics statistics();
  void reset_peak();
  void empty_cache() noexcept;
  void set_cache_limit(size_t bytes);
  void set_limit(int64_t bytes);
  int64_t limit() const { return limit_; }
  void fail_nth(int64_t n);

  void close_thread() noexcept;
  void before_fork();
  void after_fork(bool child);

 private:
  [[noreturn]] void refuse(const char* why, size_t bytes);
  bool admit(size_t bytes);
  void update_guard() { guarded_ = limit_ != 0 || fail_in_ != 0; }
  void raise_peak(int64_t used);
  void settle(ThreadCache& cache);
  ThreadCache* open_thread();
  void* find(size_t cls, int64_t bytes);
  void* take_shared(size_t cls);
  void* refill(ThreadCache& cache, size_t cls);
  void spill(FreeList& list, size_t cls, size_t keep) noexcept;
  void trim(size_t target, size_t unit) noexcept;
  void claim_threads() noexcept;
  void release_threads() noexcept;
  void retire(ThreadCache* cache) noexcept;

  // Read by every call, and seldom written.
  std::atomic<bool> guarded_{false};  // there is a limit, or a failure to come
  const bool has_barriers_ = OwnerLock::enable_barriers();
  const size_t physical_ = physical_memory();
  const size_t most_ = std::min(kMaxBytes, physical_);
  std::atomic<int64_t> limit_{0};
  std::atomic<int64_t> fail_in_{0};

  // Without what threads have not settled yet.
  alignas(64) std::atomic<int64_t> current_{0};
  std::atomic<int64_t> peak_{0};
  std::atomic<int64_t> system_{0};
  // Calls of threads that have no cache (any more).
  std::atomic<int64_t> allocations_{0};
  std::atomic<int64_t> releases_{0};

  alignas(64) std::mutex registry_;  // guards the two lists, and who may claim from them
  ThreadCache* threads_ = nullptr;
  ThreadCache* unused_ = nullptr;

  alignas(64) std::mutex mutex_;  // guards all that follows
  FreeList shared_[kClasses];
  size_t cached_ = 0;  // bytes in shared_
  size_t cache_limit_ = physical_ / 4;
  size_t sweep_at_ = 0;  // a sweep is worth its time only after more was freed
  size_t large_ = 0;     // bytes of mappings that hold one block
  Slabs slabs_;
};

// Never destroyed: tensors may be released by static destructors of other libraries.
CachingAllocator& instance() {
  static CachingAllocator& allocator = *new CachingAllocator;
  return allocator;
}

// Gives the free blocks of a thread back when it ends.
struct ThreadGuard {
  enum class State : uint8_t { New, Open, Closed };
  State state = State::New;
  ~ThreadGuard() {
    if (state == State::Open) instance().close_thread();
    state = State::Closed;
  }
};
thread_local ThreadGuard t_guard;

CachingAllocator::CachingAllocator() {
#if !defined(_WIN32)
  pthread_atfork([] { instance().before_fork(); }, [] { instance().after_fork(false); },
                 [] { instance().after_fork(true); });
#endif
}

void CachingAllocator::refuse(const char* why, size_t bytes) {
  const int64_t limit = limit_;
  const int64_t used = statistics().current_bytes;
  fail(ErrorKind::OutOfMemory, "memory: ", why, ", asked for ", bytes, " bytes, limit ",
       limit == 0 ? "none" : std::to_string(limit), ", in use ", used);
}

// The failure hook and the limit. True when the bytes count as live already, before they are
// found, so that threads together keep to the limit.
bool CachingAllocator::admit(size_t bytes) {
  int64_t left = fail_in_;
  while (left > 0 && !fail_in_.compare_exchange_weak(left, left - 1)) {
  }
  if (left == 1) {
    update_guard();
    refuse("this allocation was set to fail", bytes);
  }
  const int64_t limit = limit_;
  if (limit == 0 || bytes > most_) return false;
  const int64_t n = static_cast<int64_t>(bytes);
  int64_t used = current_;
  do {
    if (n > limit - used) {
      empty_cache();
      refuse("the limit is reached", bytes);
    }
  } while (!current_.compare_exchange_weak(used, used + n));
  return true;
}

void CachingAllocator::raise_peak(int64_t used) {
  int64_t peak = peak_.load(std::memory_order_relaxed);
  while (used > peak && !peak_.compare_exchange_weak(peak, used)) {
  }
}

// Adds what a thread is ahead to the sum of all; its lock is held.
void CachingAllocator::settle(ThreadCache& cache) {
  raise_peak(current_ + cache.most_ahead);
  current_ += cache.ahead;
  cache.ahead = cache.most_ahead = 0;
}

// The cache of a thread that has none: a new one, or null while it is ending.
ThreadCache* CachingAllocator::open_thread() {
  if (t_guard.state == ThreadGuard::State::Closed) return nullptr;
  const std::lock_guard lock(registry_);
  ThreadCache* cache = unused_;
  if (cache != nullptr) {
    unused_ = cache->next;
  } else {
    cache = new (std::nothrow) ThreadCache(has_barriers_);
    if (cache == nullptr) return nullptr;
  }
  cache->next = threads_;
  threads_ = cache;
  t_guard.state = ThreadGuard::State::Open;
  t_cache = cache;
  return cache;
}

Block CachingAllocator::allocate(size_t bytes) {
  if (bytes == 0) return {nullptr, 0, this, nullptr};
  bool counted = false;
  if (guarded_.load(std::memory_order_relaxed)) [[unlikely]]
    counted = admit(bytes);
  if (bytes > most_) [[unlikely]]
    refuse("more than this machine has", bytes);
  const int64_t uncounted = counted ? 0 : static_cast<int64_t>(bytes);
  const size_t cls = class_of(bytes + poison::kRedZone);
  void* data = find(cls, uncounted);
  if (data == nullptr) [[unlikely]] {
    empty_cache();
    data = find(cls, uncounted);
    if (data == nullptr) {
      if (counted) current_ -= static_cast<int64_t>(bytes);
      refuse("the system refused", bytes);
    }
  }
  if (counted) raise_peak(current_);
  poison::block_out(data, bytes);
  return {data, bytes, this, nullptr};
}

// A block of the class, counted; null when the system refuses.
void* CachingAllocator::find(size_t cls, int64_t bytes) {
  ThreadCache* cache = t_cache;
  if (cache == nullptr) [[unlikely]] {
    cache = open_thread();
    if (cache == nullptr) {
      void* data = take_shared(cls);
      if (data == nullptr) return nullptr;
      ++allocations_;
      raise_peak(current_ += bytes);
      return data;
    }
  }
  const std::lock_guard own(cache->lock);
  void* data = nullptr;
  if (cls < kThreadClasses) {
    data = cache->lists[cls].pop();
    if (data == nullptr) [[unlikely]]
      data = refill(*cache, cls);
  } else {
    data = take_shared(cls);
  }
  if (data != nullptr && cache->out(bytes)) [[unlikely]]
    settle(*cache);
  return data;
}

void CachingAllocator::release(const Block& block) noexcept {
  if (block.data == nullptr) return;
  const int64_t bytes = static_cast<int64_t>(block.bytes);
  const size_t cls = class_of(block.bytes + poison::kRedZone);
  poison::block_in(block.data, block.bytes);
  ThreadCache* cache = t_cache;
  if (cache == nullptr) [[unlikely]]
    cache = open_thread();
  if (cache != nullptr) [[likely]] {
    const std::lock_guard own(cache->lock);
    // With a limit the sum of all must not lag behind.
    if (cache->in(bytes) || guarded_.load(std::memory_order_relaxed)) [[unlikely]]
      settle(*cache);
    if (cls < kThreadClasses) {
      FreeList& list = cache->lists[cls];
      list.push(block.data);
      if (list.count() <= kThreadCapacity[cls]) [[likely]]
        return;
      const std::lock_guard lock(mutex_);
      spill(list, cls, kThreadCapacity[cls] / 2);
      return;
    }
  } else {
    current_ -= bytes;
    ++releases_;
  }
  const std::lock_guard lock(mutex_);
  shared_[cls].push(block.data);
  cached_ += kClassBytes[cls];
  if (cached_ > cache_limit_) trim(cache_limit_, kHugePage);
}

void* CachingAllocator::take_shared(size_t cls) {
  {
    const std::lock_guard lock(mutex_);
    if (void* data = shared_[cls].pop()) {
      cached_ -= kClassBytes[cls];
      return data;
    }
    if (cls < kFirstLarge) return slabs_.carve(kClassBytes[cls]);
  }
  void* data = map_pages(kClassBytes[cls], kHugePage);
  if (data == nullptr) return nullptr;
  ++system_;
  poison::close(data, kClassBytes[cls]);
  const std::lock_guard lock(mutex_);
  large_ += kClassBytes[cls];
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
    } else if (i == 0 || slabs_.at_hand(kClassBytes[cls])) {
      data = slabs_.carve(kClassBytes[cls]);
    }
    if (data == nullptr) break;
    list.push(data);
  }
  return list.pop();
}

// Moves all but `keep` blocks of a thread's list to the shared one; both locks are held.
void CachingAllocator::spill(FreeList& list, size_t cls, size_t keep) noexcept {
  while (list.count() > keep) {
    shared_[cls].push(list.pop());
    cached_ += kClassBytes[cls];
  }
  if (cached_ > cache_limit_) trim(cache_limit_, kHugePage);
}

// Gives memory back until `target` bytes are cached: the largest blocks first, at last all small
// ones together. Of slabs whole `unit`s go. The lock is held.
void CachingAllocator::trim(size_t target, size_t unit) noexcept {
  for (size_t cls = kClasses; cls-- > kFirstSingle && cached_ > target;) {
    while (cached_ > target) {
      void* data = shared_[cls].pop();
      if (data == nullptr) break;
      cached_ -= kClassBytes[cls];
      if (cls < kFirstLarge) {
        slabs_.put_back(data, kClassBytes[cls], unit);
        continue;
      }
      large_ -= kClassBytes[cls];
      poison::open(data, kClassBytes[cls]);
      unmap_pages(data, kClassBytes[cls], kHugePage);
    }
  }
  if (unit == kPage || (cached_ > target && cached_ >= sweep_at_)) {
    cached_ -= slabs_.sweep({shared_, kFirstLarge}, unit);
    sweep_at_ = cached_ + kSweepBytes;
  }
}

// Keeps all threads from their caches; registry_ is held. The caller's own is not touched by it
// meanwhile.
void CachingAllocator::claim_threads() noexcept {
  bool others = false;
  for (ThreadCache* cache = threads_; cache != nullptr; cache = cache->next) {
    if (cache == t_cache) continue;
    cache->lock.announce();
    others = true;
  }
  if (!others) return;
  OwnerLock::barrier_all();
  for (ThreadCache* cache = threads_; cache != nullptr; cache = cache->next) {
    if (cache != t_cache) cache->lock.claim();
  }
}

void CachingAllocator::release_threads() noexcept {
  for (ThreadCache* cache = threads_; cache != nullptr; cache = cache->next) {
    if (cache != t_cache) cache->lock.release();
  }
}

void CachingAllocator::empty_cache() noexcept {
  const std::lock_guard registry(registry_);
  claim_threads();
  {
    const std::lock_guard lock(mutex_);
    for (ThreadCache* cache = threads_; cache != nullptr; cache = cache->next) {
      for (size_t cls = 0; cls < kThreadClasses; ++cls) spill(cache->lists[cls], cls, 0);
    }
    trim(0, kPage);
  }
  release_threads();
}

void CachingAllocator::set_cache_limit(size_t bytes) {
  const std::lock_guard lock(mutex_);
  cache_limit_ = bytes;
  sweep_at_ = 0;
  if (cached_ > bytes) trim(bytes, kHugePage);
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

void CachingAllocator::close_thread() noexcept {
  const std::lock_guard registry(registry_);
  ThreadCache* cache = t_cache;
  settle(*cache);
  {
    const std::lock_guard lock(mutex_);
    for (size_t cls = 0; cls < kThreadClasses; ++cls) spill(cache->lists[cls], cls, 0);
  }
  for (ThreadCache** at = &threads_; *at != nullptr; at = &(*at)->next) {
    if (*at == cache) {
      *at = cache->next;
      break;
    }
  }
  retire(cache);
  t_cache = nullptr;
}

// Both halves of a fork go on with every list whole.
void CachingAllocator::before_fork() {
  registry_.lock();
  claim_threads();
  mutex_.lock();
}

// In the child only this thread goes on, and inherits what the others had.
void CachingAllocator::after_fork(bool child) {
  release_threads();
  if (child) {
    for (ThreadCache** at = &threads_; *at != nullptr;) {
      ThreadCache* cache = *at;
      if (cache == t_cache) {
        at = &cache->next;
        continue;
      }
      *at = cache->next;
      settle(*cache);
      for (size_t cls = 0; cls < kThreadClasses; ++cls) spill(cache->lists[cls], cls, 0);
      retire(cache);
    }
  }
  mutex_.unlock();
  registry_.unlock();
}

// A cache without blocks waits for the next thread; registry_ is held.
void CachingAllocator::retire(ThreadCache* cache) noexcept {
  allocations_ += cache->allocations;
  releases_ += cache->releases;
  cache->allocations = cache->releases = 0;
  cache->next = unused_;
  unused_ = cache;
}

Statistics CachingAllocator::statistics() {
  const std::lock_guard registry(registry_);
  claim_threads();
  int64_t allocations = allocations_;
  int64_t releases = releases_;
  size_t cached = 0;
  for (ThreadCache* cache = threads_; cache != nullptr; cache = cache->next) {
    settle(*cache);
    allocations += cache->allocations;
    releases += cache->releases;
    for (size_t cls = 0; cls < kThreadClasses; ++cls) {
      cached += cache->lists[cls].count() * kClassBytes[cls];
    }
  }
  release_threads();
  const std::lock_guard lock(mutex_);
  return {current_,
          peak_,
          static_cast<int64_t>(cached_ + cached),
          static_cast<int64_t>(large_ + slabs_.reserved()),
          allocations,
          allocations - releases,
          system_ + slabs_.mappings()};
}

void CachingAllocator::reset_peak() {
  statistics();  // settles
  peak_ = current_.load();
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
