// A lock that costs its owner two plain stores and a load, since only the one who claims it from
// outside pays: the kernel then sends a memory barrier to all threads of the process.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace tinyt::memory {

class OwnerLock {
 public:
  // Asks for barriers in other threads, once for the process. Where the system has none, owners
  // order their own stores and loads, at the cost of an exclusive instruction.
  static bool enable_barriers() noexcept {
    return barrier(1 << 4);  // MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED
  }

  explicit OwnerLock(bool has_barriers) : has_barriers_(has_barriers) {}

  // By the thread that owns it.
  void lock() noexcept {
    while (!try_lock()) [[unlikely]]
      wait();
  }
  void unlock() noexcept { busy_.store(false, std::memory_order_release); }

  // By another thread, one at a time: announce() on all locks, one barrier_all(), then claim().
  void announce() noexcept { claimed_.store(true, std::memory_order_seq_cst); }
  static void barrier_all() noexcept {
    barrier(1 << 3);  // MEMBARRIER_CMD_PRIVATE_EXPEDITED
  }
  void claim() noexcept {
    while (busy_.load(std::memory_order_seq_cst)) std::this_thread::yield();
  }
  void release() noexcept { claimed_.store(false, std::memory_order_release); }

 private:
  bool try_lock() noexcept {
    if (has_barriers_) [[likely]] {
      busy_.store(true, std::memory_order_relaxed);
      std::atomic_signal_fence(std::memory_order_seq_cst);
    } else {
      busy_.store(true, std::memory_order_seq_cst);
    }
    return !claimed_.load(std::memory_order_seq_cst);
  }
  [[gnu::noinline]] void wait() noexcept {
    busy_.store(false, std::memory_order_release);
    while (claimed_.load(std::memory_order_relaxed)) std::this_thread::yield();
  }
  static bool barrier([[maybe_unused]] int command) noexcept {
#if defined(__linux__) && defined(SYS_membarrier)
    return syscall(SYS_membarrier, command, 0, 0) == 0;
#else
    return false;
#endif
  }

  const bool has_barriers_;
  std::atomic<bool> busy_{false};
  std::atomic<bool> claimed_{false};
};

}  // namespace tinyt::memory
