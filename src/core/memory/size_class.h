// Size classes, and the list that free blocks of one class wait in.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>

#include "core/memory/allocator.h"
#include "core/memory/pages.h"
#include "core/memory/poison.h"

namespace tinyt::memory {

inline constexpr size_t kSlabMax = size_t{1} << 20;     // the largest block carved from a slab
inline constexpr size_t kRangeStep = size_t{64} << 10;  // sizes of larger ones
inline constexpr size_t kMaxBytes = size_t{1} << 47;
inline constexpr size_t kClasses = 96;
inline constexpr size_t kThreadClasses = 56;  // up to 32 KiB: kept by threads as well

// Steps of 64 bytes up to 1 KiB, then eight steps for each power of two. kClasses: too large.
constexpr size_t class_of(size_t bytes) {
  if (bytes <= 1024) return (bytes - 1) / kAlignment;
  if (bytes > kSlabMax) return kClasses;
  const size_t top = static_cast<size_t>(std::bit_width(bytes - 1));
  return 16 + (top - 11) * 8 + ((bytes - 1) >> (top - 4)) - 8;
}

inline constexpr std::array<size_t, kClasses> kClassBytes = [] {
  std::array<size_t, kClasses> sizes{};
  for (size_t c = 0; c < 16; ++c) sizes[c] = (c + 1) * kAlignment;
  for (size_t c = 16; c < kClasses; ++c) sizes[c] = ((c - 16) % 8 + 9) << ((c - 16) / 8 + 7);
  return sizes;
}();
static_assert(class_of(kSlabMax) == kClasses - 1);
static_assert(kClassBytes[kThreadClasses - 1] == 32768 && class_of(32768) == kThreadClasses - 1);

// What a block of `bytes` takes.
constexpr size_t size_of_range(size_t bytes) {
  return (bytes + kRangeStep - 1) / kRangeStep * kRangeStep;
}

// Joining free blocks is worth its time only when there are more.
inline constexpr size_t kSweepBytes = size_t{8} << 20;

// Blocks of a class that one thread keeps: 64 KiB worth, within reason.
inline constexpr std::array<size_t, kThreadClasses> kThreadCapacity = [] {
  std::array<size_t, kThreadClasses> blocks{};
  for (size_t c = 0; c < kThreadClasses; ++c) {
    blocks[c] = std::clamp<size_t>(65536 / kClassBytes[c], 4, 64);
  }
  return blocks;
}();

// Last in, first out, so that reuse is warm. Not thread-safe.
class FreeList {
 public:
  size_t count() const { return count_; }
  void push(void* block) {
    poison::store_link(block, head_);
    head_ = block;
    ++count_;
  }
  void* pop() {
    void* block = head_;
    if (block == nullptr) return nullptr;
    head_ = poison::load_link(block);
    --count_;
    return block;
  }

 private:
  void* head_ = nullptr;
  size_t count_ = 0;
};

}  // namespace tinyt::memory
