// Kernels tell how much memory they take for themselves: they run as they always do, but on memory
// that is not there, without the work that threads share, and what they allocate is counted.
#pragma once

#include <unordered_map>
#include <utility>
#include <vector>

#include "core/base/parallel.h"
#include "core/memory/meter.h"
#include "core/tensor/tensor.h"

namespace tinyt {

class DryRun {
 public:
  DryRun() = default;
  ~DryRun() {
    for (const Buffer& block : reserved_) memory::Meter::give_back(block);
  }
  DryRun(const DryRun&) = delete;
  DryRun& operator=(const DryRun&) = delete;

  // A tensor of the same geometry, over zeros; tensors that share memory share it again.
  Tensor fake_tensor(const Tensor& t);
  // The most that the kernel called has taken at once, with as many threads as there are now.
  template <class F>
  size_t bytes_of(F&& kernel) {
    memory::Meter meter;
    const SkippedWork skipped;
    kernel();
    return meter.peak_bytes();
  }

 private:
  std::vector<Buffer> reserved_;
  std::unordered_map<const Storage*, Ref<Storage>> stand_ins_;
};

}  // namespace tinyt
