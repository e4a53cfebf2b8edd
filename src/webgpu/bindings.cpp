#include "webgpu/bindings.h"

#include <algorithm>
#include <sstream>
#include <string_view>

namespace tinyt::webgpu {

namespace {

constexpr std::string_view kDeclaration = "@group(0) @binding(";

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

std::string memory_name(size_t k) { return "m" + std::to_string(k); }

std::string declaration(size_t k, Access access) {
  return std::string(kDeclaration) + std::to_string(k) + ") var<storage, " +
         (access == Access::Reads ? "read" : "read_write") + "> " + memory_name(k) +
         (access == Access::WritesParts ? ": array<atomic<u32>>;" : ": array<u32>;");
}

}  // namespace

std::vector<Access> accesses_of(const std::string& source) {
  std::vector<Access> all;
  std::istringstream lines(source);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with(kDeclaration))
      all.push_back(line.find("atomic") != std::string::npos       ? Access::WritesParts
                    : line.find("read_write") != std::string::npos ? Access::Writes
                                                                   : Access::Reads);
  return all;
}

Access shared_access(std::span<const Access> accesses, std::span<const uint8_t> bindings,
                     size_t k) {
  Access most = accesses[k];
  for (size_t i = 0; i < accesses.size(); ++i)
    if (bindings[i] == bindings[k]) most = std::max(most, accesses[i]);
  return most;
}

std::string with_bindings(const std::string& source, std::span<const Access> accesses,
                          std::span<const uint8_t> bindings) {
  std::string text, own;
  std::istringstream lines(source);
  size_t next = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(kDeclaration)) {
      own = memory_name(next);
      const size_t k = next++;
      if (bindings[k] == k) text += declaration(k, shared_access(accesses, bindings, k)) + "\n";
      continue;
    }
    // A function that reads or sets a word of the memory before it.
    if (next > 0 && line.starts_with("fn ") && line.find(own + "[") != std::string::npos) {
      const std::string shared = memory_name(bindings[next - 1]);
      line = replaced(line, own + "[", shared + "[");
      if (shared_access(accesses, bindings, next - 1) == Access::WritesParts) {
        line = replaced(line, "return " + shared + "[i]", "return atomicLoad(&" + shared + "[i])");
        line = replaced(line, shared + "[i] = x", "atomicStore(&" + shared + "[i], x)");
      }
    }
    text += line + "\n";
  }
  return text;
}

}  // namespace tinyt::webgpu
