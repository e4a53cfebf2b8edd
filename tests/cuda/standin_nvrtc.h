// NVRTC itself beside the stand-in, where STANDIN_NVRTC names its library: what it refuses, and
// kernels whose registers spill, are errors of the stand-in, too.
#pragma once

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "cuda/api.h"

namespace standin {

using tinyt::cuda::CompilerApi;
using tinyt::cuda::CompilerStatus;

inline const CompilerApi& real_compiler(const char* path) {
  static const CompilerApi& api = *new CompilerApi([path] {
    CompilerApi found;
    void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      fprintf(stderr, "stand-in: %s\n", dlerror());
      abort();
    }
#define REAL_CALL(name, arguments) \
  found.name = reinterpret_cast<decltype(found.name)>(dlsym(library, #name));
    TINYT_NVRTC_FUNCTIONS(REAL_CALL)
#undef REAL_CALL
    return found;
  }());
  return api;
}

// What it says of a source for an architecture; empty: it takes it, and nothing spills.
inline std::string refusal_of_nvrtc(const CompilerApi& nvrtc, const std::string& source,
                                    const std::string& architecture) {
  tinyt::cuda::Program program = nullptr;
  nvrtc.nvrtcCreateProgram(&program, source.c_str(), "kernel.cu", 0, nullptr, nullptr);
  const std::string arch = "--gpu-architecture=" + architecture;
  const char* const options[] = {arch.c_str(), "--fmad=false", "--ptxas-options=-v"};
  const CompilerStatus status = nvrtc.nvrtcCompileProgram(program, 3, options);
  size_t bytes = 0;
  nvrtc.nvrtcGetProgramLogSize(program, &bytes);
  std::string log(bytes, '\0');
  nvrtc.nvrtcGetProgramLog(program, log.data());
  nvrtc.nvrtcDestroyProgram(&program);
  log.resize(log.find('\0') == std::string::npos ? log.size() : log.find('\0'));
  static const std::regex& spills = *new std::regex(R"re([1-9]\d* bytes spill)re");
  return status != 0 || std::regex_search(log, spills) ? architecture + ": " + log : "";
}

// For all that STANDIN_NVRTC_ARCHITECTURES names, apart by spaces: sm_90 without it.
inline std::string refusal_of_nvrtc(const std::string& source) {
  const char* const path = getenv("STANDIN_NVRTC");
  if (path == nullptr || *path == '\0') return "";
  const char* const named = getenv("STANDIN_NVRTC_ARCHITECTURES");
  std::istringstream architectures(named ? named : "sm_90");
  std::string refusal;
  for (std::string architecture; refusal.empty() && architectures >> architecture;)
    refusal = refusal_of_nvrtc(real_compiler(path), source, architecture);
  return refusal;
}

}  // namespace standin
