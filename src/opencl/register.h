// OpenCL devices: "opencl:0", "opencl:1".
#pragma once

#include "core/device/runtime.h"

namespace tinyt::opencl {

// The devices that the library has, which is opened where that has not been done; no tensor is on
// them before they are registered. DeviceError that says what is missing where there is none.
Runtime& find_opencl();
// The same as the kind "opencl".
void register_opencl();

}  // namespace tinyt::opencl
