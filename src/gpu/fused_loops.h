// The loops over a row's elements of a fused kernel, for whoever prints it.
//
// Values with rare paths are computed without these first, 32 elements at a time, of which
// compilers make vectors, and all of the 32 again where one of them is rare.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "gpu/fused_source.h"
#include "gpu/fused_values.h"

namespace tinyt::gpu {

// Where something of element j goes: a place of memory, and what it is there.
struct Target {
  std::string memory, place, type, value;
  DType dtype;
  bool own = false;  // in an array of the kernel's own, which nothing else reads meanwhile
  // How several neighbours are stored at once; empty: they are not. Halves: `value` is not packed.
  std::string_view vectors = "";
  bool halves = false;
};

class FusedLoops : public FusedValues {
 public:
  FusedLoops(const FusedKernel& kernel, const KernelForm& form, std::string_view name,
             const Dialect& dialect, size_t columns)
      : FusedValues(kernel, name, dialect),
        form_(form),
        words_(kernel.shape.size(), form, kernel.stores.size(), dialect),
        columns_(columns) {}

  size_t columns() const { return columns_; }  // dimensions of a row
  size_t rows() const { return kernel().shape.size() - columns_; }
  bool is_number(int k) const { return form_.loads[static_cast<size_t>(k)] == Inner::Number; }
  const WordLayout& words() const { return words_; }
  // Whether threads take a row together; the number behind the last column that one of them takes.
  bool by_lanes() const { return form_.by_lanes; }
  std::string end_column() const { return by_lanes() ? "end_column" : "columns"; }
  // What a lane of a block has of a reduction.
  std::string lane_of(int v) const {
    return by_lanes() ? numbered("lane", v) : at(numbered("lane", v), "l");
  }
  std::string size(size_t dim) const {
    return one_thread() ? at("n", std::to_string(dim)) : write().word(words_.size(dim));
  }
  std::string stride(int k, size_t dim) const {
    return one_thread() ? at(numbered("s", k), std::to_string(dim))
                        : write().word(words_.stride(static_cast<size_t>(k), dim));
  }
  // Values of one element a row, each once; loads are of the row's first column.
  void print_row_values(const std::vector<int>& wanted);
  // What loops that compute `wanted` take of them, before these.
  void print_row_operands(const std::vector<int>& wanted);
  // The first element of a row in each load that values of a row read.
  void print_row_loads();

  // Elements [first, end) of the row: the values that are wanted, and the targets.
  void print_elements(const std::string& first, const std::string& end,
                      const std::vector<int>& wanted, const std::vector<Target>& targets);
  // Elements [begin, end) into the lanes of reductions, and the targets.
  void print_lanes(const std::vector<int>& reductions, const std::vector<int>& wanted,
                   const std::vector<Target>& targets);

 private:
  std::string column(int k) const;
  bool moves(int v) const { return is_load(v) && !is_number(v) && column(v) != "0"; }
  std::string row_load(int k) const { return numbered("r", k); }
  void print_target(const Target& target, const std::string& value);
  void print_vectors(const Target& target, const std::string& array);
  void print_load(int k, const std::string& name, const std::string& column);
  void print_values(const std::vector<int>& values, Form form);
  void open_elements(const std::string& first, const std::string& end);
  void print_whole(const std::vector<int>& reductions, const std::vector<int>& values,
                   const std::vector<Target>& targets);
  void print_group(const std::string& lanes, const std::vector<int>& reductions,
                   const std::vector<int>& wanted, const std::vector<Target>& targets);
  void print_staged_group(const std::string& lanes, const std::vector<int>& reductions,
                          const std::vector<int>& values, const std::vector<Target>& targets);
  void open_lanes(const std::string& lanes, bool with_column);
  template <class F>
  void print_groups(const std::string& first, const std::string& end, const F& group);
  bool any_rare(const std::vector<int>& values) const;
  std::string joined_lane(int reduction, const std::string& item) {
    return joined(reduction, lane_of(reduction), item);
  }
  // What a reduction takes of element j.
  std::string taken(int reduction);

  const KernelForm& form_;
  WordLayout words_;
  size_t columns_;
  std::vector<bool> row_done_ = std::vector<bool>(kernel().values.size(), false);
};

}  // namespace tinyt::gpu
