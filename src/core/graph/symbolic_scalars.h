// Symbolic scalars: int64s and doubles as expressions of sources (a size of a tensor, a number that
// is given at each run), each expression kept once, and guards on their values.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace tinyt {

class SymbolicScalars {
 public:
  enum class Op : uint8_t {
    // Sources: `left` and `right` tell the owner of the table which one it is.
    Size,
    Stride,
    Offset,
    Contiguous,
    Attribute,
    Given,  // doubles from here on
    Item,
    // Constants, by `value`.
    Int,
    Real,
    // As Python computes them: int64s, then doubles.
    Add,
    Sub,
    Mul,
    FloorDiv,
    Mod,
    ToReal,
    RealAdd,
    RealSub,
    RealMul,
    RealDiv,
    RealPow,
    RealNeg,
    RealAbs
  };
  enum class Test : uint8_t { Lt, Le, Eq, Ne, Gt, Ge, Is };  // Is: the same bits
  struct Expression {
    Op op;
    int64_t left = -1, right = -1;  // expressions, unless it is a source
    int64_t value = 0;              // as recorded; a double by its bits
  };
  struct Guard {
    Test test;
    bool outcome;
    int64_t left, right;
  };

  SymbolicScalars() = default;
  // A table that was one before; an error where rows are none of a table.
  SymbolicScalars(std::vector<Expression> expressions, std::vector<Guard> guards);

  static bool is_source(Op op) { return op <= Op::Item; }
  static bool is_real(Op op) {
    return op == Op::Given || op == Op::Item || op == Op::Real || op >= Op::ToReal;
  }
  // False where Python would raise an error or give another type, or 64 bits are too few.
  static bool compute(Op op, int64_t left, int64_t right, int64_t& out);
  static bool compare(Test test, bool real, int64_t left, int64_t right);

  // Each returns the number of an expression. A new source, and one that is kept once.
  int64_t add_source(Op op, int64_t left, int64_t right, int64_t value);
  int64_t source(Op op, int64_t left, int64_t right, int64_t value);
  int64_t constant(int64_t value) { return constant(Op::Int, value); }
  int64_t real_constant(double value) { return constant(Op::Real, std::bit_cast<int64_t>(value)); }
  // An error where it cannot be computed.
  int64_t apply(Op op, int64_t left, int64_t right = -1);
  // Compares two int64s or two doubles; the outcome is a guard from then on.
  bool test(Test test, int64_t left, int64_t right);
  // The value is.
  void guard_on(int64_t number);
  void (*on_guard)(void* owner) = nullptr;  // called where there is another guard; may throw
  void* owner = nullptr;

  size_t size() const { return expressions_.size(); }
  const Expression& at(int64_t number) const {
    return expressions_.at(static_cast<size_t>(number));
  }
  int64_t value(int64_t number) const { return at(number).value; }
  double real(int64_t number) const { return std::bit_cast<double>(value(number)); }
  const std::vector<Guard>& guards() const { return guards_; }
  // Adds the values of the next expressions, up to `end`; `read(expression, value)` those of
  // sources. False where one cannot be computed.
  template <class Read>
  bool evaluate(size_t end, std::vector<int64_t>& values, const Read& read) const {
    for (size_t i = values.size(); i < end; ++i) {
      const Expression& e = expressions_[i];
      int64_t value = e.value;
      if (is_source(e.op)) {
        if (!read(e, value)) return false;
      } else if (e.op >= Op::Add) {
        const int64_t right = e.right < 0 ? 0 : values[static_cast<size_t>(e.right)];
        if (!compute(e.op, values[static_cast<size_t>(e.left)], right, value)) return false;
      }
      values.push_back(value);
    }
    return true;
  }
  bool holds(const Guard& guard, std::span<const int64_t> values) const {
    return compare(guard.test, is_real(at(guard.left).op), values[static_cast<size_t>(guard.left)],
                   values[static_cast<size_t>(guard.right)]) == guard.outcome;
  }
  // "3 < 4 before, now 5 > 4".
  std::string change(const Guard& guard, std::span<const int64_t> values) const;
  // Frees what only additions need.
  void shrink();

 private:
  int64_t constant(Op op, int64_t value);
  int64_t add(const Expression& expression);

  std::vector<Expression> expressions_;
  std::vector<Guard> guards_;
  std::unordered_map<uint64_t, int64_t> known_;        // by operation and operands
  std::unordered_map<int64_t, int64_t> ints_, reals_;  // constants by their bits
  std::unordered_set<uint64_t> tested_;
};

}  // namespace tinyt
