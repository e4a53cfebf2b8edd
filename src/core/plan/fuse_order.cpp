// The regions that a fuser found, in an order to run them in, and what their boundaries cost.
#include <algorithm>

#include "core/plan/fuse.h"
#include "core/plan/fuse_kernel.h"

namespace tinyt {

std::string_view text_of(FusionBarrier barrier) {
  switch (barrier) {
    case FusionBarrier::Result:
      return "a result";
    case FusionBarrier::RunsAlone:
      return "an operation that runs alone";
    case FusionBarrier::Device:
      return "device";
    case FusionBarrier::Reductions:
      return "reductions after a product";
    case FusionBarrier::DType:
      return "a dtype or check that regions do not have";
    case FusionBarrier::Shape:
      return "another shape";
    case FusionBarrier::UsedElsewhere:
      return "a value is used outside before";
    case FusionBarrier::LeadingDimensions:
      return "a reduction of leading dimensions";
    case FusionBarrier::LongRows:
      return "rows too long for the cache";
    case FusionBarrier::ResultBuffer:
      return "a region would take more memory";
    case FusionBarrier::Limit:
      return "the limit of a region";
    case FusionBarrier::SplitPoint:
      return "a part that runs later";
  }
  return {};
}

namespace {

// Marks on values, as seen from groups of nodes.
class Marks {
 public:
  explicit Marks(const Graph& graph) : graph_(graph), marked_(graph.values().size()) {}
  bool any_read(const Group& group) const { return any(group, &Graph::Node::inputs); }
  bool any_made(const Group& group) const { return any(group, &Graph::Node::outputs); }
  void add_read(const Group& group) { add(group, &Graph::Node::inputs); }
  void add_made(const Group& group) { add(group, &Graph::Node::outputs); }

 private:
  template <class Values>
  bool any(const Group& group, Values side) const {
    return std::ranges::any_of(group.nodes, [&](int64_t n) {
      return std::ranges::any_of(graph_.nodes()[n].*side, [&](int64_t v) { return marked_[v]; });
    });
  }
  template <class Values>
  void add(const Group& group, Values side) {
    for (const int64_t n : group.nodes)
      for (const int64_t v : graph_.nodes()[n].*side) marked_[v] = true;
  }

  const Graph& graph_;
  std::vector<bool> marked_;
};

// What has nothing to do with the first step that may write captured memory runs before it: where
// memory is too short for it, nothing is written. What such a step or its readers wait for keeps
// its place, since values would be held for longer.
void put_before_updates(const Graph& graph, std::vector<Group>& groups) {
  const auto opaque = [&](const Group& group) {
    return graph.nodes()[group.nodes[0]].opaque.get();
  };
  const auto is_update = [&](const Group& group) {
    return opaque(group) && opaque(group)->outputs().empty();
  };
  const auto first = std::ranges::find_if(groups, is_update) - groups.begin();
  const auto count = std::ssize(groups);
  Marks updated(graph), wanted(graph), kept(graph);
  std::vector<bool> stays(groups.size());
  for (auto i = first; i < count; ++i) {
    stays[i] = is_update(groups[i]) || updated.any_read(groups[i]);
    if (stays[i]) updated.add_made(groups[i]);
  }
  for (auto i = count; i-- > first;) {
    stays[i] = stays[i] || wanted.any_made(groups[i]);
    if (stays[i]) wanted.add_read(groups[i]);
  }
  std::vector<Group> moved, rest;
  for (auto i = first; i < count; ++i) {
    const bool keeps = stays[i] || opaque(groups[i]) || kept.any_read(groups[i]);
    if (keeps) kept.add_made(groups[i]);
    (keeps ? rest : moved).push_back(std::move(groups[i]));
  }
  std::ranges::move(rest, std::ranges::move(moved, groups.begin() + first).out);
}

}  // namespace

// Values that are read outside of their region; a view of one that is inside alone is no step.
void Fuser::find_needed() {
  for (auto n = static_cast<int64_t>(graph_.nodes().size()); n-- > 0;) {
    const Graph::Node& node = graph_.nodes()[n];
    for (const int64_t v : node.inputs) {
      if (is_view(n)) {
        if (needed_[node.outputs[0]]) needed_[v] = true;
      } else if (region_of(v) != region_[n]) {
        needed_[v] = true;
      }
    }
  }
}

// As late as the last node of each, but before what reads it.
std::vector<Group> Fuser::in_order() const {
  const auto& nodes = graph_.nodes();
  std::vector<Group> groups;
  std::vector<bool> done(nodes.size());
  const auto is_done = [&](int64_t v) {
    const int64_t n = graph_.values()[v].node;
    return n < 0 || done[n];
  };
  const auto emit = [&](auto&& self, int64_t n) -> void {
    if (done[n]) return;
    if (is_view(n)) {
      done[n] = true;
      const int64_t v = nodes[n].inputs[0];
      if (!is_done(v)) self(self, graph_.values()[v].node);
      Group view;
      view.nodes = {n};
      if (needed_[nodes[n].outputs[0]]) groups.push_back(std::move(view));
      return;
    }
    const Region& region = regions_[region_[n]];
    for (const int64_t m : region.nodes) done[m] = true;
    if (const int64_t before = ordered_before_[n]; before >= 0) self(self, before);
    for (const int64_t m : region.nodes)
      for (const int64_t v : nodes[m].inputs)
        if (region_of(v) != region_[n] && !is_done(v)) self(self, graph_.values()[v].node);
    groups.push_back(group_of(region));
  };
  for (int64_t n = 0; n < static_cast<int64_t>(nodes.size()); ++n) {
    if (is_view(n) ? is_done(nodes[n].inputs[0]) : regions_[region_[n]].nodes.back() == n)
      emit(emit, n);
  }
  for (int64_t n = 0; n < static_cast<int64_t>(nodes.size()); ++n) emit(emit, n);
  put_before_updates(graph_, groups);
  return groups;
}

Group Fuser::group_of(const Region& region) const {
  Group group;
  group.nodes = region.nodes;
  group.barrier = region.barrier;
  group.device = region.device;
  group.shape = region.shape;
  group.reduced = region.reduced;
  group.product = region.product;
  if (group.is_region()) KernelBuilder(*this, group).run();
  return group;
}

// What a boundary costs: a value that would not have to be written, and every step that reads it.
void Fuser::count_bytes(std::vector<Group>& groups) const {
  std::vector<int64_t> readers(graph_.values().size());
  for (const Group& group : groups) {
    if (is_view(group.nodes[0])) continue;
    std::vector<int64_t> read;
    for (const int64_t n : group.nodes)
      for (const int64_t v : graph_.nodes()[n].inputs)
        if (region_of(v) != region_[n]) read.push_back(source_[v]);
    std::sort(read.begin(), read.end());
    read.erase(std::unique(read.begin(), read.end()), read.end());
    for (const int64_t v : read) ++readers[v];
  }
  for (Group& group : groups) {
    if (is_view(group.nodes[0])) continue;
    for (const int64_t n : group.nodes)
      for (const int64_t v : graph_.nodes()[n].outputs) {
        if (readers[v] == 0) continue;
        const int64_t written = last_read_[v] == INT64_MAX ? 0 : 1;
        group.barrier_bytes += (readers[v] + written) * numel_of(graph_.values()[v].shape) *
                               static_cast<int64_t>(size_of(graph_.values()[v].dtype));
      }
    if (group.barrier_bytes == 0) group.barrier = FusionBarrier::Result;
  }
}

}  // namespace tinyt
