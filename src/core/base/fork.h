// Locks across fork(2). A child has the thread that forked and no other, so a lock that another
// thread held would be taken for ever. A lock of the library is one of these two; nothing else in
// src/core may wait for another thread (the allocator and the pool have handlers of their own).
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

namespace tinyt {

// How many forks lie between the first process and this one. State that a dead thread may have left
// half done is compared with it, and made anew.
uint32_t fork_count();

// The allocator's part of every fork, after all mutexes are taken and before they are given back:
// whoever holds one may ask for memory. The handlers live for ever.
struct AllocatorForkHandlers {
  void (*before)();
  void (*after)(bool child);
};
void set_allocator_fork_handlers(const AllocatorForkHandlers* handlers);

// Calls a function in every child of a fork, when fork_count() tells of it and the mutexes below
// are free. For a few functions in all.
void call_in_children(void (*function)());

// A mutex held for moments: every fork takes it first, so that the child finds whole what it
// guards. Whoever holds one takes no other one, makes and destroys none, and does not wait for the
// interpreter's lock, which the forking thread may have.
class ForkSafeMutex {
 public:
  ForkSafeMutex();
  ~ForkSafeMutex();
  ForkSafeMutex(const ForkSafeMutex&) = delete;
  ForkSafeMutex& operator=(const ForkSafeMutex&) = delete;
  void lock() { mutex_.lock(); }
  bool try_lock() { return mutex_.try_lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  friend struct ForkSafeMutexes;
  std::mutex mutex_;
  ForkSafeMutex *before_ = nullptr, *next_ = nullptr;
};

// A mutex held for as long as a run takes, which no fork can wait for: in a child it is free if
// another thread held it. What it guards is half done then; fork_count() tells. Not inline: each
// shared library has a list of its own of who waits for an atomic.
class RunMutex {
 public:
  void lock();
  bool try_lock();
  void unlock();
  // Whether this thread holds it.
  bool is_mine() const;
  // Whether the thread that holds it is not of this process.
  bool is_lost() const { return is_lost(owner_.load(std::memory_order_relaxed)); }

 private:
  static bool is_lost(uint64_t owner);

  std::atomic<uint64_t> owner_{0};  // 0: free; else the fork count and the thread's number
};

}  // namespace tinyt
