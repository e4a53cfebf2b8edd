// A WebGPU library for tests: it forwards each call to wgpu-native, whose path FAULTY_WEBGPU is,
// counts it, and fails where it was told to (../faulty_calls.h). TINYT_WEBGPU_LIBRARY names it.
// Where it can, it asks wgpu-native for what that refuses, so that results are as of a real error.
#include <dlfcn.h>

#include <type_traits>

#include "webgpu/api.h"

using namespace tinyt::webgpu;

#define NAME(name, result, arguments) #name,
static const char* const kNames[] = {TINYT_WEBGPU_FUNCTIONS(NAME)};
#include "../faulty_calls.h"  // of kNames

namespace {

#define CALL(name, result, arguments) name,
enum class Call { TINYT_WEBGPU_FUNCTIONS(CALL) };
template <Call call>
struct Is {};

// What happens at a call: it is short of memory, as wgpu-native 29 and as WebGPU says it; refused
// as not valid; the device is lost just before; or nothing is done, without a word.
enum Fault { kNoFault, kMemory, kStandardMemory, kRefused, kLost, kNothing };

constexpr uint32_t kErrorRefused = 2, kMapAborted = 4, kNoDevice = 3, kFailedCreation = 4;
constexpr std::string_view kMemoryText =
    "Validation Error\n\nCaused by:\n  Not enough memory left.\n";
constexpr std::string_view kText = "faulty: this call was set to fail";

// What the driver has asked for, and was given. Tests use one device.
DeviceDescriptor g_asked;
Callback<DeviceCallback> g_given;
DeviceHandle g_device;
Fault g_fault = kNoFault;  // what wgpu-native refuses now is reported as that

struct Library : Api {
  void (*wgpuDeviceDestroy)(DeviceHandle) = nullptr;
  void (*wgpuCommandEncoderPopDebugGroup)(Encoder) = nullptr;
};

template <class F>
void find(void* library, const char* name, F& function) {
  function = reinterpret_cast<F>(library ? dlsym(library, name) : nullptr);
  if (function != nullptr) return;
  fprintf(stderr, "faulty: the library FAULTY_WEBGPU has no %s\n", name);
  abort();
}

const Library& real() {
  static const Library library = [] {
    void* const opened = dlopen(getenv("FAULTY_WEBGPU"), RTLD_NOW | RTLD_LOCAL);
    Library found;
    find(opened, "wgpuDeviceDestroy", found.wgpuDeviceDestroy);
    find(opened, "wgpuCommandEncoderPopDebugGroup", found.wgpuCommandEncoderPopDebugGroup);
#define FIND(name, result, arguments) find(opened, #name, found.name);
    TINYT_WEBGPU_FUNCTIONS(FIND)
    return found;
  }();
  return library;
}

void report(uint32_t type, Text why) {
  if (g_fault == kMemory) why = Text(kMemoryText);
  if (g_fault == kStandardMemory) type = kErrorMemory, why = Text(kText);
  const ErrorCallbackInfo& told = g_asked.error;
  told.function(&g_device, type, why, told.first, told.second);
}

void report_lost(const DeviceHandle* device, uint32_t reason, Text why) {
  const Callback<LostCallback>& told = g_asked.lost;
  told.function(device, reason, why, told.first, told.second);
}

// ---- what is done in a call's place

BufferHandle failed(Is<Call::wgpuDeviceCreateBuffer>, DeviceHandle device,
                    const BufferDescriptor* given) {
  BufferDescriptor asked = *given;
  asked.size = uint64_t{1} << 60;
  return real().wgpuDeviceCreateBuffer(device, &asked);
}

ShaderModule failed(Is<Call::wgpuDeviceCreateShaderModuleTrusted>, DeviceHandle device,
                    const Labelled*, Bits checks) {
  WgslSource source;
  source.code = std::string_view("no_kernel_at_all");
  Labelled asked;
  asked.next = &source.chain;
  return real().wgpuDeviceCreateShaderModuleTrusted(device, &asked, checks);
}

Pipeline failed(Is<Call::wgpuDeviceCreateComputePipeline>, DeviceHandle device,
                const PipelineDescriptor* given) {
  PipelineDescriptor asked = *given;
  asked.compute.entry = std::string_view("no_such_entry");
  return real().wgpuDeviceCreateComputePipeline(device, &asked);
}

BindGroup failed(Is<Call::wgpuDeviceCreateBindGroup>, DeviceHandle device,
                 const BindGroupDescriptor* given) {
  BindGroupDescriptor asked = *given;
  asked.count = 0;
  return real().wgpuDeviceCreateBindGroup(device, &asked);
}

Encoder failed(Is<Call::wgpuDeviceCreateCommandEncoder>, DeviceHandle device,
               const Labelled* given) {
  report(kErrorRefused, Text(kText));
  return real().wgpuDeviceCreateCommandEncoder(device, given);
}

CommandBuffer failed(Is<Call::wgpuCommandEncoderFinish>, Encoder encoder, const Labelled* given) {
  real().wgpuCommandEncoderPopDebugGroup(encoder);  // of which there is none
  return real().wgpuCommandEncoderFinish(encoder, given);
}

Future failed(Is<Call::wgpuBufferMapAsync>, BufferHandle buffer, Bits mode, size_t place,
              size_t bytes, Callback<MapCallback> told) {
  if (g_fault == kRefused) return real().wgpuBufferMapAsync(buffer, mode, place + 1, bytes, told);
  told.function(kMapAborted, Text(kText), told.first, told.second);
  return {};
}

Future failed(Is<Call::wgpuAdapterRequestDevice>, Adapter, const DeviceDescriptor* asked,
              Callback<DeviceCallback> told) {
  g_asked = *asked;
  const DeviceHandle none = nullptr;
  report_lost(&none, kFailedCreation, Text(kText));
  told.function(kNoDevice, none, Text(kText), told.first, told.second);
  return {};
}

// Those that give nothing back.
template <class Any, class... A>
void failed(Any, A...) {
  report(kErrorRefused, Text(kText));
}

// ---- all calls

Future done(Is<Call::wgpuAdapterRequestDevice>, Adapter adapter, const DeviceDescriptor* given,
            Callback<DeviceCallback> told) {
  g_asked = *given;
  g_given = told;
  DeviceDescriptor asked = *given;
  asked.lost.function = [](const DeviceHandle* device, uint32_t reason, Text why, void*, void*) {
    report_lost(device, reason, why);
  };
  asked.error.function = [](const DeviceHandle*, uint32_t type, Text why, void*, void*) {
    report(type, why);
  };
  told.function = [](uint32_t status, DeviceHandle device, Text why, void*, void*) {
    g_device = device;
    g_given.function(status, device, why, g_given.first, g_given.second);
  };
  return real().wgpuAdapterRequestDevice(adapter, &asked, told);
}

#define DONE(name, result, arguments)        \
  template <class... A>                      \
  result done(Is<Call::name>, A... passed) { \
    return real().name(passed...);           \
  }
TINYT_WEBGPU_FUNCTIONS(DONE)

template <class R, Call call, class... A>
R called(Is<call> is, A... passed) {
  const auto fault = static_cast<Fault>(counted(static_cast<int>(call)));
  if (fault == kNothing) return R();
  if (fault == kLost) real().wgpuDeviceDestroy(g_device);
  if (fault == kNoFault || fault == kLost) return done(is, passed...);
  if constexpr (std::is_same_v<R, decltype(failed(is, passed...))>) {
    g_fault = fault;
    const struct AtEnd {
      ~AtEnd() { g_fault = kNoFault; }
    } at_end;
    return failed(is, passed...);
  } else {
    fprintf(stderr, "faulty: %s cannot fail like that\n", kNames[static_cast<int>(call)]);
    abort();
  }
}

}  // namespace

// Parameters by their number.
#define NAMED_0()
#define NAMED_1(A) A a
#define NAMED_2(A, B) A a, B b
#define NAMED_3(A, B, C) A a, B b, C c
#define NAMED_4(A, B, C, D) A a, B b, C c, D d
#define NAMED_5(A, B, C, D, E) A a, B b, C c, D d, E e
#define NAMED_6(A, B, C, D, E, F) A a, B b, C c, D d, E e, F f
#define PASSED_0
#define PASSED_1 , a
#define PASSED_2 , a, b
#define PASSED_3 , a, b, c
#define PASSED_4 , a, b, c, d
#define PASSED_5 , a, b, c, d, e
#define PASSED_6 , a, b, c, d, e, f
#define COUNT(...) COUNT_OF(__VA_ARGS__ __VA_OPT__(, ) 6, 5, 4, 3, 2, 1, 0)
#define COUNT_OF(a, b, c, d, e, f, n, ...) n
#define JOINED(a, b) JOINED_NOW(a, b)
#define JOINED_NOW(a, b) a##b
#define EXPORTED(name, result, arguments)                                     \
  EXPORT result name(JOINED(NAMED_, COUNT arguments) arguments) {             \
    return called<result>(Is<Call::name>() JOINED(PASSED_, COUNT arguments)); \
  }
TINYT_WEBGPU_FUNCTIONS(EXPORTED)
