#include "core/graph/fusion_target.h"

#include <array>
#include <atomic>

namespace tinyt {

namespace {

std::array<std::atomic<const FusionTarget*>, kMaxDeviceKinds> g_targets{};

}  // namespace

void register_fusion_target(DeviceKind kind, const FusionTarget& target) {
  g_targets[static_cast<size_t>(kind)] = &target;
}

const FusionTarget* find_fusion_target(Device device) {
  return g_targets[static_cast<size_t>(device.kind)];
}

}  // namespace tinyt
