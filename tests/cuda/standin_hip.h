// HIP's runtime and hipRTC by the stand-in: AMD's names of the same devices, the last part of
// standin.cpp. TINYT_HIP_LIBRARY and TINYT_HIPRTC_LIBRARY name it. HIP has no contexts: a thread
// has a current device, the first one until it sets another.
#pragma once

#include "cuda/hip_api.h"

static Context context_of_device(DeviceId device) {
  if (check_device(device) != kSuccess) return nullptr;
  Context context = nullptr;
  cuDevicePrimaryCtxRetain(&context, device);
  return context;
}

// A call of HIP's: in the context of the thread's device.
static void enter_device() {
  if (g_current == nullptr) g_current = context_of_device(0);
}
// The legacy default stream is null.
static Stream cuda_stream(Stream stream) {
  return stream == nullptr ? reinterpret_cast<Stream>(kLegacyStream) : stream;
}

// Calls of HIP that are CUDA's: with a context where the thread has none.
template <class... A, class... B>
static Status in_device(Status (*call)(A...), B... arguments) {
  if (driver().ready) enter_device();
  return call(arguments...);
}

EXPORT Status hipInit(unsigned flags) { return cuInit(flags); }
EXPORT Status hipDriverGetVersion(int* version) {
  *version = 60230000;  // HIP's numbers are not CUDA's
  return kSuccess;
}
EXPORT Status hipGetDeviceCount(int* count) { return cuDeviceGetCount(count); }
EXPORT Status hipDeviceGet(DeviceId* device, int number) { return cuDeviceGet(device, number); }
EXPORT Status hipDeviceGetName(char* name, int bytes, DeviceId device) {
  return cuDeviceGetName(name, bytes, device);
}
EXPORT Status hipDeviceTotalMem(size_t* bytes, DeviceId device) {
  return cuDeviceTotalMem_v2(bytes, device);
}
EXPORT Status hipDeviceGetUuid(Uuid* uuid, DeviceId device) {
  return cuDeviceGetUuid_v2(uuid, device);
}
EXPORT Status hipDeviceCanAccessPeer(int* can, DeviceId device, DeviceId peer) {
  return cuDeviceCanAccessPeer(can, device, peer);
}
EXPORT Status hipDeviceGetAttribute(int* value, int attribute, DeviceId device) {
  for (const tinyt::cuda::HipAttribute& known : tinyt::cuda::kHipAttributes)
    if (known.hip == attribute) return cuDeviceGetAttribute(value, known.cuda, device);
  return kInvalidValue;
}
EXPORT const char* hipGetErrorName(Status status) {
  const char* name = nullptr;
  return describe_error(status, &ErrorText::name, &name) == kSuccess ? name : "hipErrorUnknown";
}
EXPORT const char* hipGetErrorString(Status status) {
  const char* text = nullptr;
  return describe_error(status, &ErrorText::text, &text) == kSuccess ? text : "unknown error";
}

EXPORT Status hipGetDevice(DeviceId* device) {
  enter_device();
  if (g_current == nullptr) return kNotInitialized;
  *device = g_current->device;
  return kSuccess;
}
EXPORT Status hipSetDevice(DeviceId device) {
  const Context context = context_of_device(device);
  return context == nullptr ? kInvalidDevice : cuCtxSetCurrent(context);
}

EXPORT Status hipMemGetInfo(size_t* free, size_t* total) {
  return in_device(cuMemGetInfo_v2, free, total);
}
EXPORT Status hipStreamCreateWithFlags(Stream* stream, unsigned flags) {
  return in_device(cuStreamCreate, stream, flags);
}
EXPORT Status hipStreamSynchronize(Stream stream) { return in_device(cuStreamSynchronize, stream); }
EXPORT Status hipStreamWaitEvent(Stream stream, Event event, unsigned flags) {
  return in_device(cuStreamWaitEvent, cuda_stream(stream), event, flags);
}
EXPORT Status hipEventCreateWithFlags(Event* event, unsigned flags) {
  return in_device(cuEventCreate, event, flags);
}
EXPORT Status hipEventDestroy(Event event) { return in_device(cuEventDestroy_v2, event); }
EXPORT Status hipEventRecord(Event event, Stream stream) {
  return in_device(cuEventRecord, event, cuda_stream(stream));
}
EXPORT Status hipEventQuery(Event event) { return in_device(cuEventQuery, event); }
EXPORT Status hipEventSynchronize(Event event) { return in_device(cuEventSynchronize, event); }
EXPORT Status hipEventElapsedTime(float* milliseconds, Event from, Event to) {
  return in_device(cuEventElapsedTime, milliseconds, from, to);
}

EXPORT Status hipMalloc(Address* address, size_t bytes) {
  return in_device(cuMemAlloc_v2, address, bytes);
}
EXPORT Status hipFree(Address address) { return in_device(cuMemFree_v2, address); }
EXPORT Status hipHostMalloc(void** host, size_t bytes, unsigned flags) {
  return in_device(cuMemHostAlloc, host, bytes, flags);
}
EXPORT Status hipHostFree(void* host) { return in_device(cuMemFreeHost, host); }
EXPORT Status hipPointerGetAttribute(void* value, int attribute, Address address) {
  return in_device(cuPointerGetAttribute, value, attribute, address);
}
EXPORT Status hipMemcpyHtoDAsync(Address to, const void* from, size_t bytes, Stream stream) {
  return in_device(cuMemcpyHtoDAsync_v2, to, from, bytes, stream);
}
EXPORT Status hipMemcpyDtoHAsync(void* to, Address from, size_t bytes, Stream stream) {
  return in_device(cuMemcpyDtoHAsync_v2, to, from, bytes, stream);
}
EXPORT Status hipMemcpyDtoDAsync(Address to, Address from, size_t bytes, Stream stream) {
  return in_device(cuMemcpyDtoDAsync_v2, to, from, bytes, stream);
}
EXPORT Status hipMemcpyPeerAsync(Address to, DeviceId target, Address from, DeviceId source,
                                 size_t bytes, Stream stream) {
  return in_device(cuMemcpyPeerAsync, to, context_of_device(target), from,
                   context_of_device(source), bytes, stream);
}
EXPORT Status hipMemsetD8Async(Address to, unsigned char value, size_t bytes, Stream stream) {
  return in_device(cuMemsetD8Async, to, value, bytes, stream);
}

EXPORT Status hipModuleLoadData(Module* module, const void* image) {
  return in_device(cuModuleLoadData, module, image);
}
EXPORT Status hipModuleUnload(Module module) { return in_device(cuModuleUnload, module); }
EXPORT Status hipModuleGetFunction(Function* function, Module module, const char* name) {
  return in_device(cuModuleGetFunction, function, module, name);
}
EXPORT Status hipModuleLaunchKernel(Function function, unsigned grid_x, unsigned grid_y,
                                    unsigned grid_z, unsigned block_x, unsigned block_y,
                                    unsigned block_z, unsigned shared_bytes, Stream stream,
                                    void** parameters, void** extra) {
  return in_device(cuLaunchKernel, function, grid_x, grid_y, grid_z, block_x, block_y, block_z,
                   shared_bytes, stream, parameters, extra);
}

// ---- hipRTC, which compiles for the thread's device where no architecture is named

EXPORT CompilerStatus hiprtcVersion(int* major, int* minor) { return nvrtcVersion(major, minor); }
EXPORT CompilerStatus hiprtcCreateProgram(Program* program, const char* source, const char* name,
                                          int headers, const char* const* texts,
                                          const char* const* names) {
  return nvrtcCreateProgram(program, source, name, headers, texts, names);
}
EXPORT CompilerStatus hiprtcCompileProgram(Program program, int count, const char* const* options) {
  if (count != 1 || strcmp(options[0], "-ffp-contract=off") != 0) return kInvalidOption;
  const std::string arch = "--gpu-architecture=sm_" + std::to_string(capability());
  const char* const of_cuda[] = {arch.c_str(), "--fmad=false"};
  return nvrtcCompileProgram(program, 2, of_cuda);
}
EXPORT CompilerStatus hiprtcDestroyProgram(Program* program) {
  return nvrtcDestroyProgram(program);
}
EXPORT CompilerStatus hiprtcGetProgramLogSize(Program program, size_t* bytes) {
  return nvrtcGetProgramLogSize(program, bytes);
}
EXPORT CompilerStatus hiprtcGetProgramLog(Program program, char* log) {
  return nvrtcGetProgramLog(program, log);
}
EXPORT CompilerStatus hiprtcGetCodeSize(Program program, size_t* bytes) {
  return nvrtcGetCUBINSize(program, bytes);
}
EXPORT CompilerStatus hiprtcGetCode(Program program, char* code) {
  return nvrtcGetCUBIN(program, code);
}
EXPORT const char* hiprtcGetErrorString(CompilerStatus status) {
  return nvrtcGetErrorString(status);
}

// ---- all of hip_api.h is here, as it is declared there

#define HIP_CHECK(name, symbol, arguments) \
  static_assert(std::is_same_v<decltype(&symbol), Status(*) arguments>);
TINYT_HIP_SAME_FUNCTIONS(HIP_CHECK)
TINYT_HIPRTC_FUNCTIONS(HIP_CHECK)
#define HIP_OTHER_CHECK(name, result, arguments) \
  static_assert(std::is_same_v<decltype(&name), result(*) arguments>);
TINYT_HIP_OTHER_FUNCTIONS(HIP_OTHER_CHECK)
