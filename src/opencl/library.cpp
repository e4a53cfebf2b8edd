#include "opencl/library.h"

#include <cstdlib>
#include <string_view>

#if !defined(_WIN32)
#include <dlfcn.h>
#endif

#include "core/base/error.h"

namespace tinyt::opencl {

namespace {

#if defined(__APPLE__)
constexpr const char* kLibraryNames[] = {"/System/Library/Frameworks/OpenCL.framework/OpenCL"};
#else
constexpr const char* kLibraryNames[] = {"libOpenCL.so.1", "libOpenCL.so"};
#endif

constexpr std::string_view kHowTo =
    "install an OpenCL loader and a driver (Debian: ocl-icd-libopencl1, and pocl-opencl-icd for "
    "the CPU), or name a library by TINYT_OPENCL_LIBRARY";

// Closed again unless all functions are there.
void* opened(std::string& why) {
#if defined(_WIN32)
  why = "not on Windows yet";
  return nullptr;
#else
  if (const char* own = std::getenv("TINYT_OPENCL_LIBRARY")) {
    void* handle = dlopen(own, RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) why = dlerror();
    return handle;
  }
  for (const char* name : kLibraryNames) {
    if (void* handle = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return handle;
    if (why.empty()) why = dlerror();
  }
  return nullptr;
#endif
}

Api read(void* handle) {
  Api api;
#if !defined(_WIN32)
#define TINYT_FIND(name, result, arguments)                                                  \
  api.name = reinterpret_cast<decltype(api.name)>(dlsym(handle, #name));                     \
  require(api.name != nullptr, ErrorKind::Device, "device: OpenCL's library has no ", #name, \
          "; OpenCL 1.2 or later is needed");
  TINYT_OPENCL_FUNCTIONS(TINYT_FIND)
#undef TINYT_FIND
#endif
  return api;
}

std::string_view name_of(Int status) {
  switch (status) {
    case kMemoryFailure:
      return "memory object allocation failure";
    case kOutOfResources:
      return "out of resources";
    case kOutOfHostMemory:
      return "out of host memory";
    case kInvalidBufferSize:
      return "invalid buffer size";
    case -11:
      return "build program failure";
    case -48:
      return "invalid kernel";
    case -52:
      return "invalid kernel arguments";
    case -54:
      return "invalid work group size";
    default:
      return "";
  }
}

}  // namespace

const Api& library() {
  static const Api& api = *new Api([] {
    std::string why;
    void* handle = opened(why);
    require(handle != nullptr, ErrorKind::Device, "device: there is no OpenCL library (", why,
            "); ", kHowTo);
    return read(handle);
  }());
  return api;
}

void check(Int status, const char* call) {
  if (status == kSuccess) [[likely]]
    return;
  const bool memory =
      status == kMemoryFailure || status == kOutOfResources || status == kOutOfHostMemory;
  const std::string_view name = name_of(status);
  fail(memory ? ErrorKind::OutOfMemory : ErrorKind::Runtime, "opencl: ", call, " failed with ",
       status, name.empty() ? "" : ", ", name);
}

}  // namespace tinyt::opencl
