// Whole pages from the operating system, aligned for huge pages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>

#if defined(_WIN32)
#define WIN32_LEAN_AND_MEAN
#define NOMINMAX
#include <windows.h>
#else
#include <sys/mman.h>
#include <unistd.h>
#endif

namespace tinyt::memory {

inline constexpr size_t kHugePage = size_t{2} << 20;
// What can be given back on its own. Where the system's pages are larger, it refuses.
#if defined(__APPLE__)
inline constexpr size_t kPage = size_t{16} << 10;
#else
inline constexpr size_t kPage = size_t{4} << 10;
#endif

// `bytes` and `alignment` are multiples of kHugePage. Null when the system refuses. The first
// `small` bytes are pages of the usual size, so that what is not touched of them takes no memory.
inline void* map_pages(size_t bytes, size_t alignment, [[maybe_unused]] size_t small = 0) noexcept {
#if defined(_WIN32)
  return ::operator new(bytes, std::align_val_t{alignment}, std::nothrow);
#else
  const size_t span = bytes + alignment;
  void* raw = mmap(nullptr, span, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (raw == MAP_FAILED) return nullptr;
  // As high as possible: systems hand addresses out downwards, so that mappings become neighbours.
  const uintptr_t start = reinterpret_cast<uintptr_t>(raw);
  const uintptr_t data = (start + alignment) / alignment * alignment;
  if (data > start) munmap(raw, data - start);
  const uintptr_t tail = data + bytes;
  if (start + span > tail) munmap(reinterpret_cast<void*>(tail), start + span - tail);
#if defined(MADV_HUGEPAGE)
  // The first touch of small pages is several times slower; a refusal changes nothing else.
  madvise(reinterpret_cast<void*>(data + small), bytes - small, MADV_HUGEPAGE);
#endif
  return reinterpret_cast<void*>(data);
#endif
}

// The same at these addresses, if they are nobody's.
inline bool map_pages_at([[maybe_unused]] char* data, [[maybe_unused]] size_t bytes,
                         [[maybe_unused]] size_t small = 0) noexcept {
#if defined(_WIN32)
  return false;
#else
  void* raw = mmap(data, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (raw == MAP_FAILED) return false;
  if (raw != data) {
    munmap(raw, bytes);
    return false;
  }
#if defined(MADV_HUGEPAGE)
  madvise(data + small, bytes - small, MADV_HUGEPAGE);
#endif
  return true;
#endif
}

inline void unmap_pages(void* data, [[maybe_unused]] size_t bytes,
                        [[maybe_unused]] size_t alignment) noexcept {
#if defined(_WIN32)
  ::operator delete(data, std::align_val_t{alignment});
#else
  munmap(data, bytes);
#endif
}

// Part of one or more mappings. False when it stays.
inline bool unmap_part([[maybe_unused]] char* data, [[maybe_unused]] size_t bytes) noexcept {
#if defined(_WIN32)
  return false;  // a mapping goes as a whole there
#else
  return munmap(data, bytes) == 0;
#endif
}

// Puts the huge page at `from` in place of the one at `to`, without touching either; `from` is not
// mapped any more. False when both stay.
inline bool move_huge_page([[maybe_unused]] char* from, [[maybe_unused]] char* to) noexcept {
#if defined(__linux__)
  if (mremap(from, kHugePage, kHugePage, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to) return true;
  map_pages_at(to, kHugePage);  // a late refusal leaves a hole there
#endif
  return false;
}

// Lets go of what the pages hold; the addresses stay ours, and what is read there next is
// undefined. False when the pages are kept.
inline bool give_back_pages([[maybe_unused]] void* data, [[maybe_unused]] size_t bytes) noexcept {
#if defined(_WIN32)
  return false;  // operator new's pages are not ours to discard
#elif defined(__APPLE__)
  return madvise(data, bytes, MADV_FREE) == 0;
#else
  return madvise(data, bytes, MADV_DONTNEED) == 0;
#endif
}

// Bytes of main memory of this machine.
inline size_t physical_memory() noexcept {
#if defined(_WIN32)
  MEMORYSTATUSEX status{};
  status.dwLength = sizeof(status);
  return GlobalMemoryStatusEx(&status) ? static_cast<size_t>(status.ullTotalPhys) : size_t{1} << 32;
#else
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page = sysconf(_SC_PAGESIZE);
  return pages > 0 && page > 0 ? static_cast<size_t>(pages) * static_cast<size_t>(page)
                               : size_t{1} << 32;
#endif
}

}  // namespace tinyt::memory
