#include "cpu/schedule/cost_estimate.h"

#include <algorithm>

#include "cpu/matmul/matmul.h"
#include "cpu/schedule/tiles.h"

namespace tinyt::cpu {

namespace {

double of_element(OpId op) {
  return info(op).kind != OpKind::Scalar || has_flag(op, op_flags::cheap) ? kLightTime : kHeavyTime;
}

// Nanoseconds that so many elements take on top where they are gathered from memory.
double gathering(std::span<const Tensor> operands, int64_t elements) {
  for (const Tensor& x : operands)
    if (x.numel() > 1 && !x.is_contiguous()) return kGatheredTime * static_cast<double>(elements);
  return 0;
}

CostEstimate of_elements(double nanoseconds, int64_t elements) {
  return {static_cast<int64_t>(kCallTime + nanoseconds),
          std::max<int64_t>(1, ceil_div(elements, kChunkElements))};
}

CostEstimate of_loop(const KernelCall& call) {
  const bool reduces = info(call.op).kind == OpKind::Reduce;
  const int64_t n = reduces ? call.inputs[0].numel() : call.outputs[0].numel();
  const double own = of_element(call.op) * static_cast<double>(n);
  return of_elements(own + gathering(call.inputs, n) + gathering(call.outputs, n), n);
}

// Rows by the columns of one matrix.
CostEstimate of_product(const KernelCall& call) {
  const Tensor &x = call.inputs[0], &y = call.inputs[1], &out = call.outputs[0];
  const bool turned = call.op == OpId::linear;
  const int64_t k = x.rank() == 0 ? 1 : x.size(x.rank() - 1), work = out.numel() * k;
  const double factor = static_cast<double>(out.itemsize()) / 4 * kMultiplicationTime;
  CostEstimate effort{static_cast<int64_t>(kCallTime + factor * static_cast<double>(work)), 1};
  if (y.rank() != 2 || x.rank() == 0 || out.numel() == 0 || k == 0) return effort;
  const int64_t n = y.size(turned ? 0 : 1), rows = out.numel() / n;
  effort.parts = tasks_of_product(rows, n, k);
  return effort;
}

}  // namespace

CostEstimate cost_of(const KernelCall& call) {
  for (const Tensor& x : call.inputs)
    if (is_complex(x.dtype())) return {};
  switch (call.op) {
    case OpId::matmul:
    case OpId::matmul_add:
    case OpId::linear:
      return of_product(call);
    case OpId::cast:
    case OpId::copy:
    case OpId::reshape:
      return of_loop(call);
    default:
      return info(call.op).kind == OpKind::Struct ? CostEstimate{} : of_loop(call);
  }
}

CostEstimate effort_of_tiles(const TileProgram& program, const TileSpace& space) {
  const int64_t rows = space.row_count(), n = rows * space.cols;
  double nanoseconds = space.gathered * kGatheredTime * static_cast<double>(n);
  for (const TileProgram::Step& step : program.steps) {
    const bool once_a_row = program.is_row_step(step) && info(step.op).kind != OpKind::Reduce;
    nanoseconds += of_element(step.op) * static_cast<double>(once_a_row ? rows : n);
  }
  const auto work = n * static_cast<int64_t>(program.steps.size());
  return of_elements(nanoseconds, work / 2);
}

}  // namespace tinyt::cpu
