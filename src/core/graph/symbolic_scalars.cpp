#include "core/graph/symbolic_scalars.h"

#include <cmath>

#include "core/base/error.h"

namespace tinyt {

namespace {

using Op = SymbolicScalars::Op;
using Test = SymbolicScalars::Test;

constexpr int64_t kMostExpressions = int64_t{1} << 28;  // expressions, and numbers of sources
constexpr int64_t kExactReal = int64_t{1} << 53;        // whole numbers up to here are doubles

// An operation and two numbers from -1 on as one word.
uint64_t key_of(uint8_t kind, int64_t left, int64_t right) {
  require(left < kMostExpressions && right < kMostExpressions, ErrorKind::Runtime,
          "symbolic scalars: more than ", kMostExpressions, " expressions");
  return static_cast<uint64_t>(kind) << 58 | static_cast<uint64_t>(left + 1) << 29 |
         static_cast<uint64_t>(right + 1);
}

bool compute_int(Op op, int64_t a, int64_t b, int64_t& out) {
  switch (op) {
    case Op::Add:
      return !__builtin_add_overflow(a, b, &out);
    case Op::Sub:
      return !__builtin_sub_overflow(a, b, &out);
    case Op::Mul:
      return !__builtin_mul_overflow(a, b, &out);
    default:
      break;
  }
  if (b == 0 || (a == INT64_MIN && b == -1)) return false;
  const int64_t rest = a % b, wraps = rest != 0 && (rest < 0) != (b < 0);  // as Python rounds
  out = op == Op::FloorDiv ? a / b - wraps : rest + wraps * b;
  return true;
}

bool compute_real(Op op, double a, double b, double& out) {
  switch (op) {
    case Op::RealAdd:
      out = a + b;
      return true;
    case Op::RealSub:
      out = a - b;
      return true;
    case Op::RealMul:
      out = a * b;
      return true;
    case Op::RealDiv:
      out = a / b;
      return b != 0;
    case Op::RealPow:
      out = std::pow(a, b);
      // Python has errors for 0 to a negative power and for overflow, and a complex number for
      // a root of a negative one.
      return std::isfinite(out) || !std::isfinite(a) || !std::isfinite(b);
    case Op::RealNeg:
      out = -a;
      return true;
    default:
      out = std::abs(a);
      return true;
  }
}

template <class T>
bool compare_as(Test test, T a, T b) {
  switch (test) {
    case Test::Lt:
      return a < b;
    case Test::Le:
      return a <= b;
    case Test::Eq:
      return a == b;
    case Test::Ne:
      return a != b;
    case Test::Gt:
      return a > b;
    default:
      return a >= b;
  }
}

std::string relation(int64_t a, int64_t b) {
  return std::to_string(a) + (a < b ? " < " : a == b ? " == " : " > ") + std::to_string(b);
}

}  // namespace

SymbolicScalars::SymbolicScalars(std::vector<Expression> expressions, std::vector<Guard> guards)
    : expressions_(std::move(expressions)), guards_(std::move(guards)) {
  const auto check = [](bool ok) {
    require(ok, ErrorKind::Runtime, "symbolic scalars: rows that are no table");
  };
  for (size_t i = 0; i < expressions_.size(); ++i) {
    const Expression& e = expressions_[i];
    check(e.op <= Op::RealAbs);
    if (e.op < Op::Add) continue;
    const auto fits = [&](int64_t of) {
      return of >= 0 && of < static_cast<int64_t>(i) && is_real(at(of).op) == (e.op > Op::ToReal);
    };
    const bool is_unary = e.op == Op::ToReal || e.op >= Op::RealNeg;
    check(fits(e.left) && (is_unary ? e.right == -1 : fits(e.right)));
  }
  const auto known = [&](int64_t of) { return of >= 0 && of < std::ssize(expressions_); };
  for (const Guard& guard : guards_)
    check(guard.test <= Test::Is && known(guard.left) && known(guard.right) &&
          is_real(at(guard.left).op) == is_real(at(guard.right).op));
}

bool SymbolicScalars::compute(Op op, int64_t left, int64_t right, int64_t& out) {
  if (op < Op::ToReal) return compute_int(op, left, right, out);
  double real = static_cast<double>(left);
  if (op == Op::ToReal
          ? left > kExactReal || left < -kExactReal
          : !compute_real(op, std::bit_cast<double>(left), std::bit_cast<double>(right), real))
    return false;
  out = std::bit_cast<int64_t>(real);
  return true;
}

bool SymbolicScalars::compare(Test test, bool real, int64_t left, int64_t right) {
  if (test == Test::Is) return left == right;
  return real ? compare_as(test, std::bit_cast<double>(left), std::bit_cast<double>(right))
              : compare_as(test, left, right);
}

int64_t SymbolicScalars::add(const Expression& expression) {
  const auto number = static_cast<int64_t>(expressions_.size());
  require(number < kMostExpressions, ErrorKind::Runtime, "symbolic scalars: more than ",
          kMostExpressions, " expressions");
  expressions_.push_back(expression);
  return number;
}

int64_t SymbolicScalars::add_source(Op op, int64_t left, int64_t right, int64_t value) {
  return add({op, left, right, value});
}

int64_t SymbolicScalars::source(Op op, int64_t left, int64_t right, int64_t value) {
  const auto [at, is_new] = known_.try_emplace(key_of(static_cast<uint8_t>(op), left, right), -1);
  if (is_new) at->second = add({op, left, right, value});
  return at->second;
}

int64_t SymbolicScalars::constant(Op op, int64_t value) {
  const auto [at, is_new] = (op == Op::Int ? ints_ : reals_).try_emplace(value, -1);
  if (is_new) at->second = add({.op = op, .value = value});
  return at->second;
}

int64_t SymbolicScalars::apply(Op op, int64_t left, int64_t right) {
  const auto [at, is_new] = known_.try_emplace(key_of(static_cast<uint8_t>(op), left, right), -1);
  if (!is_new) return at->second;
  int64_t result = 0;
  const int64_t a = value(left), b = right < 0 ? 0 : value(right);
  if (!compute(op, a, b, result)) {
    known_.erase(at);
    require(is_real(op), ErrorKind::Runtime, "sizes: ", a, " and ", b, " are beyond 64 bits");
    fail(ErrorKind::Capture,
         "a number that is read anew at every run cannot be computed as it is now");
  }
  return at->second = add({op, left, right, result});
}

bool SymbolicScalars::test(Test test, int64_t left, int64_t right) {
  const bool real = is_real(at(left).op);
  const bool outcome = compare(test, real, value(left), value(right));
  const auto is_constant = [&](int64_t x) { return at(x).op == Op::Int || at(x).op == Op::Real; };
  // A NaN is not equal to itself.
  if ((left == right && !real) || (is_constant(left) && is_constant(right))) return outcome;
  if (tested_.insert(key_of(static_cast<uint8_t>(test), left, right)).second) {
    guards_.push_back({test, outcome, left, right});
    if (on_guard) on_guard(owner);
  }
  return outcome;
}

void SymbolicScalars::guard_on(int64_t number) {
  test(Test::Is, number, constant(is_real(at(number).op) ? Op::Real : Op::Int, value(number)));
}

std::string SymbolicScalars::change(const Guard& guard, std::span<const int64_t> values) const {
  const int64_t left = values[static_cast<size_t>(guard.left)];
  const int64_t right = values[static_cast<size_t>(guard.right)];
  if (is_real(at(guard.left).op))
    return std::to_string(real(guard.left)) + " before, now " +
           std::to_string(std::bit_cast<double>(left));
  return relation(value(guard.left), value(guard.right)) + " before, now " + relation(left, right);
}

void SymbolicScalars::shrink() {
  known_ = {};
  ints_ = {};
  reals_ = {};
  tested_ = {};
}

}  // namespace tinyt
