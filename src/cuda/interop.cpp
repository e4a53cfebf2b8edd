#include "cuda/interop.h"

#include <memory>
#include <utility>

#include "cuda/current.h"
#include "cuda/hand_kernels.h"
#include "cuda/register.h"

namespace tinyt::cuda {

namespace {

// Memory of another library, and how it goes back.
struct ForeignMemory {
  Device device;
  void (*release)(void*);
  void* owner;
};

void release_foreign_memory(void* kept) {
  const std::unique_ptr<ForeignMemory> memory(static_cast<ForeignMemory*>(kept));
  // Its owner may use it again at once, in streams that know nothing of the device's.
  cuda_driver(memory->device).finish(memory->device.index);
  memory->release(memory->owner);
}

Stream as_stream(int64_t number) { return reinterpret_cast<Stream>(number); }

}  // namespace

// ---- the driver's part

void CudaDriver::let_stream_wait(int index, int64_t other) {
  CudaDevice& on = device(index);
  if (as_stream(other) == on.stream) return;
  const std::lock_guard<std::mutex> lock(turns_);
  const Current current(api_, on);
  record_event(on, on.turn);
  check(api_, api_.cuStreamWaitEvent(as_stream(other), on.turn, 0), "cuStreamWaitEvent");
}

void CudaDriver::wait_for_stream(int index, int64_t other) {
  CudaDevice& on = device(index);
  if (as_stream(other) == on.stream) return;
  const Current current(api_, on);
  Event event = nullptr;
  check(api_, api_.cuEventCreate(&event, kWithoutTimes), "cuEventCreate");
  Status status = api_.cuEventRecord(event, as_stream(other));
  try {
    check(api_, status, "cuEventRecord");
    wait_for_event(on, event);
  } catch (...) {
    api_.cuEventDestroy(event);
    throw;
  }
  // It goes when it has happened.
  check(api_, api_.cuEventDestroy(event), "cuEventDestroy");
}

int CudaDriver::device_of_memory(Address address) {
  const Current current(api_, device(0));
  int id = -1;
  const Status status = api_.cuPointerGetAttribute(&id, kDeviceOrdinal, address);
  if (status == kInvalidValue) return -1;
  check(api_, status, "cuPointerGetAttribute");
  for (size_t i = 0; i < devices_.size(); ++i)
    if (devices_[i].id == id) return static_cast<int>(i);
  return -1;
}

void CudaDriver::finish(int index) noexcept {
  if (!is_own_process()) return;
  try {
    wait(index);
  } catch (const Error&) {
  }
}

// ---- by device

bool is_of_hip(Device device) { return cuda_driver(device).is_hip(); }

Address address_of(const Tensor& t) {
  const Buffer& buffer = t.storage().buffer;
  if (buffer.handle == nullptr) return 0;
  return address_in(buffer, static_cast<size_t>(t.offset()) * t.itemsize());
}

int64_t stream_handle(Device device) {
  return reinterpret_cast<int64_t>(cuda_driver(device).queue_handle(device.index));
}
void let_stream_wait(Device device, int64_t other) {
  cuda_driver(device).let_stream_wait(device.index, other);
}
void wait_for_stream(Device device, int64_t other) {
  cuda_driver(device).wait_for_stream(device.index, other);
}
void wait_for_legacy_stream(Device device) noexcept {
  try {
    wait_for_stream(device, kLegacyStream);
  } catch (const Error&) {
  }
}

std::optional<Device> device_of_memory(Address address) {
  const Device first = cuda_device(0);
  const int index = cuda_driver(first).device_of_memory(address);
  if (index < 0) return std::nullopt;
  return Device{first.kind, static_cast<uint8_t>(index)};
}

Ref<Storage> foreign_memory(Device device, Address address, size_t bytes, void (*release)(void*),
                            void* owner) {
  // Kernels may read several elements at once, and count on where the driver's memory begins.
  constexpr Address kAligned = 256;
  auto kept = std::make_unique<ForeignMemory>(ForeignMemory{device, release, owner});
  Ref<Storage> storage = Storage::without_memory(bytes, device);
  storage->buffer.handle = reinterpret_cast<void*>(address / kAligned * kAligned);
  storage->buffer.offset = static_cast<size_t>(address % kAligned);
  storage->release_foreign = release_foreign_memory;
  storage->owner = kept.release();
  return storage;
}

memory::Allocator* pinned_memory() {
  if (!find_device_kind("cuda")) {
    static const bool is_tried = [] {
      try {
        register_cuda();
      } catch (const Error&) {
      }
      return true;
    }();
    (void)is_tried;
    if (!find_device_kind("cuda")) return nullptr;
  }
  CudaDriver& driver = cuda_driver(cuda_device(0));
  return driver.is_own_process() ? &driver.pinned() : nullptr;
}

bool is_pinned(const Tensor& t) {
  if (!find_device_kind("cuda") || t.device() != Device{}) return false;
  const void* host = t.storage().buffer.host;
  return host != nullptr && cuda_driver(cuda_device(0)).pinned().holds(host);
}

}  // namespace tinyt::cuda
