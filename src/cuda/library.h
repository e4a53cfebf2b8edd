// CUDA's driver and its compiler, opened when they are asked for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cuda/api.h"

namespace tinyt::cuda {

// Where packages bring the compiler, NVRTC: paths of its library, a line each.
void set_compilers(const std::string& paths);

// Whose devices: NVIDIA's by CUDA, or AMD's by HIP, which has no graphs and no kernels by hand
// here.
enum class Platform : uint8_t { Cuda, Hip };

struct Libraries {
  Platform platform = Platform::Cuda;
  Api driver;
  CompilerApi compiler;
  std::string compiler_version;    // "12.9"
  std::vector<int> architectures;  // that NVRTC makes code for: 90 for 9.0
};
// libcuda, or the library that TINYT_CUDA_LIBRARY names, initialised; and the compiler for its
// version, or the one that TINYT_NVRTC_LIBRARY names. Where there is no libcuda, or where
// TINYT_HIP_LIBRARY is set, HIP's (hip_library.h). DeviceError that says what to install where
// one is missing or too old.
const Libraries& libraries();

// Whether all that follows in this process returns a status once it was returned: the context is
// gone.
bool is_lost(Status status);

// OutOfMemoryError, DeviceError where the device may be lost, or RuntimeError, that names the call;
// nothing for kSuccess.
void check(const Api& api, Status status, const char* call);

}  // namespace tinyt::cuda
