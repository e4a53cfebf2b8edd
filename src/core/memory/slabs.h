// Slabs: 8 MiB mappings from which small blocks of all classes are carved. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <span>

#include "memory/pages.h"
#include "memory/poison.h"
#include "memory/size_class.h"

namespace tinyt::memory {

class Slabs {
 public:
  static constexpr size_t kSlabBytes = size_t{8} << 20;

  bool has_room(size_t bytes) const { return static_cast<size_t>(end_ - cursor_) >= bytes; }

  // False when the system refuses.
  bool grow() noexcept {
    void* raw = map_pages(kSlabBytes, kSlabBytes);
    if (raw == nullptr) return false;
    newest_ = new (raw) Slab{newest_, 0, 0};
    cursor_ = static_cast<char*>(raw) + kHeader;
    end_ = static_cast<char*>(raw) + kSlabBytes;
    poison::close(cursor_, kSlabBytes - kHeader);
    return true;
  }

  // A closed block; needs has_room(bytes).
  void* carve(size_t bytes) noexcept {
    void* data = cursor_;
    cursor_ += bytes;
    newest_->carved += bytes;
    return data;
  }

  // Unmaps every slab of which all blocks wait in `lists` (one for each class from 0 on), and
  // returns how many bytes of free blocks went with them.
  size_t sweep(std::span<FreeList> lists) noexcept {
    for (Slab* slab = newest_; slab != nullptr; slab = slab->next) slab->free = 0;
    size_t swept = 0;
    FreeList kept;  // emptying a list into another twice restores its order
    for (size_t cls = 0; cls < lists.size(); ++cls) {
      while (void* data = lists[cls].pop()) {
        slab_of(data)->free += kClassBytes[cls];
        kept.push(data);
      }
      while (void* data = kept.pop()) lists[cls].push(data);
    }
    for (size_t cls = 0; cls < lists.size(); ++cls) {
      while (void* data = lists[cls].pop()) {
        if (slab_of(data)->idle()) {
          swept += kClassBytes[cls];
        } else {
          kept.push(data);
        }
      }
      while (void* data = kept.pop()) lists[cls].push(data);
    }
    unmap_idle();
    return swept;
  }

 private:
  // At the start of each mapping, which is aligned to its size.
  struct Slab {
    Slab* next;
    size_t carved;  // bytes
    size_t free;    // bytes, as of the latest sweep
    bool idle() const { return free == carved; }
  };
  static constexpr size_t kHeader = 64;
  static_assert(sizeof(Slab) <= kHeader);

  static Slab* slab_of(void* block) {
    return reinterpret_cast<Slab*>(reinterpret_cast<uintptr_t>(block) & ~(kSlabBytes - 1));
  }

  void unmap_idle() noexcept {
    if (newest_ != nullptr && newest_->idle()) cursor_ = end_ = nullptr;
    for (Slab** at = &newest_; *at != nullptr;) {
      Slab* slab = *at;
      if (slab->idle()) {
        *at = slab->next;
        poison::open(slab, kSlabBytes);
        unmap_pages(slab, kSlabBytes, kSlabBytes);
      } else {
        at = &slab->next;
      }
    }
  }

  Slab* newest_ = nullptr;
  char* cursor_ = nullptr;  // the free end of the newest slab
  char* end_ = nullptr;
};

}  // namespace tinyt::memory
