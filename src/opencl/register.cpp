#include "opencl/register.h"

#include "gpu/opening.h"
#include "opencl/library.h"
#include "opencl/opencl_driver.h"

namespace tinyt::opencl {

using Opening = gpu::Opening<OpenClDriver, library>;

Runtime& find_opencl() { return Opening::driver(); }
void register_opencl() { Opening::register_as("opencl"); }

}  // namespace tinyt::opencl
