// What the hot module runs of a compiled call.
#pragma once

#include <numeric>

#include "call.h"
#include "core/program/program.h"

namespace tinyt {

// What one run takes and gives.
struct PlannedRun {
  std::vector<Tensor> arguments;
  std::vector<double> given;
  RngOffsets draws;
  std::vector<Tensor> outputs;
  std::vector<double> numbers;  // where they are wanted

  // False, and nothing is run, where the numbers given make the program stale. Gives up the
  // interpreter's lock but for a brief program that need not wait: who runs another one of its
  // graph may need that lock.
  bool run(Program& program, RunObserver* observer, bool wants_numbers) {
    RuntimeScalars& shared = program.scalars();
    if (program.holds_gil() && !observer && shared.try_lock()) {
      const std::lock_guard lock(shared, std::adopt_lock);
      return run_locked(program, observer, wants_numbers);
    }
    const MaybeUnlocked unlocked(true);
    const std::lock_guard lock(shared);
    return run_locked(program, observer, wants_numbers);
  }

 private:
  bool run_locked(Program& program, RunObserver* observer, bool wants_numbers) {
    auto found =
        program.run_locked(arguments, given, draws, observer, wants_numbers ? &numbers : nullptr);
    if (found) outputs = std::move(*found);
    return found.has_value();
  }
};

// Another view of all of a tensor's memory, in its dtype.
inline Tensor whole_memory(const Tensor& x) {
  const int64_t elements = storage_elements(x), step = 1;
  return x.view_as(x.dtype(), {&elements, 1}, {&step, 1}, 0);
}

// Whether others may see the memory under another storage: it is theirs, or exported to them.
inline bool is_shared_memory(const Tensor& x) {
  return x.storage().release_foreign || x.storage().exports.load(std::memory_order_relaxed) > 0;
}

// Whether tensors of different storages may have bytes in common.
inline bool shares_bytes(const Tensor& a, const Tensor& b) {
  if (&a.storage() == &b.storage() || !ranges_overlap(a, b)) return false;
  int64_t step = 0;  // elements of both lie at multiples of it
  for (const Tensor* x : {&a, &b})
    for (size_t d = 0; d < x->shape().size(); ++d)
      if (x->size(d) > 1) step = std::gcd(step, x->stride(d) * static_cast<int64_t>(x->itemsize()));
  if (step == 0) return true;
  const int64_t apart = ((b.host_data() - a.host_data()) % step + step) % step;
  return apart < static_cast<int64_t>(a.itemsize()) ||
         step - apart < static_cast<int64_t>(b.itemsize());
}

}  // namespace tinyt
