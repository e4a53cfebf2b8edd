// What a device is to the core beside its kernels: memory, copies, and waiting.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "core/device/buffer.h"

namespace tinyt {

struct DeviceProperties {
  std::string name;         // of the hardware
  size_t memory_bytes = 0;  // 0: not known
  size_t alignment = 64;    // bytes, of what `allocate` gives
  size_t most_bytes = 0;    // of one allocation; 0: not known
};

// The runs of a program on one device, which asks much the same of it each time: it goes with the
// program, whose runs follow one another.
class ProgramRuns {
 public:
  virtual ~ProgramRuns() = default;
  // What this thread asks of the device may be kept until the end, or until somebody looks: the
  // order of all that is asked of the device stays as it is. False: nothing is kept, and no end
  // follows.
  virtual bool begin() = 0;
  // All is asked for; errors are those of the calls that were kept.
  virtual void end() = 0;
  // The same of a run that has failed.
  virtual void abandon() noexcept = 0;
};

// A moment in a device's queue, or none before it is recorded first. Calls come from any thread, of
// one event one at a time, but for `synchronise`. `queue` is the driver's handle of a queue of that
// device; null: the one that its kernels run in.
class DeviceEvent {
 public:
  virtual ~DeviceEvent() = default;
  // The moment when all that was asked of the queue so far is done.
  virtual void record(void* queue) = 0;
  // Whether it is past, as one that was not recorded is.
  virtual bool is_past() = 0;
  virtual void synchronise() = 0;
  // What is asked of a queue of a device of its kind from now on comes after it.
  virtual void hold(int index, void* queue) = 0;
  // Milliseconds from this one, of which both are recorded with times and past.
  virtual double milliseconds_to(DeviceEvent& later) = 0;
  // Of the driver; null before it is recorded.
  virtual void* handle() = 0;
};

// Values of a captured graph that differ from launch to launch: words of its kernels that were,
// while it was captured, `first` or one of the `count` - 1 numbers after it.
struct WordRange {
  int64_t first = 0, count = 1;
};

// Work of a device as a graph of its driver's: captured once, without being done, and launched any
// number of times. Calls come one at a time; a capture ends in the thread in which it began.
class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;
  // All that this thread asks of the device is captured from now on, and the memory that it takes
  // there is of a private pool (memory::DeviceCache). RuntimeError where it is being captured.
  virtual void begin_capture(uint64_t pool) = 0;
  // RuntimeError where something was asked for that no graph can do, or where no word of a kernel
  // is in one of the ranges; the graph is empty then.
  virtual void end_capture(std::span<const WordRange> ranges) = 0;
  // Makes it ready to be launched, again where it was; `launch` does where nobody has.
  virtual void instantiate() = 0;
  // After all that was asked of the device before; a value in the place of each range's first one.
  virtual void launch(std::span<const int64_t> values) = 0;
  // Gives back what was captured, and its pool.
  virtual void reset() noexcept = 0;
  // How many kernels, copies and fills were captured.
  virtual size_t size() const = 0;
  // In the language of Graphviz.
  virtual std::string description() const = 0;
  // Of the driver: the graph and the instantiated one; null where there is none.
  virtual void* handle() const = 0;
  virtual void* instantiated_handle() const = 0;
};

struct MemoryInfo {
  size_t free_bytes = 0, bytes = 0;  // of all processes together
};

// One for all devices of a kind. Kernels, copies and fills of a device run one after another, as
// they were asked for, maybe after the call has returned; what takes or gives memory of the host
// has done with it when it returns, but for `copy_later`. Calls come from any thread.
class Runtime {
 public:
  virtual ~Runtime() = default;
  virtual int device_count() const = 0;
  // Whether its devices are told apart by numbers, as "cuda:0"; one that there is once by its name.
  virtual bool has_numbers() const { return true; }
  virtual DeviceProperties properties(int index) const = 0;
  // DeviceError where a device that was there can be used no more. It opens nothing.
  virtual void check_usable(int) {}

  // How many buffers a kernel may bind at once; 0: any number.
  virtual size_t most_buffers() const { return 0; }

  // Whether `allocate` is to be asked at all: tensors of one without have no elements.
  virtual bool has_memory() const { return true; }
  // Memory as the driver gives it; a buffer without host and handle where there is no more. `bytes`
  // is not 0.
  virtual Buffer allocate(size_t bytes, int index) = 0;
  virtual void free(const Buffer& buffer) noexcept = 0;

  // Each of the two is of this kind or the host's; places are in bytes from a buffer's start (its
  // offset), and the two do not overlap.
  virtual void copy(const Buffer& to, size_t to_place, const Buffer& from, size_t from_place,
                    size_t bytes) = 0;
  // The same where the caller does not use memory of the host before it has waited for the device:
  // this may return while the device still reads or writes it. Memory that the runtime itself gives
  // for that (pinned memory) may be released meanwhile. Most copy at once.
  virtual void copy_later(const Buffer& to, size_t to_place, const Buffer& from, size_t from_place,
                          size_t bytes) {
    copy(to, to_place, from, from_place, bytes);
  }
  virtual void fill(const Buffer& to, size_t place, size_t bytes, uint8_t value) = 0;
  virtual void synchronise(int index) = 0;

  // For a program that runs there; null where a run would gain nothing by it.
  virtual std::unique_ptr<ProgramRuns> program_runs(int) { return nullptr; }
  // What not every kind has: NotImplementedError.
  virtual std::unique_ptr<DeviceEvent> new_event(int index, bool has_times);
  virtual std::unique_ptr<DeviceGraph> new_graph(int index);
  // Whether this thread's work there is being captured.
  virtual bool is_capturing(int) { return false; }
  // The driver's handle of the queue, for other libraries.
  virtual void* queue_handle(int index);
  virtual MemoryInfo memory_info(int index);
};

// Of a kind, which may have no device here; null before it is registered.
Runtime* find_runtime(DeviceKind kind);
// DeviceError where this process has no such device.
Runtime& runtime_of(Device device);

}  // namespace tinyt
