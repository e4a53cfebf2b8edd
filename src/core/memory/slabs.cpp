#include "core/memory/slabs.h"

#include <algorithm>
#include <new>

#include "core/memory/bits.h"
#include "core/memory/poison.h"

namespace tinyt::memory {
namespace {

constexpr size_t kGranule = kAlignment;
constexpr size_t kGranules = Slabs::kSlabBytes / kGranule;
constexpr size_t kWindow = kHugePage;

}  // namespace

// At the start of each mapping, which is aligned to its size.
struct Slabs::Slab {
  Slab* next;      // younger
  size_t lowest;   // no hole below this granule
  size_t longest;  // no hole has more granules
  Bits<kGranules> holes;
  Bits<kSlabBytes / kPage> cold;

  static constexpr size_t first();  // granule of the first block
  char* at(size_t granule) { return reinterpret_cast<char*>(this) + granule * kGranule; }
  size_t granule_of(const void* block) {
    return static_cast<size_t>(static_cast<const char*>(block) - at(0)) / kGranule;
  }
  // Whether no page of granules [from, to) is cold.
  bool touched(size_t from, size_t to) const {
    return cold.count(from * kGranule / kPage, (to * kGranule + kPage - 1) / kPage) == 0;
  }
  // Granules [from, to) belong to no block any more.
  void free(size_t from, size_t to) {
    holes.fill(from, to, true);
    lowest = std::min(lowest, from);
    longest = kGranules;
  }
};

constexpr size_t Slabs::Slab::first() {
  return (sizeof(Slab) + kPage - 1) / kPage * kPage / kGranule;
}

Slabs::Slab* Slabs::slab_of(void* block) {
  return reinterpret_cast<Slab*>(reinterpret_cast<uintptr_t>(block) & ~(kSlabBytes - 1));
}

bool Slabs::grow() noexcept {
  void* raw = map_pages(kSlabBytes, kSlabBytes);
  if (raw == nullptr) return false;
  ++mappings_;
  Slab* slab = new (raw) Slab{};
  slab->free(Slab::first(), kGranules);
  slab->cold.fill(0, kSlabBytes / kPage, true);
  warm(*slab, 0, Slab::first());
  Slab** last = &oldest_;
  while (*last != nullptr) last = &(*last)->next;
  *last = slab;
  poison::close(slab->at(Slab::first()), kSlabBytes - Slab::first() * kGranule);
  return true;
}

// The first hole of at least `least` bytes, up to `most` of it.
char* Slabs::take(size_t least, size_t most, Room room, size_t& taken) noexcept {
  const size_t need = least / kGranule;
  for (Slab* slab = oldest_;; slab = slab->next) {
    if (slab == nullptr) {
      if (room != Room::New || !grow()) return nullptr;
      return take(least, most, Room::Mapped, taken);
    }
    if (slab->longest < need) continue;
    size_t longest = 0;
    size_t start = slab->lowest = slab->holes.find(slab->lowest, true);
    while (start < kGranules) {
      const size_t stop = slab->holes.find(start, false);
      if (stop - start >= need && (room != Room::Touched || slab->touched(start, start + need))) {
        const size_t count = std::min(stop - start, most / kGranule);
        slab->holes.fill(start, start + count, false);
        warm(*slab, start, count);
        taken = count * kGranule;
        return slab->at(start);
      }
      longest = std::max(longest, stop - start);
      start = slab->holes.find(stop, true);
    }
    slab->longest = longest;
  }
}

void* Slabs::carve(size_t bytes, Room room) noexcept {
  size_t taken = 0;
  if (bytes > kWindowMax) return take(bytes, bytes, room, taken);
  if (!at_hand(bytes)) {
    close_window();
    char* start = take(bytes, kWindow, room, taken);
    if (start == nullptr) return nullptr;
    cursor_ = start;
    end_ = start + taken;
  }
  void* data = cursor_;
  cursor_ += bytes;
  return data;
}

void Slabs::close_window() noexcept {
  if (cursor_ != end_) {
    Slab* slab = slab_of(cursor_);
    const size_t from = slab->granule_of(cursor_);
    slab->free(from, from + static_cast<size_t>(end_ - cursor_) / kGranule);
  }
  cursor_ = end_ = nullptr;
}

// Granules that are about to be used count as touched.
void Slabs::warm(Slab& slab, size_t first, size_t count) noexcept {
  const size_t from = first * kGranule / kPage;
  const size_t to = ((first + count) * kGranule + kPage - 1) / kPage;
  reserved_ += slab.cold.count(from, to) * kPage;
  slab.cold.fill(from, to, false);
}

// Of the hole of granules [first, last).
void Slabs::give_back(Slab& slab, size_t first, size_t last, size_t unit) noexcept {
  const size_t from = (first * kGranule + unit - 1) / unit * unit;
  const size_t to = last * kGranule / unit * unit;
  if (from >= to) return;
  const size_t held = (to - from) / kPage - slab.cold.count(from / kPage, to / kPage);
  if (held == 0 || !give_back_pages(slab.at(0) + from, to - from)) return;
  slab.cold.fill(from / kPage, to / kPage, true);
  reserved_ -= held * kPage;
}

void Slabs::unmap(Slab* slab) noexcept {
  for (Slab** at = &oldest_; *at != nullptr; at = &(*at)->next) {
    if (*at == slab) {
      *at = slab->next;
      break;
    }
  }
  reserved_ -= kSlabBytes - slab->cold.count(0, kSlabBytes / kPage) * kPage;
  poison::open(slab, kSlabBytes);
  unmap_pages(slab, kSlabBytes, kSlabBytes);
}

size_t Slabs::sweep(std::span<FreeList> lists, size_t first) noexcept {
  if (first < kThreadClasses) close_window();
  size_t swept = 0;
  for (size_t cls = first; cls < lists.size(); ++cls) {
    while (void* data = lists[cls].pop()) {
      Slab* slab = slab_of(data);
      const size_t from = slab->granule_of(data);
      slab->free(from, from + kClassBytes[cls] / kGranule);
      swept += kClassBytes[cls];
    }
  }
  return swept;
}

void Slabs::trim(size_t unit) noexcept {
  for (Slab* slab = oldest_; slab != nullptr;) {
    Slab* next = slab->next;
    if (slab->holes.find(Slab::first(), false) == kGranules) {
      unmap(slab);
    } else {
      for (size_t start = slab->holes.find(0, true); start < kGranules;) {
        const size_t stop = slab->holes.find(start, false);
        give_back(*slab, start, stop, unit);
        start = slab->holes.find(stop, true);
      }
    }
    slab = next;
  }
}

}  // namespace tinyt::memory
