// What a run of a program was like: the time, the memory and the first values of each step.
#pragma once

#include <chrono>
#include <thread>
#include <vector>

#include "core/memory/device_cache.h"
#include "core/program/program.h"

namespace tinyt {

// Measures one run; of another one, it forgets the first. Memory counts what all threads of the
// process hold, so that others should be quiet. Times leave out what the measuring itself takes.
class Measures : public RunObserver {
 public:
  struct Step {
    int64_t begin = 0, end = 0;  // nanoseconds since the run began
    int64_t held = 0;            // bytes more than before the run
    int64_t scratch = 0;         // the most that its kernel, or those beside it, had on top
    int64_t thread = 0;          // which of those that ran steps
    std::vector<Tensor> values;  // the first elements of each output
  };

  // The program must outlive its run.
  explicit Measures(const Program& program);
  void begin() override;
  void before(size_t step) override;
  void after(size_t step) override;
  void end(bool ran) noexcept override;
  bool allows_concurrency() const override { return true; }
  void before_group(size_t first, size_t last) override;
  void after_group(size_t first, size_t last) override;

  const std::vector<Step>& steps() const { return steps_; }
  // Whether a run has been measured to its end.
  bool complete() const { return complete_; }
  int64_t nanoseconds() const { return nanoseconds_; }
  // The most bytes that the run held at a step, kernels' scratch included.
  int64_t peak_bytes() const;

 private:
  int64_t now() const;
  // Of all devices that the program works on.
  memory::Statistics statistics() const;
  void reset_peak() const;

  const Program& program_;
  std::vector<memory::DeviceCache*> others_;  // of the devices beside the CPU
  std::vector<Step> steps_;
  ForkSafeMutex mutex_;  // of the threads
  std::vector<std::thread::id> threads_;
  std::chrono::steady_clock::time_point start_;
  int64_t bytes_before_ = 0, peak_before_ = 0, nanoseconds_ = 0;
  bool complete_ = false;
  bool concurrent_ = false;  // several steps run
};

}  // namespace tinyt
