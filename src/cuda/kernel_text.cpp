#include "cuda/kernel_text.h"

#include <set>
#include <span>

#include "core/base/error.h"

namespace tinyt::cuda {

namespace {

class Joined {
 public:
  explicit Joined(const std::string& variant) : variant_(variant) {}

  void add(std::string_view name) {
    if (!added_.insert(name).second) return;
    std::string_view rest = text_of(name);
    int line = 1;
    place(line, name);
    for (; !rest.empty(); ++line) {
      const size_t end = rest.find('\n');
      const std::string_view text = rest.substr(0, end);
      rest = end == std::string_view::npos ? "" : rest.substr(end + 1);
      constexpr std::string_view kInclude = "#include \"";
      if (text.starts_with(kInclude)) {
        add(text.substr(kInclude.size(), text.rfind('"') - kInclude.size()));
        place(line + 1, name);
      } else {
        text_ += text == "#pragma once" ? "" : text;
        text_ += '\n';
      }
    }
  }
  const std::string& text() const { return text_; }

 private:
  std::string_view text_of(std::string_view name) const {
    if (name == "variant.h") return variant_;
    for (const KernelText& file : std::span(kKernelTexts, kKernelTextCount))
      if (file.name == name) return file.text;
    fail(ErrorKind::Runtime, "cuda: no text of a kernel ", name);
  }
  // What compilers say then names the file.
  void place(int line, std::string_view name) {
    text_ += "#line " + std::to_string(line) + " \"" + std::string(name) + "\"\n";
  }

  const std::string& variant_;
  std::set<std::string_view> added_;
  std::string text_;
};

}  // namespace

std::string kernel_text(std::string_view file, const std::string& variant) {
  Joined joined(variant);
  joined.add(file);
  return joined.text();
}

}  // namespace tinyt::cuda
