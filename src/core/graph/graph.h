// A recorded program: nodes over values. Recording is functional: a write through a view becomes
// an `update` node and a new current value of the storage.
#pragma once

#include <deque>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/graph/external_op.h"
#include "core/graph/lazy.h"
#include "core/graph/runtime_scalars.h"
#include "core/memory/thread_pointer.h"
#include "core/ops/dispatch.h"
#include "core/ops/infer.h"

namespace tinyt {

class CaptureLog;

class Graph {
 public:
  struct Value {
    Dims shape;
    DType dtype;
    int64_t node;  // its producer, -1: an input of the graph
    Device device{};

    size_t bytes() const { return static_cast<size_t>(numel_of(shape)) * size_of(dtype); }
  };
  struct Node {
    OpId op;  // kCount: an external op
    DType compute;
    Attrs attrs;
    SmallVec<int64_t, 4> inputs;
    SmallVec<int64_t, 2> outputs;
    std::shared_ptr<const ExternalOp> opaque;

    std::string_view name() const { return opaque ? opaque->name() : name_of(op); }
    // Whether it has an effect, or a node of what it runs.
    bool is_ordered() const;
  };
  // Real memory the recording read, the tensor as it is seen at each run; or an argument, for which
  // the tensor only stands; or the cell of a number.
  struct Input {
    int64_t value;
    Tensor tensor;
    int64_t argument = -1;
    bool number = false;
  };
  // A returned tensor: a view of the value that its memory has in the end; where that is an
  // argument's, a view of the argument.
  struct Output {
    int64_t value;
    Tensor tensor;
    int64_t argument = -1;
  };
  // Real memory, or an argument's, that the recording wrote: gets the value after everything else
  // has run.
  struct Write {
    int64_t value;
    Tensor target;
    int64_t argument = -1;
  };

  Graph();
  // The recording of a part of another one, which it may read but not write: what it reads from
  // outside becomes an argument. `outer` must outlive it, up to finish().
  explicit Graph(Graph& outer);
  Outputs record(OpId op, std::span<const Tensor> inputs, const Inferred& inferred);
  // The first tensors are those that the step writes, as ExternalOp has them.
  void record(std::shared_ptr<const ExternalOp> opaque, std::span<const Tensor> inputs,
              size_t written);
  // A step whose outputs have geometries of their own.
  std::vector<Tensor> record(std::shared_ptr<const ExternalOp> opaque,
                             std::span<const Tensor> inputs);
  void write(const Tensor& to, const Tensor& from);
  bool has_written(const Tensor& x) const;
  // A tensor of the same geometry that stands for the argument of each run, in memory of its own.
  Tensor add_argument(const Tensor& like);
  // The operand that a number is.
  Tensor cell(int64_t number);
  // A 0-d tensor that holds another number at each run.
  void add_number(const Tensor& cell);
  RuntimeScalars& scalars() { return *scalars_; }
  const std::shared_ptr<RuntimeScalars>& shared_scalars() const { return scalars_; }
  // Takes scalars that were made before, before anything is recorded.
  void set_scalars(std::shared_ptr<RuntimeScalars> scalars) { scalars_ = std::move(scalars); }
  // Takes the scalars of another recording, before anything is recorded.
  void share_scalars(const Graph& other) { scalars_ = other.scalars_; }
  // Marks a tensor as an output of the graph.
  void add_output(const Tensor& x);
  // Marks what a tensor holds as an output, in memory of its own; returns which one.
  size_t add_result(const Tensor& x);
  // What is recorded from here on runs later: a program of its own.
  struct SplitPoint {
    int64_t node = -1;  // the first one; -1: all is one program
    size_t output = 0;
    size_t argument = 0;
  };
  void set_mark();
  const SplitPoint& split_point() const { return split_point_; }
  // Ends the recording: collects the writes. No more nodes may be added.
  void finish();
  // Other nodes over the same inputs, outputs, writes and numbers, from one array:
  //   format (1), how many values were recorded, new values: count, then dtype and shape of each;
  //   which of these are the new inputs, tensors that are there; count of nodes, the split point's
  //   node or -1, and of each node where it was recorded, or -1, op, integer and float attributes
  //   (bits); inputs, outputs; the values of outputs, those of writes.
  // Lists follow their count. What is no graph, or stands for another one, is an error.
  // `parts`: the recordings that recorded nodes run, in the places of those that they had.
  std::unique_ptr<Graph> rewritten(
      std::span<const int64_t> flat, std::span<const Tensor> inputs = {},
      const std::unordered_map<int64_t, ExternalOp::Graphs>& parts = {}) const;
  // Of a finished recording with a split point: what comes before it, whose last outputs are what
  // the rest needs of that, and the rest, whose last arguments these are. Both take all arguments.
  std::pair<std::unique_ptr<Graph>, std::unique_ptr<Graph>> split() const;
  // Of a finished part, before its outside is taken: what its first part computes of that alone,
  // and so in the same way each time it runs, is recorded outside, where it runs once. Views stay.
  void hoist();

  // The recording that this is a part of, while it is under way.
  Graph* outer() const { return outer_; }
  // Of the outermost recording.
  uint64_t id() const { return outermost_; }
  const std::deque<Node>& nodes() const { return nodes_; }
  const std::deque<Value>& values() const { return values_; }
  const std::vector<Input>& inputs() const { return inputs_; }
  const std::vector<Output>& outputs() const { return outputs_; }
  const std::vector<Write>& writes() const { return writes_; }
  // What stands for the arguments.
  const std::vector<Tensor>& arguments() const { return arguments_; }
  // The arguments that stand for tensors outside, and those; gives them away.
  std::vector<std::pair<int64_t, Tensor>> take_outside() { return std::exchange(outside_, {}); }

  std::shared_ptr<void> owner;  // the object of the front end that records, while it does
  CaptureLog* log = nullptr;    // what notes how sizes come to be, while it is recorded
  // While it is there, optimisers are recorded to step only where this bool is true.
  Tensor step_condition;

 private:
  friend class GraphReader;
  friend class Rewriting;
  friend class Splitting;
  // A real storage seen while recording.
  struct Cell {
    Tensor whole;
    int64_t value;
    uint64_t writes = 0;
  };

  int64_t add_value(const Dims& shape, DType dtype, int64_t node, Device device);
  int64_t add_input(const Tensor& tensor);
  Tensor make(int64_t value) const;
  void add_outside(int64_t value, const Tensor& x);
  std::vector<Tensor> record_fixed() const;
  Cell& cell_of(const Tensor& x);
  int64_t read(const Tensor& x);
  // Whether the memory is neither real nor this recording's own, or real and seen from a part.
  bool is_outside(const Tensor& x) const;
  // Whether that recording is this one or around it.
  bool reaches(uint64_t id) const { return id == id_ || (outer_ && outer_->reaches(id)); }
  int64_t add_node(OpId op, const Attrs& attrs, DType compute, SmallVec<int64_t, 4> inputs,
                   const Dims& shape, DType dtype);
  int64_t as_dtype(int64_t value, DType dtype);
  int64_t reshaped(int64_t value, const Dims& shape);
  void remember(const Tensor& x, int64_t value) const;

  uint64_t id_, outermost_;
  Graph* outer_ = nullptr;
  std::deque<Node> nodes_;
  std::deque<Value> values_;
  std::vector<Input> inputs_;
  std::vector<Output> outputs_;
  std::vector<Write> writes_;
  std::vector<Tensor> arguments_;
  SplitPoint split_point_;
  std::shared_ptr<RuntimeScalars> scalars_;
  std::unordered_map<const Storage*, Cell> cells_;
  // Of a part: tensors from outside that it has read, and what its arguments stand for.
  std::unordered_map<const TensorImpl*, std::pair<Tensor, int64_t>> seen_;
  std::vector<std::pair<int64_t, Tensor>> outside_;
};

// The graph this thread records into, or null.
extern TINYT_THREAD_POINTER Graph* t_recording;
inline Graph* recording() { return t_recording; }
// Starts (or with null ends) recording on this thread; returns what was there before.
Graph* set_recording(Graph* graph);
// Operations of this thread run at once for its lifetime.
class PausedRecording {
 public:
  PausedRecording() : graph_(set_recording(nullptr)), lazy_(set_lazily(nullptr)) {}
  ~PausedRecording() {
    set_recording(graph_);
    set_lazily(lazy_);
  }
  PausedRecording(const PausedRecording&) = delete;
  PausedRecording& operator=(const PausedRecording&) = delete;

 private:
  Graph* graph_;
  Lazy* lazy_;
};

}  // namespace tinyt
