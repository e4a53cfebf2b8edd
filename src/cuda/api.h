// What of CUDA's driver and of NVRTC is called: types, numbers and functions of their manuals
// (NVIDIA, "CUDA Driver API" and "NVRTC", CUDA 12), found in the libraries when these are opened.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tinyt::cuda {

using Status = int;  // CUresult
using DeviceId = int;
using Address = uint64_t;  // CUdeviceptr
using Context = struct ContextTag*;
using Stream = struct StreamTag*;
using Event = struct EventTag*;
using Module = struct ModuleTag*;
struct Uuid {  // CUuuid
  char bytes[16];
};
using Function = struct FunctionTag*;
using GraphHandle = struct GraphTag*;  // CUgraph
using GraphNode = struct GraphNodeTag*;
using GraphExec = struct GraphExecTag*;

inline constexpr Status kSuccess = 0, kInvalidValue = 1, kOutOfMemory = 2, kNoDevice = 100,
                        kInvalidDevice = 101, kNotReady = 600;
inline constexpr unsigned kNonBlocking = 1;  // CU_STREAM_NON_BLOCKING
inline constexpr unsigned kWithTimes = 0;
inline constexpr unsigned kWithoutTimes = 2;  // CU_EVENT_DISABLE_TIMING
inline constexpr unsigned kPortable = 1;      // CU_MEMHOSTALLOC_PORTABLE

inline constexpr int64_t kLegacyStream = 1, kThreadStream = 2;  // CU_STREAM_LEGACY, ..._PER_THREAD

// CUdevice_attribute
inline constexpr int kProcessors = 16, kMajor = 75, kMinor = 76;
inline constexpr int kSharedOptIn = 97;  // ..._MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
// CUpointer_attribute
inline constexpr int kDeviceOrdinal = 9;  // CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
// CUfunction_attribute
inline constexpr int kDynamicShared = 8;  // ..._MAX_DYNAMIC_SHARED_SIZE_BYTES

// ---- graphs: what their nodes do

struct KernelNode {  // CUDA_KERNEL_NODE_PARAMS_v2
  Function function = nullptr;
  unsigned grid[3] = {1, 1, 1}, block[3] = {1, 1, 1};
  unsigned shared_bytes = 0;
  void** arguments = nullptr;
  void** extra = nullptr;
  void* kernel = nullptr;  // where there is no function
  Context context = nullptr;
};
static_assert(sizeof(KernelNode) == 72 && offsetof(KernelNode, arguments) == 40);

inline constexpr int kDeviceMemory = 2;  // CU_MEMORYTYPE_DEVICE

struct CopyEnd {  // of CUDA_MEMCPY3D, which has two of them, each with its rows behind it
  size_t x = 0, y = 0, z = 0, level = 0;
  int memory_type = kDeviceMemory;
  void* host = nullptr;
  Address device = 0;
  void* array = nullptr;
  void* reserved = nullptr;
  size_t pitch = 0, height = 0;
};

struct CopyNode {  // CUDA_MEMCPY3D
  CopyEnd from, to;
  size_t width = 0, height = 1, depth = 1;  // the width in bytes
};
static_assert(sizeof(CopyNode) == 200 && offsetof(CopyNode, to) == 88 &&
              offsetof(CopyEnd, device) == 48 && offsetof(CopyNode, width) == 176);

struct FillNode {  // CUDA_MEMSET_NODE_PARAMS
  Address to = 0;
  size_t pitch = 0;
  unsigned value = 0, element_bytes = 1;
  size_t width = 0, height = 1;  // the width in elements
};
static_assert(sizeof(FillNode) == 40 && offsetof(FillNode, width) == 24);

#define TINYT_CUDA_GRAPH_FUNCTIONS(F)                                              \
  F(cuGraphCreate, cuGraphCreate, (GraphHandle*, unsigned))                        \
  F(cuGraphDestroy, cuGraphDestroy, (GraphHandle))                                 \
  F(cuGraphAddKernelNode, cuGraphAddKernelNode_v2,                                 \
    (GraphNode*, GraphHandle, const GraphNode*, size_t, const KernelNode*))        \
  F(cuGraphAddMemcpyNode, cuGraphAddMemcpyNode,                                    \
    (GraphNode*, GraphHandle, const GraphNode*, size_t, const CopyNode*, Context)) \
  F(cuGraphAddMemsetNode, cuGraphAddMemsetNode,                                    \
    (GraphNode*, GraphHandle, const GraphNode*, size_t, const FillNode*, Context)) \
  F(cuGraphInstantiate, cuGraphInstantiateWithFlags,                               \
    (GraphExec*, GraphHandle, unsigned long long))                                 \
  F(cuGraphExecKernelNodeSetParams, cuGraphExecKernelNodeSetParams_v2,             \
    (GraphExec, GraphNode, const KernelNode*))                                     \
  F(cuGraphExecMemcpyNodeSetParams, cuGraphExecMemcpyNodeSetParams,                \
    (GraphExec, GraphNode, const CopyNode*, Context))                              \
  F(cuGraphExecMemsetNodeSetParams, cuGraphExecMemsetNodeSetParams,                \
    (GraphExec, GraphNode, const FillNode*, Context))                              \
  F(cuGraphLaunch, cuGraphLaunch, (GraphExec, Stream))                             \
  F(cuGraphExecDestroy, cuGraphExecDestroy, (GraphExec))

// Names as the library has them, of which some have a version.
#define TINYT_CUDA_FUNCTIONS(F)                                                                 \
  TINYT_CUDA_GRAPH_FUNCTIONS(F)                                                                 \
  F(cuInit, cuInit, (unsigned))                                                                 \
  F(cuDriverGetVersion, cuDriverGetVersion, (int*))                                             \
  F(cuGetErrorName, cuGetErrorName, (Status, const char**))                                     \
  F(cuGetErrorString, cuGetErrorString, (Status, const char**))                                 \
  F(cuDeviceGetCount, cuDeviceGetCount, (int*))                                                 \
  F(cuDeviceGet, cuDeviceGet, (DeviceId*, int))                                                 \
  F(cuDeviceGetName, cuDeviceGetName, (char*, int, DeviceId))                                   \
  F(cuDeviceTotalMem, cuDeviceTotalMem_v2, (size_t*, DeviceId))                                 \
  F(cuDeviceGetAttribute, cuDeviceGetAttribute, (int*, int, DeviceId))                          \
  F(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, (Context*, DeviceId))                   \
  F(cuDeviceGetUuid, cuDeviceGetUuid_v2, (Uuid*, DeviceId))                                     \
  F(cuDeviceCanAccessPeer, cuDeviceCanAccessPeer, (int*, DeviceId, DeviceId))                   \
  F(cuMemGetInfo, cuMemGetInfo_v2, (size_t*, size_t*))                                          \
  F(cuCtxGetCurrent, cuCtxGetCurrent, (Context*))                                               \
  F(cuCtxSetCurrent, cuCtxSetCurrent, (Context))                                                \
  F(cuStreamCreate, cuStreamCreate, (Stream*, unsigned))                                        \
  F(cuStreamSynchronize, cuStreamSynchronize, (Stream))                                         \
  F(cuEventCreate, cuEventCreate, (Event*, unsigned))                                           \
  F(cuEventDestroy, cuEventDestroy_v2, (Event))                                                 \
  F(cuEventRecord, cuEventRecord, (Event, Stream))                                              \
  F(cuEventQuery, cuEventQuery, (Event))                                                        \
  F(cuEventSynchronize, cuEventSynchronize, (Event))                                            \
  F(cuEventElapsedTime, cuEventElapsedTime, (float*, Event, Event))                             \
  F(cuStreamWaitEvent, cuStreamWaitEvent, (Stream, Event, unsigned))                            \
  F(cuMemAlloc, cuMemAlloc_v2, (Address*, size_t))                                              \
  F(cuMemFree, cuMemFree_v2, (Address))                                                         \
  F(cuMemHostAlloc, cuMemHostAlloc, (void**, size_t, unsigned))                                 \
  F(cuMemFreeHost, cuMemFreeHost, (void*))                                                      \
  F(cuPointerGetAttribute, cuPointerGetAttribute, (void*, int, Address))                        \
  F(cuMemcpyHtoDAsync, cuMemcpyHtoDAsync_v2, (Address, const void*, size_t, Stream))            \
  F(cuMemcpyDtoHAsync, cuMemcpyDtoHAsync_v2, (void*, Address, size_t, Stream))                  \
  F(cuMemcpyDtoDAsync, cuMemcpyDtoDAsync_v2, (Address, Address, size_t, Stream))                \
  F(cuMemcpyPeerAsync, cuMemcpyPeerAsync, (Address, Context, Address, Context, size_t, Stream)) \
  F(cuMemsetD8Async, cuMemsetD8Async, (Address, unsigned char, size_t, Stream))                 \
  F(cuModuleLoadData, cuModuleLoadData, (Module*, const void*))                                 \
  F(cuModuleUnload, cuModuleUnload, (Module))                                                   \
  F(cuModuleGetFunction, cuModuleGetFunction, (Function*, Module, const char*))                 \
  F(cuFuncSetAttribute, cuFuncSetAttribute, (Function, int, int))                               \
  F(cuLaunchKernel, cuLaunchKernel,                                                             \
    (Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Stream,    \
     void**, void**))

// The functions of the driver's library.
struct Api {
#define TINYT_POINTER(name, symbol, arguments) Status(*name) arguments = nullptr;
  TINYT_CUDA_FUNCTIONS(TINYT_POINTER)
#undef TINYT_POINTER
};

// ---- NVRTC

using Program = struct ProgramTag*;
using CompilerStatus = int;  // nvrtcResult

inline constexpr CompilerStatus kCompilation = 6;  // NVRTC_ERROR_COMPILATION

#define TINYT_NVRTC_FUNCTIONS(F)                                                       \
  F(nvrtcVersion, (int*, int*))                                                        \
  F(nvrtcGetNumSupportedArchs, (int*))                                                 \
  F(nvrtcGetSupportedArchs, (int*))                                                    \
  F(nvrtcCreateProgram,                                                                \
    (Program*, const char*, const char*, int, const char* const*, const char* const*)) \
  F(nvrtcCompileProgram, (Program, int, const char* const*))                           \
  F(nvrtcDestroyProgram, (Program*))                                                   \
  F(nvrtcGetProgramLogSize, (Program, size_t*))                                        \
  F(nvrtcGetProgramLog, (Program, char*))                                              \
  F(nvrtcGetCUBINSize, (Program, size_t*))                                             \
  F(nvrtcGetCUBIN, (Program, char*))                                                   \
  F(nvrtcGetPTXSize, (Program, size_t*))                                               \
  F(nvrtcGetPTX, (Program, char*))

// Those of the compiler's.
struct CompilerApi {
#define TINYT_POINTER(name, arguments) CompilerStatus(*name) arguments = nullptr;
  TINYT_NVRTC_FUNCTIONS(TINYT_POINTER)
#undef TINYT_POINTER
  // nvrtcGetErrorString, which gives no status.
  const char* (*error_text)(CompilerStatus) = nullptr;
};

}  // namespace tinyt::cuda
