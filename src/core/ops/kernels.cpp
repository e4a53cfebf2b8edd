#include "core/ops/kernels.h"

#include <atomic>

#include "core/base/error.h"

namespace tinyt {

namespace {

using Tables = std::array<std::atomic<const Kernels*>, kMaxDeviceKinds>;
Tables g_kernels{};
Tables g_eager_kernels{};

const Kernels& in(const Tables& tables, Device device) {
  const Kernels* kernels = tables[static_cast<size_t>(device.kind)].load(std::memory_order_acquire);
  if (!kernels) [[unlikely]]
    fail(ErrorKind::Device, "device: ", name_of(device), " has no kernels");
  return *kernels;
}

}  // namespace

void register_kernels(DeviceKind kind, const Kernels& kernels) {
  g_kernels[static_cast<size_t>(kind)] = &kernels;
  set_eager_kernels(kind, kernels);
}

void set_eager_kernels(DeviceKind kind, const Kernels& kernels) {
  g_eager_kernels[static_cast<size_t>(kind)].store(&kernels, std::memory_order_release);
}

const Kernels& kernels_of(Device device) { return in(g_kernels, device); }
const Kernels& eager_kernels_of(Device device) { return in(g_eager_kernels, device); }

Kernel kernel_of(const Kernels& kernels, OpId op, Device device) {
  const Kernel kernel = kernels.row(op);
  if (!kernel) fail(ErrorKind::NotImplemented, name_of(op), ": no kernel on ", name_of(device));
  return kernel;
}

}  // namespace tinyt
