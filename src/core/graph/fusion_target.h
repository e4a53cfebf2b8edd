// What a device brings for programs: how fused kernels run on it, and what its steps take.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/base/parallel.h"
#include "core/graph/fused_kernel.h"
#include "core/ops/kernels.h"

namespace tinyt {

// What a call would take, roughly: of one thread, and into how many parts it can be cut for
// several.
struct CostEstimate {
  int64_t nanoseconds = 0;  // 0: not known
  int64_t parts = 1;
};

// What fused kernels of a device may hold.
struct FusionLimits {
  size_t ops = 0;
  size_t buffers = 0;  // that are bound at once; 0: any number
  bool reductions = false;
  bool products = false;  // in front
  int64_t row_bytes = 0;  // of a row whose reductions are used again
  // Rows that are used again are too long with so many elements, where there are fewer than that.
  int64_t few_rows = 0, long_row = 0;
};

// What a device is told of a program's steps to run some side by side, in their order.
struct StepFacts {
  CostEstimate cost;            // of no time: it runs alone
  bool takes_memory;            // while it runs
  std::vector<int64_t> waits;   // for which of the last kSeenBefore steps
  size_t born, alive, scratch;  // bytes: that it is the first to use, that are there, its workspace
};
inline constexpr int64_t kSeenBefore = 16;

// Steps that run side by side: branches, each with steps in their order, that wait for none of
// another branch. All that they read and write is in memory apart for as long as the group runs.
struct ConcurrentGroup {
  int64_t first, last;
  std::vector<std::vector<int64_t>> branches;
};

// A product in front: its call, and which operand of the kernel is its result; -1: none.
struct FrontProduct {
  Kernel kernel;
  KernelCall call;
  int operand;
};

// A fused kernel as a device runs it.
class CompiledKernel {
 public:
  // Of an operand: which load it is, and its dtype. That of a load of one element may be another
  // one, to which it is converted beforehand: integers by way of `through`, beyond which they wrap.
  struct Operand {
    int load;
    DType dtype;
    DType through;
  };

  virtual ~CompiledKernel() = default;
  const std::vector<Operand>& operands() const { return operands_; }
  // Takes note of how they lie, once, before all that follows; they broadcast to the space. What
  // cannot be read so is given to `make_dense` as a view over the space, and replaced by the copy.
  virtual void lay_out(std::span<Tensor> operands,
                       FunctionRef<Tensor(const Tensor&)> make_dense) = 0;
  // Whether a store of the same size may lie where an operand does: nothing of the operand is read
  // once it is written over.
  virtual bool may_replace(size_t operand, size_t store) const = 0;
  // With a product in front, whose result is left out of the operands.
  virtual void run(std::span<const Tensor> operands, std::span<const Tensor> stores,
                   const FrontProduct* product) = 0;
  virtual CostEstimate cost() const { return {}; }
  // What run() takes for itself at once, as FusionTarget::workspace has it.
  virtual size_t workspace(std::span<const Tensor> /*operands*/, std::span<const Tensor> /*stores*/,
                           const FrontProduct* /*product*/) const {
    return 0;
  }

 protected:
  std::vector<Operand> operands_;
};

class FusionTarget {
 public:
  virtual ~FusionTarget() = default;
  virtual const FusionLimits& limits() const = 0;
  // How many buffers a kernel over a space of that rank binds at most; 0: any number.
  virtual size_t most_buffers(size_t /*rank*/) const { return limits().buffers; }
  // Of an elementwise operation, a conversion or a reduction, in the dtype of its call.
  virtual bool takes(OpId op, DType compute) const = 0;
  // Whether kernels may read and write such tensors, numbers of the host aside.
  virtual bool holds(DType /*dtype*/) const { return true; }
  virtual std::shared_ptr<CompiledKernel> compile(const FusedKernel& kernel) const = 0;

  // These look at geometry alone: operands need no memory.
  virtual CostEstimate cost(const KernelCall& /*call*/) const { return {}; }
  // The most bytes that a call's kernel takes for itself at once, with as many threads as there are
  // now.
  virtual size_t workspace(const KernelCall& /*call*/) const { return 0; }
  // Whether a matmul_add's result may be its addend: the kernel reads an element when it writes it.
  virtual bool adds_in_place(const KernelCall& /*call*/) const { return false; }

  // Which steps run side by side, in their order.
  virtual std::vector<ConcurrentGroup> side_by_side(std::span<const StepFacts> /*steps*/,
                                                    int /*threads*/) const {
    return {};
  }
};

// Of a kind of device, for as long as the process lives.
void register_fusion_target(DeviceKind kind, const FusionTarget& target);
const FusionTarget* find_fusion_target(Device device);  // null: nothing is fused there

}  // namespace tinyt
