// The caching allocator as its own files see it: allocator.cpp has the calls, reclaim.cpp how
// memory goes back and how threads come and go.
//
// Blocks up to kSlabMax come in size classes and are carved from slabs. A released one goes to a
// free list of its class: that of the thread (no lock, no atomic addition), beyond some blocks that
// of the process. Larger blocks join their free neighbours and serve whatever fits best. Blocks
// carry no header: class and size follow from the bytes asked for.
//
// Locks are taken in this order: registry_, a thread's own, mutex_.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "core/base/backend_error.h"
#include "core/memory/allocator.h"
#include "core/memory/owner_lock.h"
#include "core/memory/pages.h"
#include "core/memory/poison.h"
#include "core/memory/ranges.h"
#include "core/memory/size_class.h"
#include "core/memory/slabs.h"
#include "core/memory/thread_cache.h"
#include "core/memory/thread_pointer.h"

namespace tinyt::memory {

class CachingAllocator final : public Allocator {
 public:
  CachingAllocator();
  Buffer allocate(size_t bytes) override;
  void release(const Buffer& block) noexcept override;
  void make_room(size_t bytes) noexcept override;

  Statistics statistics();
  void reset_peak();
  void raise_peak(int64_t used) noexcept;
  void empty_cache() noexcept;
  void set_cache_limit(size_t bytes);
  void set_limit(int64_t bytes);
  int64_t limit() const { return limit_; }
  void fail_nth(int64_t n);

  void close_thread() noexcept;
  void before_fork();
  void after_fork(bool child);

 private:
  static constexpr size_t kThreadMax = kClassBytes[kThreadClasses - 1] - poison::kRedZone;

  [[gnu::noinline]] Buffer allocate_slowly(size_t bytes);
  [[gnu::noinline]] void release_slowly(const Buffer& block, size_t cls) noexcept;
  [[gnu::noinline]] void relieve(ThreadCache& cache, size_t cls) noexcept;
  [[gnu::noinline]] void settle(ThreadCache& cache) noexcept;
  BackendError refusal(const char* why, size_t bytes);
  bool admit(size_t bytes);
  void update_guard() { guarded_ = limit_ != 0 || fail_in_ != 0; }
  ThreadCache* open_thread() noexcept;
  void* find(size_t bytes, bool counted);
  void* take_shared(size_t bytes);
  void* carve(size_t cls, bool at_hand);
  void* refill(ThreadCache& cache, size_t cls);
  void spill(FreeList& list, size_t cls, size_t keep) noexcept;
  size_t kept() const { return cached_ + ranges_.free_bytes(); }
  void keep_to_limit() noexcept;
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
  size_t sweep_at_ = kSweepBytes;  // bytes in shared_ that are worth a sweep
  Slabs slabs_;
  Ranges ranges_;
};

// Null before the first call of a thread and after its end.
extern TINYT_THREAD_POINTER ThreadCache* t_cache;

CachingAllocator& instance();

}  // namespace tinyt::memory
