#include "memory/ranges.h"

#include <algorithm>
#include <new>

#include "memory/poison.h"

namespace tinyt::memory {
namespace {

uintptr_t address(const char* p) { return reinterpret_cast<uintptr_t>(p); }

size_t whole(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

// The smallest that fits, and of those the lowest: what was released last is often next to be
// taken again, since it fits best.
void* Ranges::take(size_t bytes) noexcept {
  auto best = ranges_.end();
  for (auto it = ranges_.begin(); it != ranges_.end(); ++it) {
    if (it->bytes >= bytes && (best == ranges_.end() || it->bytes < best->bytes)) best = it;
  }
  if (best == ranges_.end()) return nullptr;
  char* data = best->start;
  free_ -= bytes;
  best->start += bytes;
  best->bytes -= bytes;
  if (best->bytes == 0) ranges_.erase(best);
  return data;
}

void* Ranges::grow(size_t bytes) noexcept {
  if (!extend(bytes)) {
    const size_t size = whole(bytes, kHugePage);
    auto* start = static_cast<char*>(map_pages(size, kHugePage));
    if (start == nullptr) return nullptr;
    ++mappings_;
    reserved_ += size;
    poison::close(start, size);
    insert(start, size);
  }
  return take(bytes);
}

// Makes the largest range large enough where the addresses next to it are nobody's.
bool Ranges::extend(size_t bytes) noexcept {
  const auto largest =
      std::max_element(ranges_.begin(), ranges_.end(),
                       [](const Range& a, const Range& b) { return a.bytes < b.bytes; });
  if (largest == ranges_.end() || bytes <= largest->bytes) return false;
  const size_t more = whole(bytes - largest->bytes, kHugePage);
  char* start = nullptr;
  if (address(largest->start) % kHugePage == 0 && map_pages_at(largest->start - more, more)) {
    start = largest->start - more;
  } else if (address(largest->end()) % kHugePage == 0 && map_pages_at(largest->end(), more)) {
    start = largest->end();
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

// Unmaps up to `bytes` of a range's end, or all of it; false when there is no whole unit.
bool Ranges::cut(size_t index, size_t bytes, size_t unit) noexcept {
  const Range range = ranges_[index];
  const size_t high = address(range.end()) / unit * unit;
  const size_t low =
      std::max(whole(address(range.start), unit), bytes < high ? (high - bytes) / unit * unit : 0);
  if (low >= high) return false;
  const size_t size = high - low;
  const size_t before = low - address(range.start);
  const size_t after = address(range.end()) - high;
  try {
    if (before > 0 && after > 0) ranges_.reserve(ranges_.size() + 1);
  } catch (const std::bad_alloc&) {
    return false;
  }
  char* start = range.start + before;
  poison::open(start, size);
  if (!unmap_part(start, size)) {
    poison::close(start, size);
    return false;
  }
  reserved_ -= size;
  free_ -= size;
  const auto at = ranges_.begin() + static_cast<std::ptrdiff_t>(index);
  if (before > 0) {
    at->bytes = before;
    if (after > 0) ranges_.insert(at + 1, {start + size, after});
  } else if (after > 0) {
    *at = {start + size, after};
  } else {
    ranges_.erase(at);
  }
  return true;
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
