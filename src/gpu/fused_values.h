// The values of a fused kernel, for whoever prints it: which are needed, in which pass over a row
// each is there, and the text of what makes it.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "core/graph/fused_kernel.h"
#include "core/ops/row_order.h"
#include "gpu/fused_source.h"
#include "gpu/source_writer.h"

namespace tinyt::gpu {

inline bool reduces(const FusedKernel::Op& op) { return info(op.op).kind == OpKind::Reduce; }

// array[index], and word and number as a name.
inline std::string at(std::string_view array, const std::string& index) {
  return std::string(array) + "[" + index + "]";
}
inline std::string numbered(std::string_view word, int64_t i) {
  return std::string(word) + std::to_string(i);
}

// Elements of a row's blocks of products.
inline constexpr int64_t kRowProductBlock = kProductBlock * kReduceLanes;

class FusedValues {
 public:
  using Operand = FusedKernel::Operand;
  // Whether functions are called as they are, or without their rare paths, with a flag `rare`.
  enum class Form : uint8_t { Whole, Common };

  FusedValues(const FusedKernel& kernel, std::string_view name, const Dialect& dialect)
      : kernel_(kernel), name_(name), dialect_(dialect), write_(dialect, name) {
    find_live();
    for (size_t i = 0; i < kernel.ops.size(); ++i) find_pass(i);
  }

  const FusedKernel& kernel() const { return kernel_; }
  const FusedKernel::Value& value(int v) const { return kernel_.values[static_cast<size_t>(v)]; }
  const FusedKernel::Op& op_of(int v) const {
    return kernel_.ops[static_cast<size_t>(v - kernel_.loads)];
  }
  bool is_load(int v) const { return v < kernel_.loads; }
  // Whether stores need it.
  bool is_live(int v) const { return live_[static_cast<size_t>(v)]; }
  // The pass over a row in which it is there: one more for each reduction of a reduction.
  int pass_of(int v) const {
    return is_load(v) ? 0 : pass_[static_cast<size_t>(v - kernel_.loads)];
  }
  int last_pass() const { return last_pass_; }
  // A value that is read from an array `kept...` and needs nothing else, or -1.
  void keep(int v) { kept_ = v; }
  bool is_kept(int v) const { return v == kept_; }
  // What `wanted` needs of values with an element for each of the space, or of those with one a row
  // (and loads), in order.
  std::vector<int> needs(const std::vector<int>& wanted, bool per_row) const;

  // ---- text

  SourceWriter& write() { return write_; }
  const Dialect& dialect() const { return dialect_; }
  bool one_thread() const { return dialect_.thread.empty(); }
  // The functions that texts call, by name, each once, to stand in front of the kernel.
  const Functions& functions() const { return functions_; }
  static ScalarType held(DType dtype) { return held_type(dtype); }
  std::string name_of_value(int v) const { return numbered(is_load(v) ? "x" : "v", v); }
  std::string memory_type(int v) const;
  // A load's element as it is held, given what stands in memory; a value as it goes to memory.
  std::string unpacked(int load, const std::string& item);
  std::string packed(int v);
  // What an operation makes, of the names of its operands.
  std::string result_of(int v, Form form = Form::Whole);
  // Whether the operation has a form without rare paths, in this language.
  bool has_rare(int v) const;
  // About how many operations of a machine it takes.
  int cost_of(int v) const;
  std::string call_cast(const std::string& x, DType from, DType to);
  // Of a reduction: its accumulators' type and first value; a joined by b, where a comes first.
  ScalarType accumulator(int v) const { return held_type(info(value(v).dtype).compute); }
  std::string identity(int v) const;
  std::string joined(int v, const std::string& a, const std::string& b);

 private:
  void find_live();
  void find_pass(size_t i);
  const ScalarDefinition* definition_of(const FusedKernel::Op& op) const;
  std::string function(const ScalarDefinition& definition, const std::string& name,
                       Form form = Form::Whole);
  std::string operand(const FusedKernel::Op& op, size_t i);

  const FusedKernel& kernel_;
  std::string_view name_;
  const Dialect& dialect_;
  SourceWriter write_;
  std::vector<bool> live_;
  std::vector<int> pass_;
  int last_pass_ = 0;
  int kept_ = -1;
  Functions functions_;
};

}  // namespace tinyt::gpu
