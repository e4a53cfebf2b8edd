// A program's runs, as the devices that it works on are told of them.
#pragma once

#include <memory>
#include <vector>

#include "core/base/parallel.h"
#include "core/device/runtime.h"
#include "core/plan/plan.h"

namespace tinyt {

class DeviceRuns {
 public:
  explicit DeviceRuns(const Plan& plan);
  // Runs the steps between the beginnings and the ends. A program that runs as a part of another
  // one's step belongs to that one's run.
  void run(FunctionRef<void()> steps);

 private:
  std::vector<std::unique_ptr<ProgramRuns>> all_;
};

}  // namespace tinyt
