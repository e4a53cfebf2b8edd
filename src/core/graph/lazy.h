// Operations that are recorded now and run when somebody looks at a value: `with tinyt.lazy():`.
//
// A tensor that such a recording makes is an ordinary one whose storage has no memory yet; views
// share it. What is recorded is a row of words that says all but which memory and which numbers:
// two regions of the same words run as the same program (replay.h).
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/base/fork.h"
#include "core/graph/external_op.h"
#include "core/ops/dispatch.h"
#include "core/ops/infer.h"

namespace tinyt {

// What has been recorded since the last run.
struct LazyRegion {
  enum Kind : uint8_t { Call, View, Into, Assign };
  // Memory that operations make, or that was there.
  struct Slot {
    Ref<Storage> storage;
    DType dtype;
    bool made;
    bool written = false;  // of what was there
    bool mixed = false;    // seen in several dtypes
    int64_t uses = 0;
    // Of what was there, the elements that operands see, and the largest dense operand.
    int64_t first = 0, end = 0;
    Dims dense{};
  };

  // The most that a word has room for: larger calls run at once.
  static constexpr size_t kMostInputs = 0xffff, kMostInts = 0xffffff, kMostFloats = 0xff;
  static constexpr size_t kMostRank = 127;

  // Each operation: its kind, op and counts in one word, attributes, operands, what it makes. An
  // operand: slot, dtype and rank in one word, offset, sizes, strides where it is not dense; or
  // -1 - dtype: the next number.
  std::vector<int64_t> words;
  Device device;  // of all of them
  std::vector<Slot> slots;
  std::unordered_map<const Storage*, int64_t> slot_of;  // of what was there
  // The words that count elements from a storage's first one, which the key must not.
  std::vector<std::pair<size_t, int64_t>> offsets;
  std::vector<Tensor> numbers;  // Python's
  RngOffsets draws;             // of each random operation
  int64_t calls = 0;            // operations that compute
  size_t held_bytes = 0;        // of what was there
  bool large = false;

  void clear();
};

class Lazy {
 public:
  // These are false where the operation must run now.
  bool record(OpId op, std::span<const Tensor> inputs, const Attrs& attrs, const Inferred& inferred,
              Outputs& out);
  bool record_into(OpId op, std::span<const Tensor> inputs, const Attrs& attrs, const Tensor& out);
  bool record_assign(const Tensor& to, const Tensor& from);
  // Runs what has been recorded. An error is that of the first operation that has one: those before
  // it have run, as in eager mode, and what later ones would have made says so when it is read.
  void flush();

  // In a child after fork: whether the thread that was in the middle of it has stayed behind.
  bool is_lost() const { return mutex_.is_lost(); }

 private:
  class Locked;
  // Operands as they may be recorded, with a result on that device; false: the operation must run
  // now.
  bool prepare(std::span<const Tensor>& inputs, std::vector<Tensor>& copies, Device device);
  bool prepare_write(const Tensor& to);
  // What comes now is on that device: runs what has been recorded on another one.
  void go_to(Device device);
  void keep_short();
  bool makes(const Tensor& x) const;
  bool holds(const Tensor& x) const;
  void begin_call(LazyRegion::Kind kind, OpId op, std::span<const Tensor> inputs,
                  const Attrs& attrs);
  void add_operand(const Tensor& x);
  int64_t slot_for(const Tensor& x);
  void add_written(const Tensor& to);
  Tensor make(const Dims& shape, DType dtype);

  RunMutex mutex_;
  int depth_ = 0;  // how often its holder has locked it again
  LazyRegion region_, spare_;
  std::atomic<bool> is_long_{false};
  bool running_ = false;
};

// The recording that this thread's operations go into, or null.
Lazy* lazily();
Lazy* set_lazily(Lazy* lazy);
// Starts one for this thread; false where one is under way, which goes on.
bool begin_lazy();
// Runs what is left, and ends it.
void end_lazy();

void settle_slowly(Storage& storage);
void settle_write_slowly(Storage& storage);
// Before memory is read by what is not recorded: runs the recording that makes or writes it.
inline void materialize(const Tensor& x) {
  if (x.storage().lazy.load(std::memory_order_acquire)) [[unlikely]]
    settle_slowly(x.storage());
}
// Before it is written, or seen by others who may: those that read it, too.
inline void settle_for_write(const Tensor& x) {
  Storage& s = x.storage();
  if (s.held.load(std::memory_order_acquire) || s.lazy.load(std::memory_order_acquire)) [[unlikely]]
    settle_write_slowly(s);
}
// Every recording of every thread.
void settle_all();

// What a front end with a lock of its own does for recordings and runs.
struct LazyHooks {
  // Gives the lock up while this thread waits or computes; null: it did not have it.
  void* (*release)() = nullptr;
  void (*take_back)(void* state) = nullptr;
  // Throws where the user has interrupted the program (Ctrl-C).
  void (*check_interrupt)() = nullptr;
};
LazyHooks& lazy_hooks();

// Gives up the front end's lock for its lifetime.
class FrontUnlocked {
 public:
  explicit FrontUnlocked(bool wanted = true)
      : state_(wanted && lazy_hooks().release ? lazy_hooks().release() : nullptr) {}
  ~FrontUnlocked() {
    if (state_) lazy_hooks().take_back(state_);
  }
  FrontUnlocked(const FrontUnlocked&) = delete;
  FrontUnlocked& operator=(const FrontUnlocked&) = delete;

 private:
  void* state_;
};

}  // namespace tinyt
