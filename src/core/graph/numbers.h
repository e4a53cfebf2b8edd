// Python numbers that a recorded graph does not hold fast: given anew at every run, or read from a
// tensor, and what was computed from them. A value is computed as Python computes it.
#pragma once

#include <span>
#include <unordered_map>
#include <vector>

#include "core/base/fork.h"
#include "core/tensor/tensor.h"

namespace tinyt {

class Numbers {
 public:
  enum class Op : uint8_t {
    Given,
    Item,
    Constant,
    Add,
    Sub,
    Mul,
    Div,
    Pow,
    Neg,
    Abs,
    Lt,
    Le,
    Eq,
    Ne,
    Gt,
    Ge
  };
  struct Number {
    Op op;
    int64_t left = -1, right = -1;  // Given: left counts the numbers given
    double value = 0;
    double actual = 0;  // the value if nothing were nudged, while it is recorded
    Tensor source{};    // of an Item
    Tensor cell{};      // the operand of operations, once there is one
  };

  int64_t give(double value);
  // The value that a tensor of one element has before the run.
  int64_t item(const Tensor& source);
  int64_t constant(double value);
  int64_t apply(Op op, int64_t left, int64_t right = -1);
  // Which numbers are recorded as other ones: what a graph holds fast of their values, as a
  // function of C does that was given one, differs then. That of a count, or all of a kind. Given
  // ones are multiplied by the factor, those read from tensors by one that is almost 1. Comparisons
  // come out as they would without: their outcomes are held anyway.
  enum : int64_t { kNone = -1, kItems = -2, kAll = -3 };
  void nudge(int64_t which, double factor) {
    nudged_ = which;
    factor_ = factor;
  }

  // The 0-d tensor of a number: weak in promotion, as Python's numbers are.
  const Tensor& cell(int64_t number);
  // The number whose cell a tensor is; -1: of none.
  int64_t number_of(const Tensor& x) const {
    const auto it = cells_.find(x.impl());
    return it == cells_.end() ? -1 : it->second;
  }
  int64_t given() const { return given_; }

  // Once they are recorded, what follows is for whoever has locked them, as every run of a program
  // does: programs of one graph share them.
  void lock();
  bool try_lock() { return mutex_.try_lock(); }
  void unlock() { mutex_.unlock(); }
  const std::vector<Number>& all() const { return numbers_; }
  // As recorded, or as refreshed last.
  double value(int64_t number) const { return numbers_[number].value; }
  // The recorded function did what it did because this number is what it is.
  void hold(int64_t number) { held_.push_back({number, numbers_[number].value}); }
  // Whether the graph stands for the function with these numbers given: not where one that was
  // held has changed, or where Python would have raised an error.
  bool holds(std::span<const double> given) const;
  // Computes all of them anew, where it does; returns whether.
  bool refresh(std::span<const double> given);
  // All of them, as refreshed last.
  const std::vector<double>& values() const { return values_; }

 private:
  struct Held {
    int64_t number;
    double value;
  };

  int64_t add(Number number);
  bool evaluate(std::span<const double> given, std::vector<double>& values) const;

  std::vector<Number> numbers_;
  std::unordered_map<const TensorImpl*, int64_t> cells_;
  std::vector<Held> held_;
  std::vector<double> values_;  // of the last refresh
  int64_t nudged_ = kNone;
  double factor_ = 1;
  int64_t given_ = 0;
  RunMutex mutex_;
};

}  // namespace tinyt
