#include "opencl/opencl_driver.h"

#include <algorithm>
#include <cstdlib>

#include "core/base/error.h"
#include "core/base/fork.h"
#include "opencl/library.h"

namespace tinyt::opencl {

namespace {

// Each edge of a graph rounds, and no operation is left out: nothing that relaxes arithmetic.
constexpr const char* kOptions = "-cl-std=CL1.2";

// Elements of a row that a core takes at once, some microseconds of work; threads that wait for a
// core, so that none is idle at the end.
constexpr int64_t kCpuBlock = 4096, kThreadsPerCore = 8;
constexpr int64_t kThreadsPerUnit = 2048;
constexpr size_t kGroup = 64;  // threads, of a GPU's work group

Memory memory_in(const Buffer& buffer) { return static_cast<Memory>(buffer.handle); }

}  // namespace

// ---- devices

template <class T>
T OpenClDriver::info(DeviceId id, UInt what) const {
  T value{};
  check(api_.clGetDeviceInfo(id, what, sizeof value, &value, nullptr), "clGetDeviceInfo");
  return value;
}

std::string OpenClDriver::text(DeviceId id, UInt what) const {
  size_t bytes = 0;
  check(api_.clGetDeviceInfo(id, what, 0, nullptr, &bytes), "clGetDeviceInfo");
  std::string text(bytes, '\0');
  check(api_.clGetDeviceInfo(id, what, bytes, text.data(), nullptr), "clGetDeviceInfo");
  text.resize(std::min(text.find('\0'), text.size()));
  return text;
}

OpenClDriver::OpenClDriver(const Api& api) : api_(api), forks_(fork_count()) {
  UInt count = 0;
  const Int status = api_.clGetPlatformIDs(0, nullptr, &count);
  if (status != kNoPlatform) check(status, "clGetPlatformIDs");
  std::vector<Platform> platforms(count);
  if (count > 0) check(api_.clGetPlatformIDs(count, platforms.data(), nullptr), "clGetPlatformIDs");
  for (const Platform platform : platforms) add_devices(platform);
  require(
      !devices_.empty(), ErrorKind::Device,
      "device: the OpenCL library knows no device that compiles kernels; install a driver (Debian: "
      "pocl-opencl-icd runs them on the CPU)");
  // Those that are not a CPU first: they are what a program means by "opencl".
  std::ranges::stable_partition(devices_, [](const OpenClDevice& d) { return !d.is_cpu; });
}

void OpenClDriver::add_devices(Platform platform) {
  UInt count = 0;
  const Int status = api_.clGetDeviceIDs(platform, kAnyType, 0, nullptr, &count);
  if (status == kDeviceNotFound) return;
  check(status, "clGetDeviceIDs");
  // So that their form of kernels can be tried without one.
  const bool all_are_gpus = std::getenv("TINYT_OPENCL_AS_GPU") != nullptr;
  std::vector<DeviceId> ids(count);
  check(api_.clGetDeviceIDs(platform, kAnyType, count, ids.data(), nullptr), "clGetDeviceIDs");
  for (const DeviceId id : ids) {
    if (info<UInt>(id, kAvailable) == 0 || info<UInt>(id, kCompilerAvailable) == 0) continue;
    devices_.push_back({.id = id,
                        .name = text(id, kDeviceName),
                        .bytes = info<ULong>(id, kGlobalBytes),
                        .most_allocation = info<ULong>(id, kMostAllocation),
                        .most_group = info<size_t>(id, kMostGroup),
                        .units = info<UInt>(id, kComputeUnits),
                        .is_cpu = (info<Bits>(id, kDeviceType) & kTypeCpu) != 0 && !all_are_gpus});
  }
}

// With its context and queue, made when it is used first. A child of a fork has none of the threads
// that run kernels.
OpenClDriver::OpenClDevice& OpenClDriver::device(int index) {
  require(
      fork_count() == forks_, ErrorKind::Device,
      "device: a forked process cannot use OpenCL devices that its parent has opened; start it by "
      "multiprocessing's \"spawn\"");
  OpenClDevice& found = devices_[static_cast<size_t>(index)];
  const std::lock_guard<std::mutex> lock(mutex_);
  if (found.queue != nullptr) return found;
  Int status = kSuccess;
  if (found.context == nullptr) {
    found.context = api_.clCreateContext(nullptr, 1, &found.id, nullptr, nullptr, &status);
    check(status, "clCreateContext");
  }
  found.queue = api_.clCreateCommandQueue(found.context, found.id, 0, &status);
  check(status, "clCreateCommandQueue");
  return found;
}

DeviceProperties OpenClDriver::properties(int index) const {
  const OpenClDevice& found = device(index);
  return {found.name, found.bytes, 128};
}

// ---- memory

Buffer OpenClDriver::allocate(size_t bytes, int index) {
  const OpenClDevice& on = device(index);
  if (bytes > on.most_allocation) return {};
  Int status = kSuccess;
  const Memory memory = api_.clCreateBuffer(on.context, kReadWrite, bytes, nullptr, &status);
  if (status == kMemoryFailure || status == kOutOfResources || status == kOutOfHostMemory ||
      status == kInvalidBufferSize)
    return {};
  check(status, "clCreateBuffer");
  return {.bytes = bytes, .handle = memory};
}

void OpenClDriver::free(const Buffer& buffer) noexcept {
  // A child of a fork keeps what it cannot give back.
  if (fork_count() == forks_) api_.clReleaseMemObject(memory_in(buffer));
}

void OpenClDriver::copy_bytes(const Buffer& to, size_t to_place, const Buffer& from,
                              size_t from_place, size_t bytes) {
  if (bytes == 0) return;
  const size_t target = to.offset + to_place, source = from.offset + from_place;
  if (from.handle == nullptr) {
    check(api_.clEnqueueWriteBuffer(device(to.device.index).queue, memory_in(to), kTrue, target,
                                    bytes, static_cast<const char*>(from.host) + from_place, 0,
                                    nullptr, nullptr),
          "clEnqueueWriteBuffer");
  } else if (to.handle == nullptr) {
    check(api_.clEnqueueReadBuffer(device(from.device.index).queue, memory_in(from), kTrue, source,
                                   bytes, static_cast<char*>(to.host) + to_place, 0, nullptr,
                                   nullptr),
          "clEnqueueReadBuffer");
  } else if (to.device == from.device) {
    check(api_.clEnqueueCopyBuffer(device(to.device.index).queue, memory_in(from), memory_in(to),
                                   source, target, bytes, 0, nullptr, nullptr),
          "clEnqueueCopyBuffer");
  } else {  // of another context
    const auto host = std::make_unique<char[]>(bytes);
    const Buffer between{.host = host.get(), .bytes = bytes};
    copy_bytes(between, 0, from, from_place, bytes);
    copy_bytes(to, to_place, between, 0, bytes);
  }
}

void OpenClDriver::fill(const Buffer& to, size_t place, size_t bytes, uint8_t value) {
  if (bytes == 0) return;
  check(api_.clEnqueueFillBuffer(device(to.device.index).queue, memory_in(to), &value, 1,
                                 to.offset + place, bytes, 0, nullptr, nullptr),
        "clEnqueueFillBuffer");
}

void OpenClDriver::wait(int index) { check(api_.clFinish(device(index).queue), "clFinish"); }

// ---- kernels

const gpu::Dialect& OpenClDriver::dialect(int index) {
  return device(index).is_cpu ? gpu::kOpenCl : gpu::kOpenClGpu;
}

gpu::LaunchModel OpenClDriver::launch_model(int index) {
  const OpenClDevice& on = devices_[static_cast<size_t>(index)];
  if (on.is_cpu) return {.least_block = kCpuBlock, .threads = kThreadsPerCore * on.units};
  return {.least_block = 1, .threads = kThreadsPerUnit * on.units};
}

gpu::BuiltKernel& OpenClDriver::build(const std::string& source, std::string_view name, int index) {
  const OpenClDevice& on = device(index);
  Int status = kSuccess;
  const char* text = source.c_str();
  const Program program = api_.clCreateProgramWithSource(on.context, 1, &text, nullptr, &status);
  check(status, "clCreateProgramWithSource");
  const std::unique_ptr<ProgramTag, Int (*)(Program)> kept(program, api_.clReleaseProgram);
  status = api_.clBuildProgram(program, 1, &on.id, kOptions, nullptr, nullptr);
  if (status != kSuccess) {
    size_t bytes = 0;
    std::string log;
    if (api_.clGetProgramBuildInfo(program, on.id, kBuildLog, 0, nullptr, &bytes) == kSuccess) {
      log.resize(bytes);
      api_.clGetProgramBuildInfo(program, on.id, kBuildLog, bytes, log.data(), nullptr);
      log.resize(std::min(log.find('\0'), log.size()));
    }
    fail(ErrorKind::Runtime, "opencl: ", on.name, " does not compile a kernel (", status, "):\n",
         log, "\n", source);
  }
  const Kernel kernel = api_.clCreateKernel(program, std::string(name).c_str(), &status);
  check(status, "clCreateKernel");
  const std::lock_guard<std::mutex> lock(mutex_);
  kernels_.emplace_back().kernel = kernel;
  return kernels_.back();
}

void OpenClDriver::launch(gpu::BuiltKernel& built, int index, std::span<const Buffer* const> memory,
                          std::span<const int64_t> words, int64_t threads) {
  const OpenClDevice& on = device(index);
  auto& [kernel, mutex] = static_cast<OpenClKernel&>(built);
  const std::lock_guard<std::mutex> lock(mutex);
  UInt number = 0;
  for (const Buffer* buffer : memory) {
    const Memory object = memory_in(*buffer);
    check(api_.clSetKernelArg(kernel, number++, sizeof object, &object), "clSetKernelArg");
  }
  check(api_.clSetKernelArg(kernel, number, words.size_bytes(), words.data()), "clSetKernelArg");
  const size_t group = on.is_cpu ? 1 : std::min(kGroup, on.most_group);
  const size_t count = (static_cast<size_t>(threads) + group - 1) / group * group;
  check(api_.clEnqueueNDRangeKernel(on.queue, kernel, 1, nullptr, &count, &group, 0, nullptr,
                                    nullptr),
        "clEnqueueNDRangeKernel");
}

}  // namespace tinyt::opencl
