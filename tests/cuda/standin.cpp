// Stand-in for CUDA's driver and for NVRTC, for tests on machines without a GPU: kernels, printed
// as CUDA C++, are compiled by the host's compiler and run on the CPU. TINYT_CUDA_LIBRARY and
// TINYT_NVRTC_LIBRARY name it, or TINYT_HIP_LIBRARY and TINYT_HIPRTC_LIBRARY. Calls are counted,
// and fail where they are told to
// (../faulty_calls.h).
//
// Environment, read when it is first needed:
//   STANDIN_DEVICES     number of devices (2)
//   STANDIN_CAPABILITY  their compute capability, 10 * major + minor (90)
//   STANDIN_MEMORY      bytes of memory of each (8 GiB)
//   STANDIN_VERSION     the driver's version (12090)
//   STANDIN_ORDER       forward, reverse or random: how threads and blocks follow (standin_order)
//   STANDIN_DELAY       microseconds before each operation of a stream (standin_delay)
//   STANDIN_RUNNER      the path of runner.h (beside this file)
//   STANDIN_NVRTC       the path of NVRTC, which has to take each source, too (none)
//   STANDIN_NVRTC_ARCHITECTURES  what for ("sm_90"), apart by spaces
//   STANDIN_HIPRTC      the path of hipRTC, which has to take each source, too (none), for gfx90a
//   CXX                 the host's compiler (c++)
#include <algorithm>
#include <type_traits>

#include "cuda/api.h"
#include "standin_compiler.h"
#include "standin_device.h"
#include "standin_grid.h"

using namespace standin;

#define CUDA_NAME(name, symbol, arguments) #name,
#define NVRTC_NAME(name, arguments) #name,
static const char* const kNames[] = {TINYT_CUDA_FUNCTIONS(CUDA_NAME)
                                         TINYT_NVRTC_FUNCTIONS(NVRTC_NAME)};
#include "../faulty_calls.h"  // of kNames

namespace {

#define CUDA_CALL(name, symbol, arguments) name,
#define NVRTC_CALL(name, arguments) name,
enum class Call { TINYT_CUDA_FUNCTIONS(CUDA_CALL) TINYT_NVRTC_FUNCTIONS(NVRTC_CALL) };

#define RETURN_IF_FAILED(expression) \
  if (const Status failed = (expression); failed != kSuccess) return failed
// First in every function: it counts the call, and fails it where it was told to.
#define COUNTED(name) RETURN_IF_FAILED(counted(static_cast<int>(Call::name)))
// The same of functions that need a current context.
#define IN_CONTEXT(name) \
  COUNTED(name);         \
  RETURN_IF_FAILED(check_context())

Status check_driver() { return driver().ready ? kSuccess : kNotInitialized; }

Status check_device(DeviceId device) {
  RETURN_IF_FAILED(check_driver());
  const bool known = device >= 0 && static_cast<size_t>(device) < driver().contexts.size();
  return known ? kSuccess : kInvalidDevice;
}

bool is_context(Context context) {
  const std::lock_guard lock(driver().mutex);
  const std::vector<ContextTag*>& all = driver().contexts;
  return std::find(all.begin(), all.end(), context) != all.end() && context->retained > 0;
}

// An error of a worker is one of all later calls.
Status check_context() {
  RETURN_IF_FAILED(check_driver());
  return g_current == nullptr ? kInvalidContext : g_current->error.load();
}

Status check_handle(const void* handle) { return is_live(handle) ? kSuccess : kInvalidHandle; }

// A stream that operations of the current context go to: those of fixed numbers, which are other
// libraries', become the context's own. The legacy default stream by its other number, null, is not
// here, neither does it wait for others: tinyt's wait for none either.
Status check_stream(Stream& stream) {
  if (stream == nullptr) return kNotSupported;
  if (const auto number = reinterpret_cast<int64_t>(stream);
      number == kLegacyStream || number == kThreadStream)
    stream = default_stream(number);
  RETURN_IF_FAILED(check_handle(stream));
  return stream->context == g_current ? kSuccess : kInvalidHandle;
}

struct ErrorText {
  Status status;
  const char *name, *text;
};
constexpr ErrorText kErrors[] = {
    {0, "CUDA_SUCCESS", "no error"},
    {1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {200, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {209, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for the device"},
    {218, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
    {400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {500, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {600, "CUDA_ERROR_NOT_READY", "device not ready"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch"},
    {716, "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"},
    {719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {801, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {999, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

Status describe_error(Status status, const char* ErrorText::* which, const char** text) {
  if (text == nullptr) return kInvalidValue;
  *text = nullptr;
  for (const ErrorText& error : kErrors)
    if (error.status == status) *text = error.*which;
  return *text ? kSuccess : kInvalidValue;
}

// By their numbers; the clock rate, 13, is one that this driver does not know.
Status attribute_of(DeviceId device, int attribute, int* value) {
  const std::map<int, int> known = {{1, 1024},
                                    {8, static_cast<int>(kSharedBytes)},
                                    {10, 32},
                                    {12, 65536},
                                    {kProcessors, 4},
                                    {18, 0},
                                    {33, 1 + device},
                                    {34, 0},
                                    {36, 1593000},
                                    {37, 5120},
                                    {38, 50 << 20},
                                    {39, 2048},
                                    {50, 0},
                                    {kMajor, capability() / 10},
                                    {kMinor, capability() % 10},
                                    {81, 228 << 10},
                                    {82, 65536},
                                    {84, 0},
                                    {kSharedOptIn, static_cast<int>(shared_limit())}};
  const auto found = known.find(attribute);
  if (found == known.end()) return kInvalidValue;
  *value = found->second;
  return kSuccess;
}

// A copy to or from the device's memory, which stays until it is done.
void push_copy(Stream stream, void* to, const void* from, size_t bytes,
               std::vector<std::shared_ptr<void>> owners) {
  stream->push([=, owners = std::move(owners)] { memmove(to, from, bytes); });
}

// ---- launches

struct Launch {
  std::shared_ptr<Library> library;
  const StandinKernel* kernel;
  ContextTag* context;
  StandinDim grid, block;
  size_t shared_bytes;
  Status fails;
  std::vector<std::max_align_t> storage;
  std::vector<void*> values;

  void copy_arguments(void** given) {
    constexpr size_t kUnit = sizeof(std::max_align_t);
    size_t units = 0;
    std::vector<size_t> places;
    for (unsigned i = 0; i < kernel->argument_count; ++i) {
      places.push_back(units);
      units += (kernel->arguments[i].bytes + kUnit - 1) / kUnit;
    }
    storage.resize(units);
    for (unsigned i = 0; i < kernel->argument_count; ++i) {
      values.push_back(&storage[places[i]]);
      memcpy(values[i], given[i], kernel->arguments[i].bytes);
    }
  }

  // On the stream's worker. Pointers become those of the host.
  Status run() {
    if (fails != kSuccess) return fails;
    std::vector<std::shared_ptr<Memory>> used;
    for (unsigned i = 0; i < kernel->argument_count; ++i) {
      if (!kernel->arguments[i].is_pointer) continue;
      Address address = 0;
      memcpy(&address, values[i], sizeof address);
      if (address == 0) continue;
      used.push_back(find_memory(address, 0, context));
      if (used.back() == nullptr) {
        fprintf(stderr, "stand-in: argument %u of kernel %s lies in no allocation: %#llx\n", i,
                kernel->name, static_cast<unsigned long long>(address));
        return kIllegalAddress;
      }
      address ^= kTag;
      memcpy(values[i], &address, sizeof address);
    }
    const std::lock_guard lock(library->running);
    return GridRun(*library->module, *kernel, grid, block, shared_bytes, values.data()).run();
  }
};

bool is_between(unsigned value, unsigned least, unsigned most) {
  return value >= least && value <= most;
}

__attribute__((constructor)) void prepare() {
  if (const char* const order = getenv("STANDIN_ORDER")) set_order(order);
  // Workers run code of this library until the process ends: dlclose must leave it.
  Dl_info info;
  if (dladdr(reinterpret_cast<void*>(&prepare), &info) != 0)
    dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
}

}  // namespace

// ---- hooks of tests

EXPORT void standin_order(const char* name) { set_order(name); }
EXPORT void standin_delay(long microseconds) { g_delay = microseconds; }
// The next launched kernel does not run; its context has this error once the stream is there.
EXPORT void standin_fail_async(int status) { g_fail_async = status; }
// No context has an error any more.
EXPORT void standin_reset(void) {
  const std::lock_guard lock(driver().mutex);
  for (ContextTag* const context : driver().contexts) context->error = kSuccess;
  g_fail_async = 0;
}
// How many allocations of devices there are.
EXPORT long standin_live(void) {
  const std::lock_guard lock(driver().mutex);
  return static_cast<long>(driver().memory.size());
}

// ---- the driver: devices and contexts

EXPORT Status cuInit(unsigned flags) {
  COUNTED(cuInit);
  if (flags != 0) return kInvalidValue;
  const std::lock_guard lock(driver().mutex);
  const int devices = static_cast<int>(setting("STANDIN_DEVICES", 2));
  if (devices <= 0) return kNoDevice;
  for (int i = 0; i < devices && !driver().ready; ++i) {
    driver().contexts.push_back(new ContextTag);
    driver().contexts.back()->device = i;
  }
  driver().ready = true;
  return kSuccess;
}

EXPORT Status cuDriverGetVersion(int* version) {
  COUNTED(cuDriverGetVersion);
  if (version == nullptr) return kInvalidValue;
  *version = static_cast<int>(setting("STANDIN_VERSION", 12090));
  return kSuccess;
}

EXPORT Status cuGetErrorName(Status status, const char** name) {
  COUNTED(cuGetErrorName);
  return describe_error(status, &ErrorText::name, name);
}

EXPORT Status cuGetErrorString(Status status, const char** text) {
  COUNTED(cuGetErrorString);
  return describe_error(status, &ErrorText::text, text);
}

EXPORT Status cuDeviceGetCount(int* count) {
  COUNTED(cuDeviceGetCount);
  RETURN_IF_FAILED(check_driver());
  if (count == nullptr) return kInvalidValue;
  *count = static_cast<int>(driver().contexts.size());
  return kSuccess;
}

EXPORT Status cuDeviceGet(DeviceId* device, int number) {
  COUNTED(cuDeviceGet);
  RETURN_IF_FAILED(check_device(number));
  if (device == nullptr) return kInvalidValue;
  *device = number;
  return kSuccess;
}

EXPORT Status cuDeviceGetName(char* name, int bytes, DeviceId device) {
  COUNTED(cuDeviceGetName);
  RETURN_IF_FAILED(check_device(device));
  if (name == nullptr || bytes <= 0) return kInvalidValue;
  snprintf(name, static_cast<size_t>(bytes), "the tests' stand-in %d (a CPU)", device);
  return kSuccess;
}

EXPORT Status cuDeviceTotalMem_v2(size_t* bytes, DeviceId device) {
  COUNTED(cuDeviceTotalMem);
  RETURN_IF_FAILED(check_device(device));
  if (bytes == nullptr) return kInvalidValue;
  *bytes = total_memory();
  return kSuccess;
}

EXPORT Status cuDeviceGetAttribute(int* value, int attribute, DeviceId device) {
  COUNTED(cuDeviceGetAttribute);
  RETURN_IF_FAILED(check_device(device));
  if (value == nullptr) return kInvalidValue;
  return attribute_of(device, attribute, value);
}

EXPORT Status cuDevicePrimaryCtxRetain(Context* context, DeviceId device) {
  COUNTED(cuDevicePrimaryCtxRetain);
  RETURN_IF_FAILED(check_device(device));
  if (context == nullptr) return kInvalidValue;
  const std::lock_guard lock(driver().mutex);
  *context = driver().contexts[static_cast<size_t>(device)];
  ++(*context)->retained;
  return kSuccess;
}

EXPORT Status cuCtxGetCurrent(Context* context) {
  COUNTED(cuCtxGetCurrent);
  RETURN_IF_FAILED(check_driver());
  if (context == nullptr) return kInvalidValue;
  *context = g_current;
  return kSuccess;
}

EXPORT Status cuCtxSetCurrent(Context context) {
  COUNTED(cuCtxSetCurrent);
  RETURN_IF_FAILED(check_driver());
  if (context != nullptr && !is_context(context)) return kInvalidContext;
  g_current = context;
  return kSuccess;
}

#include "standin_calls.h"
#include "standin_facts.h"
#include "standin_graphs.h"
#include "standin_hip.h"

// ---- all of api.h is here, as it is declared there

#define CUDA_CHECK(name, symbol, arguments) \
  static_assert(std::is_same_v<decltype(&symbol), Status(*) arguments>);
TINYT_CUDA_FUNCTIONS(CUDA_CHECK)
#define NVRTC_CHECK(name, arguments) \
  static_assert(std::is_same_v<decltype(&name), CompilerStatus(*) arguments>);
TINYT_NVRTC_FUNCTIONS(NVRTC_CHECK)
