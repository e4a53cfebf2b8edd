// Runs a plan. A run takes no decisions and, its results and the kernels' own scratch aside, no
// memory.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "core/plan/plan.h"
#include "core/program/device_runs.h"

namespace tinyt {

namespace memory {
class Spare;
}

// Is told of a run and of each of its steps, by the thread that runs it.
class RunObserver {
 public:
  virtual ~RunObserver() = default;
  virtual void begin() {}                     // no memory is taken yet
  virtual void before(size_t step) = 0;       // its memory is there
  virtual void after(size_t step) = 0;        // and still is
  virtual void end(bool /*ran*/) noexcept {}  // or has failed
  // Whether it may be told of several steps at once, by several threads, between these two; for
  // others they run one after another.
  virtual bool allows_concurrency() const { return false; }
  virtual void before_group(size_t /*first*/, size_t /*last*/) {}  // their memory is there
  virtual void after_group(size_t /*first*/, size_t /*last*/) {}
};

class Program {
 public:
  explicit Program(const Graph& graph, Plan::Part part = Plan::Part::All,
                   Plan::ResultAlloc result_alloc = Plan::ResultAlloc::PerRun);
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  const Plan& plan() const { return plan_; }

  // Runs on arguments of the geometry that was recorded; captured memory is written after all that
  // can fail. Nothing, and nothing is run, where the numbers given make the graph stale
  // (RuntimeScalars::refresh). Another thread's run is waited for. `numbers` gets all numbers of
  // the run.
  std::optional<std::vector<Tensor>> run(std::span<const Tensor> arguments,
                                         std::span<const double> given, const RngOffsets& draws,
                                         RunObserver* observer = nullptr,
                                         std::vector<double>* numbers = nullptr);
  // The same for whoever has locked the numbers.
  std::optional<std::vector<Tensor>> run_locked(std::span<const Tensor> arguments,
                                                std::span<const double> given,
                                                const RngOffsets& draws, RunObserver* observer,
                                                std::vector<double>* numbers);
  // What programs of one graph share.
  RuntimeScalars& scalars() const { return *scalars_; }
  // Whether all of it is too little to give up a front end's lock for, and calls no front end.
  bool holds_gil() const { return holds_gil_; }

  // Runs as a part of another program, which waits for it and refreshes the numbers: arguments lie
  // dense in these, and each memory of results is to be written in one.
  void run_at(std::span<const Buffer> arguments, std::span<const Buffer> memories,
              const RngOffsets& draws);
  // Whether the numbers given leave the graph as it is.
  bool holds(std::span<const double> given) const {
    const std::lock_guard lock(*scalars_);
    return scalars_->holds(given);
  }

 private:
  struct BufferGuard;

  static void give_back(Plan::ResultBuffer& memory);
  static void forget(Plan::ResultBuffer& memory);
  void bind(std::span<const Tensor> arguments);
  void set_draws(const RngOffsets& draws);
  void take(Plan::BufferEvent& event);
  void place(const Plan::Arena& arena);
  std::string ops_of(const Plan::Step& step) const;
  void forget_lost_run();
  void run_steps(const RngOffsets& draws, RunObserver* observer);
  void run_group(const ConcurrentGroup& group, const RngOffsets& draws, RunObserver* observer,
                 memory::Spare* spare);
  void run_step(int64_t step, const RngOffsets& draws, RunObserver* observer, memory::Spare* spare);
  void execute(const Plan::Step& step, const RngOffsets& draws);
  std::vector<Tensor> results(std::span<const Tensor> arguments);

  std::shared_ptr<RuntimeScalars> scalars_;
  Plan plan_;
  std::vector<Ref<Storage>> made_;  // during `results`: what they lie in
  // What kernels take for themselves from the first write on, with so many threads, once a run has
  // asked.
  struct {
    int threads = 0;
    size_t bytes = 0;
  } spare_;
  bool holds_gil_ = false;
  // Of other devices' blocks in `plan_.allocs` the handles of the last two runs: what a device is
  // asked for is mostly the same then. Results of one run are often held until the next one ends.
  std::vector<std::array<void*, 2>> last_handles_;
  std::optional<DeviceRuns> device_runs_;  // from the first run on that nobody observes
  uint32_t forks_ = fork_count();          // when it ran last
};

}  // namespace tinyt
