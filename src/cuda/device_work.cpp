#include "cuda/device_work.h"

#include <utility>

#include "cuda/library.h"

namespace tinyt::cuda {

namespace {

constexpr const char* kFailedBefore =
    "cuda: operation failed due to a previous error during capture";

}  // namespace

using Lock = std::lock_guard<std::mutex>;

bool DeviceWork::begin(RunGraphs& graphs) {
  if (is_capturing()) return false;  // a part of that
  const Lock lock(mutex_);
  if (depth_ > 0 && !is_mine()) return false;
  if (depth_++ > 0) return true;
  graphs_ = &graphs;
  interrupted_ = false;
  owner_.store(std::this_thread::get_id(), std::memory_order_relaxed);
  return true;
}

void DeviceWork::close() {
  if (--depth_ > 0) return;
  owner_.store({}, std::memory_order_relaxed);
  graphs_ = nullptr;
}

void DeviceWork::end() {
  const Lock lock(mutex_);
  struct Closed {
    DeviceWork& work;
    ~Closed() { work.close(); }
  } closed{*this};
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  if (depth_ == 1) send_own();
}

void DeviceWork::abandon() noexcept {
  const Lock lock(mutex_);
  try {
    if (depth_ == 1) send_one_by_one();
  } catch (...) {  // the run fails with another one
  }
  error_ = nullptr;
  close();
}

// ---- captures

void DeviceWork::begin_capture() {
  const Lock lock(mutex_);
  require(!is_mine(), ErrorKind::Runtime,
          "cuda: a capture cannot begin in a run of a compiled program");
  require(capturer_.load(std::memory_order_relaxed) == std::thread::id{}, ErrorKind::Runtime,
          "cuda: another graph of this device is being captured");
  captured_.clear();
  is_valid_ = true;
  capturer_.store(std::this_thread::get_id(), std::memory_order_relaxed);
}

WorkList DeviceWork::end_capture() {
  require(is_capturing(), ErrorKind::Runtime,
          "cuda: a capture ends in the thread in which it began");
  const bool is_valid = is_valid_;
  WorkList captured = std::exchange(captured_, {});
  abandon_capture();
  require(is_valid, ErrorKind::Runtime, kFailedBefore);
  return captured;
}

void DeviceWork::abandon_capture() noexcept { capturer_.store({}, std::memory_order_relaxed); }

void DeviceWork::refuse_in_capture() {
  is_valid_ = false;
  fail(
      ErrorKind::Runtime,
      "cuda: operation not permitted when stream is capturing: a graph cannot wait for the device, "
      "read values or copy to or from the host; do that before or after the capture");
}

// ---- what is kept

template <class F>
bool DeviceWork::keep(const F& add) {
  if (is_capturing()) [[unlikely]] {
    require(is_valid_, ErrorKind::Runtime, kFailedBefore);
    add(captured_);
    return true;
  }
  if (!is_mine()) return false;
  const Lock lock(mutex_);
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  if (interrupted_) return false;
  if (list_.size() == kMostKept) send_own();
  add(list_);
  has_work_.store(true, std::memory_order_release);
  return true;
}

bool DeviceWork::keep_kernel(Function function, const LaunchShape& shape,
                             std::span<const Address> addresses, const void* structure,
                             size_t bytes) {
  return keep(
      [&](WorkList& list) { list.add_kernel(function, shape, addresses, structure, bytes); });
}

bool DeviceWork::keep_copy(Address to, Address from, size_t bytes) {
  return keep([&](WorkList& list) { list.add_copy(to, from, bytes); });
}

bool DeviceWork::keep_fill(Address to, size_t bytes, uint8_t value) {
  return keep([&](WorkList& list) { list.add_fill(to, bytes, value); });
}

// ---- sending

void DeviceWork::send_kept() {
  const Lock lock(mutex_);
  if (is_mine()) return send_own();
  if (list_.size() == 0) return;
  interrupted_ = true;
  try {
    send_one_by_one();
  } catch (...) {
    error_ = std::current_exception();
  }
}

void DeviceWork::send_own() {
  struct Emptied {
    DeviceWork& work;
    ~Emptied() {
      work.list_.clear();
      work.has_work_.store(false, std::memory_order_release);
    }
  } emptied{*this};
  if (list_.size() > 0 && !graphs_->launch(list_, context_, stream_)) send_one_by_one();
}

// Memory that the rest of the list works on may be kept for others by now, so none goes back to the
// driver where it has none left for a call.
void DeviceWork::send_one_by_one() {
  struct Emptied {
    DeviceWork& work;
    ~Emptied() {
      work.list_.clear();
      work.has_work_.store(false, std::memory_order_release);
    }
  } emptied{*this};
  for (size_t i = 0; i < list_.size(); ++i) {
    const WorkList::Item& item = list_[i];
    Status status = call(item);
    if (status == kOutOfMemory) [[unlikely]] {
      check(api_, api_.cuStreamSynchronize(stream_), "cuStreamSynchronize");
      status = call(item);
    }
    check(api_, status,
          item.kind == WorkList::Kind::Kernel ? "cuLaunchKernel"
          : item.kind == WorkList::Kind::Copy ? "cuMemcpyDtoDAsync"
                                              : "cuMemsetD8Async");
  }
}

Status DeviceWork::call(const WorkList::Item& item) {
  switch (item.kind) {
    case WorkList::Kind::Copy:
      return api_.cuMemcpyDtoDAsync(item.to, item.from, item.bytes, stream_);
    case WorkList::Kind::Fill:
      return api_.cuMemsetD8Async(item.to, item.value, item.bytes, stream_);
    default: {
      ArgumentPointers arguments = list_.arguments(item);
      return api_.cuLaunchKernel(item.function, item.shape.blocks, 1, 1, item.shape.threads, 1, 1,
                                 item.shape.shared_bytes, stream_, arguments.data(), nullptr);
    }
  }
}

}  // namespace tinyt::cuda
