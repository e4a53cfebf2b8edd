#include "core/plan/fuse.h"

#include <algorithm>

namespace tinyt {

namespace {

// Levels of new regions are so far apart that they can still rise above each other.
constexpr int64_t kLevelStep = int64_t{1} << 20;

}  // namespace

Fuser::Fuser(const Graph& graph, Regions hold)
    : graph_(graph),
      hold_(hold),
      source_(graph.values().size()),
      last_read_(graph.values().size(), -1),
      last_reader_(graph.values().size(), -1),
      steps_(graph.nodes().size() + 1, 0),
      ordered_before_(graph.nodes().size(), -1),
      region_(graph.nodes().size(), -1),
      role_(graph.nodes().size(), NodeKind::None),
      read_outside_(graph.values().size(), false),
      needed_(graph.values().size(), false) {
  for (size_t v = 0; v < source_.size(); ++v) source_[v] = static_cast<int64_t>(v);
  int64_t ordered = -1;
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    const auto n = static_cast<int64_t>(i);
    const Graph::Node& node = graph.nodes()[i];
    if (node.is_ordered()) ordered_before_[i] = std::exchange(ordered, n);
    if (is_view(n))
      source_[node.outputs[0]] = source_[node.inputs[0]];
    else
      for (const int64_t v : node.inputs) last_read_[source_[v]] = n;
    steps_[i + 1] = steps_[i] + (is_view(n) ? 0 : 1);
  }
  const auto keep = [&](int64_t v) {
    needed_[v] = true;
    last_read_[source_[v]] = INT64_MAX;
  };
  for (const Graph::Output& output : graph.outputs()) keep(output.value);
  for (const Graph::Write& write : graph.writes()) keep(write.value);
}

bool Fuser::is_view(int64_t node) const {
  const Graph::Node& n = graph_.nodes()[node];
  return !n.opaque && has_flag(n.op, op_flags::view);
}

// Of an open one.
const FusionLimits& Fuser::limits_of(const Region& region) const {
  return find_fusion_target(region.device)->limits();
}

// The region that makes what the value is a view of.
int64_t Fuser::region_of(int64_t v) const {
  const int64_t node = graph_.values()[source_[v]].node;
  return node < 0 ? -1 : region_[node];
}

bool Fuser::is_made_inside(int64_t v, int64_t region) const { return region_of(v) == region; }

bool Fuser::can_fuse(const Graph::Node& node) const {
  if (node.opaque) return false;
  const Graph::Value& out = graph_.values()[node.outputs[0]];
  const FusionTarget* target = find_fusion_target(out.device);
  if (!target || !target->takes(node.op, node.compute)) return false;
  const auto holds = [target](DType dtype) { return !is_complex(dtype) && target->holds(dtype); };
  if (!holds(out.dtype)) return false;
  for (const int64_t v : node.inputs) {
    const Graph::Value& in = graph_.values()[v];
    const bool is_number = in.device != out.device;
    if (!(is_number ? !is_complex(in.dtype) : holds(in.dtype)) || numel_of(in.shape) == 0)
      return false;
  }
  if (converts(node.op)) return true;
  // Integer division checks its divisors first, which a region cannot.
  if (info(node.op).kind == OpKind::Scalar)
    return !(is_integral(node.compute) && divides(node.op)) &&
           (out.dtype == node.compute || out.dtype == DType::Bool);
  return hold_ != Regions::Scalars && target->limits().reductions &&
         info(node.op).kind == OpKind::Reduce && !is_bool(out.dtype);
}

// Why a node that regions cannot have runs alone.
FusionBarrier Fuser::reason_alone(const Graph::Node& node) const {
  if (node.opaque || info(node.op).kind == OpKind::Struct) return FusionBarrier::RunsAlone;
  if (info(node.op).kind == OpKind::Scalar) return FusionBarrier::DType;
  return hold_ == Regions::Scalars ? FusionBarrier::ResultBuffer : FusionBarrier::RunsAlone;
}

// The shape of one element a row; `keep`: with dimensions of 1 for those reduced.
Dims Fuser::rows_of(const Region& region, bool keep) const {
  Dims rows(region.shape);
  rows.resize(rows.size() - region.reduced);
  if (keep) rows.resize(region.shape.size(), 1);
  return rows;
}

Fuser::BroadcastForm Fuser::form_of(int64_t v, const Region& region) const {
  const Graph::Value& made = graph_.values()[source_[v]];
  const bool is_row = role_[made.node] == NodeKind::Row || role_[made.node] == NodeKind::Reduction;
  const Dims& shape = graph_.values()[v].shape;
  const int64_t rows = numel_of(rows_of(region, false));
  for (int64_t at = v; at != source_[v];) {
    const Graph::Node& view = graph_.nodes()[graph_.values()[at].node];
    const Dims& to = graph_.values()[at].shape;
    at = view.inputs[0];
    const Dims& from = graph_.values()[at].shape;
    if (view.op == OpId::reshape) continue;
    if (view.op != OpId::expand) return BroadcastForm::None;
    if (from == to) continue;
    // Repeated along the rows, and nothing is done with that but to read it.
    if (!is_row || to != region.shape || shape != to || numel_of(from) != rows)
      return BroadcastForm::None;
    Dims whole(from);
    if (whole.size() < region.shape.size()) {
      whole = Dims(region.shape.size() - from.size(), 1);
      for (const int64_t n : from) whole.push_back(n);
    }
    if (whole != rows_of(region, true)) return BroadcastForm::None;
    for (; at != source_[v]; at = graph_.nodes()[graph_.values()[at].node].inputs[0])
      if (graph_.nodes()[graph_.values()[at].node].op != OpId::reshape) return BroadcastForm::None;
    return BroadcastForm::Spread;
  }
  if (is_row) return BroadcastForm::Row;
  return shape == region.shape && made.shape == region.shape ? BroadcastForm::Full
                                                             : BroadcastForm::None;
}

// Rows that would not stay close while steps wait for their reductions, or are too few.
bool Fuser::is_long(const Region& region) const {
  const int64_t rows = numel_of(rows_of(region, false));
  const int64_t cols = numel_of(region.shape) / std::max<int64_t>(1, rows);
  int64_t widest = 4;
  for (const int64_t n : region.nodes)
    for (const int64_t v : graph_.nodes()[n].outputs)
      widest = std::max(widest, static_cast<int64_t>(size_of(graph_.values()[v].dtype)));
  const FusionLimits& limits = limits_of(region);
  return cols * widest > limits.row_bytes || (rows < limits.few_rows && cols > limits.long_row);
}

// What the node would be in the region, to which some of its operands belong.
Fuser::NodeKind Fuser::kind_of_node(int64_t n, const Region& region, FusionBarrier& why) const {
  const Graph::Node& node = graph_.nodes()[n];
  const auto number = static_cast<int64_t>(&region - regions_.data());
  const auto made = [&](int64_t v) { return is_made_inside(v, number); };
  const Dims& shape = graph_.values()[node.outputs[0]].shape;
  if (info(node.op).kind == OpKind::Reduce) {
    const auto dims = AttrReader(node.attrs).list();
    const Dims& from = graph_.values()[node.inputs[0]].shape;
    const auto rank = static_cast<int64_t>(from.size()), count = static_cast<int64_t>(dims.size());
    why = from == region.shape ? FusionBarrier::LeadingDimensions : FusionBarrier::Shape;
    if (made(node.inputs[0]) && form_of(node.inputs[0], region) != BroadcastForm::Full)
      return NodeKind::None;
    if (dims.empty() || rank == 0 || from != region.shape) return NodeKind::None;
    for (int64_t i = 0; i < count; ++i)
      if (dims[i] != rank - count + i) return NodeKind::None;
    if (region.reduced != 0 && region.reduced != dims.size()) return NodeKind::None;
    // Their blocks differ in length.
    why = FusionBarrier::Limit;
    for (const int64_t m : region.nodes)
      if (role_[m] == NodeKind::Reduction &&
          (graph_.nodes()[m].op == OpId::prod) != (node.op == OpId::prod))
        return NodeKind::None;
    return NodeKind::Reduction;
  }
  why = FusionBarrier::Shape;
  const bool is_full = shape == region.shape;
  bool uses_row = false;
  for (const int64_t v : node.inputs) {
    if (!made(v)) continue;
    const BroadcastForm form = form_of(v, region);
    const Dims& own = graph_.values()[v].shape;
    if (form == BroadcastForm::None) return NodeKind::None;
    if (is_full) {
      uses_row |= form != BroadcastForm::Full;
      if (form == BroadcastForm::Row && own != rows_of(region, true) &&
          own.size() >= region.shape.size())
        return NodeKind::None;
      if (form == BroadcastForm::Row && own.size() < region.shape.size()) {
        Dims whole(region.shape.size() - own.size(), 1);
        for (const int64_t d : own) whole.push_back(d);
        if (whole != rows_of(region, true)) return NodeKind::None;
      }
    } else if (form != BroadcastForm::Row || own != shape) {
      return NodeKind::None;
    }
  }
  if (!is_full)
    return region.reduced > 0 && (shape == rows_of(region, false) || shape == rows_of(region, true))
               ? NodeKind::Row
               : NodeKind::None;
  why = FusionBarrier::LongRows;
  return uses_row && is_long(region) ? NodeKind::None : NodeKind::Full;
}

// Whether a region that waits for node `n`, with steps of other regions than those that go with it
// in between, keeps no more than if it had run before: what it reads, and what others have read of
// it, in place of what it makes.
bool Fuser::saves_memory(const Region& region, int64_t n, std::span<const int64_t> with) const {
  const int64_t last = region.nodes.back();
  int64_t between = steps_[n] - steps_[last + 1];
  for (const int64_t r : with) {
    const auto& nodes = regions_[r].nodes;
    between -= nodes.end() - std::upper_bound(nodes.begin(), nodes.end(), last);
  }
  if (between == 0) return true;
  size_t kept = 0, saved = 0;
  std::vector<int64_t> seen;
  for (const int64_t m : region.nodes) {
    const int64_t out = graph_.nodes()[m].outputs[0];
    if (last_read_[out] >= n) {
      saved += graph_.values()[out].bytes();
    } else if (read_outside_[out]) {
      kept += graph_.values()[out].bytes();
    }
    for (const int64_t v : graph_.nodes()[m].inputs) {
      const int64_t s = source_[v];
      const Graph::Value& value = graph_.values()[s];
      if (value.node < 0 || last_read_[s] >= n || region_[value.node] == region_[m] ||
          std::find(seen.begin(), seen.end(), s) != seen.end())
        continue;
      seen.push_back(s);
      kept += value.bytes();
    }
  }
  return kept <= saved;
}

// Why the node cannot join the region, were it the only one; Result where it can.
FusionBarrier Fuser::obstacle(int64_t n, const Region& region, NodeKind& role) const {
  const auto split_point = graph_.split_point().node;
  if (!region.open)
    return region.barrier == FusionBarrier::Result ? FusionBarrier::UsedElsewhere : region.barrier;
  if (split_point >= 0 && n >= split_point && region.nodes[0] < split_point)
    return FusionBarrier::SplitPoint;
  if (graph_.values()[graph_.nodes()[n].outputs[0]].device != region.device)
    return FusionBarrier::Device;
  FusionBarrier why = FusionBarrier::Result;
  role = kind_of_node(n, region, why);
  if (role == NodeKind::None) return why;
  return region.level < region.reader ? FusionBarrier::Result : FusionBarrier::UsedElsewhere;
}

// Whether the node and the regions together may read and write more buffers than a kernel of the
// device binds. What is read after the node may stay outside.
bool Fuser::binds_too_many(int64_t n, NodeKind role, std::span<const int64_t> joined) const {
  const Region& region = regions_[joined[0]];
  const size_t most = find_fusion_target(region.device)->most_buffers(region.shape.size());
  if (most == 0) return false;
  size_t stores = 0;
  std::vector<RegionInput> loads;  // views of one buffer are bound each by itself
  const auto add = [&](int64_t m) {
    const Graph::Node& node = graph_.nodes()[m];
    const int64_t made = node.outputs[0];
    stores += m == n || last_read_[made] > n || read_outside_[made];
    const bool per_row = (m == n ? role : role_[m]) == NodeKind::Row;
    for (const int64_t v : node.inputs) {
      const bool inside = std::ranges::find(joined, region_of(v)) != joined.end();
      const RegionInput load{v, per_row};
      if (!inside && std::ranges::find(loads, load) == loads.end()) loads.push_back(load);
    }
  };
  for (const int64_t r : joined) std::ranges::for_each(regions_[r].nodes, add);
  add(n);
  return loads.size() + stores > most;
}

// Of the regions found those that the node joins, latest first.
std::vector<int64_t> Fuser::partners(int64_t n, std::vector<int64_t> found, NodeKind& role) {
  std::stable_sort(found.begin(), found.end(),
                   [&](int64_t a, int64_t b) { return regions_[a].level > regions_[b].level; });
  std::vector<int64_t> chosen;
  size_t nodes = 1, reduced = 0;
  const auto refuse = [&](int64_t r, FusionBarrier why) {
    if (regions_[r].barrier == FusionBarrier::Result) regions_[r].barrier = why;
  };
  for (const int64_t r : found) {
    const Region& region = regions_[r];
    NodeKind as = NodeKind::None;
    if (const FusionBarrier why = obstacle(n, region, as); why != FusionBarrier::Result) {
      refuse(r, why);
    } else if (nodes + region.nodes.size() > limits_of(region).ops) {
      refuse(r, FusionBarrier::Limit);
    } else if (!chosen.empty() &&
               (as != role || region.shape != regions_[chosen[0]].shape ||
                (reduced != 0 && region.reduced != 0 && reduced != region.reduced))) {
      refuse(r, FusionBarrier::Shape);
    } else if (!chosen.empty() && regions_[chosen[0]].level >= region.reader) {
      refuse(r, FusionBarrier::UsedElsewhere);
    } else {
      chosen.push_back(r);
      role = as;
      nodes += region.nodes.size();
      reduced = std::max(reduced, region.reduced);
    }
  }
  const std::vector<int64_t> with = chosen;
  std::erase_if(chosen, [&](int64_t r) {
    if (saves_memory(regions_[r], n, with)) return false;
    refuse(r, FusionBarrier::ResultBuffer);
    return true;
  });
  if (!chosen.empty() && binds_too_many(n, role, chosen)) {
    for (const int64_t r : chosen) refuse(r, FusionBarrier::Limit);
    chosen.clear();
  }
  return chosen;
}

// Joins the regions found, as far as they go together, and the node; false where it goes with none.
bool Fuser::join(int64_t n, const std::vector<int64_t>& found) {
  NodeKind role = NodeKind::None;
  const std::vector<int64_t> joined = partners(n, found, role);
  if (joined.empty()) return false;
  const Graph::Node& node = graph_.nodes()[n];
  // What else the node reads must be there before.
  int64_t level = regions_[joined[0]].level;
  for (const int64_t v : node.inputs) {
    const int64_t r = region_of(v);
    if (r >= 0 && std::find(joined.begin(), joined.end(), r) == joined.end())
      level = std::max(level, regions_[r].level + 1);
  }
  for (const int64_t r : joined)
    if (level >= regions_[r].reader) return false;
  Region& into = regions_[joined[0]];
  for (size_t i = 1; i < joined.size(); ++i) {
    Region& from = regions_[joined[i]];
    for (const int64_t m : from.nodes) region_[m] = joined[0];
    into.nodes.insert(into.nodes.end(), from.nodes.begin(), from.nodes.end());
    into.reader = std::min(into.reader, from.reader);
    into.reduced = std::max(into.reduced, from.reduced);
    from.nodes.clear();
    from.open = false;
  }
  std::sort(into.nodes.begin(), into.nodes.end());
  into.nodes.push_back(n);
  if (role == NodeKind::Reduction) into.reduced = AttrReader(node.attrs).list().size();
  into.level = level;
  into.barrier = FusionBarrier::Result;
  region_[n] = joined[0];
  role_[n] = role;
  return true;
}

void Fuser::start(int64_t n) {
  const Graph::Node& node = graph_.nodes()[n];
  Region region;
  region.nodes = {n};
  region.device = graph_.values()[node.outputs[0]].device;
  region.open = can_fuse(node);
  if (!region.open) region.barrier = reason_alone(node);
  for (const int64_t v : node.inputs)
    if (const int64_t r = region_of(v); r >= 0)
      region.level = std::max(region.level, regions_[r].level);
  if (const int64_t before = ordered_before_[n]; before >= 0)
    region.level = std::max(region.level, regions_[region_[before]].level);
  region.level += kLevelStep;
  region_[n] = static_cast<int64_t>(regions_.size());
  if (region.open) {
    region.shape = graph_.values()[node.outputs[0]].shape;
    role_[n] = NodeKind::Full;
    if (info(node.op).kind == OpKind::Reduce) {
      region.shape = graph_.values()[node.inputs[0]].shape;
      const auto dims = AttrReader(node.attrs).list();
      region.reduced = dims.size();
      role_[n] = NodeKind::Reduction;
      const auto rank = static_cast<int64_t>(region.shape.size());
      region.open =
          !dims.empty() && rank > 0 && dims[0] == rank - static_cast<int64_t>(dims.size());
    }
    region.open = region.open && numel_of(region.shape) > 0;
  }
  if (!region.open) role_[n] = NodeKind::None;
  regions_.push_back(std::move(region));
}

// Regions that a node outside reads are complete, unless that is a reduction, which can wait.
void Fuser::read(int64_t n) {
  const Graph::Node& node = graph_.nodes()[n];
  const Region& reader = regions_[region_[n]];
  for (const int64_t v : node.inputs) {
    const int64_t r = region_of(v);
    if (r == region_[n]) continue;
    last_reader_[source_[v]] = n;
    if (r < 0) continue;
    read_outside_[source_[v]] = true;
    regions_[r].reader = std::min(regions_[r].reader, reader.level);
    const bool waits = !node.opaque && info(node.op).kind == OpKind::Reduce && !reader.open;
    if (!waits) regions_[r].open = false;
  }
}

void Fuser::add_node(int64_t n) {
  const Graph::Node& node = graph_.nodes()[n];
  std::vector<int64_t> found;
  for (const int64_t v : node.inputs)
    if (const int64_t r = region_of(v);
        r >= 0 && std::find(found.begin(), found.end(), r) == found.end())
      found.push_back(r);
  const bool fuses = can_fuse(node);
  if (!fuses)
    for (const int64_t r : found)
      if (regions_[r].barrier == FusionBarrier::Result) regions_[r].barrier = reason_alone(node);
  if (!fuses || !(join(n, found) || join(n, siblings(n)))) start(n);
  read(n);
}

// Regions that read something as large as what the node works on, which it reads, too.
std::vector<int64_t> Fuser::siblings(int64_t n) const {
  const Graph::Node& node = graph_.nodes()[n];
  const bool reduces = info(node.op).kind == OpKind::Reduce;
  const Dims& shape = graph_.values()[reduces ? node.inputs[0] : node.outputs[0]].shape;
  std::vector<int64_t> found;
  for (const int64_t v : node.inputs) {
    const int64_t reader = last_reader_[source_[v]];
    if (reader < 0 || numel_of(graph_.values()[v].shape) != numel_of(shape)) continue;
    const int64_t r = region_[reader];
    if (regions_[r].open && regions_[r].shape == shape &&
        std::find(found.begin(), found.end(), r) == found.end())
      found.push_back(r);
  }
  return found;
}

std::vector<Group> Fuser::run() {
  for (int64_t n = 0; n < static_cast<int64_t>(graph_.nodes().size()); ++n)
    if (!is_view(n)) add_node(n);
  join_products();
  find_needed();
  std::vector<Group> groups = in_order();
  count_bytes(groups);
  return groups;
}

}  // namespace tinyt
