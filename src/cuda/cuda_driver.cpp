#include "cuda/cuda_driver.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "core/base/backend_error.h"
#include "core/base/fork.h"
#include "core/base/parallel.h"
#include "cuda/current.h"
#include "cuda/hand_kernels.h"
#include "gpu/operation.h"

namespace tinyt::cuda {

namespace {

// A processor has so many at most ("CUDA C++ Programming Guide", on compute capabilities).
constexpr int64_t kThreadsPerProcessor = 2048;

// Whether each kernel is waited for: by CUDA's variable, too.
bool is_launch_blocking() {
  for (const char* name : {"TINYT_CUDA_LAUNCH_BLOCKING", "CUDA_LAUNCH_BLOCKING"})
    if (const char* text = std::getenv(name)) return *text != '\0' && std::strcmp(text, "0") != 0;
  return false;
}

}  // namespace

// ---- devices

CudaDriver::CudaDriver(const Libraries& libraries)
    : libraries_(libraries),
      api_(libraries.driver),
      forks_(fork_count()),
      waits_for_launches_(is_launch_blocking()) {
  try {
    int count = 0;
    check(api_, api_.cuDeviceGetCount(&count), "cuDeviceGetCount");
    for (int i = 0; i < count; ++i) add_device(i);
  } catch (const BackendError& error) {
    fail(ErrorKind::Device, "device: CUDA's devices do not open (", error.what(), ")");
  }
  require(!devices_.empty(), ErrorKind::Device, "device: CUDA's driver knows no device here");
}

void CudaDriver::add_device(int number) {
  CudaDevice found;
  char name[256] = {};
  int major = 0, minor = 0, processors = 1;
  const auto ask = [&](int what, int* value) {
    check(api_, api_.cuDeviceGetAttribute(value, what, found.id), "cuDeviceGetAttribute");
  };
  check(api_, api_.cuDeviceGet(&found.id, number), "cuDeviceGet");
  check(api_, api_.cuDeviceGetName(name, sizeof name - 1, found.id), "cuDeviceGetName");
  check(api_, api_.cuDeviceTotalMem(&found.bytes, found.id), "cuDeviceTotalMem");
  ask(kMajor, &major);
  ask(kMinor, &minor);
  ask(kProcessors, &processors);
  found.target = {name, 10 * major + minor};
  found.processors = processors;
  devices_.push_back(std::move(found));
}

void CudaDriver::require_own_process() const {
  require(is_own_process(), ErrorKind::Device,
          "device: a forked process cannot use CUDA devices that its parent has opened; start it "
          "by multiprocessing's \"spawn\"");
}

// With its context and stream, made when it is used first.
CudaDriver::CudaDevice& CudaDriver::device(int index) {
  require_own_process();
  CudaDevice& found = devices_[static_cast<size_t>(index)];
  const std::lock_guard<std::mutex> lock(mutex_);
  if (found.turn != nullptr) return found;
  if (found.context == nullptr)
    check(api_, api_.cuDevicePrimaryCtxRetain(&found.context, found.id),
          "cuDevicePrimaryCtxRetain");
  const Current current(api_, found);
  if (found.stream == nullptr)
    check(api_, api_.cuStreamCreate(&found.stream, kNonBlocking), "cuStreamCreate");
  found.work = std::make_unique<DeviceWork>(api_, found.context, found.stream);
  check(api_, api_.cuEventCreate(&found.turn, kWithoutTimes), "cuEventCreate");
  return found;
}

DeviceProperties CudaDriver::properties(int index) const {
  const CudaDevice& found = devices_[static_cast<size_t>(index)];
  return {found.target.name, found.bytes, 256, found.bytes};
}

// Any call in the context of a device that is lost says so.
void CudaDriver::check_usable(int index) {
  require_own_process();
  const CudaDevice& found = devices_[static_cast<size_t>(index)];
  const std::lock_guard<std::mutex> lock(mutex_);
  if (found.turn == nullptr) return;
  const Current current(api_, found);
  if (const Status status = api_.cuEventQuery(found.turn); status != kNotReady)
    check(api_, status, "cuEventQuery");
}

// ---- memory

Buffer CudaDriver::allocate(size_t bytes, int index) {
  const Current current(api_, device(index));
  Address address = 0;
  const Status status = api_.cuMemAlloc(&address, bytes);
  if (status == kOutOfMemory) return {};
  check(api_, status, "cuMemAlloc");
  return {.bytes = bytes, .handle = reinterpret_cast<void*>(address)};
}

void CudaDriver::free(const Buffer& buffer) noexcept {
  // A child of a fork, and a process that has lost its device, keep what they cannot give back.
  if (!is_own_process()) return;
  try {
    CudaDevice& on = device(buffer.device.index);
    const Current current(api_, on);
    if (!on.work->is_capturing()) on.work->send();
    api_.cuMemFree(address_in(buffer, 0));
  } catch (const Error&) {
  }
}

// Whether it has copied from the host: what is not too large goes through pinned memory, which the
// stream reads when all before it is done. One piece after another.
bool CudaDriver::write_staged(const Buffer& to, size_t place, const char* from, size_t bytes) {
  if (bytes > Staging::kMostStaged / 2) return false;
  const int index = to.device.index;
  CudaDevice& on = device(index);
  const Current current(api_, on);
  for (size_t done = 0; done < bytes; done += Staging::kPiece) {
    const size_t some = std::min(bytes - done, Staging::kPiece);
    const auto write = [&](Piece& piece) {
      std::memcpy(piece.host, from + done, some);
      enqueue(index, "cuMemcpyHtoDAsync", [&](Stream stream) {
        return api_.cuMemcpyHtoDAsync(address_in(to, place + done), piece.host, some, stream);
      });
      piece.is_pending = true;
      record_event(on, piece.read);
    };
    if (!on.staging->use(PieceSource{api_}, write)) return false;
  }
  return true;
}

void CudaDriver::copy_bytes(const Buffer& to, size_t to_place, const Buffer& from,
                            size_t from_place, size_t bytes) {
  if (from.handle == nullptr) {
    const char* begin = static_cast<const char*>(from.host) + from_place;
    if (write_staged(to, to_place, begin, bytes)) return;
    enqueue(to.device.index, "cuMemcpyHtoDAsync", [&](Stream stream) {
      return api_.cuMemcpyHtoDAsync(address_in(to, to_place), begin, bytes, stream);
    });
    wait(to.device.index);  // the memory may be pinned, and is the caller's
  } else if (to.handle == nullptr) {
    enqueue(from.device.index, "cuMemcpyDtoHAsync", [&](Stream stream) {
      return api_.cuMemcpyDtoHAsync(static_cast<char*>(to.host) + to_place,
                                    address_in(from, from_place), bytes, stream);
    });
    wait(from.device.index);
  } else if (const Address target = address_in(to, to_place), source = address_in(from, from_place);
             !device(from.device.index).work->keep_copy(target, source, bytes)) {
    enqueue(from.device.index, "cuMemcpyDtoDAsync",
            [&](Stream stream) { return api_.cuMemcpyDtoDAsync(target, source, bytes, stream); });
  }
}

void CudaDriver::record_event(const CudaDevice& on, Event event) {
  on.work->send();
  check(api_, api_.cuEventRecord(event, on.stream), "cuEventRecord");
}

void CudaDriver::wait_for_event(const CudaDevice& on, Event event) {
  on.work->send();
  check(api_, api_.cuStreamWaitEvent(on.stream, event, 0), "cuStreamWaitEvent");
}

// What a stream is asked for next waits for all that another was asked for.
void CudaDriver::wait_for(CudaDevice& waiting, CudaDevice& other) {
  const std::lock_guard<std::mutex> lock(turns_);
  {
    const Current current(api_, other);
    record_event(other, other.turn);
  }
  const Current current(api_, waiting);
  wait_for_event(waiting, other.turn);
}

void CudaDriver::note_source(int to, int from) {
  std::map<int, uint64_t>& sources = devices_[static_cast<size_t>(to)].sources;
  const std::lock_guard<std::mutex> lock(turns_);
  ++peer_copies_;
  sources[from] = peer_copies_;
  for (const auto& [number, copy] : devices_[static_cast<size_t>(from)].sources)
    if (number != to) sources[number] = peer_copies_;
}

// A device that fails copies nothing, and the one that waits for it goes on.
void CudaDriver::check_source(int index, int number, uint64_t copy) {
  CudaDevice& source = device(number);
  {
    const Current current(api_, source);
    const std::string call = "cuEventQuery of " + name_of(device_at(number)) + ", of which " +
                             name_of(device_at(index)) + " has copies,";
    if (const Status status = api_.cuEventQuery(source.turn); status != kNotReady)
      check(api_, status, call.c_str());
  }
  const std::lock_guard<std::mutex> lock(turns_);
  std::map<int, uint64_t>& sources = devices_[static_cast<size_t>(index)].sources;
  const auto it = sources.find(number);
  if (it != sources.end() && it->second == copy) sources.erase(it);
}

// In the stream of the device that is written to. The other one goes on when it is read: its memory
// may be given back then.
void CudaDriver::copy_to_peer(const Buffer& to, size_t to_place, const Buffer& from,
                              size_t from_place, size_t bytes) {
  CudaDevice &target = device(to.device.index), &source = device(from.device.index);
  wait_for(target, source);
  note_source(to.device.index, from.device.index);
  enqueue(to.device.index, "cuMemcpyPeerAsync", [&](Stream stream) {
    return api_.cuMemcpyPeerAsync(address_in(to, to_place), target.context,
                                  address_in(from, from_place), source.context, bytes, stream);
  });
  wait_for(source, target);
}

void CudaDriver::fill(const Buffer& to, size_t place, size_t bytes, uint8_t value) {
  if (bytes == 0) return;
  if (device(to.device.index).work->keep_fill(address_in(to, place), bytes, value)) return;
  enqueue(to.device.index, "cuMemsetD8Async", [&](Stream stream) {
    return api_.cuMemsetD8Async(address_in(to, place), value, bytes, stream);
  });
}

void CudaDriver::wait(int index) {
  CudaDevice& on = device(index);
  std::map<int, uint64_t> sources;
  {
    const std::lock_guard<std::mutex> lock(turns_);
    sources = on.sources;
  }
  {
    const Current current(api_, on);
    const uint64_t launched = on.launches->launched();
    on.work->send();
    check(api_, api_.cuStreamSynchronize(on.stream), "cuStreamSynchronize");
    on.launches->mark_done(launched);
  }
  for (const auto& [number, copy] : sources) check_source(index, number, copy);
}

// ---- kernels

gpu::LaunchModel CudaDriver::launch_model(int index) {
  return {.threads = kThreadsPerProcessor * devices_[static_cast<size_t>(index)].processors,
          .shares_memory = true};
}

gpu::BuiltKernel& CudaDriver::build(const std::string& source, std::string_view name, int index) {
  CudaDevice& on = device(index);
  const Current current(api_, on);
  const Function function = build_kernel(libraries_, on.target, source, std::string(name));
  const std::lock_guard<std::mutex> lock(mutex_);
  kernels_.emplace_back().function = function;
  return kernels_.back();
}

void CudaDriver::launch(gpu::BuiltKernel& built, int index, std::span<const Buffer* const> memory,
                        std::span<const int64_t> words, int64_t threads) {
  const auto group = static_cast<int>(gpu::kGroupThreads);
  launch_blocks(built, index, {ceil_div(threads, gpu::kGroupThreads), group, 0}, memory,
                words.data(), words.size_bytes());
}

void CudaDriver::launch_blocks(gpu::BuiltKernel& built, int index, const Blocks& blocks,
                               std::span<const Buffer* const> memory, const void* structure,
                               size_t bytes) {
  auto& kernel = static_cast<CudaKernel&>(built);
  if (blocks.shared_bytes > kernel.shared_bytes) {
    const Current current(api_, device(index));
    check(api_,
          api_.cuFuncSetAttribute(kernel.function, kDynamicShared,
                                  static_cast<int>(blocks.shared_bytes)),
          "cuFuncSetAttribute");
    kernel.shared_bytes = blocks.shared_bytes;
  }
  SmallVec<Address, 16> addresses;
  for (const Buffer* buffer : memory)
    addresses.push_back(reinterpret_cast<Address>(buffer->handle));
  const LaunchShape shape{static_cast<unsigned>(blocks.count),
                          static_cast<unsigned>(blocks.threads),
                          static_cast<unsigned>(blocks.shared_bytes)};
  CudaDevice& on = device(index);
  const bool is_kept = on.work->keep_kernel(kernel.function, shape,
                                            {addresses.data(), addresses.size()}, structure, bytes);
  if (!is_kept) {
    ArgumentPointers arguments = pointers_to(addresses.data(), addresses.size(), structure);
    enqueue(index, "cuLaunchKernel", [&](Stream stream) {
      return api_.cuLaunchKernel(kernel.function, shape.blocks, 1, 1, shape.threads, 1, 1,
                                 shape.shared_bytes, stream, arguments.data(), nullptr);
    });
  }
  on.launches->note(gpu::t_operation);
  if (waits_for_launches_ && !on.work->is_capturing()) wait(index);
}

int CudaDriver::capability() const {
  return std::ranges::min_element(devices_, {},
                                  [](const CudaDevice& d) { return d.target.capability; })
      ->target.capability;
}

std::vector<gpu::OwnKernel> CudaDriver::own_kernels() const {
  constexpr int kLeastCapability = 80;  // asynchronous copies, products of bfloat16
  if (is_hip() || capability() < kLeastCapability) return {};
  return hand_kernels();
}

}  // namespace tinyt::cuda
