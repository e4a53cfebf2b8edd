#include "gpu/scalar_source.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <ranges>
#include <vector>

#include "core/base/error.h"
#include "gpu/rare_paths.h"
#include "gpu/source_writer.h"

namespace tinyt::gpu {

namespace {

using Node = ScalarDefinition::Node;

constexpr size_t kMostInlined = 500;  // nodes of a function that compilers are told to inline

// With all digits, in the base of floats.
std::string hex_float(double x) {
  char text[40];
  const char* end =
      std::to_chars(text, text + sizeof text, std::abs(x), std::chars_format::hex).ptr;
  return (std::signbit(x) ? "-0x" : "0x") + std::string(static_cast<const char*>(text), end);
}

class FunctionPrinter {
 public:
  FunctionPrinter(const ScalarDefinition& definition, std::string_view name, const Dialect& dialect,
                  bool common)
      : d_(definition),
        paths_(definition),
        name_(name),
        dialect_(dialect),
        common_(common),
        write_(dialect, name),
        names_(definition.nodes.size()),
        printed_(definition.nodes.size(), false) {}

  std::string print() {
    std::string arguments;
    for (size_t i = 0; i < d_.inputs.size(); ++i)
      arguments += (i == 0 ? "" : ", ") +
                   filled(dialect_.argument, {{'T', write_.type(d_.inputs[i])}, {'N', input(i)}});
    if (common_) arguments += ", " + filled(dialect_.flag, {{'T', write_.type(ScalarType::U32)}});
    const bool in_lanes = common_ || (paths_.has_vectors() && d_.nodes.size() <= kMostInlined);
    write_.open(
        std::string(in_lanes ? dialect_.inlined : "") +
        filled(dialect_.function, {{'T', write_.type(d_.type())}, {'N', name_}, {'A', arguments}}));
    name_unused_inputs();
    print_scope(RarePaths::kCommon);
    write_.line("return " + name(d_.result) + ";");
    write_.close();
    return tables_ + write_.text();
  }

 private:
  const Node& node(int i) const { return d_.nodes[static_cast<size_t>(i)]; }
  std::string& name(int i) { return names_[static_cast<size_t>(i)]; }
  static std::string input(size_t i) { return "x" + std::to_string(i); }

  void name_unused_inputs() {
    for (size_t i = 0; i < d_.inputs.size(); ++i) {
      bool read = false;
      for (int k = 0; k < std::ssize(d_.nodes); ++k)
        read = read || (node(k).op == MachineOp::input && node(k).bits == i &&
                        (!common_ || paths_.scope_of(k) == RarePaths::kCommon));
      if (!dialect_.unused.empty() && !read)
        write_.line(filled(dialect_.unused, {{'N', input(i)}}));
    }
  }

  // What is in a path and in no path of it.
  void print_scope(int path) {
    for (int i = 0; i < std::ssize(d_.nodes); ++i)
      if (paths_.scope_of(i) == path) print_once(i);
  }
  void print_once(int i) {
    if (i < 0 || printed_[static_cast<size_t>(i)]) return;
    if (const int path = paths_.ended_by(i); path != RarePaths::kCommon)
      return common_ ? leave_out(path) : print_path(path);
    const auto [first, last] = paths_.loop_of(i);
    const auto range = std::views::iota(first, last + 1);
    for (const int k : range)
      for (const int in : node(k).in)
        if (in < first) print_once(in);
    for (const int k : range) {
      printed_[static_cast<size_t>(k)] = true;
      print_node(k);
    }
  }
  void print_path(int p) {
    const RarePaths::Path& path = paths_.paths()[static_cast<size_t>(p)];
    print_once(path.condition);
    for (int i = 0; i < std::ssize(d_.nodes); ++i)
      for (const int in : node(i).in)
        if (paths_.within(i, p) && in >= 0 && !paths_.within(in, p)) print_once(in);
    for (const int select : path.selects) {
      // The rare value may be made outside, too.
      for (const int side : {1, 2})
        if (const int in = node(select).in[side]; !paths_.within(in, p)) print_once(in);
      printed_[static_cast<size_t>(select)] = true;
      name(select) = "v" + std::to_string(select);
      write_.variable(node(select).type, name(select), name(node(select).in[2]));
    }
    write_.open_if(name(path.condition));
    print_scope(p);
    for (const int select : path.selects) write_.assign(name(select), name(node(select).in[1]));
    write_.close();
  }
  void leave_out(int p) {
    const RarePaths::Path& path = paths_.paths()[static_cast<size_t>(p)];
    print_once(path.condition);
    write_.line(filled(dialect_.raise, {{'C', name(path.condition)}}));
    for (const int select : path.selects) {
      print_once(node(select).in[2]);
      printed_[static_cast<size_t>(select)] = true;
      name(select) = name(node(select).in[2]);
    }
  }

  std::string table_name(uint64_t table) const {
    return std::string(name_) + "_table" + std::to_string(table);
  }
  void print_table(uint64_t table) {
    const std::string own = table_name(table);
    if (tables_.find(own) != std::string::npos) return;
    std::string items;
    for (const uint64_t item : d_.tables[table])
      items += (items.empty() ? "" : ", ") + literal(ScalarType::U64, item, dialect_);
    tables_ += filled(dialect_.table, {{'T', write_.type(ScalarType::U64)},
                                       {'N', own},
                                       {'C', std::to_string(d_.tables[table].size())},
                                       {'E', items}}) +
               "\n";
  }

  std::string expression(const Node& n) {
    if (n.op == MachineOp::lookup) print_table(n.bits);
    const auto operand = [&](int k) { return n.in[k] >= 0 ? name(n.in[k]) : std::string(); };
    return write_.operation(n.op, n.type, n.in[0] >= 0 ? node(n.in[0]).type : n.type,
                            {operand(0), operand(1), operand(2)}, table_name(n.bits));
  }

  void print_node(int i) {
    const Node& n = node(i);
    switch (n.op) {
      case MachineOp::input:
        name(i) = input(n.bits);
        return;
      case MachineOp::constant:
        name(i) = literal(n.type, n.bits, dialect_);
        return;
      case MachineOp::carry:
        name(i) = "c" + std::to_string(i);
        return write_.variable(n.type, name(i), name(n.in[0]));
      case MachineOp::loop:
        return write_.open_count(ScalarType::I32, "turn", "0", std::to_string(n.bits));
      case MachineOp::leave_unless:
        if (node(n.in[0]).op == MachineOp::constant) return;
        write_.open_if("!" + name(n.in[0]));
        write_.line("break;");
        return write_.close();
      case MachineOp::set:
        return write_.assign(name(n.in[0]), name(n.in[1]));
      case MachineOp::end_loop:
        return write_.close();
      default:
        name(i) = "v" + std::to_string(i);
        write_.constant(n.type, name(i), expression(n));
    }
  }

  const ScalarDefinition& d_;
  RarePaths paths_;
  std::string_view name_;
  const Dialect& dialect_;
  bool common_;  // without the rare paths
  SourceWriter write_;
  std::vector<std::string> names_;  // of the nodes' values
  std::vector<bool> printed_;
  std::string tables_;
};

}  // namespace

const ScalarDefinition* definition_in(const Dialect& dialect, OpId op, DType compute) {
  const bool single = compute == DType::Float32 && dialect.type(ScalarType::F64).empty();
  return single ? single_definition(op) : scalar_definition(op, compute);
}

std::string literal(ScalarType type, uint64_t bits, const Dialect& dialect) {
  const std::string suffix(dialect.literal_suffix[static_cast<size_t>(type)]);
  if (is_float(type)) {
    const bool single = type == ScalarType::F32;
    const double x = float_of(type, bits);
    if (std::isnan(x)) return std::string(dialect.nan[!single]);
    if (std::isinf(x)) return (x < 0 ? "-" : "") + std::string(dialect.infinity[!single]);
    return hex_float(x) + suffix;
  }
  if (type == ScalarType::Bool) return bits != 0 ? "true" : "false";
  if (width_of(type) == 64 && !dialect.two_words.empty())
    return filled(dialect.two_words,
                  {{'L', std::to_string(bits & 0xffffffff)}, {'H', std::to_string(bits >> 32)}});
  if (!is_signed(type)) return std::to_string(bits) + suffix;
  const int64_t value = integer_of(type, bits);
  if (value != INT64_MIN && value != INT32_MIN) return std::to_string(value) + suffix;
  return "(" + std::to_string(value + 1) + suffix + " - 1)";  // no literal is as large
}

std::string function_source(const ScalarDefinition& definition, std::string_view name,
                            const Dialect& dialect) {
  return FunctionPrinter(definition, name, dialect, false).print();
}

std::string common_source(const ScalarDefinition& definition, std::string_view name,
                          const Dialect& dialect) {
  return FunctionPrinter(definition, name, dialect, true).print();
}

std::string beginning_of(std::string_view text, const Dialect& dialect) {
  const Parts types = {{'I', dialect.type(ScalarType::I64)}, {'U', dialect.type(ScalarType::U64)}};
  std::string helpers;  // from the last one on: what one calls stands before it
  for (const auto list : {dialect.helpers, dialect.common_helpers})
    for (const Helper& helper : std::views::reverse(list)) {
      const std::string call = std::string(helper.name) + "(";
      if (text.find(call) == std::string_view::npos && helpers.find(call) == std::string::npos)
        continue;
      const std::string arguments = filled(helper.arguments, types);
      helpers.insert(
          0, "\n" +
                 filled(dialect.function,
                        {{'T', dialect.type(helper.type)}, {'N', helper.name}, {'A', arguments}}) +
                 " {\n" + filled(helper.body, types) + "}\n");
    }
  return std::string(dialect.begin) + helpers;
}

}  // namespace tinyt::gpu
