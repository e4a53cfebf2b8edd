// Devices from shared libraries, through the C interface of backend_api.h.
#pragma once

#include <string>

#include "core/device/device.h"
#include "core/ops/backend_api.h"

namespace tinyt {

// Loads a library, whose code runs, and registers the device that it brings. RuntimeError where it
// cannot be loaded, has no entry, is of another version or incomplete; ValueError for a name that
// is taken.
DeviceKind load_backend(const std::string& path);
// Of a kind that came from a library, what that has returned; else null.
const TinytBackend* external_backend(DeviceKind kind);

// What TinytHost.run_fused_on_cpu does; the graph registers it.
using FusedOnCpu = void (*)(const TinytFusedKernel& kernel, const TinytTensor* operands,
                            const TinytTensor* stores);
void register_fused_on_cpu(FusedOnCpu run);

}  // namespace tinyt
