#include "gpu/rare_paths.h"

#include <algorithm>
#include <ranges>

namespace tinyt::gpu {

namespace {

constexpr int kUnused = -2;
constexpr int kLeastCost = 6;  // of a path that is worth a branch, in cheap operations

int cost_of(MachineOp op) {
  switch (op) {
    case MachineOp::input:
    case MachineOp::constant:
      return 0;
    case MachineOp::div:
    case MachineOp::sqrt:
    case MachineOp::quotient:
    case MachineOp::rest:
      return 6;
    default:
      return 1;
  }
}

bool has_vectors(MachineOp op) {
  switch (op) {
    case MachineOp::loop:
    case MachineOp::lookup:
    case MachineOp::quotient:
    case MachineOp::rest:
    case MachineOp::high_product:
    case MachineOp::leading_zeros:
      return false;
    default:
      return true;
  }
}

}  // namespace

RarePaths::RarePaths(const ScalarDefinition& definition)
    : d_(definition), banned_(definition.nodes.size(), false) {
  find_loops();
  // Without the short paths others may be longer.
  for (bool changed = true; changed;) {
    find_scopes();
    changed = false;
    for (int p = 0; p < std::ssize(paths_); ++p) {
      if (cost_of(p) >= kLeastCost) continue;
      changed = true;
      for (const int select : paths_[static_cast<size_t>(p)].selects)
        banned_[static_cast<size_t>(select)] = true;
    }
  }
}

void RarePaths::find_loops() {
  for (int i = 0; i < std::ssize(d_.nodes); ++i) {
    if (node(i).op != MachineOp::loop) continue;
    int first = i, last = i;
    while (first > 0 && node(first - 1).op == MachineOp::carry) --first;
    while (node(last).op != MachineOp::end_loop) ++last;
    loops_.push_back({first, last});
  }
}

RarePaths::Loop RarePaths::loop_of(int node) const {
  for (const Loop& loop : loops_)
    if (loop.first <= node && node <= loop.last) return loop;
  return {node, node};
}

// A path's scope is an older path.
int RarePaths::common(int a, int b) const {
  while (a != b) (a > b ? a : b) = paths_[static_cast<size_t>(std::max(a, b))].scope;
  return a;
}

void RarePaths::use(int node, int scope) {
  if (node < 0) return;
  int& known = scope_[static_cast<size_t>(node)];
  known = known == kUnused ? scope : common(known, scope);
}

// Backwards: whoever uses a node stands behind it.
void RarePaths::find_scopes() {
  paths_.clear();
  scope_.assign(d_.nodes.size(), kUnused);
  ended_by_.assign(d_.nodes.size(), kCommon);
  use(d_.result, kCommon);
  for (int i = static_cast<int>(d_.nodes.size()) - 1; i >= 0; --i) {
    const Loop loop = loop_of(i);
    int scope = kUnused;
    for (int k = loop.first; k <= loop.last; ++k)
      if (const int seen = scope_of(k); seen != kUnused)
        scope = scope == kUnused ? seen : common(scope, seen);
    if (scope == kUnused) scope = kCommon;
    for (int k = loop.first; k <= loop.last; ++k) {
      scope_[static_cast<size_t>(k)] = scope;
      const bool ends = loop.first == loop.last && node(k).op == MachineOp::select &&
                        !banned_[static_cast<size_t>(k)] && is_rare(node(k).in[0]);
      const int path = ends ? path_for(k, scope) : scope;
      if (ends) ended_by_[static_cast<size_t>(k)] = path;
      for (int side = 0; side < 3; ++side)
        if (const int in = node(k).in[side]; in < loop.first) use(in, side == 1 ? path : scope);
    }
    i = loop.first;
  }
}

bool RarePaths::is_rare(int condition) const {
  if (std::ranges::find(d_.rare, condition) != d_.rare.end()) return true;
  const Node& n = node(condition);
  return n.op == MachineOp::bit_and && (is_rare(n.in[0]) || is_rare(n.in[1]));
}

bool RarePaths::depends(int node, int on) const {
  std::vector<bool> need(d_.nodes.size(), false);
  need[static_cast<size_t>(node)] = true;
  for (int i = node; i > on; --i) {
    const Loop loop = loop_of(i);
    bool needed = false;
    for (int k = loop.first; k <= loop.last; ++k) needed = needed || need[static_cast<size_t>(k)];
    for (int k = loop.first; needed && k <= loop.last; ++k)
      for (const int in : d_.nodes[static_cast<size_t>(k)].in)
        if (in >= 0 && in < loop.first) need[static_cast<size_t>(in)] = true;
    i = loop.first;
  }
  return need[static_cast<size_t>(on)];
}

// The path that the next selects of the scope end, if they do of the same condition and do not need
// this one; no path of the scope is between, so that whole paths can be printed one by one.
int RarePaths::path_for(int select, int scope) {
  const int condition = node(select).in[0];
  for (int p = static_cast<int>(paths_.size()) - 1; p >= 0; --p) {
    Path& path = paths_[static_cast<size_t>(p)];
    if (path.scope != scope) continue;
    if (path.condition != condition) break;
    if (std::ranges::any_of(path.selects, [&](int other) { return depends(other, select); })) break;
    path.selects.push_back(select);
    return p;
  }
  paths_.push_back({condition, scope, {select}});
  return static_cast<int>(paths_.size()) - 1;
}

int RarePaths::cost_of(int path) const {
  int cost = 0;
  for (int i = 0; i < std::ssize(d_.nodes); ++i)
    if (within(i, path)) cost += gpu::cost_of(node(i).op);
  return cost;
}

bool RarePaths::has_vectors() const {
  for (int i = 0; i < std::ssize(d_.nodes); ++i)
    if (scope_of(i) == kCommon && !gpu::has_vectors(node(i).op)) return false;
  return true;
}

}  // namespace tinyt::gpu
