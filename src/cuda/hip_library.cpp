#include "cuda/hip_library.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>

#include "cuda/hip_api.h"
#include "gpu/shared_library.h"

namespace tinyt::cuda {

namespace {

constexpr const char* kHipVariable = "TINYT_HIP_LIBRARY";

struct HipApi {
#define TINYT_POINTER(name, result, arguments) result(*name) arguments = nullptr;
  TINYT_HIP_OTHER_FUNCTIONS(TINYT_POINTER)
#undef TINYT_POINTER
};
HipApi g_hip;  // written before the library is used

// ---- functions that CUDA's arguments are translated for

Status hip_error_name(Status status, const char** text) {
  *text = g_hip.hipGetErrorName(status);
  return kSuccess;
}
Status hip_error_text(Status status, const char** text) {
  *text = g_hip.hipGetErrorString(status);
  return kSuccess;
}

// A device is its own context: the number after its own, as null is none.
Context context_of(DeviceId id) { return reinterpret_cast<Context>(static_cast<intptr_t>(id) + 1); }
DeviceId device_in(Context context) {
  return static_cast<DeviceId>(reinterpret_cast<intptr_t>(context) - 1);
}
Status retain_context(Context* context, DeviceId id) {
  *context = context_of(id);
  return kSuccess;
}
Status current_context(Context* context) {
  DeviceId id = 0;
  const Status status = g_hip.hipGetDevice(&id);
  *context = status == kSuccess ? context_of(id) : nullptr;
  return status;
}
Status make_context_current(Context context) {
  return context == nullptr ? kSuccess : g_hip.hipSetDevice(device_in(context));
}

Status hip_attribute(int* value, int cuda, DeviceId id) {
  const auto* const known = std::ranges::find(kHipAttributes, cuda, &HipAttribute::cuda);
  return known == std::end(kHipAttributes) ? kInvalidValue
                                           : g_hip.hipDeviceGetAttribute(value, known->hip, id);
}

// The legacy default stream is null: its number is one of later versions.
Stream hip_stream(Stream stream) {
  return reinterpret_cast<int64_t>(stream) == kLegacyStream ? nullptr : stream;
}
Status hip_record(Event event, Stream stream) {
  return g_hip.hipEventRecord(event, hip_stream(stream));
}
Status hip_wait(Stream stream, Event event, unsigned flags) {
  return g_hip.hipStreamWaitEvent(hip_stream(stream), event, flags);
}

Status hip_copy_to_peer(Address to, Context target, Address from, Context source, size_t bytes,
                        Stream stream) {
  return g_hip.hipMemcpyPeerAsync(to, device_in(target), from, device_in(source), bytes, stream);
}

// ---- the libraries

// The libraries of a name, newest first.
std::vector<std::string> versions_of(const std::string& name) {
  std::vector<std::string> found;
  for (const char* folder : {"", "/opt/rocm/lib/"})
    for (const char* ending : {".7", ".6", ".5", ""})
      found.push_back(folder + name + ".so" + ending);
  return found;
}

// Whether the library has such a function; else why not.
template <class F>
bool find_in_hip(const gpu::SharedLibrary& library, const char* symbol, F& function,
                 std::string& why) {
  function = reinterpret_cast<F>(gpu::find_function(library.handle, symbol));
  if (function == nullptr && why.empty()) why = library.name + " has no " + symbol;
  return function != nullptr;
}

Api read_hip(const gpu::SharedLibrary& library, std::string& why) {
  Api api;
#define TINYT_FIND(name, symbol, arguments) find_in_hip(library, #symbol, api.name, why);
  TINYT_HIP_SAME_FUNCTIONS(TINYT_FIND)
#undef TINYT_FIND
#define TINYT_FIND(name, result, arguments) find_in_hip(library, #name, g_hip.name, why);
  TINYT_HIP_OTHER_FUNCTIONS(TINYT_FIND)
#undef TINYT_FIND
  api.cuGetErrorName = hip_error_name;
  api.cuGetErrorString = hip_error_text;
  api.cuDevicePrimaryCtxRetain = retain_context;
  api.cuCtxGetCurrent = current_context;
  api.cuCtxSetCurrent = make_context_current;
  api.cuDeviceGetAttribute = hip_attribute;
  api.cuEventRecord = hip_record;
  api.cuStreamWaitEvent = hip_wait;
  api.cuMemcpyPeerAsync = hip_copy_to_peer;
  return api;
}

// In a library of its own since ROCm 6; before, in the runtime's.
CompilerApi read_hiprtc(const gpu::SharedLibrary& runtime, std::string& why) {
  gpu::SharedLibrary library = gpu::open_one("TINYT_HIPRTC_LIBRARY", versions_of("libhiprtc"));
  if (library.handle == nullptr) library = runtime;
  CompilerApi api;
#define TINYT_FIND(name, symbol, arguments) find_in_hip(library, #symbol, api.name, why);
  TINYT_HIPRTC_FUNCTIONS(TINYT_FIND)
#undef TINYT_FIND
  find_in_hip(library, "hiprtcGetErrorString", api.error_text, why);
  return api;
}

// What makes binaries of one version useless to another.
std::string hip_versions(const Api& driver, const CompilerApi& compiler) {
  int version = 0, major = 0, minor = 0;
  driver.cuDriverGetVersion(&version);
  compiler.nvrtcVersion(&major, &minor);
  return std::to_string(major) + "." + std::to_string(minor) + ", HIP " + std::to_string(version);
}

}  // namespace

bool is_hip_named() { return std::getenv(kHipVariable) != nullptr; }

std::optional<Libraries> hip_libraries(std::string& why) {
  const gpu::SharedLibrary runtime = gpu::open_one(kHipVariable, versions_of("libamdhip64"));
  why = runtime.why;
  if (runtime.handle == nullptr) return std::nullopt;
  const Api driver = read_hip(runtime, why);
  if (!why.empty()) return std::nullopt;
  const CompilerApi compiler = read_hiprtc(runtime, why);
  if (!why.empty()) return std::nullopt;
  int count = 0;
  if (driver.cuInit(0) != kSuccess || driver.cuDeviceGetCount(&count) != kSuccess || count == 0) {
    why = "HIP's runtime knows no device here";
    return std::nullopt;
  }
  return Libraries{Platform::Hip, driver, compiler, hip_versions(driver, compiler), {}};
}

}  // namespace tinyt::cuda
