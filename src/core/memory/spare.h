// Memory that is there already, for kernels that run where none may fail.
#pragma once

#include <mutex>
#include <vector>

#include "core/memory/allocator.h"

namespace tinyt::memory {

// One block of the current allocator, given out in pieces to whoever has it as a Substitute. What
// does not fit, as it should, comes from the current allocator. Blocks must be released before it
// goes.
class Spare final : public Allocator {
 public:
  explicit Spare(size_t bytes);
  ~Spare() override { block_.from->release(block_); }
  Spare(const Spare&) = delete;
  Spare& operator=(const Spare&) = delete;
  Buffer allocate(size_t bytes) override;
  void release(const Buffer& block) noexcept override;

 private:
  struct Piece {
    size_t begin, end;
  };
  Buffer block_;
  std::mutex mutex_;           // steps that run side by side
  std::vector<Piece> pieces_;  // in use, in order
};

}  // namespace tinyt::memory
