#include "core/graph/size_guards.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace tinyt {

namespace {

std::vector<int64_t> sizes_in(const Graph& g) {
  std::vector<int64_t> out;
  const auto add = [&](std::span<const int64_t> all) {
    out.insert(out.end(), all.begin(), all.end());
  };
  for (const Graph::Value& v : g.values()) add(v.shape);
  for (const Graph::Node& n : g.nodes()) n.opaque ? add(n.opaque->numbers()) : add(n.attrs.ints);
  for (const Graph::Output& o : g.outputs()) {
    add(o.tensor.shape());
    add(o.tensor.strides());
    out.push_back(o.tensor.offset());
  }
  return out;
}

bool is_weak(const Graph::Input& x) {
  return x.argument < 0 && !x.number && x.tensor.impl()->is_scalar;
}

// What two nodes have in common that differ in sizes alone.
void add_node(const Graph::Node& n, std::vector<int64_t>& out) {
  const auto add = [&](std::span<const int64_t> all) {
    out.push_back(static_cast<int64_t>(all.size()));
    out.insert(out.end(), all.begin(), all.end());
  };
  out.insert(out.end(), {static_cast<int64_t>(n.op), static_cast<int64_t>(n.compute)});
  add(n.inputs);
  add(n.outputs);
  if (n.opaque) {
    out.push_back(static_cast<int64_t>(n.opaque->numbers().size()));
    return;
  }
  const auto& ints = n.attrs.ints;
  size_t at = 0;
  for (const char kind : integer_kinds(n.op)) {
    if (kind != 'i') out.push_back(ints[at]);  // of a list its length
    at += kind == 'I' ? 1 + static_cast<size_t>(ints[at]) : 1;
  }
  for (const double x : n.attrs.floats) out.push_back(std::bit_cast<int64_t>(x));
}

// And the rest of two graphs.
void add_ends(const Graph& g, std::vector<int64_t>& out) {
  for (const Graph::Input& x : g.inputs())
    out.insert(out.end(), {x.value, x.argument, x.number, is_weak(x)});
  for (const Graph::Output& x : g.outputs())
    out.insert(out.end(), {x.value, x.argument, static_cast<int64_t>(x.tensor.shape().size())});
  for (const Graph::Write& x : g.writes()) out.insert(out.end(), {x.value, x.argument});
  out.insert(out.end(), {static_cast<int64_t>(g.inputs().size()), g.split_point().node,
                         static_cast<int64_t>(g.split_point().output)});
}

bool same_bytes(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && std::memcmp(a.host_data(), b.host_data(), a.itemsize()) == 0;
}

// No pass looks for a number that is neither 0 nor 1 (passes/edit.py).
bool is_common(const Tensor& t) {
  if (t.dtype() == DType::Float64) return *t.ptr<double>() != 0 && *t.ptr<double>() != 1;
  return t.dtype() == DType::Int64 && *t.ptr<int64_t>() != 0 && *t.ptr<int64_t>() != 1;
}

}  // namespace

SizeGuards::Form::Form(const Graph& g) {
  for (const Graph::Node& n : g.nodes()) {
    names.emplace_back(n.name());
    add_node(n, nodes);
    ends.push_back(nodes.size());
  }
  for (const Graph::Value& v : g.values())
    types.insert(types.end(), {static_cast<int64_t>(v.shape.size()), static_cast<int64_t>(v.dtype),
                               code_of(v.device), v.node});
  add_ends(g, rest);
}

std::string SizeGuards::Form::difference(const Form& now) const {
  for (size_t i = 0, at = 0; i < std::min(ends.size(), now.ends.size()); at = ends[i++]) {
    if (names[i] == now.names[i] && ends[i] == now.ends[i] &&
        std::equal(nodes.begin() + at, nodes.begin() + ends[i], now.nodes.begin() + at))
      continue;
    return "operation " + std::to_string(i) +
           (names[i] == now.names[i] ? " (" + names[i] + ") is another"
                                     : " was " + names[i] + ", now it is " + now.names[i]);
  }
  if (ends.size() != now.ends.size()) return "there are other operations";
  if (types != now.types) return "a value has another dtype, device or number of dimensions";
  return rest == now.rest ? "" : "something else is read, written or returned";
}

SizeGuards::SizeGuards(const Graph& graph) : form_(graph) {
  const std::vector<int64_t> given = sizes_in(graph);
  for (size_t i = 0; i < given.size(); ++i)
    table_.add_source(SymbolicScalars::Op::Size, static_cast<int64_t>(i), -1, given[i]);
  for (const Graph::Input& x : graph.inputs())
    if (is_weak(x)) numbers_.emplace_back(x.value, x.tensor);
}

void SizeGuards::keep(std::vector<int64_t> flat, std::vector<std::pair<size_t, int64_t>> places) {
  flat_ = std::move(flat);
  places_ = std::move(places);
  table_.shrink();
}

bool SizeGuards::same_numbers(const Graph& other) const {
  std::unordered_map<int64_t, const Tensor*> now;
  for (const Graph::Input& x : other.inputs())
    if (is_weak(x)) now[x.value] = &x.tensor;
  for (const auto& [value, was] : numbers_) {
    const Tensor& is = *now.at(value);
    if (was.dtype() != is.dtype()) return false;
    if (!same_bytes(was, is) && (held_.contains(value) || !is_common(was) || !is_common(is)))
      return false;
  }
  return std::all_of(merged_.begin(), merged_.end(), [&](const auto& pair) {
    return same_bytes(*now.at(pair.first), *now.at(pair.second));
  });
}

std::optional<std::vector<int64_t>> SizeGuards::evaluated(const Graph& other) const {
  std::vector<int64_t> values = sizes_in(other);
  const auto none = [](const auto&, int64_t&) { return false; };
  if (!table_.evaluate(table_.size(), values, none)) return std::nullopt;
  return values;
}

std::optional<std::vector<int64_t>> SizeGuards::of(const Graph& other, std::string& why) const {
  why = form_.difference(Form(other));
  if (!why.empty()) return std::nullopt;
  const auto found = evaluated(other);
  if (!found) {
    why = "a size is beyond 64 bits";
    return std::nullopt;
  }
  const std::vector<int64_t>& now = *found;
  for (const auto& guard : table_.guards()) {
    if (table_.holds(guard, now)) continue;
    why = table_.change(guard, now);
    return std::nullopt;
  }
  if (!same_numbers(other)) {
    why = "a number that it was simplified by is another";
    return std::nullopt;
  }
  std::vector<int64_t> flat = flat_;
  for (const auto& [place, number] : places_) flat[place] = now[number];
  return flat;
}

}  // namespace tinyt
