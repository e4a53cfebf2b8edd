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
#include "gpu/value_source.h"

namespace tinyt::gpu {

inline bool reduces(const FusedKernel::Op& op) { return info(op.op).kind == OpKind::Reduce; }

// Elements of a row's blocks of products.
inline constexpr int64_t kRowProductBlock = kProductBlock * kReduceLanes;

class FusedValues : public ValueSource {
 public:
  using Operand = FusedKernel::Operand;
  FusedValues(const FusedKernel& kernel, std::string_view name, const Dialect& dialect)
      : ValueSource(dialect, name), kernel_(kernel) {
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
  // A float16 that nothing but a store takes, which rounds what is held in float32.
  void leave_unrounded(int v);
  bool is_unrounded(int v) const { return unrounded_[static_cast<size_t>(v)]; }
  // What `wanted` needs of values with an element for each of the space, or of those with one a row
  // (and loads), in order.
  std::vector<int> needs(const std::vector<int>& wanted, bool per_row) const;

  // ---- text

  // Whether one thread takes all, and is given arrays; whether its loops become vectors.
  bool one_thread() const { return dialect().thread.empty(); }
  bool has_vectors() const { return dialect().vectors; }
  std::string name_of_value(int v) const { return numbered(is_load(v) ? "x" : "v", v); }
  // As `ValueSource` has them, of a load or a value.
  std::string memory_type(int v) const { return ValueSource::memory_type(value(v).dtype); }
  std::string unpacked(int load, const std::string& item) {
    return ValueSource::unpacked(value(load).dtype, item);
  }
  std::string packed(int v) { return ValueSource::packed(value(v).dtype, name_of_value(v)); }
  ScalarType accumulator(int v) const { return ValueSource::accumulator(value(v).dtype); }
  std::string identity(int v) const { return ValueSource::identity(op_of(v).op, value(v).dtype); }
  std::string joined(int v, const std::string& a, const std::string& b) {
    return ValueSource::joined(op_of(v).op, value(v).dtype, a, b);
  }
  // What an operation makes, of the names of its operands.
  std::string result_of(int v, Form form = Form::Whole);
  // Whether the operation has a form without rare paths, in this language.
  bool has_rare(int v) const;
  // About how many operations of a machine it takes.
  int cost_of(int v) const;

 private:
  void find_live();
  void find_pass(size_t i);
  const ScalarDefinition* definition_of(const FusedKernel::Op& op) const;
  std::string operand(const FusedKernel::Op& op, size_t i);

  const FusedKernel& kernel_;
  std::vector<bool> live_;
  std::vector<bool> unrounded_ = std::vector<bool>(kernel_.values.size(), false);
  std::vector<int> pass_;
  int last_pass_ = 0;
  int kept_ = -1;
};

}  // namespace tinyt::gpu
