// The operations that a device ran last, by name: what a kernel does wrong shows when somebody
// waits for the device.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>

namespace tinyt::cuda {

// Safe from any thread; a launch costs two stores.
class LaunchLog {
 public:
  // A kernel of an operation was asked for; null: of none. The name lives as long as the process.
  void note(const char* operation) {
    const uint64_t number = launched_.fetch_add(1, std::memory_order_relaxed);
    operations_[number % kKept].store(operation, std::memory_order_relaxed);
  }
  uint64_t launched() const { return launched_.load(std::memory_order_relaxed); }
  // That many have run without an error.
  void mark_done(uint64_t launched);

  // Which operations an error may be of, as the end of a message: those since the last wait, the
  // last eight of them; nothing where there are none.
  std::string suspects() const;

 private:
  static constexpr uint64_t kKept = 64;

  std::atomic<uint64_t> launched_{0}, done_{0};
  std::array<std::atomic<const char*>, kKept> operations_{};
};

// Of the device whose context this thread has through a `CudaDriver`.
inline constinit thread_local const LaunchLog* t_launches = nullptr;

}  // namespace tinyt::cuda
