#include "cuda/register.h"

#include "cuda/cuda_driver.h"
#include "cuda/library.h"
#include "gpu/opening.h"

namespace tinyt::cuda {

using Opening = gpu::Opening<CudaDriver, libraries>;

Runtime& find_cuda() { return Opening::driver(); }
void register_cuda() { Opening::register_as("cuda"); }

}  // namespace tinyt::cuda
