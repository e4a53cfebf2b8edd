#include "webgpu/library.h"

#include <cstdlib>
#include <mutex>

#include "core/base/error.h"
#include "core/base/fork.h"
#include "gpu/shared_library.h"

namespace tinyt::webgpu {

namespace {

constexpr std::string_view kInstall = "pip install 'tinyt[webgpu]' brings one (wgpu 0.32)";

struct LibraryPath {
  ForkSafeMutex mutex;
  std::string text;
};
LibraryPath& library_path() {
  static LibraryPath& path = *new LibraryPath;
  return path;
}

std::string path_of_library() {
  if (const char* own = std::getenv("TINYT_WEBGPU_LIBRARY")) return own;
  LibraryPath& path = library_path();
  const std::lock_guard<ForkSafeMutex> lock(path.mutex);
  return path.text;
}

Api opened_api() {
  const std::string path = path_of_library();
  require(!path.empty(), ErrorKind::Device,
          "device: there is no WebGPU library: the package wgpu is not installed; ", kInstall);
  std::string why;
  void* handle = gpu::open_library(path, why);
  require(handle != nullptr, ErrorKind::Device, "device: there is no WebGPU library (", why, "); ",
          kInstall);
  Api api;
  api.wgpuGetVersion =
      reinterpret_cast<uint32_t (*)()>(gpu::find_function(handle, "wgpuGetVersion"));
  require(api.wgpuGetVersion != nullptr, ErrorKind::Device, "device: ", path,
          " is not wgpu-native; ", kInstall);
  const uint32_t version = api.wgpuGetVersion();
  require(version >> 24 == kNativeVersion, ErrorKind::Device, "device: ", path, " is wgpu-native ",
          version >> 24, ".", version >> 16 & 255, ", of which version ", kNativeVersion,
          " is needed; ", kInstall);
#define TINYT_FIND(name, result, arguments)                                           \
  api.name = reinterpret_cast<decltype(api.name)>(gpu::find_function(handle, #name)); \
  require(api.name != nullptr, ErrorKind::Device, "device: ", path, " has no ", #name);
  TINYT_WEBGPU_FUNCTIONS(TINYT_FIND)
#undef TINYT_FIND
  return api;
}

}  // namespace

void set_library(const std::string& text) {
  LibraryPath& path = library_path();
  const std::lock_guard<ForkSafeMutex> lock(path.mutex);
  path.text = text;
}

const Api& library() {
  static const Api& api = *new Api(opened_api());
  return api;
}

}  // namespace tinyt::webgpu
