// NVRTC and hipRTC themselves beside the stand-in, where STANDIN_NVRTC and STANDIN_HIPRTC name
// their libraries: what they refuse, and kernels whose registers spill, are errors of the stand-in,
// too.
#pragma once

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "cuda/hip_api.h"

namespace standin {

using tinyt::cuda::CompilerApi;
using tinyt::cuda::CompilerStatus;

inline void* real_library(const char* path) {
  void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    fprintf(stderr, "stand-in: %s\n", dlerror());
    abort();
  }
  return library;
}

inline const CompilerApi& real_compiler(const char* path) {
  static const CompilerApi& api = *new CompilerApi([path] {
    CompilerApi found;
    void* const library = real_library(path);
#define REAL_CALL(name, arguments) \
  found.name = reinterpret_cast<decltype(found.name)>(dlsym(library, #name));
    TINYT_NVRTC_FUNCTIONS(REAL_CALL)
#undef REAL_CALL
    return found;
  }());
  return api;
}

inline const CompilerApi& real_hiprtc(const char* path) {
  static const CompilerApi& api = *new CompilerApi([path] {
    CompilerApi found;
    void* const library = real_library(path);
#define REAL_CALL(name, symbol, arguments) \
  found.name = reinterpret_cast<decltype(found.name)>(dlsym(library, #symbol));
    TINYT_HIPRTC_FUNCTIONS(REAL_CALL)
#undef REAL_CALL
    return found;
  }());
  return api;
}

inline CompilerStatus run_compiler(const CompilerApi& compiler, const std::string& source,
                                   std::vector<const char*> options, std::string& log) {
  tinyt::cuda::Program program = nullptr;
  compiler.nvrtcCreateProgram(&program, source.c_str(), "kernel.cu", 0, nullptr, nullptr);
  const CompilerStatus status =
      compiler.nvrtcCompileProgram(program, static_cast<int>(options.size()), options.data());
  size_t bytes = 0;
  compiler.nvrtcGetProgramLogSize(program, &bytes);
  log.assign(bytes, '\0');
  compiler.nvrtcGetProgramLog(program, log.data());
  compiler.nvrtcDestroyProgram(&program);
  log.resize(std::min(log.find('\0'), log.size()));
  return status;
}

// What it says of a source for an architecture; empty: it takes it, and nothing spills.
inline std::string refusal_of_nvrtc(const CompilerApi& nvrtc, const std::string& source,
                                    const std::string& architecture) {
  const std::string arch = "--gpu-architecture=" + architecture;
  std::string log;
  const CompilerStatus status =
      run_compiler(nvrtc, source, {arch.c_str(), "--fmad=false", "--ptxas-options=-v"}, log);
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

// What hipRTC says of a source that is no kernel by hand, which have NVIDIA's instructions; empty:
// it takes it.
inline std::string refusal_of_hiprtc(const std::string& source) {
  const char* const path = getenv("STANDIN_HIPRTC");
  if (path == nullptr || *path == '\0' || source.find("asm") != std::string::npos) return "";
  std::string log;
  const CompilerStatus status = run_compiler(
      real_hiprtc(path), source, {"--gpu-architecture=gfx90a", "-ffp-contract=off"}, log);
  return status != 0 ? "gfx90a: " + log : "";
}

}  // namespace standin
