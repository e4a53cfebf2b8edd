// What a recorded graph becomes: a flat list of steps. A step is one op, or a region of scalar ops
// that runs tile by tile, so that its intermediate values never leave the cache.
#pragma once

#include <vector>

#include "graph.h"

namespace tinyt {

// Scalar ops over rows x cols elements, one tile after another, optionally ended by a reduction of
// every row. Values live in registers (tiles); the first registers are the inputs.
struct TileProgram {
  static constexpr int kMaxSteps = 16;
  struct Step {
    OpId op;
    DType dtype;  // of the kernel
    int out;
    int in[4];
    int inputs;
  };
  std::vector<DType> registers;
  int inputs = 0;
  std::vector<Step> steps;
  bool reduces = false;
  OpId reduction = OpId::sum;

  int result() const { return steps.back().out; }
};

// An operand of a region: rows x cols elements at byte strides; the inner stride is one element or
// zero.
struct TileOperand {
  char* data;
  int64_t row_stride;
  bool inner;
};

struct TileSpace {
  int64_t rows, cols;
};

class Program {
 public:
  struct Step {
    int64_t node = -1;  // one op, or
    int64_t region = -1;
  };
  struct Region {
    TileProgram tiles;
    std::vector<int64_t> inputs;  // value numbers, one per input register
    int64_t output;
    TileSpace space;
    Dims shape;  // of the scalar ops
  };

  // Fuses what it may; the graph is copied.
  explicit Program(const Graph& graph);
  // Runs on the inputs as they are now; writes to captured memory come last.
  std::vector<Tensor> run() const;

  const std::vector<Step>& steps() const { return steps_; }
  const std::vector<Region>& regions() const { return regions_; }
  const std::vector<Graph::Node>& nodes() const { return nodes_; }
  size_t outputs() const { return outputs_.size(); }

 private:
  friend class Fuser;
  void run_node(const Graph::Node& node, std::vector<Tensor>& values) const;
  void run_region(const Region& region, std::vector<Tensor>& values) const;

  std::vector<Graph::Node> nodes_;
  std::vector<Graph::Value> values_;
  std::vector<Graph::Input> inputs_;
  std::vector<int64_t> outputs_;
  std::vector<Graph::Write> writes_;
  std::vector<Step> steps_;
  std::vector<Region> regions_;
};

}  // namespace tinyt
