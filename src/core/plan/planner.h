// Gives every value of a graph its place: tensors for all operands before the first run, views
// where nothing moves, writes in place where nobody sees it, and one arena for the rest.
#pragma once

#include <map>
#include <tuple>
#include <unordered_map>

#include "core/graph/partition.h"
#include "core/plan/buffer_assignment.h"
#include "core/plan/fuse.h"
#include "core/plan/plan.h"

namespace tinyt {

// Beyond all groups and steps.
constexpr int64_t kAlways = INT64_MAX;

class Planner {
 public:
  Planner(Plan& plan, const Graph& graph, Plan::Part part, Plan::ResultAlloc result_alloc);
  // Chooses steps and what they work on. Returns by how many bytes that is more than eager mode
  // takes, as far as it is known.
  size_t plan(Regions hold);
  // Gives it all a place, in the end.
  void place();

 private:
  // Memory that steps write and read; `last` is the last step that does.
  struct Buffer {
    Ref<Storage> storage;
    int64_t first, last;
  };

  // Of a device, whose arenas they lie in.
  struct SmallBuffers {
    std::vector<Lifetime> blocks;
    std::vector<Ref<Storage>> storages;
  };

  bool is_in_part(int64_t node) const;
  void find_readers(std::span<const Group> groups);
  void take_inputs();
  Tensor add_argument(const Tensor& like, std::span<const int64_t> shape, DType dtype,
                      size_t bytes);
  // `now`: the group's place in their order.
  void plan_group(const Group& group, int64_t now);
  void note_touches(const Group& group, bool made);
  void plan_op(const Graph::Node& node, int64_t now);
  void plan_region(const Group& group, int64_t now);
  void plan_opaque(const Graph::Node& node, int64_t now);
  void plan_results();
  int64_t memory_for(int64_t v);
  void plan_writes();
  void write_at_once();
  bool may_make_in(int64_t made_by, const Storage& made, const Storage& target) const;
  void finish_write(size_t w);
  static bool is_used(const Buffer& buffer) {
    return buffer.storage && buffer.last >= 0 && buffer.storage->buffer.bytes > 0;
  }
  void find_unfused_peak();
  size_t peak(size_t own_block) const;
  size_t least_own_block() const;
  void stretch(std::span<const ConcurrentGroup> sides);
  void plan_groups();
  int64_t first_lasting_write() const;
  void take_before_writes();
  void place_small(Device device, const SmallBuffers& of);

  const Tensor& value(int64_t v) const { return values_[v]; }
  void set(int64_t v, Tensor t);
  Tensor fresh(std::span<const int64_t> shape, DType dtype, Device device);
  Tensor copied(const Tensor& t);
  void convert_numbers(std::span<const Group> groups);
  Tensor converted(int64_t v, DType through, DType dtype);
  Tensor operand_of(const Group& group, const CompiledKernel::Operand& operand);
  std::vector<Tensor> plan_product(const Group& group, int64_t now, Plan::Region& region);
  const Tensor* operand_to_take(const std::vector<Tensor>& in, const Inferred& inferred,
                                Device device, int64_t now) const;
  const Tensor* addend_to_take(const std::vector<Tensor>& in, const Inferred& inferred,
                               int64_t now) const;
  Tensor result_of(const Group& group, size_t output, const Plan::Region& region,
                   const std::vector<Tensor>& in, int64_t now, std::vector<bool>& taken);
  bool is_hidden_argument(const Tensor& x) const {
    return x.device() != Device{} && argument_of_.contains(&x.storage());
  }
  bool is_overwritten(int64_t v) const;
  bool may_overwrite(const Tensor& base, int64_t now) const;
  bool writes_captured(const Graph::Node& node, int64_t now, size_t i) const;
  Plan::Step& add_step(Plan::Kind kind, std::span<const Tensor> inputs,
                       std::span<const Tensor> outputs);
  void add_copy(const Tensor& from, const Tensor& to) {
    add_step(Plan::Kind::Copy, {&from, 1}, {&to, 1});
  }

  Plan& plan_;
  const Graph& graph_;
  Plan::Part part_;
  Plan::ResultAlloc result_alloc_;
  Partition partition_;
  std::span<const Graph::Output> outputs_;
  std::vector<Tensor> values_;
  std::vector<int64_t> last_read_;  // of each value: the last group, or beyond all
  int64_t last_failing_ = -1;       // the last group that may fail
  int64_t safe_ = 0;                // from this step on none may
  std::vector<bool> is_number_;
  std::unordered_map<const Storage*, int64_t>
      until_;  // the last group that reads any of its values
  std::unordered_map<const Storage*, int64_t> buffer_of_;
  std::unordered_map<const Storage*, size_t> argument_of_;
  std::vector<Buffer> buffers_;
  size_t unfused_peak_ = 0;  // if each node ran alone, as in eager mode
  bool knows_scratch_ = false;
  std::vector<size_t> scratch_;  // of each step's kernel, where that is known
  std::unordered_map<const Storage*, int64_t> memory_of_;          // of results
  std::map<std::tuple<int64_t, DType, DType>, Tensor> converted_;  // single elements
  std::vector<bool> done_;  // writes that are no copies any more
};

}  // namespace tinyt
