// What a recorded graph becomes: a flat list of steps over tensors that are all there before the
// first run. A step is one op, or a region of scalar ops that runs tile by tile, so that its
// intermediate values never leave the cache. A run takes no decisions and, its results and the
// kernels' own scratch aside, no memory.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "backend.h"
#include "graph.h"

namespace tinyt {

// Scalar ops over rows x cols elements, one tile after another, optionally ended by a reduction of
// every row. Values live in registers (tiles); the first registers are the inputs.
struct TileProgram {
  static constexpr int kMaxSteps = 16;
  static constexpr int kMaxInputs = kMaxSteps * kMaxScalarInputs;
  struct Step {
    OpId op;
    DType dtype;  // of the kernel
    int out;
    int in[kMaxScalarInputs];
    int inputs;
  };
  std::vector<DType> registers;
  int inputs = 0;
  std::vector<Step> steps;
  bool reduces = false;
  OpId reduction = OpId::sum;

  int result() const { return steps.back().out; }
};

// The loops of a region: rows inside the outer loops, of which the last goes from row to row.
struct TileSpace {
  Dims outer;
  int64_t cols = 1;

  int64_t row_count() const { return numel_of(outer); }
};

// An operand of a region, at byte strides of the outer loops; along a row it is dense (inner) or
// one element.
struct TileOperand {
  char* data = nullptr;
  Dims stride;
  bool inner = true;
};

// The seed and first counter that a run's draws from a generator start with, per generator.
using Draws = std::vector<std::pair<int64_t, int64_t>>;

class Program {
 public:
  enum class Kind : uint8_t { Op, Region, Copy, Opaque };
  // Operands, in one row: inputs, then outputs. A Copy writes its one input into its output.
  struct Step {
    Kind kind;
    OpId op = OpId::kCount;
    DType compute = DType::Float32;
    int32_t inputs = 0, outputs = 0;
    int64_t first = 0;  // operand
    int64_t index = 0;  // of its attributes, region or opaque step
    Kernel kernel = nullptr;
  };
  struct Region {
    TileProgram tiles;
    TileSpace space;
    std::vector<TileOperand> operands;  // strides; the addresses are those of the run
  };
  // What is returned: a view of memory made for the run, of an argument, or a tensor that is there.
  struct Result {
    Tensor tensor;
    int64_t memory = -1;
    int64_t argument = -1;
  };

  // Of a graph with a mark: what comes before it returns its outputs and then what the later part
  // needs, which the later part takes after its arguments.
  enum class Part : uint8_t { All, First, Later };

  // Plans: fuses what it may, and gives every value its place.
  explicit Program(const Graph& graph, Part part = Part::All);
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  // Runs on arguments of the geometry that was recorded; writes to captured memory come last.
  // Nothing, and nothing is run, where the numbers given make the graph stale (Numbers::refresh).
  // Another thread's run is waited for. `numbers` gets all numbers of the run.
  std::optional<std::vector<Tensor>> run(std::span<const Tensor> arguments,
                                         std::span<const double> given, const Draws& draws,
                                         std::vector<double>* numbers = nullptr);

  // Whether the numbers given leave the graph as it is.
  bool holds(std::span<const double> given) const {
    const std::lock_guard lock(*numbers_);
    return numbers_->holds(given);
  }

  const std::vector<Step>& steps() const { return steps_; }
  const std::vector<Region>& regions() const { return regions_; }
  const std::vector<std::unique_ptr<Opaque::Bound>>& opaque() const { return bound_; }
  std::string_view name(const Step& step) const;
  // Whether a run reads or writes an argument; one that it does not may be a null tensor.
  bool uses(size_t argument) const { return arguments_[argument].used; }
  size_t arguments() const { return arguments_.size(); }
  // The captured tensors that a run reads.
  const std::vector<Tensor>& captured() const { return captured_; }
  size_t arena_bytes() const { return arena_bytes_; }

 private:
  friend class Planner;
  // The storage that gets an argument's memory, and what the argument looks like.
  struct Argument {
    Ref<Storage> storage;
    Tensor like;
    bool used = false;
    bool written = false;
  };
  struct Memory {
    Ref<Storage> storage;
    size_t bytes;
  };
  // A block of its own that a step is the first (last) to use.
  struct Turn {
    int64_t step;
    Memory memory;
  };
  // A random op: its attributes end with the generator's number and how far into its counters.
  struct Draw {
    int64_t attrs;
    int64_t generator;
    int64_t first;
  };

  static void give_back(Memory& memory);
  void bind(std::span<const Tensor> arguments, const Draws& draws);
  void place(const memory::Block& arena);
  void run_steps();
  void execute(const Step& step);
  std::vector<Tensor> results(std::span<const Tensor> arguments);

  std::shared_ptr<Numbers> numbers_;
  std::vector<Step> steps_;
  std::vector<Tensor> operands_;
  std::deque<Attrs> attrs_;
  std::vector<Region> regions_;
  std::vector<std::unique_ptr<Opaque::Bound>> bound_;
  std::vector<std::string> names_;  // of the opaque steps
  std::vector<Draw> draws_;
  std::vector<Argument> arguments_;
  std::vector<Memory> memories_;  // of results
  std::vector<Result> results_;
  std::vector<Tensor> captured_;
  std::vector<Tensor> written_;  // of the captured memory
  // Large values in between, and results, have blocks of their own while they are used.
  std::vector<Turn> taken_, given_back_;  // in the order of the steps
  // Others lie in one block, which a run borrows: mostly the same one.
  std::vector<std::pair<Ref<Storage>, size_t>> placed_;  // and their offsets
  size_t arena_bytes_ = 0;
  char* arena_ = nullptr;  // of the last run
};

}  // namespace tinyt
