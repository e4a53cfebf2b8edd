// How memory goes back: spilling, trimming, emptying; how threads and forks come and go.
#include <mutex>
#include <new>

#include "core/memory/caching.h"

namespace tinyt::memory {

TINYT_THREAD_POINTER ThreadCache* t_cache = nullptr;

namespace {

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

}  // namespace

// Adds what a thread is ahead to the sum of all; its lock is held.
void CachingAllocator::settle(ThreadCache& cache) noexcept {
  raise_peak(current_ + cache.most_ahead);
  current_ += cache.ahead;
  cache.ahead = cache.most_ahead = 0;
}

// The cache of a thread that has none: a new one, or null while it is ending.
ThreadCache* CachingAllocator::open_thread() noexcept {
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

// Moves all but `keep` blocks of a thread's list to the shared one; both locks are held.
void CachingAllocator::spill(FreeList& list, size_t cls, size_t keep) noexcept {
  while (list.count() > keep) {
    shared_[cls].push(list.pop());
    cached_ += kClassBytes[cls];
  }
  keep_to_limit();
}

// Half of a list that has grown too long goes to the other threads; the thread's lock is held.
void CachingAllocator::relieve(ThreadCache& cache, size_t cls) noexcept {
  const std::lock_guard lock(mutex_);
  spill(cache.lists[cls], cls, kThreadCapacity[cls] / 2);
}

// Large blocks go first, then small ones all together; slabs give back whole huge pages only, so
// that reuse stays fast. The lock is held.
void CachingAllocator::keep_to_limit() noexcept {
  if (kept() <= cache_limit_) return;
  ranges_.trim(kept() - cache_limit_, kHugePage);
  if (kept() <= cache_limit_ || cached_ < sweep_at_) return;
  cached_ -= slabs_.sweep(shared_);
  slabs_.trim(kHugePage);
  sweep_at_ = kSweepBytes;
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
    cached_ -= slabs_.sweep(shared_);
    slabs_.trim(kPage);
    ranges_.trim(ranges_.free_bytes(), kPage);
  }
  release_threads();
}

void CachingAllocator::set_cache_limit(size_t bytes) {
  const std::lock_guard lock(mutex_);
  cache_limit_ = bytes;
  sweep_at_ = 0;
  keep_to_limit();
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

// A cache without blocks waits for the next thread; registry_ is held.
void CachingAllocator::retire(ThreadCache* cache) noexcept {
  allocations_ += cache->allocations;
  releases_ += cache->releases;
  cache->allocations = cache->releases = 0;
  cache->next = unused_;
  unused_ = cache;
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
          static_cast<int64_t>(kept() + cached),
          static_cast<int64_t>(ranges_.reserved() + slabs_.reserved()),
          allocations,
          allocations - releases,
          slabs_.mappings() + ranges_.mappings()};
}

void CachingAllocator::reset_peak() {
  statistics();  // settles
  peak_ = current_.load();
}

}  // namespace tinyt::memory
