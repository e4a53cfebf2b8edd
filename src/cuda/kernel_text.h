// The texts of the kernels by hand (kernels/), as one that a compiler without files takes.
#pragma once

#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>

namespace tinyt::cuda {

struct KernelText {
  std::string_view name, text;
};
// All files of the folder: made by the build (cmake/KernelTexts.cmake).
extern const KernelText kKernelTexts[];
extern const size_t kKernelTextCount;

// The text of a file with each one that it includes in the place of that line, once; "variant.h" is
// what the caller says.
std::string kernel_text(std::string_view file, const std::string& variant);

}  // namespace tinyt::cuda
