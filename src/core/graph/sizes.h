// What passes ask of the sizes in a recorded graph while they simplify it. Another recording of the
// same nodes is simplified alike, with its own sizes, where every answer is what it was.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/graph/graph.h"

namespace tinyt {

class Sizes {
 public:
  enum class Op : uint8_t { Given, Constant, Add, Sub, Mul, FloorDiv, Mod };
  enum class Test : uint8_t { Lt, Le, Eq, Ne, Gt, Ge };

  // Gives the sizes of a graph the numbers from 0 on: the shapes of its values, the integer
  // attributes of its nodes (lists with their length), and of its outputs shape, strides and
  // offset.
  explicit Sizes(const Graph& graph);
  int64_t value(int64_t number) const { return rows_.at(static_cast<size_t>(number)).value; }
  int64_t constant(int64_t value);
  // What Python computes; 0 for the right one of a division is the caller's error.
  int64_t apply(Op op, int64_t left, int64_t right);
  // A decision of a pass.
  bool test(Test test, int64_t left, int64_t right);

  // Of Python's numbers among the inputs, by their values: this one decides what a pass makes, but
  // for its being neither 0 nor 1; these two are taken for one.
  void hold_number(int64_t input) { held_.insert(input); }
  void merge_numbers(int64_t one, int64_t other) { merged_.emplace_back(one, other); }

  // What the passes made, as Graph::rewritten takes it; a place in it has the size of that number.
  void keep(std::vector<int64_t> flat, std::vector<std::pair<size_t, int64_t>> places);
  size_t tests() const { return tests_.size(); }
  // The same of another recording. Nothing, and why, where passes may simplify that otherwise.
  std::optional<std::vector<int64_t>> of(const Graph& other, std::string& why) const;

 private:
  struct Row {
    Op op;
    int64_t left, right;
    int64_t value;
  };
  struct Asked {
    Test test;
    bool outcome;
    int64_t left, right;
  };

  // A graph but for its sizes; holds none of its tensors.
  struct Form {
    std::vector<std::string> names;
    std::vector<int64_t> nodes, types, rest;
    std::vector<size_t> ends;  // of the nodes, in `nodes`

    explicit Form(const Graph& graph);
    // From another one; nothing where they are equal.
    std::string difference(const Form& now) const;
  };

  int64_t add(Row row);
  bool same_numbers(const Graph& other) const;
  std::optional<std::vector<int64_t>> evaluated(const Graph& other) const;

  Form form_;
  std::vector<std::pair<int64_t, Tensor>> numbers_;  // Python's, and their values
  std::vector<Row> rows_;
  std::unordered_map<uint64_t, int64_t> known_;  // what is computed, by what and of what
  std::unordered_map<int64_t, int64_t> constants_;
  std::vector<Asked> tests_;
  std::unordered_set<uint64_t> asked_;
  std::unordered_set<int64_t> held_;
  std::vector<std::pair<int64_t, int64_t>> merged_;
  std::vector<int64_t> flat_;
  std::vector<std::pair<size_t, int64_t>> places_;
};

// What is computed or asked of two rows of a table as one word; -1: there is no such row.
constexpr int64_t kMostRows = int64_t{1} << 29;
inline uint64_t row_key(uint8_t kind, int64_t left, int64_t right) {
  return static_cast<uint64_t>(kind) << 60 | static_cast<uint64_t>(left + 1) << 30 |
         static_cast<uint64_t>(right + 1);
}

// What Python computes; false where that is beyond 64 bits.
bool compute(Sizes::Op op, int64_t left, int64_t right, int64_t& out);
bool compare(Sizes::Test test, int64_t left, int64_t right);
// "3 < 4".
std::string relation(int64_t left, int64_t right);
// The kinds of an op's integer attributes, in order.
const std::string& integer_kinds(OpId op);
// Where the whole numbers among an op's attributes stand, those in lists too.
template <class F>
void for_each_integer(OpId op, const Attrs& attrs, const F& f) {
  size_t at = 0;
  for (const char kind : integer_kinds(op)) {
    const size_t count = kind == 'I' ? static_cast<size_t>(attrs.ints[at++]) : 1;
    for (size_t i = 0; i < count; ++i, ++at)
      if (kind == 'i' || kind == 'I') f(at);
  }
}

}  // namespace tinyt
