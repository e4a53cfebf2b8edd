#include "cuda/build.h"

#include <algorithm>
#include <array>
#include <vector>

#include "core/base/backend_error.h"
#include "gpu/kernel_cache.h"

namespace tinyt::cuda {

namespace {

// Each edge of a graph rounds: no product is added to without being rounded, unless that is meant.
constexpr const char* kRounding = "--fmad=false";
constexpr const char* kHipRounding = "-ffp-contract=off";

void check_compiler(const CompilerApi& api, CompilerStatus status, const char* call) {
  if (status != 0)
    fail_in_backend(ErrorKind::Runtime, "cuda: ", call, " failed with ", status, ", ",
                    api.error_text(status));
}

// "sm_90": code for a device. Of one that is newer than the compiler "compute_90": text that the
// driver compiles for it.
std::string architecture_for(const std::vector<int>& known, const BuildTarget& target) {
  int best = 0;
  for (const int arch : known)
    if (arch <= target.capability) best = std::max(best, arch);
  if (best == 0)
    fail_in_backend(ErrorKind::Device, "cuda: NVRTC makes no code for ", target.name,
                    ", of compute capability ", target.capability / 10, ".",
                    target.capability % 10);
  return (best == target.capability ? "sm_" : "compute_") + std::to_string(best);
}

struct ProgramOwner {
  const CompilerApi& api;
  Program program = nullptr;
  ~ProgramOwner() { api.nvrtcDestroyProgram(&program); }
};

std::string log_of(const CompilerApi& api, Program program) {
  size_t bytes = 0;
  if (api.nvrtcGetProgramLogSize(program, &bytes) != 0) return "";
  std::string log(bytes, '\0');
  if (bytes == 0 || api.nvrtcGetProgramLog(program, log.data()) != 0) return "";
  log.resize(std::min(log.find('\0'), log.size()));
  return log;
}

// By NVRTC for an architecture; by hipRTC, without one, for the thread's device.
std::string compiled(const CompilerApi& api, const BuildTarget& target, const std::string& source,
                     const std::string& architecture) {
  ProgramOwner owner{api};
  check_compiler(
      api, api.nvrtcCreateProgram(&owner.program, source.c_str(), "kernel.cu", 0, nullptr, nullptr),
      "nvrtcCreateProgram");
  const std::string arch = "--gpu-architecture=" + architecture;
  const std::array<const char*, 2> options{arch.c_str(), kRounding};
  const bool is_hip = architecture.empty();
  const CompilerStatus status =
      is_hip ? api.nvrtcCompileProgram(owner.program, 1, &kHipRounding)
             : api.nvrtcCompileProgram(owner.program, static_cast<int>(options.size()),
                                       options.data());
  if (status == kCompilation)
    fail_in_backend(ErrorKind::Runtime, "cuda: ", is_hip ? "hipRTC" : "NVRTC",
                    " does not compile a kernel for ", target.name, ":\n",
                    log_of(api, owner.program), "\n", source);
  check_compiler(api, status, "nvrtcCompileProgram");
  const bool is_code = is_hip || architecture.starts_with("sm_");
  size_t bytes = 0;
  std::string binary;
  if (is_code) {
    check_compiler(api, api.nvrtcGetCUBINSize(owner.program, &bytes), "nvrtcGetCUBINSize");
    binary.resize(bytes);
    check_compiler(api, api.nvrtcGetCUBIN(owner.program, binary.data()), "nvrtcGetCUBIN");
  } else {
    check_compiler(api, api.nvrtcGetPTXSize(owner.program, &bytes), "nvrtcGetPTXSize");
    binary.resize(bytes);
    check_compiler(api, api.nvrtcGetPTX(owner.program, binary.data()), "nvrtcGetPTX");
  }
  return binary;
}

// The function of what the driver has taken; else what it says, and which call.
Status loaded(const Api& api, const std::string& binary, const std::string& name,
              Function& function, const char*& call) {
  Module module = nullptr;
  call = "cuModuleLoadData";
  Status status = api.cuModuleLoadData(&module, binary.data());
  if (status != kSuccess) return status;
  call = "cuModuleGetFunction";
  status = api.cuModuleGetFunction(&function, module, name.c_str());
  if (status != kSuccess) api.cuModuleUnload(module);
  return status;
}

}  // namespace

Function build_kernel(const Libraries& libraries, const BuildTarget& target,
                      const std::string& source, const std::string& name) {
  const auto& [platform, driver, compiler, version, known] = libraries;
  const bool is_hip = platform == Platform::Hip;
  const std::string architecture = is_hip ? "" : architecture_for(known, target);
  gpu::KernelCache& cache = gpu::KernelCache::instance();
  const std::string key = gpu::kernel_key({{"language", is_hip ? "HIP C++" : "CUDA C++"},
                                           {"compiler", version},
                                           {"architecture", is_hip ? target.name : architecture},
                                           {"options", is_hip ? kHipRounding : kRounding},
                                           {"source", source}});
  Function function = nullptr;
  const char* call = "";
  if (const auto binary = cache.find(key))
    if (loaded(driver, *binary, name, function, call) == kSuccess) return function;
  const std::string binary = compiled(compiler, target, source, architecture);
  const Status status = loaded(driver, binary, name, function, call);
  check(driver, status, call);
  cache.keep(key, binary);
  return function;
}

}  // namespace tinyt::cuda
