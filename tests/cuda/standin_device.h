// Devices of the stand-in for CUDA: contexts, allocations, and streams, each with a worker thread.
// All of it lives until the process ends, as workers do.
#pragma once

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cfenv>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "cuda/api.h"
#include "standin_module.h"

namespace standin {

using namespace tinyt::cuda;

inline constexpr Status kNotInitialized = 3, kInvalidImage = 200, kInvalidContext = 201,
                        kInvalidHandle = 400, kNotFound = 500, kIllegalAddress = 700,
                        kMisalignedAddress = 716, kLaunchFailed = 719, kNotSupported = 801;

inline long setting(const char* name, long otherwise) {
  const char* const text = getenv(name);
  return text && *text ? strtol(text, nullptr, 10) : otherwise;
}
// Compute capability, 10 * major + minor, as architectures are numbered.
inline int capability() {
  static const int value = static_cast<int>(setting("STANDIN_CAPABILITY", 90));
  return value;
}
// Shared memory of a block: without being asked for, and of the devices that have most.
inline constexpr size_t kSharedBytes = 48 << 10, kMaxSharedBytes = 227 << 10;
// What kernels may ask for here (NVIDIA, "CUDA C++ Programming Guide", compute capabilities).
inline size_t shared_limit() {
  const int version = capability();
  if (version >= 120 || version == 86 || version == 89) return 99 << 10;
  if (version >= 90) return kMaxSharedBytes;
  if (version >= 80) return 163 << 10;
  if (version >= 70) return version >= 75 ? 64 << 10 : 96 << 10;
  return kSharedBytes;
}
inline size_t total_memory() {
  static const auto value = static_cast<size_t>(setting("STANDIN_MEMORY", 8l << 30));
  return value;
}

// Time that a worker waits before each operation, so that missing waits show.
inline std::atomic<long> g_delay{setting("STANDIN_DELAY", 0)};
// Status that the next launched kernel fails with; 0: none.
inline std::atomic<Status> g_fail_async{0};

}  // namespace standin

namespace tinyt::cuda {

// A primary context, the only one of its device.
struct ContextTag {
  int device = 0;
  int retained = 0;
  size_t allocated = 0;
  std::atomic<Status> error{0};  // of a worker: all later calls return it
  std::vector<StreamTag*> streams;
};

// A queue of operations that one worker thread runs in order. A ticket counts them.
struct StreamTag {
  explicit StreamTag(ContextTag* owner) : context(owner) {
    std::thread([this] { work(); }).detach();
  }

  uint64_t push(std::function<void()> operation) {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(operation));
    changed_.notify_all();
    return ++queued_;
  }
  uint64_t last_ticket() {
    const std::lock_guard lock(mutex_);
    return queued_;
  }
  bool is_done(uint64_t ticket) {
    const std::lock_guard lock(mutex_);
    return done_ >= ticket;
  }
  void wait(uint64_t ticket) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_ >= ticket; });
  }
  void wait() { wait(last_ticket()); }

  ContextTag* const context;

 private:
  void work() {
    fesetenv(FE_DFL_ENV);  // a new thread has the rounding and the flushing of its creator
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return !queue_.empty(); });
      std::function<void()> operation = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      if (const long delay = standin::g_delay) usleep(static_cast<useconds_t>(delay));
      if (context->error == kSuccess) operation();
      operation = nullptr;  // what it owns goes before it counts as done
      lock.lock();
      ++done_;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  uint64_t queued_ = 0, done_ = 0;
};

// A place in a stream.
struct EventTag {
  ContextTag* context;
  StreamTag* stream = nullptr;  // null: never recorded
  uint64_t ticket = 0;
  bool has_times = false;
  std::shared_ptr<std::atomic<double>> time = {};  // of the worker that came to it, in milliseconds
};

}  // namespace tinyt::cuda

namespace standin {

// An allocation, between margins that show at its end what was written past it.
class Memory {
 public:
  static constexpr size_t kMargin = 512;  // and alignment
  static constexpr int kNew = 0xCB, kFreed = 0xDD, kUntouched = 0xFD;

  Memory(ContextTag* context, size_t bytes)
      : context(context),
        bytes(bytes),
        begin_(static_cast<char*>(
            aligned_alloc(kMargin, (bytes + 3 * kMargin - 1) / kMargin * kMargin))) {
    if (begin_ == nullptr) return;
    memset(begin_, kUntouched, kMargin);
    memset(host(), kNew, bytes);
    memset(host() + bytes, kUntouched, kMargin);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() { free(begin_); }

  bool is_valid() const { return begin_ != nullptr; }
  char* host() const { return begin_ + kMargin; }
  bool has_whole_margins() const { return is_margin(begin_) && is_margin(host() + bytes); }

  ContextTag* const context;
  const size_t bytes;

 private:
  static bool is_margin(const char* from) {
    for (size_t i = 0; i < kMargin; ++i)
      if (static_cast<unsigned char>(from[i]) != kUntouched) return false;
    return true;
  }
  char* const begin_;
};

// A compiled kernel library, closed when its module is unloaded and no launch is left.
struct Library {
  Library(void* opened, const StandinModule* described) : handle(opened), module(described) {}
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  ~Library() { dlclose(handle); }
  void* const handle;
  const StandinModule* const module;
  // Of kernels: what is theirs is one section.
  size_t shared_bytes() const {
    return static_cast<size_t>(module->shared_end - module->shared_begin);
  }
  std::mutex running;  // one launch at a time: threadIdx and shared memory are its variables
};

}  // namespace standin

namespace tinyt::cuda {

struct FunctionTag {
  ContextTag* context;
  std::shared_ptr<standin::Library> library;
  const StandinKernel* kernel;
  size_t dynamic_limit;  // bytes of dynamic shared memory that a launch may have
};

struct ModuleTag {
  ContextTag* context;
  std::shared_ptr<standin::Library> library;
  std::map<std::string, FunctionTag> functions;
};

}  // namespace tinyt::cuda

namespace standin {

// Addresses of devices are no addresses of the host: bit 62 makes them fault there.
inline constexpr Address kTag = Address{1} << 62;

struct Driver {
  std::mutex mutex;  // of all that follows, contexts included
  std::atomic<bool> ready{false};
  std::vector<ContextTag*> contexts;  // one per device
  std::map<Address, std::shared_ptr<Memory>> memory;
  std::map<const char*, size_t> pinned;
  std::set<const void*> handles;  // streams, events, modules and functions
};
inline Driver& driver() {
  static Driver& driver = *new Driver;
  return driver;
}

inline thread_local ContextTag* g_current = nullptr;

inline bool is_live(const void* handle) {
  const std::lock_guard lock(driver().mutex);
  return driver().handles.count(handle) != 0;
}
template <class T>
T* make_live(T* made) {
  const std::lock_guard lock(driver().mutex);
  driver().handles.insert(made);
  return made;
}

// The live allocation of a context that holds a range; null: none does. An empty range may lie at
// its end.
inline std::shared_ptr<Memory> find_memory(Address address, size_t bytes,
                                           const ContextTag* context) {
  const std::lock_guard lock(driver().mutex);
  auto found = driver().memory.upper_bound(address);
  if (found == driver().memory.begin()) return nullptr;
  --found;
  const std::shared_ptr<Memory>& memory = found->second;
  const Address place = address - found->first;
  const bool holds = place <= memory->bytes && bytes <= memory->bytes - place;
  return holds && memory->context == context ? memory : nullptr;
}
inline char* host_address(Address address) { return reinterpret_cast<char*>(address ^ kTag); }

inline bool is_pinned(const void* host, size_t bytes) {
  const char* const place = static_cast<const char*>(host);
  const std::lock_guard lock(driver().mutex);
  auto found = driver().pinned.upper_bound(place);
  if (found == driver().pinned.begin()) return false;
  --found;
  return place + bytes <= found->first + found->second;
}

// The legacy default stream of the current context, or that of the thread.
inline Stream default_stream(int64_t number) {
  static auto& legacy = *new std::map<ContextTag*, Stream>;
  thread_local std::map<ContextTag*, Stream> of_thread;
  const std::lock_guard lock(driver().mutex);
  Stream& found = (number == kLegacyStream ? legacy : of_thread)[g_current];
  if (found == nullptr) {
    found = new StreamTag(g_current);
    driver().handles.insert(found);
    g_current->streams.push_back(found);
  }
  return found;
}

// Waits for all that the streams of a context were given.
inline void wait_for_streams(ContextTag* context) {
  std::vector<StreamTag*> streams;
  {
    const std::lock_guard lock(driver().mutex);
    streams = context->streams;
  }
  for (StreamTag* const stream : streams) stream->wait();
}

}  // namespace standin
