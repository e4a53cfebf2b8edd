#include "core/ops/to_device.h"

#include <cstring>

#include "core/device/runtime.h"
#include "core/ops/fallback.h"

namespace tinyt {

namespace {

thread_local bool t_copies_later = false;

}  // namespace

LaterCopies::LaterCopies() : outer_(t_copies_later) { t_copies_later = true; }
LaterCopies::~LaterCopies() { t_copies_later = outer_; }

Buffer memory_of(const Tensor& x) {
  return x.storage().buffer.part(static_cast<size_t>(x.offset()) * x.itemsize(),
                                 static_cast<size_t>(x.numel()) * x.itemsize());
}

void copy_bytes(const Buffer& to, const Buffer& from, size_t bytes) {
  if (bytes == 0) return;
  if (to.device == Device{} && from.device == Device{}) {
    std::memcpy(to.host, from.host, bytes);
    return;
  }
  // The host's memory is known to every runtime, that of others to their own.
  const Device device = to.device == Device{} ? from.device : to.device;
  Runtime& runtime = runtime_of(device);
  if (t_copies_later)
    runtime.copy_later(to, 0, from, 0, bytes);
  else
    runtime.copy(to, 0, from, 0, bytes);
}

void copy_between(const Tensor& from, const Tensor& to) {
  const size_t bytes = static_cast<size_t>(from.numel()) * from.itemsize();
  if (bytes == 0) return;
  const DeviceKind kinds[] = {from.device().kind, to.device().kind};
  if (kinds[0] == kinds[1] || kinds[0] == DeviceKind::CPU || kinds[1] == DeviceKind::CPU) {
    copy_bytes(memory_of(to), memory_of(from), bytes);
    return;
  }
  const Tensor between = Tensor::empty(from.shape(), from.dtype());
  copy_bytes(memory_of(between), memory_of(from), bytes);
  copy_bytes(memory_of(to), memory_of(between), bytes);
}

void copy_to_device(const KernelCall& call) {
  const Tensor& from = call.inputs[0];
  if (from.is_contiguous()) {
    copy_between(from, call.outputs[0]);
    return;
  }
  const Tensor dense = Tensor::empty(from.shape(), from.dtype(), from.device());
  copy_into(name_of(OpId::to_device), from, dense);
  copy_between(dense, call.outputs[0]);
}

}  // namespace tinyt
