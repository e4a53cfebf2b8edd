// What the hot module runs of a compiled call.
#pragma once

#include "call.h"
#include "program.h"

namespace tinyt {

// What one run takes and gives.
struct PlannedRun {
  std::vector<Tensor> arguments;
  std::vector<double> given;
  Draws draws;
  std::vector<Tensor> outputs;
  std::vector<double> numbers;  // where they are wanted

  // False, and nothing is run, where the numbers given make the program stale.
  bool run(Program& program, RunObserver* observer, bool wants_numbers) {
    auto found = program.run(arguments, given, draws, observer, wants_numbers ? &numbers : nullptr);
    if (found) outputs = std::move(*found);
    return found.has_value();
  }
};

// Another view of all of a tensor's memory, in its dtype.
inline Tensor whole_memory(const Tensor& x) {
  const int64_t elements = storage_elements(x), step = 1;
  return x.view_as(x.dtype(), {&elements, 1}, {&step, 1}, 0);
}

}  // namespace tinyt
