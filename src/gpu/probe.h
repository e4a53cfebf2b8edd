// What a device's arithmetic of floats is, found by trying it.
#pragma once

#include "core/base/dtype.h"
#include "core/device/device.h"

namespace tinyt::gpu {

// Whether results have the bits that IEEE 754 asks for. Each operation by operands and results that
// are normal numbers or zeros; what else there is by all operations.
struct Arithmetic {
  bool fma = true, division = true, root = true, product = true;
  bool order = true;  // (a + b) - a is neither simplified nor contracted
  bool subnormals = true, infinity = true, nan = true;
};

// By a kernel of the device, through the spellings that its other kernels use, beside the host.
// NotImplementedError where its kernels lack the dtype, which is float32 or float64.
Arithmetic probe_arithmetic(Device device, DType dtype);

}  // namespace tinyt::gpu
