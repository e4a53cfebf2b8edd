// A step of a recorded graph that is no row of the op table, as an optimiser's over all parameters.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "core/tensor/tensor.h"

namespace tinyt {

class Graph;
class Program;

// The seed and first counter that a run's draws from a generator start with, per generator.
using RngOffsets = std::vector<std::pair<int64_t, int64_t>>;

// A function of its inputs, unless it has an effect beside.
class ExternalOp {
 public:
  // Ordered: passes neither drop nor merge it, and all that are run in the order of the graph.
  enum class Effect : uint8_t { None, Ordered };
  struct Geometry {
    Dims shape;
    DType dtype;
    Device device{};
  };
  // The step over tensors whose memory may move between runs, but whose geometry stays.
  class Executable {
   public:
    virtual ~Executable() = default;
    // RngOffsets: where those of the whole run start.
    virtual void run(const RngOffsets& draws) const = 0;
    // The programs that it runs, and how often: what is not known before, of the last run, or -1.
    virtual std::vector<std::pair<const Program*, int64_t>> parts() const { return {}; }
    // The most that run() takes for itself at once, with as many threads as there are now: where
    // data decides, what it may take; what code of the user's allocates is not known.
    virtual size_t scratch_bytes() const = 0;
  };

  virtual ~ExternalOp() = default;
  virtual std::string_view name() const = 0;
  // What the outputs look like. None: output i is like input i and may be given the same memory:
  // then the step works in place.
  virtual std::vector<Geometry> outputs() const { return {}; }
  virtual Effect effect() const { return Effect::None; }
  // Whether it may find its operands wanting when it runs, as an index out of range.
  virtual bool may_fail() const { return false; }
  // What tells it from another of the same name: recordings that it runs, and numbers.
  using Graphs = std::vector<std::shared_ptr<const Graph>>;
  virtual Graphs graphs() const { return {}; }
  // The same with other recordings in their places.
  virtual std::shared_ptr<const ExternalOp> with_graphs(const Graphs&) const { return nullptr; }
  virtual std::vector<int64_t> numbers() const { return {}; }
  // By what name and numbers make it again: "step" (step_of), "flow" (flow_of); "": they do not.
  virtual std::string_view form() const { return {}; }
  // Of a step: how many of its inputs, the first ones, it writes.
  virtual size_t written() const { return 0; }
  // An error where operands of that geometry are none that it takes.
  virtual void check_operands(std::span<const Geometry> /*inputs*/,
                              std::span<const Geometry> /*outputs*/) const {}
  virtual std::unique_ptr<Executable> bind(std::span<const Tensor> inputs,
                                           std::span<const Tensor> outputs) const = 0;
};

}  // namespace tinyt
