// What a GPU backend brings beside its language: a driver, as the kernels of this folder use it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/device/runtime.h"
#include "core/ops/kernels.h"
#include "core/ops/row_order.h"
#include "gpu/dialect.h"

namespace tinyt::gpu {

inline constexpr int64_t kManyTurns = INT64_MAX;

// How work is shared out among threads.
struct LaunchModel {
  // Elements that one thread takes of a row at least: 1 where neighbouring threads read
  // neighbouring elements at once, some thousands where each thread is a core's.
  int64_t least_block = 1;
  int64_t threads = 1;  // that are busy at once; more than that need not share rows
  // What a thread's loops take at most: a kernel that would take more is one of several launches,
  // or there is none.
  int64_t most_turns = kManyTurns;
  int64_t stream_bytes = INT64_MAX;  // results so large go past the caches
  bool shares_memory = false;        // whether groups of threads do

  // Whether neighbouring threads should take neighbouring elements.
  bool by_element() const { return least_block == 1; }
  // Threads that take a reduced row of so many elements: of few each lane has one at most.
  int64_t row_threads(int64_t columns) const {
    return shares_memory && columns >= 2 * kReduceLanes ? kReduceLanes : 1;
  }
};

// What a kernel takes: memory, and 64-bit words.
struct ArgumentCount {
  size_t memory, words;
  size_t bytes() const { return sizeof(int64_t) * (memory + words); }
};

// A kernel that a driver has built. It stays where it is as long as the process lives.
class BuiltKernel {
 public:
  virtual ~BuiltKernel() = default;
};

// A driver's kernel of a row of the op table, in the place of the one of this folder.
struct OwnKernel {
  OpId op;
  Kernel run;
};

class Driver : public Runtime {
 public:
  // Copies to the host and `synchronise` find what kernels could not do: IndexError that names the
  // operation.
  void copy(const Buffer& to, size_t to_place, const Buffer& from, size_t from_place,
            size_t bytes) final;
  void synchronise(int index) final;
  // Four words for a kernel that may find an index out of range: the number of the operation after
  // that in the op table, the index, the dimension and its size; zeros so far.
  const Buffer& faults(int index);
  // Such a kernel was launched: who looks next finds what it has found.
  void expect_faults(int index);
  // Its devices, once it is registered.
  Device device_at(int index) const { return {kind_, static_cast<uint8_t>(index)}; }

  virtual const Dialect& dialect(int index) = 0;
  virtual LaunchModel launch_model(int index) = 0;
  // Bytes that a kernel's arguments have at most, of 8 for each memory and each word.
  virtual size_t most_argument_bytes(int index) = 0;
  // The kernel of that name; RuntimeError with the compiler's own words where it takes no source.
  virtual BuiltKernel& build(const std::string& source, std::string_view name, int index) = 0;
  // Runs it after all that was asked of the device before: memory in the order of the kernel's
  // arguments, then its words. Any number of threads may be started beyond `threads`.
  virtual void launch(BuiltKernel& kernel, int index, std::span<const Buffer* const> memory,
                      std::span<const int64_t> words, int64_t threads) = 0;
  virtual std::vector<OwnKernel> own_kernels() const { return {}; }

 protected:
  // IndexError, of what kernels of the device have found so far, behind what has looked; waits for
  // the device where they may have found something.
  void raise_faults(int index, const char* looked);
  // What copies and waits, as `Runtime` says: some bytes, of one device at most.
  virtual void copy_bytes(const Buffer& to, size_t to_place, const Buffer& from, size_t from_place,
                          size_t bytes) = 0;
  virtual void wait(int index) = 0;
  // Between two of its devices: through the host, unless the driver knows better.
  virtual void copy_to_peer(const Buffer& to, size_t to_place, const Buffer& from,
                            size_t from_place, size_t bytes);

 private:
  struct Faults {
    Buffer words;
    bool may_be = false;   // since they were looked at
    std::set<int> others;  // devices that may have some, of which elements were copied here
  };
  friend DeviceKind register_gpu(std::string_view, Driver&, const std::vector<std::string>&);
  Buffer new_faults(int index);
  void raise_own_faults(int index, const char* looked);
  void carry_faults(int from, int to);

  DeviceKind kind_{};
  std::mutex mutex_;  // of those that follow
  std::map<int, Faults> faults_;
};

// Registers a kind of device with that driver: its name, kernels and fused kernels. Both live as
// long as the process.
DeviceKind register_gpu(std::string_view name, Driver& driver,
                        const std::vector<std::string>& aliases = {});
Driver& driver_of(Device device);
inline const Dialect& dialect_on(Device device) { return driver_of(device).dialect(device.index); }
bool has_driver(DeviceKind kind);

// Calls piece(first, count) for parts of 0 up to `count` that a thread's loop may take in one
// launch.
template <class F>
void for_pieces(int64_t count, Device device, const F& piece) {
  const int64_t most = driver_of(device).launch_model(device.index).most_turns;
  for (int64_t first = 0; first < count; first += std::min(most, count - first))
    piece(first, std::min(most, count - first));
}
// NotImplementedError where a thread's loops of so many turns are too long for the device.
void need_turns(OpId op, Device device, int64_t turns);

}  // namespace tinyt::gpu
