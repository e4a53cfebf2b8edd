// What of HIP's runtime and of hipRTC is called in the place of CUDA's driver and NVRTC: functions
// and numbers of their headers (AMD, "HIP Runtime API" and "HIPRTC", ROCm 5 and later). Types are
// those of api.h: HIP's have the same size and meaning.
#pragma once

#include "cuda/api.h"

namespace tinyt::cuda {

// The functions that take CUDA's arguments: the one of `Api`, HIP's name, its arguments.
#define TINYT_HIP_SAME_FUNCTIONS(F)                                                          \
  F(cuInit, hipInit, (unsigned))                                                             \
  F(cuDriverGetVersion, hipDriverGetVersion, (int*))                                         \
  F(cuDeviceGetCount, hipGetDeviceCount, (int*))                                             \
  F(cuDeviceGet, hipDeviceGet, (DeviceId*, int))                                             \
  F(cuDeviceGetName, hipDeviceGetName, (char*, int, DeviceId))                               \
  F(cuDeviceTotalMem, hipDeviceTotalMem, (size_t*, DeviceId))                                \
  F(cuDeviceGetUuid, hipDeviceGetUuid, (Uuid*, DeviceId))                                    \
  F(cuDeviceCanAccessPeer, hipDeviceCanAccessPeer, (int*, DeviceId, DeviceId))               \
  F(cuMemGetInfo, hipMemGetInfo, (size_t*, size_t*))                                         \
  F(cuStreamCreate, hipStreamCreateWithFlags, (Stream*, unsigned))                           \
  F(cuStreamSynchronize, hipStreamSynchronize, (Stream))                                     \
  F(cuEventCreate, hipEventCreateWithFlags, (Event*, unsigned))                              \
  F(cuEventDestroy, hipEventDestroy, (Event))                                                \
  F(cuEventQuery, hipEventQuery, (Event))                                                    \
  F(cuEventSynchronize, hipEventSynchronize, (Event))                                        \
  F(cuEventElapsedTime, hipEventElapsedTime, (float*, Event, Event))                         \
  F(cuMemAlloc, hipMalloc, (Address*, size_t))                                               \
  F(cuMemFree, hipFree, (Address))                                                           \
  F(cuMemHostAlloc, hipHostMalloc, (void**, size_t, unsigned))                               \
  F(cuMemFreeHost, hipHostFree, (void*))                                                     \
  F(cuPointerGetAttribute, hipPointerGetAttribute, (void*, int, Address))                    \
  F(cuMemcpyHtoDAsync, hipMemcpyHtoDAsync, (Address, const void*, size_t, Stream))           \
  F(cuMemcpyDtoHAsync, hipMemcpyDtoHAsync, (void*, Address, size_t, Stream))                 \
  F(cuMemcpyDtoDAsync, hipMemcpyDtoDAsync, (Address, Address, size_t, Stream))               \
  F(cuMemsetD8Async, hipMemsetD8Async, (Address, unsigned char, size_t, Stream))             \
  F(cuModuleLoadData, hipModuleLoadData, (Module*, const void*))                             \
  F(cuModuleUnload, hipModuleUnload, (Module))                                               \
  F(cuModuleGetFunction, hipModuleGetFunction, (Function*, Module, const char*))             \
  F(cuLaunchKernel, hipModuleLaunchKernel,                                                   \
    (Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Stream, \
     void**, void**))

// Those that take others: HIP has no contexts but devices, and errors that are their texts.
#define TINYT_HIP_OTHER_FUNCTIONS(F)                       \
  F(hipGetErrorName, const char*, (Status))                \
  F(hipGetErrorString, const char*, (Status))              \
  F(hipGetDevice, Status, (DeviceId*))                     \
  F(hipSetDevice, Status, (DeviceId))                      \
  F(hipDeviceGetAttribute, Status, (int*, int, DeviceId))  \
  F(hipEventRecord, Status, (Event, Stream))               \
  F(hipStreamWaitEvent, Status, (Stream, Event, unsigned)) \
  F(hipMemcpyPeerAsync, Status, (Address, DeviceId, Address, DeviceId, size_t, Stream))

#define TINYT_HIPRTC_FUNCTIONS(F)                                                      \
  F(nvrtcVersion, hiprtcVersion, (int*, int*))                                         \
  F(nvrtcCreateProgram, hiprtcCreateProgram,                                           \
    (Program*, const char*, const char*, int, const char* const*, const char* const*)) \
  F(nvrtcCompileProgram, hiprtcCompileProgram, (Program, int, const char* const*))     \
  F(nvrtcDestroyProgram, hiprtcDestroyProgram, (Program*))                             \
  F(nvrtcGetProgramLogSize, hiprtcGetProgramLogSize, (Program, size_t*))               \
  F(nvrtcGetProgramLog, hiprtcGetProgramLog, (Program, char*))                         \
  F(nvrtcGetCUBINSize, hiprtcGetCodeSize, (Program, size_t*))                          \
  F(nvrtcGetCUBIN, hiprtcGetCode, (Program, char*))

// hipDeviceAttribute_t of the CUdevice_attributes that are asked for.
struct HipAttribute {
  int cuda, hip;
};
inline constexpr HipAttribute kHipAttributes[] = {
    {1, 56},                                       // ..._MAX_THREADS_PER_BLOCK
    {8, 74},                                       // ..._MAX_SHARED_MEMORY_PER_BLOCK
    {10, 87},                                      // ..._WARP_SIZE
    {12, 71},                                      // ..._MAX_REGISTERS_PER_BLOCK
    {13, 5},                                       // ..._CLOCK_RATE
    {kProcessors, 63}, {18, 16},                   // ..._INTEGRATED
    {33, 67},                                      // ..._PCI_BUS_ID
    {34, 68},                                      // ..._PCI_DEVICE_ID
    {36, 60},                                      // ..._MEMORY_CLOCK_RATE
    {37, 59},                                      // ..._GLOBAL_MEMORY_BUS_WIDTH
    {38, 19},                                      // ..._L2_CACHE_SIZE
    {39, 57},                                      // ..._MAX_THREADS_PER_MULTIPROCESSOR
    {50, 69},                                      // ..._PCI_DOMAIN_ID
    {kMajor, 23},      {kMinor, 61}, {81, 10002},  // ..._MAX_SHARED_MEMORY_PER_MULTIPROCESSOR
    {84, 17},                                      // ..._MULTI_GPU_BOARD
};

}  // namespace tinyt::cuda
