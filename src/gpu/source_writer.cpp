#include "gpu/source_writer.h"

#include "core/base/error.h"

namespace tinyt::gpu {

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

}  // namespace tinyt::gpu
