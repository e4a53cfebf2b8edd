#include "gpu/source_writer.h"

#include <algorithm>
#include <array>

#include "core/base/error.h"

namespace tinyt::gpu {

namespace {

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

}  // namespace

std::string filled(std::string_view pattern, Parts parts) {
  std::string out;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '$') {
      out += pattern[i];
      continue;
    }
    ++i;
    for (const auto& [letter, text] : parts)
      if (letter == pattern[i]) out += text;
  }
  return out;
}

std::string SourceWriter::type(ScalarType type) const {
  const std::string_view text = dialect_.type(type);
  require(!text.empty(), ErrorKind::NotImplemented, dialect_.name, ": no type ", name_of(type),
          ", which ", what_, " computes in");
  return std::string(text);
}

std::string SourceWriter::operation(MachineOp op, ScalarType to, ScalarType from,
                                    std::initializer_list<std::string> operands,
                                    std::string_view table) const {
  const auto fits = [&](const Spelling& s) {
    return s.op == op && (s.to & set_of(to)) != 0 && (s.from & set_of(from)) != 0;
  };
  std::array<std::string_view, 3> given;
  std::ranges::copy(operands, given.begin());
  for (const auto spellings : {dialect_.spellings, dialect_.common})
    if (const auto at = std::ranges::find_if(spellings, fits); at != spellings.end())
      return filled(at->text, {{'0', given[0]},
                               {'1', given[1]},
                               {'2', given[2]},
                               {'T', type(to)},
                               {'U', dialect_.type(unsigned_of(to))},
                               {'R', table}});
  fail(ErrorKind::NotImplemented, dialect_.name, ": no ", name_of(op), " of ", name_of(from),
       " to ", name_of(to), ", which ", what_, " computes with");
}

std::string SourceWriter::widened(const std::string& value) const {
  return dialect_.widened.empty() ? cast(type(ScalarType::I64), value)
                                  : filled(dialect_.widened, {{'E', value}});
}

std::string SourceWriter::narrowed(std::string_view type, const std::string& value) const {
  return dialect_.narrowed.empty() ? cast(type, value)
                                   : filled(dialect_.narrowed, {{'T', type}, {'E', value}});
}

std::string SourceWriter::element(DType dtype, std::string_view memory,
                                  const std::string& place) const {
  const std::string_view pattern = dialect_.loads[static_cast<size_t>(dtype)];
  return filled(pattern.empty() ? "$N[$E]" : pattern, {{'N', memory}, {'E', place}});
}

void SourceWriter::set_element(DType dtype, std::string_view memory, const std::string& place,
                               const std::string& value) {
  const std::string_view pattern = dialect_.stores[static_cast<size_t>(dtype)];
  line(filled(pattern.empty() ? "$N[$E] = $V;" : pattern,
              {{'N', memory}, {'E', place}, {'V', value}}));
}

void SourceWriter::open_kernel(std::string_view name, std::vector<Argument> arguments,
                               size_t words) {
  if (!dialect_.words.empty()) {
    const std::string index = type(dialect_.index), count = std::to_string(words);
    if (!dialect_.words_type.empty())
      line(filled(dialect_.words_type, {{'T', index}, {'C', count}}));
    arguments.push_back({dialect_.words, index, "p"});
  }
  std::string list;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string text =
        filled(arguments[i].spelling, {{'T', arguments[i].type},
                                       {'N', arguments[i].name},
                                       {'I', std::to_string(i)},
                                       {'Q', std::to_string((words + 3) / 4)}});
    if (dialect_.apart) line(text);
    list += (list.empty() ? "" : ", ") + text;
  }
  open(filled(dialect_.kernel, {{'N', name}, {'A', list}}));
  if (!dialect_.enter.empty()) line(std::string(dialect_.enter));
}

std::string SourceWriter::product(size_t first, size_t end) const {
  std::string text;
  for (size_t i = first; i < end; ++i) text += (text.empty() ? "" : " * ") + word(i);
  return text.empty() ? "1" : text;
}

}  // namespace tinyt::gpu
