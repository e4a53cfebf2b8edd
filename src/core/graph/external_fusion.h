// Fused kernels on devices from shared libraries, through the C interface (ops/backend_api.h).
#pragma once

#include "core/device/device.h"

namespace tinyt {

// Of a kind that a library has brought, if it fuses; RuntimeError where it leaves out a function.
void register_external_fusion(DeviceKind kind);

}  // namespace tinyt
