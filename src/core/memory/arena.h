// A scope in which allocations are bumped from large chunks and given back together.
#pragma once

#include <memory>

#include "core/memory/allocator.h"

namespace tinyt::memory {

// enter() makes it this thread's current allocator until exit(). A block that is still live when
// the arena is reset or destroyed keeps its chunk alive (chunks are counted), so an escaping
// tensor stays valid. Not shared between threads while entered; blocks may be released anywhere.
// Chunks come from caching(): its statistics, limits and failure hook see chunks, not the blocks
// bumped from them, which the arena counts itself.
class Arena final : public Allocator {
 public:
  explicit Arena(size_t chunk_bytes = size_t{1} << 20);
  ~Arena() override;  // leaves the scope first when it is still entered
  Buffer allocate(size_t bytes) override;
  void release(const Buffer& block) noexcept override;

  void enter();  // RuntimeError when it is entered already
  void exit();   // RuntimeError when this is not the innermost arena of the thread
  void reset();  // forget all chunks; those with live blocks go when the last block does
  int64_t used_bytes() const;      // bumped since the last reset, in steps of kAlignment
  int64_t peak_bytes() const;      // most used_bytes ever
  int64_t capacity_bytes() const;  // held from the caching allocator

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tinyt::memory
