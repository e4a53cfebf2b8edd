#include "core/program/device_runs.h"

#include <set>
#include <span>

#include "core/base/backend_error.h"

namespace tinyt {

namespace {

class OpenRuns {
 public:
  OpenRuns() = default;
  ~OpenRuns() {
    for (ProgramRuns* runs : open_) runs->abandon();
  }
  OpenRuns(const OpenRuns&) = delete;
  OpenRuns& operator=(const OpenRuns&) = delete;

  void begin(std::span<const std::unique_ptr<ProgramRuns>> all) {
    open_.reserve(all.size());
    for (const auto& runs : all)
      if (runs->begin()) open_.push_back(runs.get());
  }
  void end() {
    while (!open_.empty()) {
      ProgramRuns* const runs = open_.back();
      open_.pop_back();
      runs->end();
    }
  }

 private:
  std::vector<ProgramRuns*> open_;
};

}  // namespace

DeviceRuns::DeviceRuns(const Plan& plan) {
  std::set<Device> devices;
  for (const Tensor& x : plan.operands)
    if (x && x.device() != Device{}) devices.insert(x.device());
  for (const Device device : devices)
    if (auto runs = runtime_of(device).program_runs(device.index)) all_.push_back(std::move(runs));
}

void DeviceRuns::run(FunctionRef<void()> steps) {
  if (all_.empty()) return steps();
  OpenRuns open;
  open.begin(all_);
  steps();
  try {
    open.end();
  } catch (BackendError& error) {
    error.name_op("compiled program");
    throw;
  }
}

}  // namespace tinyt
