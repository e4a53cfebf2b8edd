// Kernels from source by NVRTC or hipRTC, or from what earlier processes have kept.
#pragma once

#include <string>

#include "cuda/library.h"

namespace tinyt::cuda {

// What kernels are built for: a device by its name and its compute capability, 90 for 9.0.
struct BuildTarget {
  std::string name;
  int capability = 0;
};

// For the device whose context is this thread's; its module is kept for the life of the process.
// RuntimeError with the compiler's own words where it takes no source.
Function build_kernel(const Libraries& libraries, const BuildTarget& target,
                      const std::string& source, const std::string& name);

}  // namespace tinyt::cuda
