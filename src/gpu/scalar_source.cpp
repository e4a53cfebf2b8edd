#include "gpu/scalar_source.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <sstream>
#include <vector>

#include "core/base/error.h"

namespace tinyt::gpu {

namespace {

using Node = ScalarDefinition::Node;

ScalarType unsigned_of(ScalarType type) {
  switch (width_of(type)) {
    case 8:
      return ScalarType::U8;
    case 32:
      return ScalarType::U32;
    default:
      return ScalarType::U64;
  }
}

// With all digits, in the base of floats.
std::string hex_float(double x) {
  char text[40];
  const char* end = std::to_chars(text, text + sizeof text, std::abs(x), std::chars_format::hex).ptr;
  return (std::signbit(x) ? "-0x" : "0x") + std::string(static_cast<const char*>(text), end);
}

// With what `part` gives in the place of each $c.
template <class Part>
std::string filled(std::string_view text, const Part& part) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '$') {
      out += part(text[++i]);
    } else {
      out += text[i];
    }
  }
  return out;
}

class FunctionPrinter {
 public:
  FunctionPrinter(const ScalarDefinition& definition, std::string_view name, const Dialect& dialect)
      : d_(definition), name_(name), dialect_(dialect), names_(definition.nodes.size()) {}

  std::string print() {
    os_ << dialect_.function << type(d_.type()) << ' ' << name_ << '(';
    for (size_t i = 0; i < d_.inputs.size(); ++i)
      os_ << (i == 0 ? "" : ", ") << type(d_.inputs[i]) << " x" << i;
    os_ << ") {\n";
    unused_inputs();
    for (size_t i = 0; i < d_.nodes.size(); ++i) print_node(static_cast<int>(i));
    os_ << "  return " << names_[static_cast<size_t>(d_.result)] << ";\n}\n";
    return tables_.str() + os_.str();
  }

 private:
  std::string_view type(ScalarType t) const {
    const std::string_view text = dialect_.type(t);
    require(!text.empty(), ErrorKind::NotImplemented, dialect_.name, ": no type ", tinyt::name_of(t),
            ", which ", name_, " computes in");
    return text;
  }
  const Node& node(int i) const { return d_.nodes[static_cast<size_t>(i)]; }
  std::string& name(int i) { return names_[static_cast<size_t>(i)]; }

  std::ostringstream& line() {
    os_ << (in_loop_ ? "    " : "  ");
    return os_;
  }

  void unused_inputs() {
    for (size_t i = 0; i < d_.inputs.size(); ++i) {
      const auto reads = [&](const Node& n) { return n.op == MachineOp::input && n.bits == i; };
      if (dialect_.unused.empty() || std::ranges::any_of(d_.nodes, reads)) continue;
      const std::string own[] = {"x" + std::to_string(i)};
      line() << filled(dialect_.unused, [&](char what) { return own[what - '0']; }) << '\n';
    }
  }

  std::string literal(const Node& n) const {
    const auto t = static_cast<size_t>(n.type);
    const std::string suffix(dialect_.literal_suffix[t]);
    if (is_float(n.type)) {
      const bool single = n.type == ScalarType::F32;
      const double x = single ? double{std::bit_cast<float>(static_cast<uint32_t>(n.bits))}
                              : std::bit_cast<double>(n.bits);
      const std::string sign = std::signbit(x) ? "-" : "";
      if (std::isnan(x)) return std::string(dialect_.nan[!single]);
      if (std::isinf(x)) return sign + std::string(dialect_.infinity[!single]);
      return hex_float(x) + suffix;
    }
    if (n.type == ScalarType::Bool) return n.bits != 0 ? "true" : "false";
    const int unused = 64 - width_of(n.type);
    const auto value = static_cast<int64_t>(n.bits << unused) >> unused;
    if (!is_signed(n.type)) return std::to_string(n.bits) + suffix;
    if (value != INT64_MIN && value != INT32_MIN) return std::to_string(value) + suffix;
    return "(" + std::to_string(value + 1) + suffix + " - 1)";  // no literal is as large
  }

  std::string table_name(uint64_t table) const {
    return std::string(name_) + "_table" + std::to_string(table);
  }
  void print_table(uint64_t table) {
    const std::string own = table_name(table);
    if (std::ranges::find(printed_, own) != printed_.end()) return;
    printed_.push_back(own);
    const auto& items = d_.tables[table];
    const auto u64 = static_cast<size_t>(ScalarType::U64);
    tables_ << dialect_.table << type(ScalarType::U64) << ' ' << own << '[' << items.size() << "] = {";
    for (size_t i = 0; i < items.size(); ++i)
      tables_ << (i % 4 == 0 ? "\n    " : " ") << items[i] << dialect_.literal_suffix[u64] << ',';
    tables_ << "\n};\n";
  }

  const Spelling& spelling(const Node& n) const {
    const ScalarType from = n.in[0] >= 0 ? node(n.in[0]).type : n.type;
    const auto fits = [&](const Spelling& s) {
      return s.op == n.op && (s.to & set_of(n.type)) != 0 && (s.from & set_of(from)) != 0;
    };
    const auto at = std::ranges::find_if(dialect_.spellings, fits);
    require(at != dialect_.spellings.end(), ErrorKind::NotImplemented, dialect_.name, ": no ",
            tinyt::name_of(n.op), " of ", tinyt::name_of(from), " to ", tinyt::name_of(n.type),
            ", which ", name_, " computes with");
    return *at;
  }

  std::string expression(const Node& n) {
    if (n.op == MachineOp::lookup) print_table(n.bits);
    return filled(spelling(n).text, [&](char what) -> std::string {
      if (what == 'T') return std::string(type(n.type));
      if (what == 'U') return std::string(type(unsigned_of(n.type)));
      if (what == 'R') return table_name(n.bits);
      return name(n.in[what - '0']);
    });
  }

  void print_node(int i) {
    const Node& n = node(i);
    switch (n.op) {
      case MachineOp::input:
        name(i) = "x" + std::to_string(n.bits);
        return;
      case MachineOp::constant:
        name(i) = literal(n);
        return;
      case MachineOp::carry:
        name(i) = "c" + std::to_string(i);
        line() << type(n.type) << ' ' << name(i) << " = " << name(n.in[0]) << ";\n";
        return;
      case MachineOp::loop:
        line() << "for (int turn = 0; turn < " << n.bits << "; ++turn) {\n";
        in_loop_ = true;
        return;
      case MachineOp::leave_unless:
        if (node(n.in[0]).op != MachineOp::constant) line() << "if (!" << name(n.in[0]) << ") break;\n";
        return;
      case MachineOp::set:
        line() << name(n.in[0]) << " = " << name(n.in[1]) << ";\n";
        return;
      case MachineOp::end_loop:
        in_loop_ = false;
        line() << "}\n";
        return;
      default:
        name(i) = "v" + std::to_string(i);
        line() << "const " << type(n.type) << ' ' << name(i) << " = " << expression(n) << ";\n";
    }
  }

  const ScalarDefinition& d_;
  std::string_view name_;
  const Dialect& dialect_;
  std::vector<std::string> names_;  // of the nodes' values
  std::vector<std::string> printed_;
  std::ostringstream os_, tables_;
  bool in_loop_ = false;
};

}  // namespace

std::string function_source(const ScalarDefinition& definition, std::string_view name,
                            const Dialect& dialect) {
  return FunctionPrinter(definition, name, dialect).print();
}

std::string beginning_of(std::string_view text, const Dialect& dialect) {
  std::string all(dialect.begin), wanted(text);
  std::vector<bool> needed(dialect.helpers.size(), false);
  for (size_t i = dialect.helpers.size(); i-- > 0;) {
    if (wanted.find(std::string(dialect.helpers[i].name) + "(") == std::string::npos) continue;
    needed[i] = true;
    wanted += dialect.helpers[i].text;
  }
  for (size_t i = 0; i < needed.size(); ++i)
    if (needed[i]) all += "\n" + std::string(dialect.helpers[i].text);
  return all;
}

}  // namespace tinyt::gpu
