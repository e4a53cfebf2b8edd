// The order of what a device is asked for, while runs of programs and captures keep some of it.
#pragma once

#include <atomic>
#include <exception>
#include <mutex>
#include <span>
#include <thread>

#include "cuda/graphs.h"
#include "cuda/work_list.h"

namespace tinyt::cuda {

// Of one device. One run at a time keeps a list of what its thread asks for, and one capture. All
// else that is put into the device's stream, or waits for it, calls `send` first: so everything is
// done in the order of the calls, but what is captured, which is not done. The device's context is
// the thread's wherever the driver is called.
class DeviceWork {
 public:
  DeviceWork(const Api& api, Context context, Stream stream)
      : api_(api), context_(context), stream_(stream) {}

  // From now on this thread's work is kept for these graphs; false, and no end follows, where
  // another run keeps its own. A run inside a run of the same thread is a part of that.
  bool begin(RunGraphs& graphs);
  void end();
  // Errors are lost beside the one for which the run ends.
  void abandon() noexcept;

  // From now on all that this thread asks for is listed, and not done; RuntimeError where a capture
  // or a run of this thread is open.
  void begin_capture();
  // RuntimeError where something was asked for that a list cannot have, or in another thread.
  WorkList end_capture();
  void abandon_capture() noexcept;
  bool is_capturing() const {
    return capturer_.load(std::memory_order_relaxed) == std::this_thread::get_id();
  }

  // False where nothing is kept: then the driver is to be called.
  bool keep_kernel(Function function, const LaunchShape& shape, std::span<const Address> addresses,
                   const void* structure, size_t bytes);
  bool keep_copy(Address to, Address from, size_t bytes);
  bool keep_fill(Address to, size_t bytes, uint8_t value);

  // What is kept goes to the driver. Of another thread's run it goes call by call, and the rest of
  // that run keeps nothing: where the two meet is another place each time. Errors are those of the
  // run that has asked. RuntimeError in a thread that captures, whose capture is of no use then.
  void send() {
    if (is_capturing()) [[unlikely]]
      refuse_in_capture();
    if (has_work_.load(std::memory_order_acquire)) [[unlikely]]
      send_kept();
  }

 private:
  static constexpr size_t kMostKept = 4096;  // items of a list; more are several

  bool is_mine() const {
    return owner_.load(std::memory_order_relaxed) == std::this_thread::get_id();
  }
  template <class F>
  bool keep(const F& add);
  [[noreturn]] void refuse_in_capture();
  void send_kept();
  void send_own();
  void send_one_by_one();
  Status call(const WorkList::Item& item);
  void close();

  const Api& api_;
  const Context context_;
  const Stream stream_;
  std::mutex mutex_;                    // of what follows, but of whether there is anything
  std::atomic<std::thread::id> owner_;  // no thread: nobody keeps work
  std::atomic<bool> has_work_{false};
  RunGraphs* graphs_ = nullptr;
  int depth_ = 0;             // of runs inside runs
  bool interrupted_ = false;  // by another thread
  std::exception_ptr error_;  // of what another thread has sent
  WorkList list_;
  std::atomic<std::thread::id> capturer_;  // no thread: nothing is captured
  std::atomic<bool> is_valid_{true};       // what is captured, which its thread alone uses
  WorkList captured_;
};

}  // namespace tinyt::cuda
