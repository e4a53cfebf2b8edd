// What a backward pass holds while it runs: the nodes that a gradient waits at, and the leaves.
// Counted references to Python objects; all calls are made under the interpreter lock.
#pragma once

#include <Python.h>

#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tinyt {

// An object and the gradient that arrived at it: for a node of several outputs, a list of theirs.
struct Waiting {
  uint64_t seq;
  PyObject* target;
  PyObject* grad;

  void replace(PyObject* sum) {
    Py_INCREF(sum);
    Py_DECREF(std::exchange(grad, sum));
  }
};

class WaitingList {
 public:
  WaitingList() = default;
  WaitingList(const WaitingList&) = delete;
  WaitingList& operator=(const WaitingList&) = delete;
  ~WaitingList() {
    while (!items_.empty()) {
      const Waiting last = pop();
      Py_DECREF(last.target);
      Py_DECREF(last.grad);
    }
  }
  bool empty() const { return items_.empty(); }
  // Hands its two references over.
  Waiting pop() {
    const Waiting last = items_.back();
    items_.pop_back();
    return last;
  }

 protected:
  static Waiting owned(uint64_t seq, PyObject* target, PyObject* grad) {
    Py_INCREF(target);
    Py_INCREF(grad);
    return {seq, target, grad};
  }
  std::vector<Waiting> items_;
};

// Nodes in the order of their numbers, so that `pop` gives the newest. What is inserted is mostly
// older than the newest and newer than the rest: near the end, where inserting costs least.
class Agenda : public WaitingList {
 public:
  Waiting* find(uint64_t seq) {
    const auto at = place(seq);
    return at != items_.end() && at->seq == seq ? &*at : nullptr;
  }
  void add(uint64_t seq, PyObject* node, PyObject* grad) {
    items_.insert(place(seq), owned(seq, node, grad));
  }

 private:
  std::vector<Waiting>::iterator place(uint64_t seq) {
    return std::lower_bound(items_.begin(), items_.end(), seq,
                            [](const Waiting& w, uint64_t s) { return w.seq < s; });
  }
};

// Leaves by address; `pop` gives the one that was reached last.
class Leaves : public WaitingList {
 public:
  Waiting* find(PyObject* leaf) {
    const auto at = index_.find(leaf);
    return at == index_.end() ? nullptr : &items_[at->second];
  }
  void add(PyObject* leaf, PyObject* grad) {
    index_.emplace(leaf, items_.size());
    items_.push_back(owned(0, leaf, grad));
  }
  Waiting pop() {
    index_.erase(items_.back().target);  // the leaf may go, and its address be another's
    return WaitingList::pop();
  }

 private:
  std::unordered_map<PyObject*, size_t> index_;
};

}  // namespace tinyt
