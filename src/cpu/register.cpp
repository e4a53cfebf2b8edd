// The CPU's kernels, one per row of ops.def.
#include <array>
#include <mutex>

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
#include "cpu/fused/tile_kernel.h"
#include "cpu/index/index.h"
#include "cpu/index/searchsorted.h"
#include "cpu/index/select.h"
#include "cpu/index/sort.h"
#include "cpu/math/definitions.h"
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
#include "cpu/schedule/side_by_side.h"

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

// Rows whose kernels take memory for themselves.
using WorkspaceFunction = int64_t (*)(const KernelCall&);
constexpr auto kWorkspaces = [] {
  std::array<WorkspaceFunction, kOpCount> table{};
  const auto put = [&](WorkspaceFunction function, auto... ops) {
    ((table[static_cast<size_t>(ops)] = function), ...);
  };
  using enum OpId;
  put(workspace_elementwise, floor_divide, remainder, fmod);
  put(workspace_pad, pad);
  put(workspace_variates, standard_gamma, dirichlet, poisson, binomial, von_mises);
  put(workspace_reduce, sum, prod, amax, amin, nansum, norm);
  put(workspace_moments, var, logsumexp);
  put(workspace_argmax, argmax);
  put(workspace_argmin, argmin);
  put(workspace_sort, sort);
  put(workspace_select, topk, kthvalue, median);
  put(workspace_searchsorted, searchsorted);
  put(workspace_nonzero, nonzero);
  put(workspace_masked_select, masked_select);
  put(workspace_gather, gather, scatter);
  put(workspace_scatter_combine, scatter_add, scatter_reduce);
  put(workspace_linear_index, linear_index);
  put(workspace_matmul, matmul);
  put(workspace_matmul_add, matmul_add);
  put(workspace_int_mm, int_mm);
  put(workspace_linear, linear);
  put(workspace_conv, conv);
  put(workspace_conv_backward_input, conv_backward_input);
  put(workspace_conv_backward_weight, conv_backward_weight);
  put(workspace_max_pool, max_pool);
  put(workspace_resample, resample);
  put(workspace_cholesky, cholesky);
  put(workspace_solve_triangular, solve_triangular);
  put(workspace_sum_squares, sum_squares);
  put(workspace_softmax, softmax, log_softmax);
  put(workspace_softmax_backward, softmax_backward, log_softmax_backward);
  put(workspace_softmax_nll, softmax_nll);
  put(workspace_softmax_nll_input, softmax_nll_input);
  put(workspace_layer_norm, layer_norm);
  put(workspace_layer_norm_backward, layer_norm_backward);
  put(workspace_group_norm, group_norm);
  put(workspace_group_norm_backward, group_norm_backward);
  put(workspace_batch_norm, batch_norm);
  put(workspace_batch_norm_backward, batch_norm_backward);
  put(workspace_attention, attention);
  put(workspace_attention_backward, attention_backward);
  put(workspace_lstm, lstm);
  put(workspace_lstm_backward, lstm_backward);
  return table;
}();

class TileTarget final : public FusionTarget {
 public:
  const FusionLimits& limits() const override { return kFusionLimits; }
  // Elementwise operations and reductions have kernels of every dtype that graphs have them in.
  bool takes(OpId, DType) const override { return true; }
  std::shared_ptr<CompiledKernel> compile(const FusedKernel& kernel) const override {
    return compile_tiles(kernel);
  }
  CostEstimate cost(const KernelCall& call) const override { return cost_of(call); }
  size_t workspace(const KernelCall& call) const override { return workspace_of(call); }
  bool adds_in_place(const KernelCall& call) const override { return cpu::adds_in_place(call); }
  std::vector<ConcurrentGroup> side_by_side(std::span<const StepFacts> steps,
                                            int threads) const override {
    return cpu::side_by_side(steps, threads);
  }
};

}  // namespace

size_t workspace_of(const KernelCall& call) {
  const WorkspaceFunction function = kWorkspaces[static_cast<size_t>(call.op)];
  return function == nullptr ? 0 : static_cast<size_t>(function(call));
}

void register_cpu() {
  static std::once_flag once;  // whichever front end comes first
  std::call_once(once, [] {
    const DeviceKind kind = register_device("cpu", runtime());
    register_kernels(kind, kKernels);
    static const TileTarget target;
    register_fusion_target(kind, target);
    register_scalar_definitions(definitions());
  });
}

}  // namespace tinyt::cpu
