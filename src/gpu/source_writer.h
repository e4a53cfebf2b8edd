// Lines of a language, as its dialect writes them.
#pragma once

#include <initializer_list>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/dtype.h"
#include "gpu/dialect.h"

namespace tinyt::gpu {

// A pattern with the texts given for its letters in the place of each $letter.
using Parts = std::initializer_list<std::pair<char, std::string_view>>;
std::string filled(std::string_view pattern, Parts parts);

class SourceWriter {
 public:
  SourceWriter(const Dialect& dialect, std::string_view what) : dialect_(dialect), what_(what) {}

  const Dialect& dialect() const { return dialect_; }
  std::string text() const { return os_.str(); }
  // NotImplementedError where the language has no such type.
  std::string type(ScalarType type) const;

  void line(const std::string& text) {
    os_ << std::string(2 * static_cast<size_t>(depth_), ' ') << text << '\n';
  }
  void open(const std::string& text) {
    line(text + (text.empty() ? "{" : " {"));
    ++depth_;
  }
  void close() {
    --depth_;
    line("}");
  }

  void constant(ScalarType t, const std::string& name, const std::string& value) {
    line(filled(dialect_.constant, {{'T', type(t)}, {'N', name}, {'E', value}}));
  }
  void variable(ScalarType t, const std::string& name, const std::string& value) {
    line(filled(dialect_.variable, {{'T', type(t)}, {'N', name}, {'E', value}}));
  }
  void array(ScalarType t, const std::string& name, int64_t size) {
    line(filled(dialect_.array, {{'T', type(t)}, {'N', name}, {'E', std::to_string(size)}}));
  }
  // An array that the threads of a group share; where all of them wait for each other.
  void shared_array(ScalarType t, const std::string& name, int64_t size) {
    line(filled(dialect_.shared, {{'T', type(t)}, {'N', name}, {'E', std::to_string(size)}}));
  }
  void barrier() { line(std::string(dialect_.barrier)); }
  // A machine operation on operands of a type, each a name or in brackets; `table` is what a lookup
  // reads. NotImplementedError where the language has no spelling.
  std::string operation(MachineOp op, ScalarType type, ScalarType from,
                        std::initializer_list<std::string> operands,
                        std::string_view table = "") const;
  // Comparisons of two values of a type.
  std::string equal(ScalarType t, const std::string& a, const std::string& b) const {
    return operation(MachineOp::equal, ScalarType::Bool, t, {a, b});
  }
  std::string less(ScalarType t, const std::string& a, const std::string& b) const {
    return operation(MachineOp::less, ScalarType::Bool, t, {a, b});
  }
  std::string less_equal(ScalarType t, const std::string& a, const std::string& b) const {
    return operation(MachineOp::less_equal, ScalarType::Bool, t, {a, b});
  }
  // A narrower integer as int64; int64 as an integer of such a type.
  std::string widened(const std::string& value) const;
  std::string narrowed(std::string_view type, const std::string& value) const;

  // An element of memory; sets one to a value of its type in memory.
  std::string element(DType dtype, std::string_view memory, const std::string& place) const;
  void set_element(DType dtype, std::string_view memory, const std::string& place,
                   const std::string& value);
  void assign(const std::string& to, const std::string& value) { line(to + " = " + value + ";"); }
  void open_for(ScalarType t, const std::string& name, const std::string& from,
                const std::string& condition, const std::string& step) {
    open(filled(dialect_.loop,
                {{'T', type(t)}, {'N', name}, {'E', from}, {'C', condition}, {'S', step}}));
  }
  // `name` from `from` on, one after another, below `end`.
  void open_count(ScalarType t, const std::string& name, const std::string& from,
                  const std::string& end) {
    open_for(t, name, from, name + " < " + end, name + " += 1");
  }
  void open_if(const std::string& condition) { open("if (" + condition + ")"); }
  // `name` as the smaller one of two.
  void limit(ScalarType t, const std::string& name, const std::string& value,
             const std::string& most) {
    variable(t, name, value);
    open_if(most + " < " + name);
    assign(name, most);
    close();
  }

  // Memory of a dtype that a kernel writes, as the dialect spells it.
  std::string_view writes(DType dtype) const {
    return size_of(dtype) < 4 && !dialect_.writes_parts.empty() ? dialect_.writes_parts
                                                                : dialect_.writes;
  }
  // A kernel over memory, as `reads` or `writes` of the dialect spell it, and words.
  struct Argument {
    std::string_view spelling;
    std::string type, name;
  };
  void open_kernel(std::string_view name, std::vector<Argument> arguments, size_t words);
  // Of its words; the product of some.
  std::string word(size_t number) const {
    return filled(dialect_.word, {{'N', "p"},
                                  {'I', std::to_string(number)},
                                  {'Q', std::to_string(number / 4)},
                                  {'R', std::to_string(number % 4)}});
  }
  std::string product(size_t first, size_t end) const;
  std::string thread() const { return cast(type(dialect_.index), std::string(dialect_.thread)); }

  std::string cast(std::string_view to, const std::string& value) const {
    return filled(dialect_.cast, {{'T', to}, {'E', value}});
  }

 private:
  const Dialect& dialect_;
  std::string what_;
  std::ostringstream os_;
  int depth_ = 0;
};

}  // namespace tinyt::gpu
