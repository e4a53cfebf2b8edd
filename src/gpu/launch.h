// Runs fused kernels on a device: prints and builds each once, and finds it again by what its text
// depends on.
#pragma once

#include <algorithm>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/base/parallel.h"
#include "core/graph/fused_kernel.h"
#include "gpu/driver.h"
#include "gpu/fused_source.h"
#include "gpu/space.h"

namespace tinyt::gpu {

// The kernel of a key, made when it is asked for first. NotImplementedError where the device takes
// fewer arguments. Safe from any thread.
BuiltKernel& built_kernel(Device device, const std::string& key, ArgumentCount arguments,
                          const std::function<std::string()>& source);
// How many kernels a device has built so far.
int64_t built_count(Device device);

// Whether an operand is a number of the CPU; the number in a dtype.
inline bool is_number(const Tensor& t) { return t.device() == Device{}; }
Tensor number_as(const Tensor& number, DType dtype);
// The first element of a tensor of a device, counted from the start of what its handle stands for.
int64_t first_element(const Tensor& t);

// Whether a result goes past the caches.
inline bool goes_past(const Tensor& result, const LaunchModel& model) {
  return result.numel() >= model.stream_bytes / static_cast<int64_t>(result.itemsize());
}

// The name of the kernel in every source.
inline constexpr std::string_view kKernelName = "tt_kernel";

// A fused kernel over operands and stores of one geometry, prepared once: one operand for each
// load, which broadcasts to the space, on the device or a number of the CPU that has the load's
// dtype; stores of any strides where nothing is reduced, else dense, of which some element is
// there. A store may be exactly an operand.
class FusedLaunch {
 public:
  FusedLaunch(const FusedKernel& kernel, std::span<const Tensor> operands,
              std::span<const Tensor> stores);
  // With such operands and stores; not by two threads at once.
  void run(std::span<const Tensor> operands, std::span<const Tensor> stores);

 private:
  void shorten_numbers(FusedKernel& kernel) const;
  void fill_geometry(const Space& space, size_t stores);
  void share_out(const Dims& shape, size_t reduced, const LaunchModel& model);

  Device device_;
  KernelForm form_;
  BuiltKernel* built_ = nullptr;
  WordLayout layout_;
  SmallVec<int64_t, 48> words_;
  int64_t threads_ = 0;
  bool narrow_ = false, no_doubles_ = false;  // words have 32 bits; kernels have no float64
};

inline bool are_empty(std::span<const Tensor> stores) {
  return std::ranges::all_of(stores, [](const Tensor& t) { return t.numel() == 0; });
}
// Once; nothing where no store has an element.
void run_fused(const FusedKernel& kernel, std::span<const Tensor> operands,
               std::span<const Tensor> stores);

// An operation on all elements or of each row, and what it makes, as the only one of a kernel.
FusedKernel single_op(OpId op, DType compute, std::span<const Tensor> operands, DType result,
                      std::span<const int64_t> shape, size_t reduced = 0);

// out + more of the same shape, dense, in a dtype that sums are computed in.
void add_into(const Tensor& out, const Tensor& more);

}  // namespace tinyt::gpu
