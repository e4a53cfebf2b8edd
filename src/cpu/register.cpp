// The CPU's kernels, one per row of ops.def.
#include "core/device/device.h"
#include "core/graph/fusion_target.h"
#include "core/ops/kernels.h"
#include "core/ops/to_device.h"

#include "cpu/attention/attention.h"
#include "cpu/conv/conv.h"
#include "cpu/conv/pool.h"
#include "cpu/conv/resample.h"
#include "cpu/copy/copy.h"
#include "cpu/elementwise/elementwise.h"
#include "cpu/fused/tile_schedule.h"
#include "cpu/index/index.h"
#include "cpu/index/searchsorted.h"
#include "cpu/index/select.h"
#include "cpu/index/sort.h"
#include "cpu/matmul/linear.h"
#include "cpu/matmul/lstm.h"
#include "cpu/matmul/matmul.h"
#include "cpu/matmul/triangular.h"
#include "cpu/norm/batch_norm.h"
#include "cpu/norm/cross_entropy.h"
#include "cpu/norm/group_norm.h"
#include "cpu/norm/norm.h"
#include "cpu/norm/softmax.h"
#include "cpu/optim/optim.h"
#include "cpu/random/random.h"
#include "cpu/random/variates.h"
#include "cpu/reduce/moments.h"
#include "cpu/reduce/reduce.h"
#include "cpu/reduce/scan.h"
#include "cpu/register.h"
#include "cpu/runtime.h"
#include "cpu/schedule/cost_estimate.h"

namespace tinyt::cpu {

namespace {

// The core's, on every device.
constexpr Kernel kernel_to_device = copy_to_device;
// Always views: dispatch never asks for a kernel.
constexpr Kernel kernel_as_strided = nullptr;
constexpr Kernel kernel_permute = nullptr;
constexpr Kernel kernel_expand = nullptr;
constexpr Kernel kernel_slice = nullptr;
constexpr Kernel kernel_view_as_real = nullptr;
constexpr Kernel kernel_view_as_complex = nullptr;

const Kernels kKernels{
    .lacks = nullptr,
    .rows =
        {
#define SCALAR_OP(...) kernel_elementwise,
#define STRUCT_OP(name, ...) kernel_##name,
#define REDUCE_OP(...) kernel_reduce,
#define UPDATE_OP(...) kernel_optim_step,
#include "core/ops/ops.def"
#undef SCALAR_OP
#undef STRUCT_OP
#undef REDUCE_OP
#undef UPDATE_OP
        },
    .copy_into = copy_into,
    .count_nonzero = count_nonzero,
};

const FusionTarget kFusionTarget{
    run_tiles, run_product, kernel_dtype, cpu::cost_of, effort_of_tiles, adds_in_place,
};

}  // namespace

void register_cpu() {
  const DeviceKind kind = register_device("cpu", runtime());
  register_kernels(kind, kKernels);
  register_fusion_target(kind, kFusionTarget);
}

}  // namespace tinyt::cpu
