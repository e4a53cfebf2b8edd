// WebGPU devices: "webgpu:0", "webgpu:1".
#pragma once

#include "core/device/runtime.h"

namespace tinyt::webgpu {

// The devices that the library has (webgpu/library.h), which is opened where that has not been
// done; no tensor is on them before they are registered. DeviceError that says what is missing
// where there is none.
Runtime& find_webgpu();
// The same as the kind "webgpu".
void register_webgpu();

}  // namespace tinyt::webgpu
