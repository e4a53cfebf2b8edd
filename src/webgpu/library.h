// wgpu-native, opened when it is asked for.
#pragma once

#include <string>

#include "webgpu/api.h"

namespace tinyt::webgpu {

// Where the library is that the package `wgpu` brings; empty: it is not installed.
void set_library(const std::string& path);
// The functions of that library, or of the one that TINYT_WEBGPU_LIBRARY names. DeviceError that
// says what to install where there is none, or one of another version.
const Api& library();

}  // namespace tinyt::webgpu
