#include "opencl/library.h"

#include <string>
#include <string_view>
#include <vector>

#include "core/base/backend_error.h"
#include "gpu/shared_library.h"

namespace tinyt::opencl {

namespace {

std::vector<std::string> library_names() {
#if defined(__APPLE__)
  return {"/System/Library/Frameworks/OpenCL.framework/OpenCL"};
#else
  return {"libOpenCL.so.1", "libOpenCL.so"};
#endif
}

constexpr std::string_view kHowTo =
    "install an OpenCL loader and a driver (Debian: ocl-icd-libopencl1, and pocl-opencl-icd for "
    "the CPU), or name a library by TINYT_OPENCL_LIBRARY";

// Closed again unless all functions are there.
Api read(const gpu::SharedLibrary& library) {
  Api api;
  const char* missing = nullptr;
#define TINYT_FIND(name, result, arguments)                                                   \
  api.name = reinterpret_cast<decltype(api.name)>(gpu::find_function(library.handle, #name)); \
  if (api.name == nullptr && missing == nullptr) missing = #name;
  TINYT_OPENCL_FUNCTIONS(TINYT_FIND)
#undef TINYT_FIND
  if (missing != nullptr) gpu::close_library(library.handle);
  require(missing == nullptr, ErrorKind::Device, "device: ", library.name,
          " is not OpenCL's library, or one before OpenCL 1.2: it has no ", missing);
  return api;
}

std::string_view name_of(Int status) {
  switch (status) {
    case kDeviceNotFound:
      return "device not found";
    case kDeviceNotAvailable:
      return "device not available";
    case -3:
      return "compiler not available";
    case kMemoryFailure:
      return "memory object allocation failure";
    case kOutOfResources:
      return "out of resources";
    case kOutOfHostMemory:
      return "out of host memory";
    case -11:
      return "build program failure";
    case kInvalidDevice:
      return "invalid device";
    case kInvalidContext:
      return "invalid context";
    case kInvalidQueue:
      return "invalid command queue";
    case -38:
      return "invalid memory object";
    case -48:
      return "invalid kernel";
    case -51:
      return "invalid argument size";
    case -52:
      return "invalid kernel arguments";
    case -54:
      return "invalid work group size";
    case kInvalidBufferSize:
      return "invalid buffer size";
    default:
      return "";
  }
}

// What drivers return once a device has crashed or was taken away, and then for all that follows.
bool is_lost(Int status) {
  return status == kDeviceNotAvailable || status == kOutOfResources || status == kInvalidDevice ||
         status == kInvalidContext || status == kInvalidQueue;
}

}  // namespace

const Api& library() {
  static const Api& api = *new Api([] {
    const gpu::SharedLibrary found = gpu::open_one("TINYT_OPENCL_LIBRARY", library_names());
    require(found.handle != nullptr, ErrorKind::Device, "device: there is no OpenCL library (",
            found.why, "); ", kHowTo);
    return read(found);
  }());
  return api;
}

bool is_short_of_memory(Int status) {
  return status == kMemoryFailure || status == kOutOfResources || status == kOutOfHostMemory;
}

void check(Int status, const char* call) {
  if (status == kSuccess) [[likely]]
    return;
  const ErrorKind kind = is_lost(status)              ? ErrorKind::Device
                         : is_short_of_memory(status) ? ErrorKind::OutOfMemory
                                                      : ErrorKind::Runtime;
  const std::string_view name = name_of(status);
  fail_in_backend(
      kind, "opencl: ", call, " failed with ", status, name.empty() ? "" : ", ", name,
      kind != ErrorKind::Device
          ? ""
          : "; where that goes on the device is lost, with what is on it: start another "
            "process, or use the CPU");
}

}  // namespace tinyt::opencl
