// Capture log: how a recording came to be, as far as sizes go. Every call into the core, sizes as
// expressions of those of earlier tensors, and guards on them. Repeated for arguments of other
// sizes it gives what the front end would record for these, or stops where a guard fails.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/graph/graph.h"
#include "core/graph/symbolic_scalars.h"

namespace tinyt {

class CaptureLog {
 public:
  using Op = SymbolicScalars::Op;
  using Test = SymbolicScalars::Test;

  explicit CaptureLog(const Graph& graph);

  // ---- formulas, while it is recorded

  // A number of this log as others keep it, who may outlive it; -1 for that of another log.
  int64_t coded(int64_t number) const { return static_cast<int64_t>(graph_ << 32) | number; }
  int64_t decoded(int64_t code) const {
    return code >= 0 && static_cast<uint64_t>(code) >> 32 == graph_ ? code & 0xffffffff : -1;
  }
  // Which of the tensors that calls made, views of real memory among them, or of which row a number
  // is; -1: of none.
  int64_t number_of(const Tensor& x) const { return decoded(x.impl()->traced); }
  void mark(const Tensor& x, int64_t number) const { x.impl()->traced = coded(number); }
  SymbolicScalars& table() { return table_; }
  // Nothing where no call has made the tensor: then nothing can be repeated, either.
  int64_t of(Op op, const Tensor& x, int64_t dim = -1);
  int64_t of(Op op, int64_t made, int64_t dim, int64_t value) {
    return table_.source(op, made, dim, value);
  }
  // All of its geometry.
  void guard_on(const Tensor& x);
  // The log ends here, and is of no use.
  void fail(const std::string& why);
  const std::string& failure() const { return failure_; }
  void (*on_guard)(void* owner) = nullptr;  // called where there is another one; may throw
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
    CaptureLog* done();

   private:
    CaptureLog* log_ = nullptr;
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
  // The values of the rows, or nothing, and why, and at which guard (-1: none).
  std::optional<std::vector<int64_t>> replay(std::span<const Tensor> arguments, Graph& out,
                                             std::string& why, int64_t& guard) const;
  // Makes the same calls with these tensors, whether they are recorded or not, and makes tensors of
  // nothing on that device: its outputs; nothing where it would decide otherwise.
  std::optional<std::vector<Tensor>> run(std::span<const Tensor> arguments, Device device) const;

 private:
  enum class Kind : uint8_t { Argument, Cell, Call, Into, Assign, Step, Output, Guard };
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
    bool is_view = false;  // whether a call made one
    int64_t number = -1;   // of a cell's scalar, or a guard
  };
  class Replay;

  static void add_guard(void* log);
  Event& add(Kind kind, std::span<const Tensor> operands);
  void made(Event& event, const Tensor& x);
  Attrs own(const Attrs& attrs) const;

  uint64_t graph_;
  bool busy_ = false;
  int64_t made_ = 0;
  SymbolicScalars table_;
  std::vector<Event> events_;
  std::string failure_;
};

// Of this thread's recording, or null.
inline CaptureLog* tracing() {
  Graph* graph = recording();
  if (!graph || !graph->log) [[likely]]
    return nullptr;
  return graph->log->failure().empty() ? graph->log : nullptr;
}

}  // namespace tinyt
