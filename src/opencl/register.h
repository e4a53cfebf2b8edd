// OpenCL devices: "opencl:0", "opencl:1".
#pragma once

namespace tinyt::opencl {

// Opens the library where that has not been done, and registers the devices that it has.
// DeviceError that says what is missing where there is no library, or it has no device.
void register_opencl();

}  // namespace tinyt::opencl
