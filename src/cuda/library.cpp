#include "cuda/library.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <mutex>
#include <sstream>
#include <string_view>
#include <vector>

#include "core/base/backend_error.h"
#include "core/base/fork.h"
#include "gpu/shared_library.h"

namespace tinyt::cuda {

namespace {

constexpr int kLeastMajor = 12;  // of the driver's version, and of the compiler's

struct CompilerPaths {
  ForkSafeMutex mutex;
  std::string lines;
};
CompilerPaths& compiler_paths() {
  static CompilerPaths& paths = *new CompilerPaths;
  return paths;
}

// ---- the driver

void* opened_driver(std::string& why) {
  if (const char* own = std::getenv("TINYT_CUDA_LIBRARY")) return gpu::open_library(own, why);
  return gpu::open_library("libcuda.so.1", why);
}

Api read_driver(void* handle) {
  Api api;
#define TINYT_FIND(name, symbol, arguments)                                             \
  api.name = reinterpret_cast<decltype(api.name)>(gpu::find_function(handle, #symbol)); \
  require(api.name != nullptr, ErrorKind::Device,                                       \
          "device: CUDA's driver has no " #symbol "; install a newer one");
  TINYT_CUDA_FUNCTIONS(TINYT_FIND)
#undef TINYT_FIND
  return api;
}

std::string_view text_of(const Api& api, Status status) {
  const char* text = nullptr;
  return api.cuGetErrorString(status, &text) == kSuccess && text != nullptr ? text : "";
}

// ---- the compiler

// The libraries that may be the compiler of a version, best first.
std::vector<std::string> compilers_of(int major) {
  const std::string ending = ".so." + std::to_string(major);
  std::vector<std::string> found;
  {
    CompilerPaths& paths = compiler_paths();
    const std::lock_guard<ForkSafeMutex> lock(paths.mutex);
    std::istringstream lines(paths.lines);
    for (std::string path; std::getline(lines, path);)
      if (path.ends_with(ending)) found.push_back(path);
  }
  found.push_back("libnvrtc" + ending);
  found.push_back("/usr/local/cuda/lib64/libnvrtc" + ending);
  return found;
}

// A driver runs what compilers of its own major version, and of earlier ones, make.
void* opened_compiler(int driver_major, std::string& why) {
  if (const char* own = std::getenv("TINYT_NVRTC_LIBRARY")) return gpu::open_library(own, why);
  for (int major = driver_major; major >= kLeastMajor; --major)
    for (const std::string& name : compilers_of(major)) {
      std::string refusal;
      if (void* handle = gpu::open_library(name, refusal)) return handle;
      if (why.empty()) why = refusal;
    }
  return nullptr;
}

CompilerApi read_compiler(void* handle) {
  CompilerApi api;
#define TINYT_FIND(name, arguments)                                                   \
  api.name = reinterpret_cast<decltype(api.name)>(gpu::find_function(handle, #name)); \
  require(api.name != nullptr, ErrorKind::Device, "device: NVRTC has no " #name);
  TINYT_NVRTC_FUNCTIONS(TINYT_FIND)
#undef TINYT_FIND
  api.error_text =
      reinterpret_cast<decltype(api.error_text)>(gpu::find_function(handle, "nvrtcGetErrorString"));
  require(api.error_text != nullptr, ErrorKind::Device, "device: NVRTC has no nvrtcGetErrorString");
  return api;
}

Libraries opened_libraries() {
  std::string why;
  void* handle = opened_driver(why);
  require(handle != nullptr, ErrorKind::Device, "device: there is no CUDA driver (", why,
          "); it comes with NVIDIA's driver of the GPU");
  const Api driver = read_driver(handle);
  if (const Status status = driver.cuInit(0); status == kNoDevice)
    fail(ErrorKind::Device, "device: CUDA's driver knows no device here");
  else if (status != kSuccess)
    fail(ErrorKind::Device, "device: CUDA's driver does not start (", status, ", ",
         text_of(driver, status), ")");
  int version = 0;
  check(driver, driver.cuDriverGetVersion(&version), "cuDriverGetVersion");
  const int major = version / 1000;
  require(major >= kLeastMajor, ErrorKind::Device, "device: NVIDIA's driver is one of CUDA ", major,
          ".", version % 1000 / 10, ", and one of CUDA ", kLeastMajor, " or later is needed");
  handle = opened_compiler(major, why);
  const int extra = std::min(major, 13);  // the last that there is a package of
  require(handle != nullptr, ErrorKind::Device, "device: there is no NVRTC for CUDA ", major, " (",
          why, "); pip install 'tinyt[cuda", extra, "]' brings it");
  const CompilerApi compiler = read_compiler(handle);
  int of[2] = {};
  require(compiler.nvrtcVersion(&of[0], &of[1]) == 0, ErrorKind::Device,
          "device: NVRTC does not say its version");
  return {driver, compiler, std::to_string(of[0]) + "." + std::to_string(of[1])};
}

// What all that follows in this process returns once it was returned: the context is gone.
bool is_lost(Status status) {
  constexpr Status kLost[] = {
      4,    // deinitialised
      46,   // device unavailable
      101,  // invalid device
      201,  // invalid context
      214,  // uncorrectable memory
      220,  // uncorrectable NVLink
      700,  // illegal address
      702,  // launch timeout
      709,  // context is destroyed
      710,  // assert
      714,  // hardware stack
      715,  // illegal instruction
      716,  // misaligned address
      717,  // invalid address space
      718,  // invalid program counter
      719,  // launch failed
      999,  // unknown
  };
  return std::ranges::find(kLost, status) != std::end(kLost);
}

}  // namespace

void set_compilers(const std::string& text) {
  CompilerPaths& paths = compiler_paths();
  const std::lock_guard<ForkSafeMutex> lock(paths.mutex);
  paths.lines = text;
}

const Libraries& libraries() {
  static const Libraries& found = *new Libraries(opened_libraries());
  return found;
}

void check(const Api& api, Status status, const char* call) {
  if (status == kSuccess) [[likely]]
    return;
  const ErrorKind kind = is_lost(status)          ? ErrorKind::Device
                         : status == kOutOfMemory ? ErrorKind::OutOfMemory
                                                  : ErrorKind::Runtime;
  const std::string_view text = text_of(api, status);
  fail_in_backend(kind, "cuda: ", call, " failed with ", status, text.empty() ? "" : ", ", text,
                  kind != ErrorKind::Device
                      ? ""
                      : "; the device is lost to this process, with what is on it: start another "
                        "process, or use the CPU");
}

}  // namespace tinyt::cuda
