// The OpenCL library of this machine, opened when it is asked for.
#pragma once

#include <string>

#include "opencl/api.h"

namespace tinyt::opencl {

// The functions of libOpenCL, or of the library that TINYT_OPENCL_LIBRARY names. DeviceError that
// says what to install where there is none.
const Api& library();

// Whether it may pass when memory is given back; of a call that needs none the device is lost.
bool is_short_of_memory(Int status);

// OutOfMemoryError, DeviceError where the device may be lost, or RuntimeError, that names the call;
// nothing for kSuccess.
void check(Int status, const char* call);

}  // namespace tinyt::opencl
