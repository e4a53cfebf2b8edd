// Tells AddressSanitizer or valgrind which bytes of allocator memory a program may touch, so that
// a use after release or a write past a block of a tensor is reported. Costs nothing elsewhere.
#pragma once

#include <cstddef>
#include <cstring>

#if defined(__SANITIZE_ADDRESS__)
#define TINYT_POISON_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TINYT_POISON_ASAN 1
#endif
#endif

#if defined(TINYT_POISON_ASAN)
#include <sanitizer/asan_interface.h>
#elif defined(TINYT_VALGRIND) && __has_include(<valgrind/memcheck.h>)
#include <valgrind/memcheck.h>
#define TINYT_POISON_VALGRIND 1
#endif

namespace tinyt::memory::poison {

// Bytes kept closed after each block.
#if defined(TINYT_POISON_ASAN) || defined(TINYT_POISON_VALGRIND)
inline constexpr size_t kRedZone = 64;
#else
inline constexpr size_t kRedZone = 0;
#endif

// Any access from now on is an error.
inline void close([[maybe_unused]] const void* data, [[maybe_unused]] size_t bytes) {
#if defined(TINYT_POISON_ASAN)
  ASAN_POISON_MEMORY_REGION(data, bytes);
#elif defined(TINYT_POISON_VALGRIND)
  (void)VALGRIND_MAKE_MEM_NOACCESS(data, bytes);
#endif
}

// May be written, and read after that.
inline void open([[maybe_unused]] const void* data, [[maybe_unused]] size_t bytes) {
#if defined(TINYT_POISON_ASAN)
  ASAN_UNPOISON_MEMORY_REGION(data, bytes);
#elif defined(TINYT_POISON_VALGRIND)
  (void)VALGRIND_MAKE_MEM_UNDEFINED(data, bytes);
#endif
}

// The first `bytes` of a closed block of the caching allocator go to the program.
inline void block_out([[maybe_unused]] const void* data, [[maybe_unused]] size_t bytes) {
#if defined(TINYT_POISON_ASAN)
  ASAN_UNPOISON_MEMORY_REGION(data, bytes);
#elif defined(TINYT_POISON_VALGRIND)
  // Tracks leaks as well. No red zone here: it would close the bytes before the block, which may
  // be a header or not ours; those after it are closed already.
  VALGRIND_MALLOCLIKE_BLOCK(data, bytes, 0, 0);
#endif
}

// And come back.
inline void block_in([[maybe_unused]] const void* data, [[maybe_unused]] size_t bytes) {
#if defined(TINYT_POISON_ASAN)
  ASAN_POISON_MEMORY_REGION(data, bytes);
#elif defined(TINYT_POISON_VALGRIND)
  VALGRIND_FREELIKE_BLOCK(data, 0);
#endif
}

// The link of a free list lives in the first bytes of a closed block.
inline void* load_link(const void* block) {
#if defined(TINYT_POISON_ASAN)
  ASAN_UNPOISON_MEMORY_REGION(block, sizeof(void*));
#elif defined(TINYT_POISON_VALGRIND)
  (void)VALGRIND_MAKE_MEM_DEFINED(block, sizeof(void*));
#endif
  void* next;
  std::memcpy(&next, block, sizeof(next));
  close(block, sizeof(next));
  return next;
}

inline void store_link(void* block, void* next) {
  open(block, sizeof(next));
  std::memcpy(block, &next, sizeof(next));
  close(block, sizeof(next));
}

}  // namespace tinyt::memory::poison
