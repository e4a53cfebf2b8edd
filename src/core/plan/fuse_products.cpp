// Products join the regions that work on their results, once those have grown.
#include <algorithm>
#include <unordered_map>

#include "core/plan/fuse.h"

namespace tinyt {

// Whether the product may run as late as the region. Operands that eager mode would be rid of are
// kept instead of its result, and beside the region's results: those must fit the result's place.
bool Fuser::may_wait(int64_t product, const Region& region, bool is_read_later) const {
  const int64_t n = region.nodes.back();
  const Graph::Value& made = graph_.values()[graph_.nodes()[product].outputs[0]];
  const auto is_read_by_region = [&](int64_t s) {
    return std::any_of(region.nodes.begin(), region.nodes.end(), [&](int64_t m) {
      const auto& in = graph_.nodes()[m].inputs;
      return std::any_of(in.begin(), in.end(), [&](int64_t v) { return source_[v] == s; });
    });
  };
  size_t kept = 0;
  std::vector<int64_t> seen;
  for (const int64_t v : graph_.nodes()[product].inputs) {
    const int64_t s = source_[v];
    if (graph_.values()[s].node < 0 || last_read_[s] >= n || is_read_by_region(s) ||
        std::find(seen.begin(), seen.end(), s) != seen.end())
      continue;
    seen.push_back(s);
    kept += graph_.values()[s].bytes();
  }
  if (kept == 0) return true;
  size_t results = 0;
  bool has_place = false;  // for the product's result
  for (const int64_t m : region.nodes) {
    const int64_t v = graph_.nodes()[m].outputs[0];
    if (!needed_[v]) continue;
    results += graph_.values()[v].bytes();
    has_place |= info(graph_.nodes()[m].op).kind == OpKind::Scalar &&
                 size_of(graph_.values()[v].dtype) == size_of(made.dtype);
  }
  if (is_read_later || !has_place) results += made.bytes();
  const int64_t inside = std::lower_bound(region.nodes.begin(), region.nodes.end(), n) -
                         std::upper_bound(region.nodes.begin(), region.nodes.end(), product);
  const bool is_next = steps_[n] - steps_[product + 1] == inside;
  return results <= made.bytes() && (is_next || kept <= made.bytes());
}

// Why the region cannot begin with the product; Result where it can. `readers`: all nodes that read
// the result.
FusionBarrier Fuser::obstacle(int64_t product, const Region& region,
                              std::span<const int64_t> readers) const {
  const auto number = static_cast<int64_t>(&region - regions_.data());
  const int64_t made = graph_.nodes()[product].outputs[0], split_point = graph_.split_point().node;
  const auto is = [&](NodeKind role) {
    return [this, role](int64_t m) { return role_[m] == role; };
  };
  const auto& nodes = region.nodes;
  if (std::any_of(nodes.begin(), nodes.end(), is(NodeKind::Reduction)))
    return FusionBarrier::Reductions;
  if (region.product >= 0 || !std::all_of(nodes.begin(), nodes.end(), is(NodeKind::Full)))
    return FusionBarrier::RunsAlone;
  if (split_point >= 0 && (product < split_point) != (region.nodes[0] < split_point))
    return FusionBarrier::SplitPoint;
  bool is_read_later = last_read_[made] == INT64_MAX;
  for (const int64_t m : readers) {
    if (region_[m] == number) {
      for (const int64_t v : graph_.nodes()[m].inputs)
        if (source_[v] == made && form_of(v, region) != BroadcastForm::Full)
          return FusionBarrier::Shape;
    } else if (m < region.nodes.back() || regions_[region_[m]].level <= region.level) {
      return FusionBarrier::UsedElsewhere;
    } else {
      is_read_later = true;
    }
  }
  const FusionLimits& limits = limits_of(region);
  if (region.nodes.size() == limits.ops) return FusionBarrier::Limit;
  const bool joins =
      hold_ == Regions::Products && limits.products && may_wait(product, region, is_read_later);
  return joins ? FusionBarrier::Result : FusionBarrier::ResultBuffer;
}

void Fuser::join_products() {
  const auto& nodes = graph_.nodes();
  const auto is_product = [&](int64_t n) {
    return n >= 0 && !nodes[n].opaque && has_flag(nodes[n].op, op_flags::gemm_like);
  };
  std::unordered_map<int64_t, std::vector<int64_t>> readers;  // of products
  for (int64_t n = 0; n < static_cast<int64_t>(nodes.size()); ++n) {
    if (is_view(n)) continue;
    for (const int64_t v : nodes[n].inputs)
      if (const int64_t maker = graph_.values()[source_[v]].node; is_product(maker)) {
        auto& of = readers[maker];
        if (of.empty() || of.back() != n) of.push_back(n);
      }
  }
  const std::vector<bool> ends = needed_;
  find_needed();
  // Of several that one region reads, the last: the others have run then.
  for (auto n = static_cast<int64_t>(nodes.size()); n-- > 0;) {
    if (!is_product(n) || !readers.contains(n)) continue;
    const Graph::Value& made = graph_.values()[nodes[n].outputs[0]];
    if (is_complex(made.dtype) || numel_of(made.shape) <= 1) continue;
    // The first one that reads it: others can only run later.
    const auto& all = readers.at(n);
    const int64_t first =
        region_[*std::min_element(all.begin(), all.end(), [&](int64_t a, int64_t b) {
          return regions_[region_[a]].level < regions_[region_[b]].level;
        })];
    Region& region = regions_[first];
    Region& own = regions_[region_[n]];
    own.barrier = obstacle(n, region, all);
    if (own.barrier != FusionBarrier::Result) continue;
    region.nodes.insert(std::upper_bound(region.nodes.begin(), region.nodes.end(), n), n);
    region.product = n;
    own.nodes.clear();
    region_[n] = first;
  }
  needed_ = ends;
}

}  // namespace tinyt
