// Memory that a kernel needs while it runs.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>

#include "core/memory/allocator.h"

namespace tinyt::cpu {

// A block for the lifetime of one call.
class Workspace {
 public:
  explicit Workspace(int64_t bytes)
      : block_(bytes == 0 ? Buffer{} : source().allocate(static_cast<size_t>(bytes))) {}
  ~Workspace() {
    if (block_.from != nullptr) block_.from->release(block_);
  }
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  char* data() const { return static_cast<char*>(block_.host); }

 private:
  static memory::Allocator& source() {
    if (memory::Allocator* substitute = memory::substitute()) [[unlikely]]
      return *substitute;
    return memory::caching();
  }

  Buffer block_;
};

// Pieces of memory for tasks that run at the same time, so that workers do not allocate.
class Slots {
 public:
  Slots(char* memory, int64_t bytes, int64_t count)
      : memory_(memory), bytes_(bytes), count_(count) {
    if (count > 1) more_ = std::make_unique<std::atomic<bool>[]>(static_cast<size_t>(count - 1));
  }

  // Waits only when more tasks run than there were threads at the construction.
  template <class F>
  void with_one(F&& body) {
    if (bytes_ == 0) return body(memory_);  // nothing to share
    int64_t i = 0;
    while (busy(i).exchange(true, std::memory_order_acquire)) {
      if (++i == count_) {
        i = 0;
        std::this_thread::yield();
      }
    }
    struct Release {
      std::atomic<bool>& busy;
      ~Release() { busy.store(false, std::memory_order_release); }
    } release{busy(i)};
    body(memory_ + i * bytes_);
  }

 private:
  // The first needs no allocation; another thread may raise the number of threads at any time.
  std::atomic<bool>& busy(int64_t i) { return i == 0 ? first_ : more_[static_cast<size_t>(i - 1)]; }

  char* memory_;
  int64_t bytes_, count_;
  std::atomic<bool> first_ = false;
  std::unique_ptr<std::atomic<bool>[]> more_;
};

}  // namespace tinyt::cpu
