// Slabs: 16 MiB mappings from which blocks up to kSlabMax of all classes are carved. Not
// thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/memory/pages.h"
#include "core/memory/size_class.h"

namespace tinyt::memory {

// A slab keeps a bit for every 64 bytes that belong to no block, so that neighbours join without
// being looked for, and a bit for every page that is given back or was never touched.
class Slabs {
 public:
  static constexpr size_t kSlabBytes = size_t{16} << 20;

  // Where a block may come from: pages that were touched, any hole, or else one more slab.
  enum class Room : uint8_t { Touched, Mapped, New };
  // A closed block; null when there is no such room, or the system refuses a slab.
  // Blocks up to kWindowMax are kept together, since one that lives long holds its page.
  void* carve(size_t bytes, Room room) noexcept;
  // Room for one more without searching.
  bool at_hand(size_t bytes) const { return static_cast<size_t>(end_ - cursor_) >= bytes; }

  // Takes back all blocks of `lists` (one for each class from `first` on), which join, and returns
  // their bytes.
  size_t sweep(std::span<FreeList> lists, size_t first = 0) noexcept;
  // Gives whole `unit`s of all holes to the system.
  void trim(size_t unit) noexcept;

  size_t reserved() const { return reserved_; }   // bytes of pages not given back
  int64_t mappings() const { return mappings_; }  // slabs ever mapped

 private:
  struct Slab;
  static constexpr size_t kWindowMax = kClassBytes[kThreadClasses - 1];

  static Slab* slab_of(void* block);
  bool grow() noexcept;
  char* take(size_t least, size_t most, Room room, size_t& taken) noexcept;
  void close_window() noexcept;
  void warm(Slab& slab, size_t first, size_t count) noexcept;
  void give_back(Slab& slab, size_t first, size_t last, size_t unit) noexcept;
  void unmap(Slab* slab) noexcept;

  Slab* oldest_ = nullptr;  // in order of age: old ones fill up first, so that young ones can go
  size_t reserved_ = 0;
  int64_t mappings_ = 0;
  char* cursor_ = nullptr;  // the window that small blocks come from
  char* end_ = nullptr;
};

}  // namespace tinyt::memory
