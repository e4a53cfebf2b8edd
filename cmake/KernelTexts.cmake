# Kernels by hand as text: a source with the table that src/cuda/kernel_text.cpp reads, of all files
# of a folder.
function(tinyt_kernel_texts folder output)
  file(GLOB files CONFIGURE_DEPENDS ${folder}/*.cu ${folder}/*.cuh ${folder}/*.h)
  set(rows "")
  foreach(file IN LISTS files)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
    cmake_path(GET file FILENAME name)
    file(READ ${file} text)
    string(APPEND rows "    {\"${name}\", R\"kernel(${text})kernel\"},\n")
  endforeach()
  # Written where it differs alone, so that nothing is compiled again.
  file(WRITE ${output}.new
"#include \"cuda/kernel_text.h\"\n
namespace tinyt::cuda {\n
const KernelText kKernelTexts[] = {\n${rows}};
const size_t kKernelTextCount = std::size(kKernelTexts);\n
}  // namespace tinyt::cuda\n")
  configure_file(${output}.new ${output} COPYONLY)
endfunction()
