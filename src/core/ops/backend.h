// What a device brings: one kernel per op. Core code calls kernels through this table only.
#pragma once

#include <array>
#include <span>
#include <string_view>

#include "core/memory/allocator.h"
#include "core/ops/ops.h"
#include "core/tensor/tensor.h"

namespace tinyt {

// What is to be done with each element of a product's result, which lies dense as rows x cols. A
// kernel that can tell when parts of it are final hands them over while they are in the caches, on
// the threads that made them; else all of it is done after the call.
class Epilogue {
 public:
  // Asked once, before the first part, which must have a kernel that tells at all: whether to tell,
  // with rows of so many elements, and so many tasks to share the work.
  virtual bool begin(int64_t cols, int64_t tasks) = 0;
  // Each element of the result is in one such part.
  virtual void run(int64_t row, int64_t rows, int64_t col, int64_t cols) = 0;

 protected:
  ~Epilogue() = default;
};

// One checked call. Shapes, dtypes and attributes are valid and normalised (dims wrapped, sorted).
// Inputs may have any strides. Scalar ops: inputs are at their own shapes (the kernel broadcasts),
// dtypes may differ from `compute`, outputs may have any strides and may be exactly an input.
// All other ops: inputs already have the dtype the output rule implies, outputs are contiguous and
// fresh, but for what Backend::adds_in_place says.
struct KernelCall {
  OpId op;
  std::span<const Tensor> inputs;
  std::span<const Tensor> outputs;
  const Attrs& attrs;
  DType compute;  // the promoted dtype of the inputs
  Epilogue* tail = nullptr;
};

using Kernel = void (*)(const KernelCall&);

// What a call would take, roughly: of one thread, and into how many parts it can be cut for
// several.
struct CostEstimate {
  int64_t nanoseconds = 0;  // 0: not known
  int64_t parts = 1;
  bool takes_memory = true;  // or may take some, while it runs
};

struct TileProgram;
struct TileOperand;
struct TileSpace;
struct OptimItem;
enum class OptimRule : uint8_t;

struct Backend {
  DeviceType type;
  std::string_view name;
  std::array<Kernel, kOpCount> kernels{};  // null: the op does not exist on this device
  memory::Allocator& (*allocator)();
  // Writes `from` (broadcast, converted) into `to`; any strides on both sides, no overlap.
  void (*copy_into)(const Tensor& from, const Tensor& to);
  // Runs a region over its space; outputs are dense: rows x cols values, or one a row.
  void (*run_tiles)(const TileProgram& program, std::span<const TileOperand> operands,
                    const TileSpace& space, std::span<char* const> outputs);
  // The same after a product, on its result, which is one of the operands.
  void (*run_product)(Kernel kernel, const KernelCall& product, const TileProgram& program,
                      std::span<const TileOperand> operands, const TileSpace& space,
                      std::span<char* const> outputs);
  // The dtype whose kernel a scalar op runs for a call of `compute`, `mixed` with other dtypes.
  DType (*kernel_dtype)(OpId op, DType compute, bool mixed);
  // One update of every item: checked, contiguous, apart from each other. Step counters are not
  // its business.
  void (*optim_step)(OptimRule rule, std::span<const OptimItem> items);
  // The nonzero elements of a dynamic op's last input: rows of its output, before it is allocated.
  int64_t (*count_nonzero)(const Tensor& x);
  // Both look at geometry alone.
  CostEstimate (*effort)(const KernelCall& call);
  CostEstimate (*tiles_effort)(const TileProgram& program, const TileSpace& space);
  // Whether a matmul_add's result may be its addend: the kernel reads an element when it writes it.
  // Of geometry, too.
  bool (*adds_in_place)(const KernelCall& call);
};

void register_backend(const Backend& backend);
const Backend& backend_of(Device device);  // DeviceError when none is registered
// The table that eager calls go through: the device's own, or one of its type that is put over it
// (op_profile.h).
const Backend& eager_backend_of(Device device);
void set_eager_backend(const Backend& backend);

}  // namespace tinyt
