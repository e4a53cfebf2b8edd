// Runtime scalars: the Python floats that a recorded graph does not hold fast. They are given anew
// at every run or read from a tensor; what was computed from them is computed as Python does.
#pragma once

#include <span>
#include <unordered_map>
#include <vector>

#include "core/base/fork.h"
#include "core/graph/symbolic_scalars.h"
#include "core/tensor/tensor.h"

namespace tinyt {

class RuntimeScalars {
 public:
  using Op = SymbolicScalars::Op;
  // What makes them again: how many are given at each run, tensors whose items are read, and the
  // table's rows.
  struct Restorable {
    int64_t given = 0;
    std::vector<Tensor> items;
    std::vector<SymbolicScalars::Expression> expressions;
    std::vector<SymbolicScalars::Guard> guards;
  };

  RuntimeScalars() = default;
  // An error where the rows are of no table.
  explicit RuntimeScalars(Restorable rows);
  Restorable restorable() const;

  // Each returns the number of an expression, guarded where it is 0, infinite or NaN: one given at
  // each run,
  int64_t give(double value);
  // the value that a tensor of one element has before the run.
  int64_t item(const Tensor& source);
  SymbolicScalars& table() { return table_; }
  const SymbolicScalars& table() const { return table_; }

  // The 0-d tensor of a scalar: weak in promotion, as Python's numbers are.
  const Tensor& cell(int64_t number);
  // The scalar whose cell a tensor is; -1: of none.
  int64_t number_of(const Tensor& x) const {
    const auto it = number_of_.find(x.impl());
    return it == number_of_.end() ? -1 : it->second;
  }

  // Once they are recorded, what follows is for whoever has locked them, as every run of a program
  // does: programs of one graph share them.
  void lock();
  bool try_lock() { return mutex_.try_lock(); }
  void unlock() { mutex_.unlock(); }
  // As refreshed last; before that, as recorded.
  double value(int64_t number) const;
  std::vector<double> values() const;
  // Whether the graph stands for the function with these numbers given: not where a guard on them
  // fails, or where Python would have raised an error.
  bool holds(std::span<const double> given) const;
  // Computes all of them anew, where it does; returns whether.
  bool refresh(std::span<const double> given);

 private:
  int64_t add(Op op, int64_t which, double value);
  bool evaluate(std::span<const double> given, std::vector<int64_t>& values) const;

  SymbolicScalars table_;
  std::vector<Tensor> items_;
  std::unordered_map<int64_t, Tensor> cells_;
  std::unordered_map<const TensorImpl*, int64_t> number_of_;
  std::vector<int64_t> values_, next_;  // of the last refresh, by their bits
  int64_t given_ = 0;
  RunMutex mutex_;
};

}  // namespace tinyt
