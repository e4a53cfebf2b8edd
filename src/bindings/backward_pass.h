// What a backward pass holds while it runs: the nodes that a gradient waits at, and the leaves.
// Counted references to Python objects; all calls are made under the interpreter lock.
#pragma once

#include <Python.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tinyt {

// An object and the gradient that arrived at it: for a node of several outputs, a list of theirs.
struct PendingGrad {
  uint64_t seq;
  PyObject* target;
  PyObject* grad;

  void replace(PyObject* sum) {
    Py_INCREF(sum);
    Py_DECREF(std::exchange(grad, sum));
  }
};

class PendingGrads {
 public:
  PendingGrads() = default;
  PendingGrads(const PendingGrads&) = delete;
  PendingGrads& operator=(const PendingGrads&) = delete;
  ~PendingGrads() {
    while (!items_.empty()) drop(pop());
  }
  bool empty() const { return items_.empty(); }
  // Hands its two references over.
  PendingGrad pop() {
    const PendingGrad last = items_.back();
    items_.pop_back();
    return last;
  }

 protected:
  static PendingGrad owned(uint64_t seq, PyObject* target, PyObject* grad) {
    Py_INCREF(target);
    Py_INCREF(grad);
    return {seq, target, grad};
  }
  static void drop(const PendingGrad& last) {
    Py_DECREF(last.target);
    Py_DECREF(last.grad);
  }
  std::vector<PendingGrad> items_;
};

// Nodes in the order of their numbers, so that `pop` gives the newest. What is inserted is mostly
// older than the newest and newer than the rest: near the end, where inserting costs least. What
// would go far from it, as where a node has thousands of inputs in another order, goes to a tree.
class ReadyQueue : public PendingGrads {
 public:
  ~ReadyQueue() {
    while (!empty()) drop(pop());
  }
  bool empty() const { return items_.empty() && far_.empty(); }
  PendingGrad* find(uint64_t seq) {
    const auto at = place(seq);
    if (at != items_.end() && at->seq == seq) return &*at;
    if (far_.empty()) return nullptr;
    const auto found = far_.find(seq);
    return found == far_.end() ? nullptr : &found->second;
  }
  void add(uint64_t seq, PyObject* node, PyObject* grad) {
    const auto at = place(seq);
    if (items_.end() - at > kNear)
      far_.emplace(seq, owned(seq, node, grad));
    else
      items_.insert(at, owned(seq, node, grad));
  }
  PendingGrad pop() {
    if (far_.empty() || (!items_.empty() && items_.back().seq > far_.rbegin()->first))
      return PendingGrads::pop();
    const auto last = std::prev(far_.end());
    const PendingGrad newest = last->second;
    far_.erase(last);
    return newest;
  }

 private:
  static constexpr int kNear = 64;
  std::vector<PendingGrad>::iterator place(uint64_t seq) {
    return std::lower_bound(items_.begin(), items_.end(), seq,
                            [](const PendingGrad& w, uint64_t s) { return w.seq < s; });
  }
  std::map<uint64_t, PendingGrad> far_;
};

// Leaves by address; `pop` gives the one that was reached last.
class Leaves : public PendingGrads {
 public:
  PendingGrad* find(PyObject* leaf) {
    const auto at = index_.find(leaf);
    return at == index_.end() ? nullptr : &items_[at->second];
  }
  void add(PyObject* leaf, PyObject* grad) {
    index_.emplace(leaf, items_.size());
    items_.push_back(owned(0, leaf, grad));
  }
  PendingGrad pop() {
    index_.erase(items_.back().target);  // the leaf may go, and its address be another's
    return PendingGrads::pop();
  }

 private:
  std::unordered_map<PyObject*, size_t> index_;
};

}  // namespace tinyt
