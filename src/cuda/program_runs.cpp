#include <cstdlib>
#include <string_view>

#include "core/base/fork.h"
#include "cuda/current.h"

namespace tinyt::cuda {

namespace {

bool uses_graphs() {
  static const bool uses = [] {
    const char* const text = std::getenv("TINYT_CUDA_GRAPHS");
    return text == nullptr || std::string_view(text) != "0";
  }();
  return uses;
}

}  // namespace

class CudaDriver::Runs final : public ProgramRuns {
 public:
  Runs(CudaDriver& driver, int index) : driver_(driver), index_(index), graphs_(driver.api_) {}
  ~Runs() override {
    try {
      // A child of a fork, and a process that has lost its device, keep what they cannot give back.
      const Current current(driver_.api_, driver_.device(index_));
      graphs_.clear();
    } catch (const Error&) {
      graphs_.forget();
    }
  }

  bool begin() override { return driver_.device(index_).work->begin(graphs_); }
  void end() override {
    CudaDevice& on = driver_.devices_[static_cast<size_t>(index_)];
    const Current current(driver_.api_, on);
    on.work->end();
  }
  void abandon() noexcept override {
    CudaDevice& on = driver_.devices_[static_cast<size_t>(index_)];
    try {
      const Current current(driver_.api_, on);
      on.work->abandon();
    } catch (const Error&) {
      on.work->abandon();  // in whatever context there is
    }
  }

 private:
  CudaDriver& driver_;
  const int index_;
  RunGraphs graphs_;
};

std::unique_ptr<ProgramRuns> CudaDriver::program_runs(int index) {
  if (is_hip() || !uses_graphs() || waits_for_launches_) return nullptr;
  return std::make_unique<Runs>(*this, index);
}

}  // namespace tinyt::cuda
