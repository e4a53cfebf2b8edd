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
#include "cuda/hip_library.h"
#include "cuda/launch_log.h"
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

// DeviceError where the library has no such function.
template <class F>
void find_in(const gpu::SharedLibrary& library, const char* symbol, const char* what, F& function) {
  function = reinterpret_cast<F>(gpu::find_function(library.handle, symbol));
  require(function != nullptr, ErrorKind::Device, "device: ", library.name, " is not ", what,
          ", or one that is too old: it has no ", symbol);
}

Api read_driver(const gpu::SharedLibrary& library) {
  Api api;
#define TINYT_FIND(name, symbol, arguments) find_in(library, #symbol, "CUDA's driver", api.name);
  TINYT_CUDA_FUNCTIONS(TINYT_FIND)
#undef TINYT_FIND
  return api;
}

std::string_view text_of(const Api& api, Status status) {
  const char* text = nullptr;
  return api.cuGetErrorString(status, &text) == kSuccess && text != nullptr ? text : "";
}

// "CUDA_ERROR_ILLEGAL_ADDRESS".
std::string_view name_of_status(const Api& api, Status status) {
  const char* text = nullptr;
  return api.cuGetErrorName(status, &text) == kSuccess && text != nullptr ? text : "";
}

// ---- the compiler

// The libraries that may be the compiler, best first: a driver runs what compilers of its own major
// version, and of earlier ones, make.
std::vector<std::string> compilers_for(int driver_major) {
  std::vector<std::string> found;
  CompilerPaths& paths = compiler_paths();
  const std::lock_guard<ForkSafeMutex> lock(paths.mutex);
  for (int major = driver_major; major >= kLeastMajor; --major) {
    const std::string ending = ".so." + std::to_string(major);
    std::istringstream lines(paths.lines);
    for (std::string path; std::getline(lines, path);)
      if (path.ends_with(ending)) found.push_back(path);
    found.push_back("libnvrtc" + ending);
    found.push_back("/usr/local/cuda/lib64/libnvrtc" + ending);
  }
  return found;
}

CompilerApi read_compiler(const gpu::SharedLibrary& library) {
  CompilerApi api;
#define TINYT_FIND(name, arguments) find_in(library, #name, "NVRTC", api.name);
  TINYT_NVRTC_FUNCTIONS(TINYT_FIND)
#undef TINYT_FIND
  find_in(library, "nvrtcGetErrorString", "NVRTC", api.error_text);
  return api;
}

std::string version_of(const CompilerApi& api) {
  int major = 0, minor = 0;
  require(api.nvrtcVersion(&major, &minor) == 0, ErrorKind::Device,
          "device: NVRTC does not say its version");
  return std::to_string(major) + "." + std::to_string(minor);
}

std::vector<int> architectures_of(const CompilerApi& api) {
  int count = 0;
  bool is_known = api.nvrtcGetNumSupportedArchs(&count) == 0;
  std::vector<int> found(static_cast<size_t>(is_known ? count : 0));
  is_known = is_known && api.nvrtcGetSupportedArchs(found.data()) == 0;
  require(is_known, ErrorKind::Device, "device: NVRTC does not say what it makes code for");
  return found;
}

Libraries opened_libraries() {
  std::string hip;
  if (is_hip_named()) {
    const std::optional<Libraries> named = hip_libraries(hip);
    require(named.has_value(), ErrorKind::Device, "device: HIP does not start (", hip, ")");
    return *named;
  }
  constexpr const char* kVariable = "TINYT_CUDA_LIBRARY";
  const std::string name = "libcuda.so.1";
  const gpu::SharedLibrary found = gpu::open_one(kVariable, {&name, 1});
  if (found.handle == nullptr && std::getenv(kVariable) == nullptr) {
    if (const std::optional<Libraries> other = hip_libraries(hip)) return *other;
    hip = ", and no HIP (" + hip + "), which comes with ROCm";
  }
  require(found.handle != nullptr, ErrorKind::Device, "device: there is no CUDA driver (",
          found.why, "), which comes with NVIDIA's driver of the GPU", hip);
  const Api driver = read_driver(found);
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
  const gpu::SharedLibrary nvrtc = gpu::open_one("TINYT_NVRTC_LIBRARY", compilers_for(major));
  const int extra = std::min(major, 13);  // the last that there is a package of
  require(nvrtc.handle != nullptr, ErrorKind::Device, "device: there is no NVRTC for CUDA ", major,
          " (", nvrtc.why, "); pip install 'tinyt[cuda", extra, "]' brings it");
  const CompilerApi compiler = read_compiler(nvrtc);
  return {Platform::Cuda, driver, compiler, version_of(compiler), architectures_of(compiler)};
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

namespace {

// Of the lost ones: what a kernel does wrong, or what befalls it, shows later.
bool is_of_kernels(Status status) { return is_lost(status) && status >= 214 && status != 709; }

}  // namespace

void check(const Api& api, Status status, const char* call) {
  if (status == kSuccess) [[likely]]
    return;
  const ErrorKind kind = is_lost(status)          ? ErrorKind::Device
                         : status == kOutOfMemory ? ErrorKind::OutOfMemory
                                                  : ErrorKind::Runtime;
  const std::string_view name = name_of_status(api, status), text = text_of(api, status);
  fail_in_backend(kind, "cuda: ", call, " failed with ", status, name.empty() ? "" : ", ", name,
                  text.empty() ? "" : ", ", text,
                  is_of_kernels(status) && t_launches != nullptr ? t_launches->suspects() : "",
                  kind != ErrorKind::Device
                      ? ""
                      : "; the device is lost to this process, with what is on it: start another "
                        "process, or use the CPU");
}

}  // namespace tinyt::cuda
