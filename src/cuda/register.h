// CUDA devices: "cuda:0", "cuda:1".
#pragma once

#include "core/device/runtime.h"

namespace tinyt::cuda {

// The devices that the driver knows, whose library is opened where that has not been done; no
// tensor is on them before they are registered. DeviceError that says what is missing where there
// is none.
Runtime& find_cuda();
// The same as the kind "cuda".
void register_cuda();

}  // namespace tinyt::cuda
