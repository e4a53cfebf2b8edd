// A plan: the steps that a recorded graph becomes, over tensors that are all there before the first
// run. A step is one op, or a region of scalar ops that runs tile by tile, maybe on the result of a
// product, so that its intermediate values never leave the cache.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/graph/fusion_target.h"
#include "core/graph/graph.h"
#include "core/ops/seam.h"

namespace tinyt {

// Why a step ends where it does, and not with what reads its result.
enum class FusionBarrier : uint8_t {
  Result,     // nothing in the graph reads it
  RunsAlone,  // it or its reader is no elementwise op or reduction
  Device,
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

struct Plan {
  enum class Kind : uint8_t { Op, Region, Copy, ExternalOp };
  // Operands, in one row: inputs, then outputs. A Copy writes its one input into its output.
  struct Step {
    Kind kind;
    OpId op = OpId::kCount;
    DType compute = DType::Float32;
    int32_t inputs = 0, outputs = 0;
    int64_t first = 0;  // operand
    int64_t index = 0;  // of its attributes, region or external op
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
    FusedKernel meaning;
    std::shared_ptr<CompiledKernel> kernel;
    std::vector<OpId> ops;  // of its nodes
    std::optional<Product> product = {};
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
  // A piece of memory that a run holds, and the value that lies in it, or -1.
  struct LiveBuffer {
    int64_t value;
    size_t bytes;
  };
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
    size_t arena = 0;  // which
  };
  // A device's block for small values, from the first step that uses it to the last: mostly the
  // same one at each run.
  struct Arena {
    ResultBuffer memory;
    std::vector<std::pair<Ref<Storage>, size_t>> placed;  // and their offsets
  };
  // A random op: its attributes end with the generator's number and how far into its counters.
  struct Draw {
    int64_t attrs;
    int64_t generator;
    int64_t first;
  };

  std::span<const Tensor> inputs(const Step& step) const {
    return {operands.data() + step.first, static_cast<size_t>(step.inputs)};
  }
  std::span<const Tensor> outputs(const Step& step) const {
    return {operands.data() + step.first + step.inputs, static_cast<size_t>(step.outputs)};
  }
  // Of an Op.
  const Attrs& attrs_of(const Step& step) const { return attrs[step.index]; }
  const Attrs& attrs_of(const Product& product) const { return attrs[product.attrs]; }
  std::string_view name(const Step& step) const;
  // Inputs are those of its product, then the kernel's operands but the product's result.
  void run_region(Region& region, std::span<const Tensor> inputs,
                  std::span<const Tensor> outputs) const;
  size_t scratch_of(const Region& region, std::span<const Tensor> inputs,
                    std::span<const Tensor> outputs) const;
  FrontProduct front_of(const Product& product, std::span<const Tensor> inputs) const;

  MemoryLayout layout() const;
  // The memory that is alive during a step.
  std::vector<LiveBuffer> held_values(int64_t step) const;
  // The bytes that a run holds during each step: the arena, blocks, results that it took so far,
  // and from the first write on what kernels take for themselves.
  std::vector<size_t> held_bytes() const;
  // What each step's kernel takes on top, with as many threads as there are now: its workspace.
  std::vector<size_t> scratch_bytes() const;
  size_t scratch_of(const Step& step) const;
  // The most that a step from the first write on takes.
  size_t spare_bytes() const;
  // The most that a run holds, with that; known before the first one.
  size_t peak_bytes() const;
  size_t arena_bytes() const;
  // Whether a run may write that memory of results where an argument of its size lies: no step
  // reads the argument once it is written, and one that does both reads each element first.
  bool may_replace(size_t argument, size_t memory) const;
  // The same of one step, which reads what lies in `from` and writes the memory `to`.
  bool may_replace(const Step& step, const Storage& from, const Storage& to) const;

  std::vector<Step> steps;
  std::vector<Tensor> operands;
  std::deque<Attrs> attrs;
  std::vector<Region> regions;
  std::vector<ConcurrentGroup> groups;  // in the order of the steps
  std::vector<std::unique_ptr<ExternalOp::Executable>> executables;
  std::vector<std::string> names;     // of the external steps
  std::vector<ValueAccess> accesses;  // in the order of the steps; the last ones are of no step
  std::vector<int64_t> step_of_node;  // of each node of the graph: the step, or -1
  std::vector<Draw> draws;
  std::vector<Argument> arguments;
  std::vector<ResultBuffer> memories;  // of results
  std::vector<Result> results;
  std::vector<Tensor> captured;  // that a run reads
  std::vector<Tensor> written;   // of the captured memory
  // Large values in between, and results, have blocks of their own while they are used.
  std::vector<BufferEvent> allocs, frees;  // in the order of the steps
  std::vector<Arena> arenas;
  // The first step that writes what is there after a run, or -1. What kernels take for themselves
  // from there on is taken before it, so that none of them fails.
  int64_t first_write = -1;
  size_t room = 0;  // that blocks of more than a slab's need side by side
};

// Plans: fuses what it may, and gives every value its place.
Plan make_plan(const Graph& graph, Plan::Part part, Plan::ResultAlloc result_alloc);

}  // namespace tinyt
