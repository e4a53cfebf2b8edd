#include "core/ops/to_device.h"

#include "core/device/runtime.h"
#include "core/ops/fallback.h"

namespace tinyt {

namespace {

size_t first_byte(const Tensor& t) { return static_cast<size_t>(t.offset()) * t.itemsize(); }

void copy_bytes(const Tensor& from, const Tensor& to, size_t bytes) {
  // The host's memory is known to every runtime, that of others to their own.
  const Device device = to.device() == Device{} ? from.device() : to.device();
  runtime_of(device).copy(to.storage().buffer, first_byte(to), from.storage().buffer,
                          first_byte(from), bytes);
}

}  // namespace

void copy_between(const Tensor& from, const Tensor& to) {
  const size_t bytes = static_cast<size_t>(from.numel()) * from.itemsize();
  if (bytes == 0) return;
  const DeviceKind kinds[] = {from.device().kind, to.device().kind};
  if (kinds[0] == kinds[1] || kinds[0] == DeviceKind::CPU || kinds[1] == DeviceKind::CPU) {
    copy_bytes(from, to, bytes);
    return;
  }
  const Tensor between = Tensor::empty(from.shape(), from.dtype());
  copy_bytes(from, between, bytes);
  copy_bytes(between, to, bytes);
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
