// How a recording came to be, as far as sizes go: every call into the core, sizes as formulas of
// those of earlier tensors, and what was decided by them. Repeated for arguments of other sizes it
// gives what the front end would record for these, or stops where it would decide otherwise.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/graph/graph.h"
#include "core/graph/sizes.h"

namespace tinyt {

class Trace {
 public:
  using Test = Sizes::Test;
  enum class Op : uint8_t {
    Constant,
    Size,  // of a tensor (left), along a dimension (right)
    Stride,
    Offset,
    Contiguous,
    Attribute,  // of a call (left), as its op has normalised it
    Add,
    Sub,
    Mul,
    FloorDiv,
    Mod,
    Real,  // from here on doubles, by their bits
    RealAdd,
    RealSub,
    RealMul,
    RealDiv
  };

  explicit Trace(const Graph& graph);

  // ---- formulas, while it is recorded

  // A number of this trace as others keep it, who may outlive it; -1 for that of another trace.
  int64_t coded(int64_t number) const { return static_cast<int64_t>(graph_ << 32) | number; }
  int64_t decoded(int64_t code) const {
    return code >= 0 && static_cast<uint64_t>(code) >> 32 == graph_ ? code & 0xffffffff : -1;
  }
  // Which of the tensors that calls made, views of real memory among them, or of which row a number
  // is; -1: of none.
  int64_t number_of(const Tensor& x) const { return decoded(x.impl()->traced); }
  void mark(const Tensor& x, int64_t number) const { x.impl()->traced = coded(number); }
  int64_t value(int64_t row) const { return rows_[row].value; }
  int64_t constant(int64_t value) { return apply(Op::Constant, value, -1); }
  // Nothing where no call has made the tensor: then nothing can be repeated, either.
  int64_t of(Op op, const Tensor& x, int64_t dim = -1);
  int64_t of(Op op, int64_t made, int64_t dim, int64_t value);
  // 0 for the right one of a division is the caller's error.
  int64_t apply(Op op, int64_t left, int64_t right);
  bool test(Test test, int64_t left, int64_t right);
  void hold(int64_t row) { test(Test::Eq, row, constant(value(row))); }
  // All of its geometry.
  void hold(const Tensor& x);
  // The trace ends here, and is of no use.
  void fail(const std::string& why);
  const std::string& failure() const { return failure_; }
  size_t tests() const { return tests_; }
  void (*on_test)(void* owner) = nullptr;  // called where another one is noted; may throw
  void* owner = nullptr;

  // ---- calls, while they are recorded

  // A call into the core, not those that it makes in turn; one that is not done has failed.
  class Scope {
   public:
    explicit Scope(Graph* graph);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    // Null: there is none, or this is a call in another one.
    Trace* done();

   private:
    Trace* trace_ = nullptr;
    bool is_done_ = false;
  };
  void argument(const Tensor& like, const Tensor& made);
  void call(OpId op, std::span<const Tensor> inputs, const Attrs& attrs, const Outputs& made,
            Attrs* normalised);
  void into(OpId op, std::span<const Tensor> inputs, const Attrs& attrs, const Tensor& out);
  void assign(const Tensor& to, const Tensor& from);
  void step(std::shared_ptr<const ExternalOp> opaque, std::span<const Tensor> inputs,
            size_t written);
  void output(const Tensor& x);
  void cell(int64_t number);

  // ---- once it is recorded

  // Records the same into a graph with other arguments; those without a tensor are as they were.
  // The values of the rows, or nothing, and why, and at which test (-1: none).
  std::optional<std::vector<int64_t>> replay(std::span<const Tensor> arguments, Graph& out,
                                             std::string& why, int64_t& test) const;
  // Makes the same calls with these tensors, whether they are recorded or not, and makes tensors of
  // nothing on that device: its outputs; nothing where it would decide otherwise.
  std::optional<std::vector<Tensor>> run(std::span<const Tensor> arguments, Device device) const;

 private:
  enum class Kind : uint8_t { Argument, Cell, Call, Into, Assign, Step, Output, Test };
  struct Row {
    Op op;
    int64_t left, right, value;
  };
  struct Operand {
    int64_t made = -1;  // which of the tensors that calls made
    int64_t row = -1;   // of a Python number that is a formula
    Tensor fixed{};     // any other
  };
  struct Event {
    Kind kind;
    OpId op = OpId::kCount;
    size_t rows = 0;     // known before it
    size_t written = 0;  // of a step
    Attrs attrs{};
    std::vector<Operand> operands{};
    std::vector<Tensor> geometries{};  // of operands and results, without data
    std::shared_ptr<const ExternalOp> opaque{};
    Test test = Test::Eq;
    bool outcome = false;  // of a test; of a call: whether it made a view
    int64_t left = -1, right = -1;
  };
  class Replay;

  void add(Row row);
  Event& add(Kind kind, std::span<const Tensor> operands);
  void made(Event& event, const Tensor& x);
  Attrs own(const Attrs& attrs) const;

  uint64_t graph_;
  bool busy_ = false;
  int64_t made_ = 0;
  size_t tests_ = 0;
  std::vector<Row> rows_;
  std::unordered_map<uint64_t, int64_t> known_;
  std::unordered_map<int64_t, int64_t> constants_;
  std::unordered_map<uint64_t, bool> asked_;
  std::vector<Event> events_;
  std::string failure_;
};

// Of this thread's recording, or null.
inline Trace* tracing() {
  Graph* graph = recording();
  if (!graph || !graph->trace) [[likely]]
    return nullptr;
  return graph->trace->failure().empty() ? graph->trace : nullptr;
}

}  // namespace tinyt
