// What of OpenCL 1.2 is called: the types, numbers and functions of its specification (Khronos,
// "The OpenCL Specification 1.2", chapters 4 and 5), found in the library when that is opened.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tinyt::opencl {

using Int = int32_t;
using UInt = uint32_t;
using ULong = uint64_t;
using Bits = uint64_t;  // cl_bitfield
using Platform = struct PlatformTag*;
using DeviceId = struct DeviceTag*;
using Context = struct ContextTag*;
using Queue = struct QueueTag*;
using Memory = struct MemoryTag*;
using Program = struct ProgramTag*;
using Kernel = struct KernelTag*;
using Event = struct EventTag*;

inline constexpr Int kSuccess = 0, kDeviceNotFound = -1, kDeviceNotAvailable = -2,
                     kMemoryFailure = -4, kOutOfResources = -5, kOutOfHostMemory = -6,
                     kInvalidDevice = -33, kInvalidContext = -34, kInvalidQueue = -36,
                     kInvalidBufferSize = -61, kNoPlatform = -1001;
inline constexpr Bits kAnyType = 0xFFFFFFFF, kTypeCpu = 1 << 1, kReadWrite = 1 << 0,
                      kOfHost = 1 << 4, kMapWrite = 1 << 1;
inline constexpr UInt kFalse = 0, kTrue = 1;

// clGetPlatformInfo; clGetDeviceInfo; clGetProgramInfo, clGetProgramBuildInfo; clGetEventInfo
inline constexpr UInt kPlatformVersion = 0x0901, kPlatformName = 0x0902;
inline constexpr UInt kDeviceType = 0x1000, kComputeUnits = 0x1002, kMostGroup = 0x1004,
                      kAddressBits = 0x100D, kMostAllocation = 0x1010, kMostParameters = 0x1017,
                      kGlobalBytes = 0x101F, kAvailable = 0x1027, kCompilerAvailable = 0x1028,
                      kDeviceName = 0x102B, kDeviceVendor = 0x102C, kDriverVersion = 0x102D,
                      kDeviceVersion = 0x102F;
inline constexpr UInt kBinarySizes = 0x1165, kBinaries = 0x1166, kBuildLog = 0x1183;
inline constexpr UInt kEventStatus = 0x11D3;

#define TINYT_OPENCL_FUNCTIONS(F)                                                               \
  F(clGetPlatformIDs, Int, (UInt, Platform*, UInt*))                                            \
  F(clGetPlatformInfo, Int, (Platform, UInt, size_t, void*, size_t*))                           \
  F(clGetDeviceIDs, Int, (Platform, Bits, UInt, DeviceId*, UInt*))                              \
  F(clGetDeviceInfo, Int, (DeviceId, UInt, size_t, void*, size_t*))                             \
  F(clCreateContext, Context,                                                                   \
    (const intptr_t*, UInt, const DeviceId*, void (*)(const char*, const void*, size_t, void*), \
     void*, Int*))                                                                              \
  F(clCreateCommandQueue, Queue, (Context, DeviceId, Bits, Int*))                               \
  F(clCreateBuffer, Memory, (Context, Bits, size_t, void*, Int*))                               \
  F(clReleaseMemObject, Int, (Memory))                                                          \
  F(clEnqueueReadBuffer, Int,                                                                   \
    (Queue, Memory, UInt, size_t, size_t, void*, UInt, const Event*, Event*))                   \
  F(clEnqueueWriteBuffer, Int,                                                                  \
    (Queue, Memory, UInt, size_t, size_t, const void*, UInt, const Event*, Event*))             \
  F(clEnqueueCopyBuffer, Int,                                                                   \
    (Queue, Memory, Memory, size_t, size_t, size_t, UInt, const Event*, Event*))                \
  F(clEnqueueFillBuffer, Int,                                                                   \
    (Queue, Memory, const void*, size_t, size_t, size_t, UInt, const Event*, Event*))           \
  F(clEnqueueMapBuffer, void*,                                                                  \
    (Queue, Memory, UInt, Bits, size_t, size_t, UInt, const Event*, Event*, Int*))              \
  F(clGetEventInfo, Int, (Event, UInt, size_t, void*, size_t*))                                 \
  F(clWaitForEvents, Int, (UInt, const Event*))                                                 \
  F(clReleaseEvent, Int, (Event))                                                               \
  F(clFinish, Int, (Queue))                                                                     \
  F(clCreateProgramWithSource, Program, (Context, UInt, const char**, const size_t*, Int*))     \
  F(clCreateProgramWithBinary, Program,                                                         \
    (Context, UInt, const DeviceId*, const size_t*, const unsigned char**, Int*, Int*))         \
  F(clBuildProgram, Int,                                                                        \
    (Program, UInt, const DeviceId*, const char*, void (*)(Program, void*), void*))             \
  F(clGetProgramInfo, Int, (Program, UInt, size_t, void*, size_t*))                             \
  F(clGetProgramBuildInfo, Int, (Program, DeviceId, UInt, size_t, void*, size_t*))              \
  F(clReleaseProgram, Int, (Program))                                                           \
  F(clCreateKernel, Kernel, (Program, const char*, Int*))                                       \
  F(clSetKernelArg, Int, (Kernel, UInt, size_t, const void*))                                   \
  F(clEnqueueNDRangeKernel, Int,                                                                \
    (Queue, Kernel, UInt, const size_t*, const size_t*, const size_t*, UInt, const Event*,      \
     Event*))

// The functions of a library.
struct Api {
#define TINYT_POINTER(name, result, arguments) result(*name) arguments = nullptr;
  TINYT_OPENCL_FUNCTIONS(TINYT_POINTER)
#undef TINYT_POINTER
};

}  // namespace tinyt::opencl
