// Values of dtypes in sources: what holds them, how they come from memory and go to it, and the
// functions that work on them.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/ops/ops.h"
#include "core/ops/scalar_definition.h"
#include "gpu/source_writer.h"

namespace tinyt::gpu {

// array[index], and word and number as a name.
inline std::string at(std::string_view array, const std::string& index) {
  return std::string(array) + "[" + index + "]";
}
inline std::string numbered(std::string_view word, int64_t i) {
  return std::string(word) + std::to_string(i);
}

// Functions by their names. One of a name is the same in whatever kernel it stands.
using Functions = std::vector<std::pair<std::string, std::string>>;

class ValueSource {
 public:
  // Whether functions are called as they are, or without their rare paths, with a flag `rare`.
  enum class Form : uint8_t { Whole, Common };

  ValueSource(const Dialect& dialect, std::string_view name)
      : dialect_(dialect), name_(name), write_(dialect, name) {}

  SourceWriter& write() { return write_; }
  const SourceWriter& write() const { return write_; }
  const Dialect& dialect() const { return dialect_; }
  // The functions that texts call, by name, each once, to stand in front of the kernel.
  const Functions& functions() const { return functions_; }

  static ScalarType held(DType dtype) { return held_type(dtype); }
  std::string memory_type(DType dtype) const;
  // An element as it is held, given what stands in memory, or the word of a number (`high`: its
  // upper half, where words have 32 bits); a value as it goes to memory.
  std::string unpacked(DType dtype, const std::string& item);
  std::string of_word(DType dtype, const std::string& word, const std::string& high);
  std::string packed(DType dtype, const std::string& value);
  // An int64 constant.
  std::string whole(int64_t value) const;
  std::string call_cast(const std::string& x, DType from, DType to);
  // A scalar op of values held in the dtype that it computes in, one whose `info().compute` is
  // itself.
  std::string call_op(OpId op, DType compute, const std::string& operands);
  // a * b + c of values held in such a dtype: rounded once or twice, as the language is fastest.
  std::string product_added(DType compute, const std::string& a, const std::string& b,
                            const std::string& c);
  // A function of that name in front of the kernel, once.
  std::string function(const ScalarDefinition& definition, const std::string& name,
                       Form form = Form::Whole);

  // Of a reduction whose results have a dtype: its accumulators' type and first value; a joined by
  // b, where a comes first.
  static ScalarType accumulator(DType dtype) { return held_type(info(dtype).compute); }
  // Whether a value of a type is a NaN.
  std::string is_nan(ScalarType type, const std::string& x);
  std::string identity(OpId op, DType dtype) const;
  std::string joined(OpId op, DType dtype, const std::string& a, const std::string& b);

 protected:
  std::string_view name() const { return name_; }

 private:
  const Dialect& dialect_;
  std::string_view name_;
  SourceWriter write_;
  Functions functions_;
};

// tt_a_b_c.
template <class... Words>
std::string joined_words(const Words&... words) {
  std::string name = "tt";
  ((name += "_", name += words), ...);
  return name;
}

}  // namespace tinyt::gpu
