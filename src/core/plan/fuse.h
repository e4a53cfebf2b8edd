// Chooses which nodes of a graph run as one region.
#pragma once

#include "core/plan/plan.h"

namespace tinyt {

// An operand of a region.
struct RegionInput {
  int64_t value;
  bool per_row;  // its shape is that of the rows alone

  bool operator==(const RegionInput&) const = default;
};

// Nodes that run as one step, and why no more of what reads their results does: a single one, or
// scalar ops, casts and reductions over one iteration space, maybe after a product that makes one
// of their operands.
struct Group {
  std::vector<int64_t> nodes;  // in the order of the graph
  std::vector<OpId> ops;       // of them, views aside
  FusedKernel kernel;          // of more than one
  std::shared_ptr<CompiledKernel> compiled;
  std::vector<RegionInput> inputs;  // the kernel's loads
  std::vector<int64_t> outputs;     // value numbers
  Dims shape;                       // of the space
  Device device{};
  size_t reduced = 0;    // how many of its last dimensions are reduced
  int64_t product = -1;  // a node
  FusionBarrier barrier = FusionBarrier::Result;
  int64_t barrier_bytes = 0;

  bool is_region() const { return nodes.size() > 1; }
};

// What regions hold: scalar ops, reductions too, and products before them. Reductions and products
// may take memory for themselves while others' operands and results are there.
enum class Regions : uint8_t { Scalars, Reductions, Products };

// Grows regions, node by node: one joins the regions of what it reads, and makes them one, where it
// works on the same space: on all elements, or on one for each row that a reduction made. Nothing
// outside may lie between a region's nodes, nor may a value live longer than what is saved.
class Fuser {
 public:
  // No region reaches over the graph's split point.
  Fuser(const Graph& graph, Regions hold);
  // In an order to run them in.
  std::vector<Group> run();

 private:
  friend class KernelBuilder;
  // A region under way. Its level is above those of all that it reads.
  struct Region {
    std::vector<int64_t> nodes;
    Device device{};
    Dims shape;
    size_t reduced = 0;
    int64_t product = -1;
    int64_t level = 0;
    int64_t reader = INT64_MAX;  // the lowest level that reads it
    bool open = true;
    FusionBarrier barrier = FusionBarrier::Result;
  };
  // How a member sees a member's value: all elements, one a row, or that one repeated along it.
  enum class BroadcastForm : uint8_t { None, Full, Row, Spread };
  // Where a node stands in a region.
  enum class NodeKind : uint8_t { None, Full, Row, Reduction };

  const FusionLimits& limits_of(const Region& region) const;
  bool is_view(int64_t node) const;
  bool is_made_inside(int64_t v, int64_t region) const;
  int64_t region_of(int64_t v) const;
  bool can_fuse(const Graph::Node& node) const;
  FusionBarrier reason_alone(const Graph::Node& node) const;
  Dims rows_of(const Region& region, bool keep) const;
  BroadcastForm form_of(int64_t v, const Region& region) const;
  NodeKind kind_of_node(int64_t n, const Region& region, FusionBarrier& why) const;
  bool is_long(const Region& region) const;
  bool saves_memory(const Region& region, int64_t n, std::span<const int64_t> with) const;
  FusionBarrier obstacle(int64_t n, const Region& region, NodeKind& role) const;
  bool binds_too_many(int64_t n, NodeKind role, std::span<const int64_t> joined) const;
  std::vector<int64_t> partners(int64_t n, std::vector<int64_t> found, NodeKind& role);
  void add_node(int64_t n);
  bool join(int64_t n, const std::vector<int64_t>& found);
  std::vector<int64_t> siblings(int64_t n) const;
  void start(int64_t n);
  void read(int64_t n);
  FusionBarrier obstacle(int64_t product, const Region& region,
                         std::span<const int64_t> readers) const;
  bool may_wait(int64_t product, const Region& region, bool is_read_later) const;
  void join_products();
  void find_needed();
  Group group_of(const Region& region) const;
  std::vector<Group> in_order() const;
  void count_bytes(std::vector<Group>& groups) const;

  const Graph& graph_;
  Regions hold_;
  std::vector<int64_t> source_;          // of each value: what it is a view of
  std::vector<int64_t> last_read_;       // of each source: the last node that reads it
  std::vector<int64_t> last_reader_;     // and of those seen so far, the last outside of its region
  std::vector<int64_t> steps_;           // of each node: how many before it are no views
  std::vector<int64_t> ordered_before_;  // of each ordered node: the one before it, or -1
  std::vector<int64_t> region_;          // of each node
  std::vector<NodeKind> role_;
  std::vector<Region> regions_;
  std::vector<bool> read_outside_;  // of those seen so far
  std::vector<bool> needed_;        // values that are read outside of their region
};

}  // namespace tinyt
