// Pinned memory of the host, which devices copy to and from on their own: the caching allocator of
// it. What is asked of whom: Runtime::copy_later.
#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "core/base/fork.h"
#include "core/memory/allocator.h"
#include "cuda/api.h"

namespace tinyt::cuda {

class CudaDriver;

// A block of the driver's. Each stream that it was copied in has an event, at its last copy.
struct PinnedBlock {
  struct Use {
    int index;
    Stream stream;
    Event event;
    bool is_pending;
  };
  char* host;
  size_t bytes;
  std::vector<Use> uses;
};

// Blocks that come back are kept, and used again when no copy reads or writes them any more. Safe
// from any thread.
class PinnedCache final : public memory::Allocator {
 public:
  explicit PinnedCache(CudaDriver& driver) : driver_(driver) {}
  // Of the host, on the CPU; ordinary memory where the driver has none.
  Buffer allocate(size_t bytes) override;
  void release(const Buffer& buffer) noexcept override;

  bool holds(const void* host) { return find(host) != nullptr; }
  // The event for the copies of a stream of the block that holds an address; null where none does,
  // or `make` gives none. It is to be recorded behind each of them.
  template <class F>
  Event event_of(const void* host, int index, Stream stream, const F& make) {
    PinnedBlock* const block = find(host);
    if (block == nullptr) return nullptr;
    const std::lock_guard<ForkSafeMutex> lock(mutex_);
    for (PinnedBlock::Use& use : block->uses)
      if (use.index == index && use.stream == stream) {
        use.is_pending = true;
        return use.event;
      }
    const Event made = make();
    if (made != nullptr) block->uses.push_back({index, stream, made, true});
    return made;
  }

 private:
  PinnedBlock* find(const void* host);
  PinnedBlock* take_kept(size_t bytes);
  PinnedBlock* make(size_t bytes);
  bool is_free(PinnedBlock& block) noexcept;
  void empty();

  CudaDriver& driver_;
  ForkSafeMutex mutex_;                               // of what follows
  std::map<const char*, PinnedBlock*> blocks_;        // all, by address
  std::map<size_t, std::vector<PinnedBlock*>> kept_;  // by size
};

}  // namespace tinyt::cuda
