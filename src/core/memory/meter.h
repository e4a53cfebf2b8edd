// What a thread would allocate: counted, with addresses that take no memory until they are touched.
#pragma once

#include "core/memory/allocator.h"

namespace tinyt::memory {

// This thread's Substitute for its lifetime. Bytes are zero. Blocks must be released before it
// goes.
class Meter final : public Allocator {
 public:
  Buffer allocate(size_t bytes) override;
  void release(const Buffer& block) noexcept override;
  // The most bytes that were live at once since the start or reset().
  size_t peak_bytes() const { return peak_; }
  void reset() { peak_ = live_; }

  // The same memory, not counted.
  static Buffer reserve(size_t bytes);
  static void give_back(const Buffer& block) noexcept;

 private:
  size_t live_ = 0, peak_ = 0;
  Substitute instead_{this};
};

}  // namespace tinyt::memory
