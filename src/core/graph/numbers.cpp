#include "core/graph/numbers.h"

#include <bit>
#include <cmath>

#include "core/graph/graph.h"

namespace tinyt {

namespace {

using Op = Numbers::Op;

double item_of(const Tensor& source) {
  Tensor t = source;
  if (t.device() != Device{}) {  // of the recording, or of a run: the copy is none of its own
    const PausedRecording at_once;
    t = to_device(source, {});
  }
  switch (t.dtype()) {
    case DType::Float32:
      return static_cast<double>(*t.ptr<float>());
    case DType::Float64:
      return *t.ptr<double>();
    case DType::Int64:
      return static_cast<double>(*t.ptr<int64_t>());
    case DType::Int32:
      return static_cast<double>(*t.ptr<int32_t>());
    case DType::Bool:
      return *t.ptr<uint8_t>() != 0;
    default:
      fail(ErrorKind::Capture, "item: the number in a ", name_of(t.dtype()),
           " tensor cannot be read anew at every run");
  }
}

// False where Python raises an error instead.
bool compute(Op op, double a, double b, double& out) {
  switch (op) {
    case Op::Add:
      out = a + b;
      return true;
    case Op::Sub:
      out = a - b;
      return true;
    case Op::Mul:
      out = a * b;
      return true;
    case Op::Div:
      out = a / b;
      return b != 0;
    case Op::Pow:
      out = std::pow(a, b);
      // Python has errors for 0 to a negative power and for overflow, and a complex number for
      // a root of a negative one.
      return std::isfinite(out) || !std::isfinite(a) || !std::isfinite(b);
    case Op::Neg:
      out = -a;
      return true;
    case Op::Abs:
      out = std::abs(a);
      return true;
    case Op::Lt:
      out = a < b;
      return true;
    case Op::Le:
      out = a <= b;
      return true;
    case Op::Eq:
      out = a == b;
      return true;
    case Op::Ne:
      out = a != b;
      return true;
    case Op::Gt:
      out = a > b;
      return true;
    case Op::Ge:
      out = a >= b;
      return true;
    default:
      return true;
  }
}

bool same_bits(double a, double b) {
  return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
}

}  // namespace

void Numbers::lock() {
  if (mutex_.try_lock()) return;
  require(!mutex_.is_mine(), ErrorKind::Runtime,
          "compile: a program runs a function that calls the program");
  mutex_.lock();
}

int64_t Numbers::add(Number number) {
  numbers_.push_back(std::move(number));
  return static_cast<int64_t>(numbers_.size()) - 1;
}

int64_t Numbers::give(double value) {
  const double factor = nudged_ == given_ || nudged_ == kAll ? factor_ : 1.0;
  return add({.op = Op::Given, .left = given_++, .value = value * factor, .actual = value});
}

int64_t Numbers::item(const Tensor& source) {
  // More than float32 rounds away.
  const double factor = nudged_ == kItems || nudged_ == kAll ? 1.0 - 0x1p-20 : 1.0;
  const double value = item_of(source);
  return add({.op = Op::Item, .value = value * factor, .actual = value, .source = source});
}

int64_t Numbers::constant(double value) {
  return add({.op = Op::Constant, .value = value, .actual = value});
}

int64_t Numbers::apply(Op op, int64_t left, int64_t right) {
  double value = 0, actual = 0;
  const Number& a = numbers_[left];
  const Number& b = right < 0 ? a : numbers_[right];  // without one it is not looked at
  require(compute(op, a.value, b.value, value) && compute(op, a.actual, b.actual, actual),
          ErrorKind::Capture,
          "a number that is read anew at every run cannot be computed as it is now");
  if (op >= Op::Lt) value = actual;
  return add({.op = op, .left = left, .right = right, .value = value, .actual = actual});
}

const Tensor& Numbers::cell(int64_t number) {
  Number& n = numbers_[number];
  if (!n.cell) {
    n.cell = Tensor::scalar(n.value);
    cells_.emplace(n.cell.impl(), number);
  }
  return n.cell;
}

bool Numbers::evaluate(std::span<const double> given, std::vector<double>& values) const {
  require(static_cast<int64_t>(given.size()) == given_, ErrorKind::Runtime, "program: reads ",
          given_, " numbers, got ", given.size());
  values.clear();
  for (const Number& n : numbers_) {
    double value = n.value;
    switch (n.op) {
      case Op::Given:
        value = given[n.left];
        break;
      case Op::Item:
        value = item_of(n.source);
        break;
      case Op::Constant:
        break;
      default:
        if (!compute(n.op, values[n.left], n.right < 0 ? 0 : values[n.right], value)) return false;
    }
    values.push_back(value);
  }
  for (const Held& held : held_)
    if (!same_bits(values[held.number], held.value)) return false;
  return true;
}

bool Numbers::holds(std::span<const double> given) const {
  std::vector<double> values;
  return evaluate(given, values);
}

bool Numbers::refresh(std::span<const double> given) {
  if (!evaluate(given, values_)) return false;
  for (size_t i = 0; i < numbers_.size(); ++i) {
    numbers_[i].value = values_[i];
    if (numbers_[i].cell) *numbers_[i].cell.ptr<double>() = values_[i];
  }
  return true;
}

}  // namespace tinyt
