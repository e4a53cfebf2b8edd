// Kernels from source, or from the binaries that earlier processes have kept.
#pragma once

#include <string>
#include <string_view>

#include "opencl/api.h"

namespace tinyt::opencl {

// What kernels are built for. `identity` says all of the device and its driver that binaries depend
// on.
struct BuildTarget {
  Context context;
  DeviceId id;
  std::string_view name, identity;
  bool is_cpu;
};

// RuntimeError with the compiler's own words where it takes no source.
Kernel build_kernel(const Api& api, const BuildTarget& target, const std::string& source,
                    const std::string& name);

}  // namespace tinyt::opencl
