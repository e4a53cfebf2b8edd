// The kernels of a device: one function per op. Core code calls kernels through this table only.
#pragma once

#include <array>
#include <atomic>
#include <span>

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
// fresh, but for what FusionTarget::adds_in_place says, and updates: contiguous tensors apart from
// each other, results where the first inputs are.
struct KernelCall {
  OpId op;
  std::span<const Tensor> inputs;
  std::span<const Tensor> outputs;
  const Attrs& attrs;
  DType compute;  // the promoted dtype of the inputs
  Epilogue* tail = nullptr;
};

using Kernel = void (*)(const KernelCall&);

// Null: the device has none.
struct Kernels {
  // Of each row the dtypes (bits) that it does not compute in, if there are any.
  const std::array<uint32_t, kOpCount>* lacks = nullptr;
  std::array<Kernel, kOpCount> rows{};
  // Writes `from` (broadcast, converted) into `to`; any strides on both sides, no overlap.
  void (*copy_into)(const Tensor& from, const Tensor& to) = nullptr;
  // The nonzero elements of a dynamic op's last input: rows of its output, before it is allocated.
  int64_t (*count_nonzero)(const Tensor& x) = nullptr;

  Kernel row(OpId op) const { return rows[static_cast<size_t>(op)]; }
  bool takes(OpId op, DType compute) const {
    return row(op) && (!lacks || ((*lacks)[static_cast<size_t>(op)] >> int(compute) & 1) == 0);
  }
};
static_assert(kDTypeCount <= 32);

// Of a kind of device, for as long as the process lives.
void register_kernels(DeviceKind kind, const Kernels& kernels);
void set_eager_kernels(DeviceKind kind, const Kernels& kernels);

using KernelTables = std::array<std::atomic<const Kernels*>, kMaxDeviceKinds>;
extern KernelTables g_kernels, g_eager_kernels;
[[noreturn]] void no_kernels(Device device);

inline const Kernels& kernels_in(const KernelTables& tables, Device device) {
  const Kernels* kernels = tables[static_cast<size_t>(device.kind)].load(std::memory_order_acquire);
  if (!kernels) [[unlikely]]
    no_kernels(device);
  return *kernels;
}

// DeviceError where there are none.
inline const Kernels& kernels_of(Device device) { return kernels_in(g_kernels, device); }
// What eager calls go through: the device's own table, or one that is put over it (op_profile.h).
inline const Kernels& eager_kernels_of(Device device) {
  return kernels_in(g_eager_kernels, device);
}

}  // namespace tinyt
