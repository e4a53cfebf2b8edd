#include "core/graph/fusion_target.h"

#include <array>
#include <atomic>

#include "core/base/error.h"

namespace tinyt {

namespace {

std::array<std::atomic<const FusionTarget*>, kMaxDeviceKinds> g_targets{};

}  // namespace

void register_fusion_target(DeviceKind kind, const FusionTarget& target) {
  g_targets[static_cast<size_t>(kind)] = &target;
}

const FusionTarget& fusion_target_of(Device device) {
  const FusionTarget* target = g_targets[static_cast<size_t>(device.kind)];
  require(target != nullptr, ErrorKind::Device, "device: programs do not run on ", name_of(device));
  return *target;
}

}  // namespace tinyt
