// An OpenCL library for tests: it forwards each call to the system's, counts it, and fails where it
// was told to. TINYT_OPENCL_LIBRARY names it.
//
// Environment, read when the library is opened, beside FAULTY_FAIL:
//   FAULTY_INFO   "number=value" of clGetDeviceInfo, several apart by spaces; more bytes of
//                 arguments than that of CL_DEVICE_MAX_PARAMETER_SIZE are refused
//   FAULTY_EXTRA  so many devices are reported beside those of the first platform, each of which
//                 has no properties: they have disappeared
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>

static const char* const kNames[] = {"clGetPlatformIDs",
                                     "clGetPlatformInfo",
                                     "clGetDeviceIDs",
                                     "clGetDeviceInfo",
                                     "clCreateContext",
                                     "clCreateCommandQueue",
                                     "clCreateBuffer",
                                     "clReleaseMemObject",
                                     "clEnqueueReadBuffer",
                                     "clEnqueueWriteBuffer",
                                     "a write that waits",
                                     "clEnqueueCopyBuffer",
                                     "clEnqueueFillBuffer",
                                     "clEnqueueMapBuffer",
                                     "clGetEventInfo",
                                     "clWaitForEvents",
                                     "clReleaseEvent",
                                     "clFinish",
                                     "clCreateProgramWithSource",
                                     "clCreateProgramWithBinary",
                                     "clBuildProgram",
                                     "clGetProgramInfo",
                                     "clGetProgramBuildInfo",
                                     "clReleaseProgram",
                                     "clCreateKernel",
                                     "clReleaseKernel",
                                     "clSetKernelArg",
                                     "clEnqueueNDRangeKernel"};
#include "../faulty_calls.h"  // of kNames

enum {
  kInvalidDevice = -33,
  kInvalidArgumentSize = -51,
  kMostParameters = 0x1017,
  kBuildLog = 0x1183
};

static struct {
  uint32_t number;
  uint64_t value;
} g_info[kMostRules];
static int g_info_count;
static int g_extra;
static int g_build_failed;  // the last one, here
static int g_ghosts[16];    // whose addresses are devices that have disappeared

__attribute__((constructor)) static void read_environment(void) {
  const char* text = getenv("FAULTY_INFO");
  while (text && *text) {
    char* end = NULL;
    g_info[g_info_count].number = (uint32_t)strtoul(text, &end, 0);
    g_info[g_info_count++].value = strtoull(end + 1, &end, 0);
    text = end + strspn(end, " ");
  }
  text = getenv("FAULTY_EXTRA");
  g_extra = text ? atoi(text) : 0;
}

static void* function_of_system(const char* name) {
  static void* system = NULL;
  pthread_mutex_lock(&g_mutex);
  if (system == NULL) system = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
  pthread_mutex_unlock(&g_mutex);
  void* const found = system ? dlsym(system, name) : NULL;
  if (found == NULL) {
    fprintf(stderr, "faulty: the system's OpenCL has no %s\n", name);
    abort();
  }
  return found;
}

static int is_ghost(const void* device) {
  return (const char*)device >= (const char*)g_ghosts &&
         (const char*)device < (const char*)(g_ghosts + 16);
}

// A function that returns a status; and one that returns an object, and a status in its last
// argument.
#define STATUS(name, parameters, arguments)                         \
  EXPORT int name parameters {                                      \
    const int failed = counted(number_of(#name, strlen(#name)));    \
    if (failed != 0) return failed;                                 \
    return ((int(*) parameters)function_of_system(#name))arguments; \
  }
#define OBJECT(name, parameters, arguments)                          \
  EXPORT void* name parameters {                                     \
    const int failed = counted(number_of(#name, strlen(#name)));     \
    if (failed != 0) {                                               \
      if (status != NULL) *status = failed;                          \
      return NULL;                                                   \
    }                                                                \
    return ((void*(*)parameters)function_of_system(#name))arguments; \
  }

STATUS(clGetPlatformIDs, (uint32_t count, void** ids, uint32_t* found), (count, ids, found))
STATUS(clGetPlatformInfo, (void* platform, uint32_t what, size_t bytes, void* to, size_t* found),
       (platform, what, bytes, to, found))
OBJECT(clCreateContext,
       (const intptr_t* properties, uint32_t count, void* const* devices, void* notify, void* user,
        int* status),
       (properties, count, devices, notify, user, status))
OBJECT(clCreateCommandQueue, (void* context, void* device, uint64_t properties, int* status),
       (context, device, properties, status))
OBJECT(clCreateBuffer, (void* context, uint64_t flags, size_t bytes, void* host, int* status),
       (context, flags, bytes, host, status))
STATUS(clReleaseMemObject, (void* memory), (memory))
STATUS(clEnqueueReadBuffer,
       (void* queue, void* memory, uint32_t wait, size_t place, size_t bytes, void* to, uint32_t n,
        void* const* events, void** event),
       (queue, memory, wait, place, bytes, to, n, events, event))
STATUS(clEnqueueCopyBuffer,
       (void* queue, void* from, void* to, size_t from_place, size_t to_place, size_t bytes,
        uint32_t n, void* const* events, void** event),
       (queue, from, to, from_place, to_place, bytes, n, events, event))
STATUS(clEnqueueFillBuffer,
       (void* queue, void* memory, const void* pattern, size_t size, size_t place, size_t bytes,
        uint32_t n, void* const* events, void** event),
       (queue, memory, pattern, size, place, bytes, n, events, event))
OBJECT(clEnqueueMapBuffer,
       (void* queue, void* memory, uint32_t wait, uint64_t flags, size_t place, size_t bytes,
        uint32_t n, void* const* events, void** event, int* status),
       (queue, memory, wait, flags, place, bytes, n, events, event, status))
STATUS(clGetEventInfo, (void* event, uint32_t what, size_t bytes, void* to, size_t* found),
       (event, what, bytes, to, found))
STATUS(clWaitForEvents, (uint32_t count, void* const* events), (count, events))
STATUS(clReleaseEvent, (void* event), (event))
STATUS(clFinish, (void* queue), (queue))
OBJECT(clCreateProgramWithSource,
       (void* context, uint32_t count, const char** text, const size_t* lengths, int* status),
       (context, count, text, lengths, status))
OBJECT(clCreateProgramWithBinary,
       (void* context, uint32_t count, void* const* devices, const size_t* lengths,
        const unsigned char** binaries, int* each, int* status),
       (context, count, devices, lengths, binaries, each, status))
STATUS(clGetProgramInfo, (void* program, uint32_t what, size_t bytes, void* to, size_t* found),
       (program, what, bytes, to, found))
STATUS(clReleaseProgram, (void* program), (program))
OBJECT(clCreateKernel, (void* program, const char* name, int* status), (program, name, status))
STATUS(clReleaseKernel, (void* kernel), (kernel))
STATUS(clEnqueueNDRangeKernel,
       (void* queue, void* kernel, uint32_t dims, const size_t* offset, const size_t* global,
        const size_t* local, uint32_t n, void* const* events, void** event),
       (queue, kernel, dims, offset, global, local, n, events, event))

EXPORT int clEnqueueWriteBuffer(void* queue, void* memory, uint32_t wait, size_t place,
                                size_t bytes, const void* from, uint32_t n, void* const* events,
                                void** event) {
  const int failed = counted(number_of("clEnqueueWriteBuffer", 20));
  if (failed != 0) return failed;
  if (wait) counted(number_of("a write that waits", 18));
  int (*const system)(void*, void*, uint32_t, size_t, size_t, const void*, uint32_t, void* const*,
                      void**) = function_of_system("clEnqueueWriteBuffer");
  return system(queue, memory, wait, place, bytes, from, n, events, event);
}

EXPORT int clGetDeviceIDs(void* platform, uint64_t type, uint32_t count, void** ids,
                          uint32_t* found) {
  const int failed = counted(number_of("clGetDeviceIDs", 14));
  if (failed != 0) return failed;
  int (*const system)(void*, uint64_t, uint32_t, void**, uint32_t*) =
      function_of_system("clGetDeviceIDs");
  const uint32_t extra = (uint32_t)g_extra;
  const int status =
      system(platform, type, ids && count > extra ? count - extra : count, ids, found);
  if (status != 0) return status;
  if (found != NULL) *found += extra;
  for (uint32_t i = 0; ids != NULL && i < extra && i < count; ++i)
    ids[count - 1 - i] = &g_ghosts[i % 16];
  return 0;
}

EXPORT int clGetDeviceInfo(void* device, uint32_t what, size_t bytes, void* to, size_t* found) {
  const int failed = counted(number_of("clGetDeviceInfo", 15));
  if (failed != 0) return failed;
  if (is_ghost(device)) return kInvalidDevice;
  for (int i = 0; i < g_info_count; ++i) {
    if (g_info[i].number != what) continue;
    if (to != NULL) memcpy(to, &g_info[i].value, bytes < 8 ? bytes : 8);  // little endian
    return 0;
  }
  int (*const system)(void*, uint32_t, size_t, void*, size_t*) =
      function_of_system("clGetDeviceInfo");
  return system(device, what, bytes, to, found);
}

// Arguments are set in their order, by one thread at a time a kernel.
EXPORT int clSetKernelArg(void* kernel, uint32_t number, size_t bytes, const void* value) {
  static _Thread_local size_t all;
  const int failed = counted(number_of("clSetKernelArg", 14));
  if (failed != 0) return failed;
  all = bytes + (number == 0 ? 0 : all);
  for (int i = 0; i < g_info_count; ++i)
    if (g_info[i].number == kMostParameters && all > g_info[i].value) return kInvalidArgumentSize;
  int (*const system)(void*, uint32_t, size_t, const void*) = function_of_system("clSetKernelArg");
  return system(kernel, number, bytes, value);
}

EXPORT int clBuildProgram(void* program, uint32_t count, void* const* devices, const char* options,
                          void* notify, void* user) {
  const int failed = counted(number_of("clBuildProgram", 14));
  g_build_failed = failed != 0;
  if (failed != 0) return failed;
  int (*const system)(void*, uint32_t, void* const*, const char*, void*, void*) =
      function_of_system("clBuildProgram");
  return system(program, count, devices, options, notify, user);
}

EXPORT int clGetProgramBuildInfo(void* program, void* device, uint32_t what, size_t bytes, void* to,
                                 size_t* found) {
  static const char kText[] = "faulty: this build was set to fail";
  const int failed = counted(number_of("clGetProgramBuildInfo", 21));
  if (failed != 0) return failed;
  if (g_build_failed && what == kBuildLog) {
    if (found != NULL) *found = sizeof kText;
    if (to != NULL) memcpy(to, kText, bytes < sizeof kText ? bytes : sizeof kText);
    return 0;
  }
  int (*const system)(void*, void*, uint32_t, size_t, void*, size_t*) =
      function_of_system("clGetProgramBuildInfo");
  return system(program, device, what, bytes, to, found);
}
