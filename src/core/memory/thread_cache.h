// What one thread keeps for itself: free blocks of the small classes, and counts that need no
// atomic addition. The thread holds `lock` in every call; others claim it to look or to collect.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/memory/owner_lock.h"
#include "core/memory/size_class.h"

namespace tinyt::memory {

struct ThreadCache {
  // Live bytes that a thread may be ahead or behind of the sum of all.
  static constexpr int64_t kSlack = 64 << 10;

  explicit ThreadCache(bool has_barriers) : lock(has_barriers) {}

  // Counts a block; true when the bytes should be settled.
  bool out(int64_t bytes) {
    ++allocations;
    ahead += bytes;
    most_ahead = std::max(most_ahead, ahead);
    return ahead > kSlack;
  }
  bool in(int64_t bytes) {
    ++releases;
    ahead -= bytes;
    return ahead < -kSlack;
  }

  OwnerLock lock;
  int64_t ahead = 0;       // live bytes not settled yet
  int64_t most_ahead = 0;  // the highest since they were settled
  int64_t allocations = 0;
  int64_t releases = 0;
  FreeList lists[kThreadClasses];
  ThreadCache* next = nullptr;
};

}  // namespace tinyt::memory
