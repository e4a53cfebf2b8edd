#include "core/ops/kernels.h"

#include "core/base/error.h"

namespace tinyt {

KernelTables g_kernels{};
KernelTables g_eager_kernels{};

void register_kernels(DeviceKind kind, const Kernels& kernels) {
  g_kernels[static_cast<size_t>(kind)] = &kernels;
  set_eager_kernels(kind, kernels);
}

void set_eager_kernels(DeviceKind kind, const Kernels& kernels) {
  g_eager_kernels[static_cast<size_t>(kind)].store(&kernels, std::memory_order_release);
}

void no_kernels(Device device) {
  fail(ErrorKind::Device, "device: ", name_of(device), " has no kernels");
}

}  // namespace tinyt
