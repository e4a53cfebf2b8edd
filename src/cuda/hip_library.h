// HIP's runtime in the place of CUDA's driver, and hipRTC in that of NVRTC, for AMD's devices.
#pragma once

#include <optional>
#include <string>

#include "cuda/library.h"

namespace tinyt::cuda {

// libamdhip64 and hipRTC, or the libraries that TINYT_HIP_LIBRARY and TINYT_HIPRTC_LIBRARY name,
// initialised, as functions of CUDA's; nothing, and why, where one is missing or too old, or where
// there is no device.
std::optional<Libraries> hip_libraries(std::string& why);
// Whether TINYT_HIP_LIBRARY asks for HIP.
bool is_hip_named();

}  // namespace tinyt::cuda
