#include "opencl/opencl_driver.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "core/base/backend_error.h"
#include "core/base/fork.h"
#include "core/memory/device_cache.h"
#include "opencl/build.h"
#include "opencl/library.h"

namespace tinyt::opencl {

namespace {

// Elements of a row that a core takes at once, some microseconds of work; threads that wait for a
// core, so that none is idle at the end; results that its caches are too small for.
constexpr int64_t kCpuBlock = 4096, kThreadsPerCore = 8, kStreamBytes = int64_t{16} << 20;
constexpr int64_t kThreadsPerUnit = 2048;

Memory memory_in(const Buffer& buffer) { return static_cast<Memory>(buffer.handle); }

// What a query gives, asked for its bytes first.
template <class F>
std::string text_of(const char* name, const F& query) {
  size_t bytes = 0;
  check(query(0, nullptr, &bytes), name);
  std::string text(bytes, '\0');
  check(query(bytes, text.data(), nullptr), name);
  text.resize(std::min(text.find('\0'), text.size()));
  return text;
}

}  // namespace

// ---- devices

template <class T>
T OpenClDriver::info(DeviceId id, UInt what) const {
  T value{};
  check(api_.clGetDeviceInfo(id, what, sizeof value, &value, nullptr), "clGetDeviceInfo");
  return value;
}

std::string OpenClDriver::text(DeviceId id, UInt what) const {
  return text_of("clGetDeviceInfo", [&](size_t bytes, char* to, size_t* found) {
    return api_.clGetDeviceInfo(id, what, bytes, to, found);
  });
}

std::string OpenClDriver::text(Platform platform, UInt what) const {
  return text_of("clGetPlatformInfo", [&](size_t bytes, char* to, size_t* found) {
    return api_.clGetPlatformInfo(platform, what, bytes, to, found);
  });
}

OpenClDriver::OpenClDriver(const Api& api) : api_(api), forks_(fork_count()) {
  std::string why;
  try {
    add_platforms(why);
  } catch (const BackendError& error) {
    why = error.what();
  }
  require(!devices_.empty(), ErrorKind::Device,
          "device: the OpenCL library knows no device that compiles kernels",
          why.empty() ? "" : " (", why, why.empty() ? "" : ")",
          "; install a driver (Debian: pocl-opencl-icd runs them on the CPU)");
  // Those that are not a CPU first: they are what a program means by "opencl".
  std::ranges::stable_partition(devices_, [](const OpenClDevice& d) { return !d.is_cpu; });
}

void OpenClDriver::add_platforms(std::string& why) {
  UInt count = 0;
  const Int status = api_.clGetPlatformIDs(0, nullptr, &count);
  if (status == kNoPlatform || (status == kSuccess && count == 0)) return;
  check(status, "clGetPlatformIDs");
  std::vector<Platform> platforms(count);
  check(api_.clGetPlatformIDs(count, platforms.data(), nullptr), "clGetPlatformIDs");
  for (const Platform platform : platforms) add_devices(platform, why);
}

// Those of a platform that answer; why some do not. One driver that fails does not take the others
// with it.
void OpenClDriver::add_devices(Platform platform, std::string& why) {
  std::vector<DeviceId> ids;
  std::string identity;
  try {
    UInt count = 0;
    const Int status = api_.clGetDeviceIDs(platform, kAnyType, 0, nullptr, &count);
    if (status == kDeviceNotFound || (status == kSuccess && count == 0)) return;
    check(status, "clGetDeviceIDs");
    ids.resize(count);
    check(api_.clGetDeviceIDs(platform, kAnyType, count, ids.data(), nullptr), "clGetDeviceIDs");
    identity = text(platform, kPlatformName) + "\n" + text(platform, kPlatformVersion);
  } catch (const BackendError& error) {
    why = error.what();
    return;
  }
  for (const DeviceId id : ids) {
    try {
      add_device(id, identity);
    } catch (const BackendError& error) {
      why = error.what();
    }
  }
}

void OpenClDriver::add_device(DeviceId id, const std::string& platform) {
  if (info<UInt>(id, kAvailable) == 0 || info<UInt>(id, kCompilerAvailable) == 0) return;
  // So that their form of kernels can be tried without one.
  const bool all_are_gpus = std::getenv("TINYT_OPENCL_AS_GPU") != nullptr;
  OpenClDevice found{.id = id,
                     .name = text(id, kDeviceName),
                     .identity = platform,
                     .bytes = info<ULong>(id, kGlobalBytes),
                     .most_allocation = info<ULong>(id, kMostAllocation),
                     .most_group = info<size_t>(id, kMostGroup),
                     .most_arguments = info<size_t>(id, kMostParameters),
                     .units = info<UInt>(id, kComputeUnits),
                     .is_cpu = (info<Bits>(id, kDeviceType) & kTypeCpu) != 0 && !all_are_gpus};
  for (const UInt what : {kDeviceVendor, kDeviceName, kDeviceVersion, kDriverVersion})
    found.identity += "\n" + text(id, what);
  devices_.push_back(std::move(found));
}

// A child of a fork has none of the threads that run kernels.
void OpenClDriver::check_usable(int) {
  require(
      fork_count() == forks_, ErrorKind::Device,
      "device: a forked process cannot use OpenCL devices that its parent has opened; start it by "
      "multiprocessing's \"spawn\"");
}

// With its context and queue, made when it is used first.
OpenClDriver::OpenClDevice& OpenClDriver::device(int index) {
  check_usable(index);
  OpenClDevice& found = devices_[static_cast<size_t>(index)];
  const std::lock_guard<std::mutex> lock(mutex_);
  if (found.queue != nullptr) return found;
  Int status = kSuccess;
  if (found.context == nullptr) {
    found.context = api_.clCreateContext(nullptr, 1, &found.id, nullptr, nullptr, &status);
    check(status, "clCreateContext");
  }
  for (Queue* queue : {&found.maps, &found.queue}) {
    if (*queue == nullptr) *queue = api_.clCreateCommandQueue(found.context, found.id, 0, &status);
    check(status, "clCreateCommandQueue");
  }
  return found;
}

DeviceProperties OpenClDriver::properties(int index) const {
  const OpenClDevice& found = device(index);
  return {found.name, found.bytes, 128, found.most_allocation};
}

// ---- memory

Buffer OpenClDriver::allocate(size_t bytes, int index) {
  const OpenClDevice& on = device(index);
  if (bytes > on.most_allocation) return {};
  Int status = kSuccess;
  Memory memory = api_.clCreateBuffer(on.context, kReadWrite, bytes, nullptr, &status);
  if (is_short_of_memory(status)) {
    // What was given back is free when the work that uses it is done.
    check(api_.clFinish(on.queue), "clFinish");
    memory = api_.clCreateBuffer(on.context, kReadWrite, bytes, nullptr, &status);
  }
  if (is_short_of_memory(status) || status == kInvalidBufferSize) return {};
  check(status, "clCreateBuffer");
  return {.bytes = bytes, .handle = memory};
}

// Some drivers give a buffer its memory when it is used first, and are short of it then: once more,
// when what is kept went back to them.
template <class F>
void OpenClDriver::enqueue(int index, const char* name, const F& call) {
  Int status = call(device(index).queue);
  if (is_short_of_memory(status)) [[unlikely]] {
    memory::cache_of(device_at(index)).empty_cache();
    wait(index);
    status = call(device(index).queue);
  }
  check(status, name);
}

void OpenClDriver::free(const Buffer& buffer) noexcept {
  // A child of a fork keeps what it cannot give back.
  if (fork_count() == forks_) api_.clReleaseMemObject(memory_in(buffer));
}

// Whether it has copied from the host: what is not too large goes through memory of its own, which
// the queue reads when all before it is done. One piece after another.
bool OpenClDriver::write_staged(const Buffer& to, size_t place, const char* from, size_t bytes) {
  if (bytes > Staging::kMostStaged / 2) return false;
  OpenClDevice& on = device(to.device.index);
  for (size_t done = 0; done < bytes; done += Staging::kPiece) {
    const size_t some = std::min(bytes - done, Staging::kPiece);
    const auto write = [&](Piece& piece) {
      std::memcpy(piece.host, from + done, some);
      enqueue(to.device.index, "clEnqueueWriteBuffer", [&](Queue queue) {
        return api_.clEnqueueWriteBuffer(queue, memory_in(to), kFalse, place + done, some,
                                         piece.host, 0, nullptr, &piece.read);
      });
    };
    if (!on.staging->use(PieceSource{api_, on.context, on.maps}, write)) return false;
  }
  return true;
}

void OpenClDriver::copy_bytes(const Buffer& to, size_t to_place, const Buffer& from,
                              size_t from_place, size_t bytes) {
  const size_t target = to.offset + to_place, source = from.offset + from_place;
  if (from.handle == nullptr) {
    const char* begin = static_cast<const char*>(from.host) + from_place;
    if (write_staged(to, target, begin, bytes)) return;
    enqueue(to.device.index, "clEnqueueWriteBuffer", [&](Queue queue) {
      return api_.clEnqueueWriteBuffer(queue, memory_in(to), kTrue, target, bytes, begin, 0,
                                       nullptr, nullptr);
    });
  } else if (to.handle == nullptr) {
    enqueue(from.device.index, "clEnqueueReadBuffer", [&](Queue queue) {
      char* begin = static_cast<char*>(to.host) + to_place;
      return api_.clEnqueueReadBuffer(queue, memory_in(from), kTrue, source, bytes, begin, 0,
                                      nullptr, nullptr);
    });
  } else {
    enqueue(to.device.index, "clEnqueueCopyBuffer", [&](Queue queue) {
      return api_.clEnqueueCopyBuffer(queue, memory_in(from), memory_in(to), source, target, bytes,
                                      0, nullptr, nullptr);
    });
  }
}

void OpenClDriver::fill(const Buffer& to, size_t place, size_t bytes, uint8_t value) {
  if (bytes == 0) return;
  enqueue(to.device.index, "clEnqueueFillBuffer", [&](Queue queue) {
    return api_.clEnqueueFillBuffer(queue, memory_in(to), &value, 1, to.offset + place, bytes, 0,
                                    nullptr, nullptr);
  });
}

void OpenClDriver::wait(int index) { check(api_.clFinish(device(index).queue), "clFinish"); }

// ---- kernels

const gpu::Dialect& OpenClDriver::dialect(int index) {
  return devices_[static_cast<size_t>(index)].is_cpu ? gpu::kOpenCl : gpu::kOpenClGpu;
}

gpu::LaunchModel OpenClDriver::launch_model(int index) {
  const OpenClDevice& on = devices_[static_cast<size_t>(index)];
  if (on.is_cpu) return {kCpuBlock, kThreadsPerCore * on.units, gpu::kManyTurns, kStreamBytes};
  return {.threads = kThreadsPerUnit * on.units,
          .shares_memory = on.most_group >= gpu::kGroupThreads};
}

size_t OpenClDriver::most_argument_bytes(int index) {
  return devices_[static_cast<size_t>(index)].most_arguments;
}

gpu::BuiltKernel& OpenClDriver::build(const std::string& source, std::string_view name, int index) {
  const OpenClDevice& on = device(index);
  const Kernel kernel = build_kernel(api_, {on.context, on.id, on.name, on.identity, on.is_cpu},
                                     source, std::string(name));
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
  const size_t group = on.is_cpu ? 1 : std::min<size_t>(gpu::kGroupThreads, on.most_group);
  const size_t count = (static_cast<size_t>(threads) + group - 1) / group * group;
  enqueue(index, "clEnqueueNDRangeKernel", [&](Queue queue) {
    return api_.clEnqueueNDRangeKernel(queue, kernel, 1, nullptr, &count, &group, 0, nullptr,
                                       nullptr);
  });
}

}  // namespace tinyt::opencl
