#include "core/graph/runtime_scalars.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/graph/graph.h"

namespace tinyt {

namespace {

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

}  // namespace

RuntimeScalars::RuntimeScalars(Restorable rows)
    : table_(std::move(rows.expressions), std::move(rows.guards)),
      items_(std::move(rows.items)),
      given_(rows.given) {
  for (size_t i = 0; i < table_.size(); ++i) {
    const auto& e = table_.at(static_cast<int64_t>(i));
    const bool is_known = e.op == Op::Given ? e.left >= 0 && e.left < given_
                                            : e.left >= 0 && e.left < std::ssize(items_);
    require(!SymbolicScalars::is_source(e.op) ||
                (SymbolicScalars::is_real(e.op) && is_known && e.right == -1),
            ErrorKind::Runtime, "runtime scalars: number ", i, " comes from nowhere");
  }
}

RuntimeScalars::Restorable RuntimeScalars::restorable() const {
  Restorable out{given_, items_, {}, table_.guards()};
  for (size_t i = 0; i < table_.size(); ++i)
    out.expressions.push_back(table_.at(static_cast<int64_t>(i)));
  return out;
}

void RuntimeScalars::lock() {
  if (mutex_.try_lock()) return;
  require(!mutex_.is_mine(), ErrorKind::Runtime,
          "compile: a program runs a function that calls the program");
  mutex_.lock();
}

int64_t RuntimeScalars::add(Op op, int64_t which, double value) {
  const int64_t number = table_.add_source(op, which, -1, std::bit_cast<int64_t>(value));
  // Kernels and passes treat these as no other number.
  if (value == 0 || !std::isfinite(value)) table_.guard_on(number);
  return number;
}

int64_t RuntimeScalars::give(double value) { return add(Op::Given, given_++, value); }

int64_t RuntimeScalars::item(const Tensor& source) {
  const double value = item_of(source);
  items_.push_back(source);
  return add(Op::Item, std::ssize(items_) - 1, value);
}

const Tensor& RuntimeScalars::cell(int64_t number) {
  const auto [at, is_new] = cells_.try_emplace(number);
  if (is_new) {
    at->second = Tensor::scalar(value(number));
    number_of_.emplace(at->second.impl(), number);
  }
  return at->second;
}

double RuntimeScalars::value(int64_t number) const {
  const auto at = static_cast<size_t>(number);
  return at < values_.size() ? std::bit_cast<double>(values_[at]) : table_.real(number);
}

std::vector<double> RuntimeScalars::values() const {
  std::vector<double> out;
  for (size_t i = 0; i < table_.size(); ++i) out.push_back(value(static_cast<int64_t>(i)));
  return out;
}

bool RuntimeScalars::evaluate(std::span<const double> given, std::vector<int64_t>& values) const {
  require(static_cast<int64_t>(given.size()) == given_, ErrorKind::Runtime, "program: reads ",
          given_, " numbers, got ", given.size());
  values.clear();
  const auto read = [&](const SymbolicScalars::Expression& e, int64_t& value) {
    const auto at = static_cast<size_t>(e.left);
    value = std::bit_cast<int64_t>(e.op == Op::Given ? given[at] : item_of(items_[at]));
    return true;
  };
  return table_.evaluate(table_.size(), values, read) &&
         std::ranges::all_of(table_.guards(),
                             [&](const auto& guard) { return table_.holds(guard, values); });
}

bool RuntimeScalars::holds(std::span<const double> given) const {
  std::vector<int64_t> values;
  return evaluate(given, values);
}

bool RuntimeScalars::refresh(std::span<const double> given) {
  if (!evaluate(given, next_)) return false;
  std::swap(values_, next_);
  for (const auto& [number, cell] : cells_) *cell.ptr<double>() = value(number);
  return true;
}

}  // namespace tinyt
