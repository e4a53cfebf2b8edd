// Large blocks: free memory as ranges of addresses that join, with the best fit for each block.
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/memory/pages.h"

namespace tinyt::memory {

// Sizes are multiples of kRangeStep. Every byte is one that a block had or will have soon: the
// system is asked for no more than a block lacks, in huge pages.
class Ranges {
 public:
  // Null when no range is large enough.
  void* take(size_t bytes) noexcept;
  // The same after asking the system for what is missing; null when it refuses.
  void* grow(size_t bytes) noexcept;
  void put_back(void* data, size_t bytes) noexcept;
  // Gives about `bytes` back, of the largest ranges first and in whole `unit`s.
  void trim(size_t bytes, size_t unit) noexcept;

  size_t free_bytes() const { return free_; }
  size_t reserved() const { return reserved_; }
  int64_t mappings() const { return mappings_; }  // calls of the system ever

 private:
  struct Range {
    char* start;
    size_t bytes;
    char* end() const { return start + bytes; }
  };

  size_t small_pages(size_t bytes, size_t available) const noexcept;
  bool extend(size_t bytes) noexcept;
  bool extend(const Range& range, size_t bytes) noexcept;
  bool gather(size_t bytes) noexcept;
  size_t move_pages(size_t index, char* to, size_t bytes) noexcept;
  bool room_for_split() noexcept;
  void remove(size_t index, char* low, char* high) noexcept;
  void insert(char* start, size_t bytes) noexcept;
  bool cut(size_t index, size_t bytes, size_t unit) noexcept;

  std::vector<Range> ranges_;  // by address
  size_t free_ = 0;
  size_t reserved_ = 0;
  int64_t mappings_ = 0;
};

}  // namespace tinyt::memory
