// A recorded program: nodes over values. Recording is functional: a write through a view becomes
// an `update` node and a new current value of the storage.
#pragma once

#include <deque>
#include <unordered_map>
#include <vector>

#include "dispatch.h"
#include "infer.h"

namespace tinyt {

class Graph {
 public:
  struct Value {
    Dims shape;
    DType dtype;
    int64_t node;  // its producer, -1: an input of the graph
  };
  struct Node {
    OpId op;
    DType compute;
    Attrs attrs;
    SmallVec<int64_t, 4> inputs;
    SmallVec<int64_t, 2> outputs;
  };
  // Real memory the recording read: the tensor as it is seen at each run.
  struct Input {
    int64_t value;
    Tensor tensor;
  };
  // Real memory the recording wrote: gets the value after everything else has run.
  struct Write {
    int64_t value;
    Tensor target;
  };

  Graph();
  Outputs record(OpId op, std::span<const Tensor> inputs, const Inferred& inferred);
  void write(const Tensor& to, const Tensor& from);
  bool has_written(const Tensor& x) const;
  // The value a tensor has now; marks it as an output of the graph.
  int64_t add_output(const Tensor& x);
  // Ends the recording: collects the writes. No more nodes may be added.
  void finish();

  uint64_t id() const { return id_; }
  const std::deque<Node>& nodes() const { return nodes_; }
  const std::deque<Value>& values() const { return values_; }
  const std::vector<Input>& inputs() const { return inputs_; }
  const std::vector<int64_t>& outputs() const { return outputs_; }
  const std::vector<Write>& writes() const { return writes_; }

 private:
  // A real storage seen while recording.
  struct Cell {
    Tensor whole;
    int64_t value;
    bool written = false;
  };

  int64_t add_value(const Dims& shape, DType dtype, int64_t node);
  int64_t add_input(const Tensor& tensor);
  Cell& cell_of(const Tensor& x);
  int64_t read(const Tensor& x);
  int64_t add_node(OpId op, const Attrs& attrs, DType compute, SmallVec<int64_t, 4> inputs,
                   const Dims& shape, DType dtype);
  int64_t as_dtype(int64_t value, DType dtype);
  int64_t reshaped(int64_t value, const Dims& shape);
  void remember(const Tensor& x, int64_t value) const;

  uint64_t id_;
  std::deque<Node> nodes_;
  std::deque<Value> values_;
  std::vector<Input> inputs_;
  std::vector<int64_t> outputs_;
  std::vector<Write> writes_;
  std::unordered_map<const Storage*, Cell> cells_;
};

// The graph this thread records into, or null.
Graph* recording();
// Starts (or with null ends) recording on this thread; returns what was there before.
Graph* set_recording(Graph* graph);

}  // namespace tinyt
