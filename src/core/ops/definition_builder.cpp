#include "core/ops/definition_builder.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "core/base/error.h"

namespace tinyt {

namespace {

using Type = ScalarType;

uint64_t all_bits(Type type) {
  const int width = width_of(type);
  return width == 64 ? ~uint64_t{0} : (uint64_t{1} << width) - 1;
}

// In the type's own precision: a sum of floats in double, rounded once more, is the same.
std::optional<double> fold_floats(MachineOp op, double a, double b) {
  switch (op) {
    case MachineOp::add:
      return a + b;
    case MachineOp::sub:
      return a - b;
    case MachineOp::mul:
      return a * b;
    case MachineOp::div:
      return a / b;
    default:
      return {};
  }
}
std::optional<uint64_t> fold_integers(MachineOp op, Type type, uint64_t a, uint64_t b) {
  const auto width = static_cast<uint64_t>(width_of(type));
  switch (op) {
    case MachineOp::add:
      return a + b;
    case MachineOp::sub:
      return a - b;
    case MachineOp::mul:
      return a * b;
    case MachineOp::bit_and:
      return a & b;
    case MachineOp::bit_or:
      return a | b;
    case MachineOp::bit_xor:
      return a ^ b;
    case MachineOp::bit_not:
      return ~a;
    case MachineOp::shift_left:
      return b < width ? std::optional(a << b) : std::nullopt;
    case MachineOp::shift_right:
      if (b >= width) return {};
      return is_signed(type) ? static_cast<uint64_t>(integer_of(type, a) >> b) : a >> b;
    default:
      return {};
  }
}
template <class T>
std::optional<bool> fold_comparison(MachineOp op, T a, T b) {
  switch (op) {
    case MachineOp::equal:
      return a == b;
    case MachineOp::not_equal:
      return a != b;
    case MachineOp::less:
      return a < b;
    case MachineOp::less_equal:
      return a <= b;
    default:
      return {};
  }
}

bool is_marker(MachineOp op) {
  return op == MachineOp::loop || op == MachineOp::leave_unless || op == MachineOp::set ||
         op == MachineOp::end_loop;
}

}  // namespace

int DefinitionBuilder::append(const Node& node) {
  nodes_.push_back(node);
  return static_cast<int>(nodes_.size()) - 1;
}

int DefinitionBuilder::input(Type type) {
  inputs_.push_back(type);
  return append({MachineOp::input, type, {}, inputs_.size() - 1});
}

int DefinitionBuilder::constant(Type type, uint64_t bits) {
  return value(MachineOp::constant, type, -1, -1, -1, bits & all_bits(type));
}

int DefinitionBuilder::value(MachineOp op, Type type, int a, int b, int c, uint64_t bits) {
  const Node node{op, type, {a, b, c}, bits};
  if (const int simple = simpler(node); simple >= 0) return simple;
  const Key key{op, type, a, b, c, bits};
  if (const auto at = known_.find(key); at != known_.end()) return at->second;
  const int made = append(node);
  known_.emplace(key, made);
  if (looping_) in_loop_.push_back(key);
  return made;
}

int DefinitionBuilder::lookup(std::span<const uint64_t> table, int index) {
  size_t at = 0;
  const std::vector<uint64_t> wanted(table.begin(), table.end());
  while (at < tables_.size() && tables_[at] != wanted) ++at;
  if (at == tables_.size()) tables_.push_back(wanted);
  return value(MachineOp::lookup, Type::U64, index, -1, -1, at);
}

std::vector<int> DefinitionBuilder::begin_loop(std::span<const int> first, uint64_t most) {
  require(!looping_, ErrorKind::Runtime, "scalar definition: a loop inside of a loop");
  std::vector<int> carried;
  for (const int value : first)
    carried.push_back(append({MachineOp::carry, type(value), {value, -1, -1}}));
  append({MachineOp::loop, Type::Bool, {}, most});
  looping_ = true;
  return carried;
}

void DefinitionBuilder::leave_unless(int more) {
  append({MachineOp::leave_unless, Type::Bool, {more, -1, -1}});
}

void DefinitionBuilder::end_loop(std::span<const int> carried, std::span<const int> next) {
  std::vector<int> values(next.begin(), next.end());
  // What is set last must not see what was set before.
  for (int& v : values)
    if (node(v).op == MachineOp::carry) v = append({MachineOp::copy, type(v), {v, -1, -1}});
  for (size_t i = 0; i < values.size(); ++i)
    append({MachineOp::set, Type::Bool, {carried[i], values[i], -1}});
  append({MachineOp::end_loop, Type::Bool});
  for (const Key& key : in_loop_) known_.erase(key);
  in_loop_.clear();
  looping_ = false;
}

int DefinitionBuilder::simpler(const Node& n) {
  const auto [a, b, c] = n.in;
  switch (n.op) {
    case MachineOp::bit_cast:
      if (type(a) == n.type) return a;
      if (node(a).op == MachineOp::bit_cast)
        return value(MachineOp::bit_cast, n.type, node(a).in[0]);
      break;
    case MachineOp::convert:
      if (type(a) == n.type) return a;
      break;
    case MachineOp::select:
      if (b == c) return b;
      if (is_constant(a)) return node(a).bits != 0 ? b : c;
      break;
    case MachineOp::not_equal:  // of a mask with 0: what it is of
      if (node(a).op == MachineOp::mask && is_constant(b, 0)) return node(a).in[0];
      if (a == b && !is_float(type(a))) return constant(Type::Bool, 0);
      break;
    case MachineOp::bit_and:
      if (n.type != Type::Bool && node(a).op == MachineOp::mask && is_constant(b, 1))
        return value(MachineOp::convert, n.type, node(a).in[0]);
      break;
    case MachineOp::bit_not:
      if (node(a).op == MachineOp::bit_not) return node(a).in[0];
      break;
    case MachineOp::equal:
    case MachineOp::less_equal:  // whole numbers, which are all equal to themselves and not below 0
      if (a == b && !is_float(type(a))) return constant(Type::Bool, 1);
      break;
    case MachineOp::less:
      if (a == b || (!is_signed(type(a)) && !is_float(type(a)) && is_constant(b, 0)))
        return constant(Type::Bool, 0);
      break;
    default:
      break;
  }
  return folded(n);
}

// Of constants a constant, but for NaNs, whose bits are the machine's.
int DefinitionBuilder::folded(const Node& n) {
  const auto [a, b, c] = n.in;
  const int operands = operands_of(n.op);
  if (operands == 0 || n.op == MachineOp::carry || n.op == MachineOp::copy || c >= 0) return -1;
  if (!is_constant(a) || (operands == 2 && !is_constant(b))) return -1;
  const Type from = type(a);
  const uint64_t x = node(a).bits, y = operands == 2 ? node(b).bits : 0;
  if (n.op == MachineOp::bit_cast) return constant(n.type, x);
  if (n.op == MachineOp::mask) return constant(n.type, x != 0 ? all_bits(n.type) : 0);
  if (n.op == MachineOp::convert) {
    if (from == Type::Bool && is_float(n.type)) return constant(n.type, bits_of(n.type, double(x)));
    if (from == Type::Bool) return constant(n.type, x);
    return -1;
  }
  if (n.type == Type::Bool && operands == 2 && from != Type::Bool) {
    const auto is = is_float(from) ? fold_comparison(n.op, float_of(from, x), float_of(from, y))
                    : is_signed(from)
                        ? fold_comparison(n.op, integer_of(from, x), integer_of(from, y))
                        : fold_comparison(n.op, x, y);
    return is ? constant(Type::Bool, *is) : -1;
  }
  if (is_float(from)) {
    if (n.op == MachineOp::neg) return constant(n.type, x ^ (all_bits(n.type) / 2 + 1));
    const auto number = fold_floats(n.op, float_of(from, x), float_of(from, y));
    return number && !std::isnan(*number) ? constant(n.type, bits_of(n.type, *number)) : -1;
  }
  const auto number = fold_integers(n.op, n.type, x, y);
  return number ? constant(n.type, *number) : -1;
}

std::vector<bool> DefinitionBuilder::needed(int result) const {
  // The loop that a node is of, by the place of its start: carried values stand right before it.
  std::vector<int> loop_of(nodes_.size(), -1);
  for (int i = 0, begun = -1; i < std::ssize(nodes_); ++i) {
    if (node(i).op == MachineOp::loop) {
      begun = i;
      for (int k = i - 1; k >= 0 && node(k).op == MachineOp::carry; --k) loop_of[k] = i;
    }
    loop_of[i] = std::max(loop_of[i], begun);
    if (node(i).op == MachineOp::end_loop) begun = -1;
  }
  std::vector<bool> need(nodes_.size(), false);
  std::vector<int> open{result};
  const auto want = [&](int i) {
    if (i >= 0 && !need[static_cast<size_t>(i)]) open.push_back(i);
  };
  while (!open.empty()) {
    const int i = open.back();
    open.pop_back();
    if (need[i]) continue;
    need[i] = true;
    for (const int in : node(i).in) want(in);
    if (node(i).op == MachineOp::carry)  // with all of its loop's markers
      for (int k = 0; k < std::ssize(nodes_); ++k)
        if (loop_of[k] == loop_of[i] && (is_marker(node(k).op) || node(k).op == MachineOp::carry))
          want(k);
  }
  return need;
}

ScalarDefinition DefinitionBuilder::finish(int result) const {
  const std::vector<bool> need = needed(result);
  ScalarDefinition d;
  d.inputs = inputs_;
  d.tables = tables_;
  std::vector<int> number(nodes_.size(), -1);
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (!need[i]) continue;
    Node n = nodes_[i];
    for (int32_t& in : n.in)
      if (in >= 0) in = number[static_cast<size_t>(in)];
    number[i] = static_cast<int>(d.nodes.size());
    d.nodes.push_back(n);
  }
  d.result = number[static_cast<size_t>(result)];
  for (const int condition : rare_)
    if (const int32_t at = number[static_cast<size_t>(condition)];
        at >= 0 && std::ranges::find(d.rare, at) == d.rare.end())
      d.rare.push_back(at);
  return d;
}

}  // namespace tinyt
