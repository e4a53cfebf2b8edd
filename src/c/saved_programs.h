// The programs of a file, run without Python: what python/tinyt/compiler/saved/load.py makes of it.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "c/json.h"
#include "c/safetensors.h"
#include "core/program/program.h"

namespace tinyt {

class SavedPrograms {
 public:
  // A tensor of Python's: a view of memory of the file, with the gradient that a run left.
  struct Leaf {
    Tensor tensor, grad;
  };
  // What a name stands for: a leaf, or (-1) memory of the file.
  struct Name {
    std::string name;
    int64_t leaf;
    Tensor tensor;
  };
  struct Number {
    std::string name;
    double value;
  };

  explicit SavedPrograms(const std::string& path);

  void save(const std::string& path) const;
  size_t count() const { return programs_.size(); }
  const std::string& signature(size_t number) const { return programs_.at(number)->signature; }
  size_t result_count(size_t number) const { return programs_.at(number)->results.size(); }
  // ValueError where no program is for them, or it gives another number of results.
  std::vector<Tensor> run(std::span<const Tensor> tensors, std::span<const double> numbers,
                          size_t results);

  const std::vector<Name>& names() const { return names_; }
  const Tensor* tensor(std::string_view name) const;
  std::optional<Tensor> gradient(std::string_view name) const;
  void clear_gradients();
  const std::vector<Number>& numbers() const { return numbers_; }
  std::optional<double> number(std::string_view name) const;
  bool set_number(std::string_view name, double value);
  void seed(uint64_t seed);

 private:
  // A leaf of the arguments: a float, or a tensor of this geometry.
  struct Fact {
    bool is_float = false;
    DType dtype = DType::Float32;
    Dims shape, strides;
  };
  struct Source {
    enum Kind : uint8_t { kArgument, kGradient, kLater } kind;
    int64_t at = -1;  // which argument, or leaf
  };
  // What a number of a run is: an argument, or one of `numbers_`.
  struct NumberSource {
    bool is_argument;
    int64_t at;
  };
  struct Result {
    int64_t kind;     // of capture.py
    int64_t at = -1;  // output, argument, number or leaf
    int64_t of = -1;  // of a view: the kind of what it shows
    Dims once, shape, strides;
    int64_t offset = 0;
  };
  struct SetGradient {
    int64_t leaf, output, fixed;  // an output, -1: `fixed`, or argument -2 - output
  };
  struct One {
    std::shared_ptr<Graph> graph;
    std::unique_ptr<Program> program;
    std::vector<Fact> facts;
    std::vector<Source> sources;
    std::vector<NumberSource> numbers;
    std::vector<std::pair<int64_t, int64_t>> draws;  // generator, counters
    std::vector<int64_t> no_gradients;               // leaves
    std::vector<SetGradient> set_gradients;
    std::vector<Result> results;
    size_t outputs = 0;  // of the run; later ones are kept for a backward pass
    std::string signature;
  };

  void read_memories(const Json& content);
  void read_leaves(const Json& content);
  void read_names(const Json& content);
  const Tensor& memory(const std::string& name) const;
  const Name* find_name(std::string_view name) const;
  std::unique_ptr<One> read_program(const Json& row, size_t number) const;
  Fact read_fact(const Json& row) const;
  int64_t leaf(const Json& row) const;
  int64_t argument(const One& one, int64_t at) const;
  void read_sources(One& one, const Json& row) const;
  Result read_result(const One& one, const Json& row) const;
  void read_gradients(One& one, const Json& row) const;

  bool stands_for(const One& one, std::span<const Tensor* const> leaves) const;
  void require_apart(const One& one, std::span<const Tensor* const> leaves) const;
  std::vector<double> given_numbers(const One& one, std::span<const double> floats) const;
  std::vector<Tensor> run_one(One& one, std::span<const Tensor> leaves,
                              std::span<const double> floats, std::span<const double> given);
  std::string describe(const One& one) const;
  Tensor result(const Result& row, std::span<const Tensor> outputs, std::span<const Tensor> leaves,
                std::span<const double> floats, std::span<const double> numbers) const;

  TensorFile file_;
  std::unordered_set<std::string> memories_;
  std::vector<Name> names_;
  std::vector<Leaf> leaves_;
  std::vector<Number> numbers_;
  struct Generator {
    bool is_default;
    int64_t seed, offset;
  };
  std::vector<Generator> generators_;
  std::vector<std::unique_ptr<One>> programs_;
  mutable std::mutex mutex_;
};

}  // namespace tinyt
