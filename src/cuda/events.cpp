// Events of CUDA's streams, and what its driver says of memory.
#include <atomic>

#include "core/base/error.h"
#include "cuda/current.h"

namespace tinyt::cuda {

// Made in the device's context when it is recorded first.
class CudaDriver::QueueEvent final : public DeviceEvent {
 public:
  QueueEvent(CudaDriver& driver, int index, bool has_times)
      : driver_(driver), api_(driver.api_), index_(index), has_times_(has_times) {}

  // A child of a fork, and a process that has lost its device, keep what they cannot give back.
  ~QueueEvent() override {
    if (event_ == nullptr || !driver_.is_own_process()) return;
    try {
      const Current current(api_, driver_.device(index_));
      api_.cuEventDestroy(event_);
    } catch (const Error&) {
    }
  }

  void record(void* queue) override {
    const Current current(api_, driver_.device(index_));
    is_captured_ = queue == nullptr && driver_.is_capturing(index_);
    if (is_captured_) return;  // a graph's work is done in order
    if (event_ == nullptr) {
      Event made = nullptr;
      check(api_, api_.cuEventCreate(&made, has_times_ ? kWithTimes : kWithoutTimes),
            "cuEventCreate");
      event_ = made;
    }
    check(api_, api_.cuEventRecord(event_, stream(index_, queue)), "cuEventRecord");
    is_recorded_ = true;
  }

  bool is_past() override {
    require_moment();
    if (!is_recorded_) return true;
    const Current current(api_, driver_.device(index_));
    const Status status = api_.cuEventQuery(event_);
    if (status == kNotReady) return false;
    check(api_, status, "cuEventQuery");
    return true;
  }

  void synchronise() override {
    require_moment();
    if (!is_recorded_) return;
    const Current current(api_, driver_.device(index_));
    check(api_, api_.cuEventSynchronize(event_), "cuEventSynchronize");
    driver_.raise_faults(index_, "synchronize");  // the host looks, as by waiting for the device
  }

  void hold(int index, void* queue) override {
    if (is_captured_ && queue == nullptr && driver_.is_capturing(index)) return;
    require_moment();
    if (!is_recorded_) return;
    const Current current(api_, driver_.device(index));
    check(api_, api_.cuStreamWaitEvent(stream(index, queue), event_, 0), "cuStreamWaitEvent");
  }

  double milliseconds_to(DeviceEvent& later) override {
    auto& other = static_cast<QueueEvent&>(later);
    require(has_times_ && other.has_times_, ErrorKind::Value,
            "Both events must be created with argument 'enable_timing=True'.");
    require_moment();
    other.require_moment();
    require(is_recorded_ && other.is_recorded_, ErrorKind::Value,
            "Both events must be recorded before calculating elapsed time.");
    require(index_ == other.index_, ErrorKind::Value,
            "elapsed_time: both events must be of one device, got cuda:", index_,
            " and cuda:", other.index_);
    require(is_past() && other.is_past(), ErrorKind::Runtime,
            "Both events must be completed before calculating elapsed time.");
    const Current current(api_, driver_.device(index_));
    float milliseconds = 0;
    check(api_, api_.cuEventElapsedTime(&milliseconds, event_, other.event_), "cuEventElapsedTime");
    return static_cast<double>(milliseconds);
  }

  void* handle() override { return event_; }

 private:
  void require_moment() const {
    require(!is_captured_, ErrorKind::Runtime,
            "Event: it was recorded in a capture, whose work has no moment of its own; record it "
            "behind replay()");
  }

  Stream stream(int index, void* queue) {
    return static_cast<Stream>(queue != nullptr ? queue : driver_.queue_handle(index));
  }

  CudaDriver& driver_;
  const Api& api_;
  const int index_;
  const bool has_times_;
  std::atomic<bool> is_recorded_ = false;
  std::atomic<bool> is_captured_ = false;  // by the last call
  std::atomic<Event> event_ = nullptr;
};

std::unique_ptr<DeviceEvent> CudaDriver::new_event(int index, bool has_times) {
  require_own_process();
  return std::make_unique<QueueEvent>(*this, index, has_times);
}

void* CudaDriver::queue_handle(int index) {
  CudaDevice& on = device(index);
  const Current current(api_, on);
  on.work->send();
  return on.stream;
}

MemoryInfo CudaDriver::memory_info(int index) {
  const Current current(api_, device(index));
  MemoryInfo info;
  check(api_, api_.cuMemGetInfo(&info.free_bytes, &info.bytes), "cuMemGetInfo");
  return info;
}

}  // namespace tinyt::cuda
