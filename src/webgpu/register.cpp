#include "webgpu/register.h"

#include "gpu/opening.h"
#include "webgpu/library.h"
#include "webgpu/webgpu_driver.h"

namespace tinyt::webgpu {

using Opening = gpu::Opening<WebGpuDriver, library>;

Runtime& find_webgpu() { return Opening::driver(); }
void register_webgpu() { Opening::register_as("webgpu"); }

}  // namespace tinyt::webgpu
