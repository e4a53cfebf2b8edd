// The CPU's kernels, one per row of ops.def.
#include "../backend.h"

#include "attention.h"
#include "backend.h"
#include "batch_norm.h"
#include "conv.h"
#include "copy.h"
#include "cross_entropy.h"
#include "effort.h"
#include "elementwise.h"
#include "group_norm.h"
#include "index.h"
#include "linear.h"
#include "lstm.h"
#include "matmul.h"
#include "norm.h"
#include "optim.h"
#include "pairs.h"
#include "pool.h"
#include "random.h"
#include "reduce.h"
#include "resample.h"
#include "scan.h"
#include "search.h"
#include "select.h"
#include "softmax.h"
#include "sort.h"
#include "tile_program.h"
#include "triangular.h"
#include "variates.h"

namespace tinyt::cpu {

namespace {

// Always views: dispatch never asks for a kernel.
constexpr Kernel kernel_as_strided = nullptr;
constexpr Kernel kernel_permute = nullptr;
constexpr Kernel kernel_expand = nullptr;
constexpr Kernel kernel_slice = nullptr;
constexpr Kernel kernel_view_as_real = nullptr;
constexpr Kernel kernel_view_as_complex = nullptr;

const Backend kBackend{
    DeviceType::CPU,
    "cpu",
    {
#define SCALAR_OP(...) kernel_elementwise,
#define STRUCT_OP(name, ...) kernel_##name,
#define REDUCE_OP(...) kernel_reduce,
#include "../ops.def"
#undef SCALAR_OP
#undef STRUCT_OP
#undef REDUCE_OP
    },
    memory::current,
    copy_into,
    run_tiles,
    run_product,
    kernel_dtype,
    optim_step,
    count_nonzero,
    effort_of,
    effort_of_tiles,
    adds_in_place,
};

}  // namespace

void register_cpu() { register_backend(kBackend); }

}  // namespace tinyt::cpu
