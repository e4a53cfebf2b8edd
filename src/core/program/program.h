// What a recorded graph becomes: a flat list of steps over tensors that are all there before the
// first run. A step is one op, or a region of scalar ops that runs tile by tile, maybe on the
// result of a product, so that its intermediate values never leave the cache. A run takes no
// decisions and, its results and the kernels' own scratch aside, no memory.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/graph/graph.h"
#include "core/ops/backend.h"
#include "core/ops/seam.h"

namespace tinyt {

namespace memory {
class Spare;
}

// What runs over rows x cols elements, one tile after another: scalar ops, conversions, and
// reductions of whole rows, whose results other steps may take. Values live in registers: a tile,
// or one element a row; the first registers are the inputs.
struct TileProgram {
  // The limits of a region.
  static constexpr int kMaxNodes = 64;
  static constexpr int64_t kTileBytes = 16384;  // of a value's tile: a third of an L1
  static constexpr int64_t kLiveBytes = 65536;  // of all tiles
  static constexpr int64_t kLeastTileBytes = 4096;
  static constexpr int64_t kRowBytes = 131072;  // of a row whose reductions are used again
  static constexpr int64_t kFewRows = 8;        // are too few to share out among threads, if long
  static constexpr int64_t kLongRow = 16384;    // elements

  struct Register {
    DType dtype;
    bool per_row = false;
    int place = 0;  // a tile (of those with one element a row: its own), or of an output ~number
  };
  struct Step {
    OpId op;      // scalar, cast, or a reduction
    DType dtype;  // of the kernel, and of what a cast takes
    int out;
    int in[kMaxScalarInputs];
    int inputs;
    // A half: float32 values that a cast rounds to it, or that are and become halves.
    DType half = DType::Float32;
  };
  std::vector<Register> registers;
  int inputs = 0;
  std::vector<Step> steps;
  std::vector<int> outputs;  // registers
  std::vector<OpId> ops;     // of the nodes
  int tiles = 0, row_tiles = 0;
  bool reduces = false;    // there are reductions
  bool uses_rows = false;  // and steps over elements that take what they make

  bool is_row_step(const Step& s) const { return registers[static_cast<size_t>(s.out)].per_row; }
};

// The loops of a region: rows inside the outer loops, of which the last goes from row to row.
struct TileSpace {
  Dims outer;
  int64_t cols = 1;
  int gathered = 0;     // operands
  bool turned = false;  // some of them lie along the last outer loop

  int64_t row_count() const { return numel_of(outer); }
};

// An operand of a region, at byte strides of the outer loops; along a row it is dense (inner), one
// element, or gathered.
struct TileOperand {
  char* data = nullptr;
  Dims stride;
  bool inner = true;
  int64_t gather = 0;  // bytes from one column to the next
};

// Why a step ends where it does, and not with what reads its result.
enum class FusionBarrier : uint8_t {
  Result,     // nothing in the graph reads it
  RunsAlone,  // it or its reader is no elementwise op or reduction
  Reductions,
  DType,
  Shape,
  UsedElsewhere,
  LeadingDimensions,
  LongRows,
  ResultBuffer,
  Limit,
  SplitPoint,  // its reader is after the graph's split point
};
std::string_view text_of(FusionBarrier barrier);

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
  virtual bool takes_sides() const { return false; }
  virtual void before_side(size_t /*first*/, size_t /*last*/) {}  // their memory is there
  virtual void after_side(size_t /*first*/, size_t /*last*/) {}
};

class Program {
 public:
  enum class Kind : uint8_t { Op, Region, Copy, ExternalOp };
  // Operands, in one row: inputs, then outputs. A Copy writes its one input into its output.
  struct Step {
    Kind kind;
    OpId op = OpId::kCount;
    DType compute = DType::Float32;
    int32_t inputs = 0, outputs = 0;
    int64_t first = 0;  // operand
    int64_t index = 0;  // of its attributes, region or opaque step
    Kernel kernel = nullptr;
    // Bytes that are written, and read again, because the step ends where it does.
    FusionBarrier barrier = FusionBarrier::Result;
    int64_t barrier_bytes = 0;
  };
  // What a region begins with. Its operands are the first ones of the step.
  struct Product {
    OpId op;
    DType compute;
    Kernel kernel;
    size_t inputs;
    int64_t attrs;  // which
    int operand;    // of the region: its result
    Tensor result;  // in memory of the step's, or of a result of the region's
  };
  struct Region {
    TileProgram tiles;
    TileSpace space;
    std::vector<TileOperand> operands;  // strides; the addresses are those of the run
    std::vector<char*> outputs;
    std::optional<Product> product = {};

    bool may_replace(size_t operand, size_t output) const;
  };
  // Steps that run side by side: lanes, each with steps in their order, that wait for none of
  // another lane. All that they read and write is in memory apart for as long as the group runs.
  struct ConcurrentGroup {
    int64_t first, last;
    std::vector<std::vector<int64_t>> lanes;
  };
  // What is returned: a view of memory made for the run, of an argument, or a tensor that is there.
  struct Result {
    Tensor tensor;
    int64_t memory = -1;
    int64_t argument = -1;
  };

  // A value of the graph that a step reads before it runs, or has made when it is done.
  struct ValueAccess {
    int64_t step;
    int64_t value;
    Tensor tensor;
    bool made;
  };
  // Of a graph with a split point: what comes before it returns its outputs and then what the later
  // part needs, which the later part takes after its arguments.
  enum class Part : uint8_t { All, First, Later };
  // Who takes the memory of results: each run, or whoever calls run_at.
  enum class ResultAlloc : uint8_t { PerRun, Caller };

  // Plans: fuses what it may, and gives every value its place.
  explicit Program(const Graph& graph, Part part = Part::All,
                   ResultAlloc result_alloc = ResultAlloc::PerRun);
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  // Runs on arguments of the geometry that was recorded; captured memory is written after all that
  // can fail. Nothing, and nothing is run, where the numbers given make the graph stale
  // (Numbers::refresh). Another thread's run is waited for. `numbers` gets all numbers of the run.
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
  Numbers& numbers() const { return *numbers_; }
  // Whether all of it is too little to give up a front end's lock for, and calls no front end.
  bool holds_gil() const { return holds_gil_; }

  // Runs as a part of another program, which waits for it and refreshes the numbers: arguments lie
  // dense at these addresses, and each memory of results, which are Given, is to be written at one.
  void run_at(std::span<char* const> arguments, std::span<char* const> memories,
              const RngOffsets& draws);
  // The memory of its own that a result lies in, as results of recorded parts do.
  size_t memory_of(size_t result) const { return static_cast<size_t>(results_[result].memory); }
  size_t memories() const { return memories_.size(); }
  size_t memory_bytes(size_t memory) const { return memories_[memory].bytes; }
  size_t results() const { return results_.size(); }
  // Whether a run may write that memory of results where an argument of its size lies: no step
  // reads the argument once it is written, and one that does both reads each element first.
  bool may_replace(size_t argument, size_t memory) const;

  // Whether the numbers given leave the graph as it is.
  bool holds(std::span<const double> given) const {
    const std::lock_guard lock(*numbers_);
    return numbers_->holds(given);
  }

  const std::vector<Step>& steps() const { return steps_; }
  const std::vector<Region>& regions() const { return regions_; }
  const std::vector<ConcurrentGroup>& sides() const { return sides_; }
  const std::vector<std::unique_ptr<ExternalOp::Executable>>& opaque() const {
    return executables_;
  }
  std::string_view name(const Step& step) const;
  // Of each node of the graph: the step that computes it, or -1.
  const std::vector<int64_t>& steps_of_nodes() const { return step_of_; }
  // A piece of memory that a run holds, and the value that lies in it, or -1.
  struct LiveBuffer {
    int64_t value;
    size_t bytes;
  };
  // During a step.
  std::vector<LiveBuffer> held_values(int64_t step) const;
  // In the order of the steps; the last ones are of no step.
  const std::vector<ValueAccess>& touches() const { return touches_; }
  // Whether a run reads or writes an argument; one that it does not may be a null tensor.
  bool uses(size_t argument) const { return arguments_[argument].used; }
  size_t arguments() const { return arguments_.size(); }
  // The captured tensors that a run reads.
  const std::vector<Tensor>& captured() const { return captured_; }
  size_t arena_bytes() const { return arena_bytes_; }

  std::span<const Tensor> inputs(const Step& step) const {
    return {operands_.data() + step.first, static_cast<size_t>(step.inputs)};
  }
  std::span<const Tensor> outputs(const Step& step) const {
    return {operands_.data() + step.first + step.inputs, static_cast<size_t>(step.outputs)};
  }
  // Of an Op.
  const Attrs& attrs(const Step& step) const { return attrs_[step.index]; }
  const Attrs& attrs(const Product& product) const { return attrs_[product.attrs]; }
  // The memory that operands lie in: a part of the arena, a block that the run takes and gives
  // back, one that it returns, an argument's, or memory that is there before and after.
  struct Allocation {
    enum class Kind : uint8_t { Arena, Block, Result, Argument, Outside };
    Kind kind;
    size_t bytes;
    int64_t position = -1;          // Arena: where; Result, Argument: which
    int64_t first = -1, last = -1;  // the steps that it is used from and to, both included
  };
  struct MemoryLayout {
    std::vector<Allocation> places;
    std::unordered_map<const Storage*, size_t> place_of;
  };
  MemoryLayout layout() const;
  // The bytes that a run holds during each step: the arena, blocks, results that it took so far,
  // and from the first write on what kernels take for themselves.
  std::vector<size_t> held_bytes() const;
  // What each step's kernel takes on top, with as many threads as there are now.
  std::vector<size_t> scratch_bytes() const;
  // The most that a run holds, with that; known before the first one.
  size_t peak_bytes() const;

 private:
  friend class Planner;
  // The storage that gets an argument's memory, and what the argument looks like.
  struct Argument {
    Ref<Storage> storage;
    Tensor like;
    bool used = false;
    bool written = false;
  };
  struct ResultBuffer {
    Ref<Storage> storage;
    size_t bytes;
  };
  // A block of its own that a step is the first (last) to use.
  enum class Use : uint8_t { Value, Result, Arena };
  struct BufferEvent {
    int64_t step;
    ResultBuffer memory;
    Use use = Use::Value;
  };
  // A random op: its attributes end with the generator's number and how far into its counters.
  struct Draw {
    int64_t attrs;
    int64_t generator;
    int64_t first;
  };

  struct BufferGuard;

  explicit Program(std::shared_ptr<Numbers> numbers) : numbers_(std::move(numbers)) {}
  Program& operator=(Program&&) = default;

  void find_gil_use();
  static void give_back(ResultBuffer& memory);
  void bind(std::span<const Tensor> arguments);
  void set_draws(const RngOffsets& draws);
  void place(const ResultBuffer& arena);
  void forget_lost_run();
  void run_steps(const RngOffsets& draws, RunObserver* observer);
  void run_side(const ConcurrentGroup& side, const RngOffsets& draws, RunObserver* observer,
                memory::Spare* spare);
  void run_step(int64_t step, const RngOffsets& draws, RunObserver* observer, memory::Spare* spare);
  void execute(const Step& step, const RngOffsets& draws);
  void run_region(Region& region, std::span<const Tensor> inputs,
                  std::span<const Tensor> outputs) const;
  size_t scratch_of(const Step& step) const;
  size_t spare_bytes() const;
  bool may_replace(const Step& step, const Storage& from, const Storage& to) const;
  std::vector<Tensor> results(std::span<const Tensor> arguments);

  std::shared_ptr<Numbers> numbers_;
  std::vector<Step> steps_;
  std::vector<Tensor> operands_;
  std::deque<Attrs> attrs_;
  std::vector<Region> regions_;
  std::vector<ConcurrentGroup> sides_;  // in the order of the steps
  std::vector<std::unique_ptr<ExternalOp::Executable>> executables_;
  std::vector<std::string> names_;  // of the opaque steps
  std::vector<ValueAccess> touches_;
  std::vector<int64_t> step_of_;
  std::vector<Draw> draws_;
  std::vector<Argument> arguments_;
  std::vector<ResultBuffer> memories_;  // of results
  std::vector<Ref<Storage>> made_;      // during `results`: what they lie in
  std::vector<Result> results_;
  std::vector<Tensor> captured_;
  std::vector<Tensor> written_;  // of the captured memory
  // Large values in between, and results, have blocks of their own while they are used.
  std::vector<BufferEvent> allocs_, frees_;  // in the order of the steps
  // Others lie in one block, the arena, from the first step that uses it to the last: mostly the
  // same one.
  std::vector<std::pair<Ref<Storage>, size_t>> placed_;  // and their offsets
  size_t arena_bytes_ = 0;
  // The first step that writes what is there after a run, or -1. What kernels take for themselves
  // from there on is taken before it, so that none of them fails.
  int64_t first_write_ = -1;
  // How much that is with so many threads, once a run has asked.
  struct {
    int threads = 0;
    size_t bytes = 0;
  } spare_;
  size_t room_ = 0;        // that blocks of more than a slab's need side by side
  char* arena_ = nullptr;  // of the last run
  bool holds_gil_ = false;
  uint32_t forks_ = fork_count();  // when it ran last
};

}  // namespace tinyt
