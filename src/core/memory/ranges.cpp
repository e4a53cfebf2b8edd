#include "core/memory/ranges.h"

#include <algorithm>
#include <new>

#include "core/memory/poison.h"

namespace tinyt::memory {
namespace {

uintptr_t address(const char* p) { return reinterpret_cast<uintptr_t>(p); }

size_t whole(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

// Each huge page that was moved may be a mapping of its own to the system, which allows 65,530.
constexpr size_t kMostGathered = 16384 * kHugePage;

// Bytes of whole huge pages in a range.
size_t huge_pages(const char* start, size_t bytes) {
  const size_t low = whole(address(start), kHugePage);
  const size_t high = (address(start) + bytes) / kHugePage * kHugePage;
  return high > low ? high - low : 0;
}

// Of so little in all, the part of a huge page that a block leaves would be much.
constexpr size_t kLittle = 8 * kHugePage;

}  // namespace

// Blocks come from the end of a range. What one leaves of the first huge page is touched later, or
// never: as small pages it takes no memory until then.
size_t Ranges::small_pages(size_t bytes, size_t available) const noexcept {
  return available > bytes && reserved_ < kLittle ? kHugePage : 0;
}

// The smallest that fits, and of those the lowest: what was released last is often next to be
// taken again, since it fits best.
void* Ranges::take(size_t bytes) noexcept {
  auto best = ranges_.end();
  for (auto it = ranges_.begin(); it != ranges_.end(); ++it) {
    if (it->bytes >= bytes && (best == ranges_.end() || it->bytes < best->bytes)) best = it;
  }
  if (best == ranges_.end()) return nullptr;
  // From its end: what is left can then grow downwards, where systems have addresses to give.
  free_ -= bytes;
  best->bytes -= bytes;
  char* data = best->end();
  if (best->bytes == 0) ranges_.erase(best);
  return data;
}

void* Ranges::grow(size_t bytes) noexcept {
  size_t largest = 0;
  size_t movable = 0;
  for (const Range& range : ranges_) {
    largest = std::max(largest, range.bytes);
    movable += huge_pages(range.start, range.bytes);
  }
  // Whichever asks for less new memory.
  if (movable > largest ? !gather(bytes) : !extend(bytes) && !gather(bytes)) return nullptr;
  return take(bytes);
}

// A new range, of huge pages of other ones as far as they go.
bool Ranges::gather(size_t bytes) noexcept {
  const size_t size = whole(bytes, kHugePage);
  auto* start = static_cast<char*>(map_pages(size, kHugePage, small_pages(bytes, size)));
  if (start == nullptr) return false;
  ++mappings_;
  reserved_ += size;
  const size_t wanted = reserved_ < kMostGathered ? size : 0;
  size_t filled = 0;
  for (size_t i = ranges_.size(); i-- > 0 && filled < wanted;) {
    filled += move_pages(i, start + filled, wanted - filled);
  }
  poison::close(start, size);
  insert(start, size);
  return true;
}

// Moves up to `bytes` of huge pages from a range's end to `to`; returns how many.
size_t Ranges::move_pages(size_t index, char* to, size_t bytes) noexcept {
  const Range range = ranges_[index];
  const size_t count = std::min(huge_pages(range.start, range.bytes), bytes);
  if (count == 0 || !room_for_split()) return 0;
  // Upwards: pages that were neighbours stay so, and are one mapping to the system.
  char* low = range.end() - address(range.end()) % kHugePage - count;
  poison::open(low, count);
  size_t moved = 0;
  while (moved < count && move_huge_page(low + moved, to + moved)) moved += kHugePage;
  poison::close(low + moved, count - moved);
  if (moved > 0) remove(index, low, low + moved);
  return moved;
}

// Makes the largest range large enough, or else the lowest, where the addresses next to it are
// nobody's.
bool Ranges::extend(size_t bytes) noexcept {
  if (ranges_.empty()) return false;
  const auto largest =
      std::max_element(ranges_.begin(), ranges_.end(),
                       [](const Range& a, const Range& b) { return a.bytes < b.bytes; });
  return extend(*largest, bytes) || extend(ranges_.front(), bytes);
}

bool Ranges::extend(const Range& range, size_t bytes) noexcept {
  if (bytes <= range.bytes) return false;
  const size_t more = whole(bytes - range.bytes, kHugePage);
  char* start = nullptr;
  if (address(range.start) % kHugePage == 0 &&
      map_pages_at(range.start - more, more, small_pages(bytes, range.bytes + more))) {
    start = range.start - more;
  } else if (address(range.end()) % kHugePage == 0 && map_pages_at(range.end(), more)) {
    start = range.end();
  } else {
    return false;
  }
  ++mappings_;
  reserved_ += more;
  poison::close(start, more);
  insert(start, more);
  return true;
}

void Ranges::put_back(void* data, size_t bytes) noexcept {
  insert(static_cast<char*>(data), bytes);
}

void Ranges::insert(char* start, size_t bytes) noexcept {
  const auto next = std::lower_bound(
      ranges_.begin(), ranges_.end(), start,
      [](const Range& r, const char* at) { return address(r.start) < address(at); });
  const bool joins_next = next != ranges_.end() && next->start == start + bytes;
  const bool joins_last = next != ranges_.begin() && std::prev(next)->end() == start;
  if (joins_last && joins_next) {
    std::prev(next)->bytes += bytes + next->bytes;
    ranges_.erase(next);
  } else if (joins_last) {
    std::prev(next)->bytes += bytes;
  } else if (joins_next) {
    next->start = start;
    next->bytes += bytes;
  } else {
    try {
      ranges_.insert(next, {start, bytes});
    } catch (const std::bad_alloc&) {
      // No room to remember it: the system has it back, or else it is lost.
      poison::open(start, bytes);
      if (unmap_part(start, bytes)) reserved_ -= bytes;
      return;
    }
  }
  free_ += bytes;
}

// Unmaps about `bytes` of a range's end; false when there is no whole unit.
bool Ranges::cut(size_t index, size_t bytes, size_t unit) noexcept {
  const Range range = ranges_[index];
  const size_t high = address(range.end()) / unit * unit;
  const size_t low =
      std::max(whole(address(range.start), unit), bytes < high ? (high - bytes) / unit * unit : 0);
  if (low >= high || !room_for_split()) return false;
  char* start = range.start + (low - address(range.start));
  poison::open(start, high - low);
  if (!unmap_part(start, high - low)) {
    poison::close(start, high - low);
    return false;
  }
  remove(index, start, start + (high - low));
  return true;
}

bool Ranges::room_for_split() noexcept {
  try {
    if (ranges_.size() == ranges_.capacity()) ranges_.reserve(2 * ranges_.size() + 8);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

// Forgets the part [low, high) of a range, which is not mapped any more; needs room_for_split().
void Ranges::remove(size_t index, char* low, char* high) noexcept {
  const Range range = ranges_[index];
  const auto gone = static_cast<size_t>(high - low);
  reserved_ -= gone;
  free_ -= gone;
  const auto before = static_cast<size_t>(low - range.start);
  const auto after = static_cast<size_t>(range.end() - high);
  const auto at = ranges_.begin() + static_cast<std::ptrdiff_t>(index);
  if (before > 0) {
    at->bytes = before;
    if (after > 0) ranges_.insert(at + 1, {high, after});
  } else if (after > 0) {
    *at = {high, after};
  } else {
    ranges_.erase(at);
  }
}

void Ranges::trim(size_t bytes, size_t unit) noexcept {
  const size_t target = free_ - std::min(free_, bytes);
  size_t below = SIZE_MAX;  // ranges this large were tried
  while (free_ > target) {
    size_t largest = ranges_.size();
    for (size_t i = 0; i < ranges_.size(); ++i) {
      if (ranges_[i].bytes < below &&
          (largest == ranges_.size() || ranges_[i].bytes > ranges_[largest].bytes)) {
        largest = i;
      }
    }
    if (largest == ranges_.size()) return;
    const size_t size = ranges_[largest].bytes;
    if (!cut(largest, free_ - target, unit)) below = size;
  }
}

}  // namespace tinyt::memory
