#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <limits>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "check.h"
#include "core/memory/allocator.h"
#include "core/memory/arena.h"
#include "core/memory/poison.h"
#include "core/memory/size_class.h"

namespace {

using namespace tinyt;
using namespace tinyt::memory;

constexpr size_t kMiB = size_t{1} << 20;
constexpr bool kSanitized = poison::kRedZone > 0;

bool aligned(const Buffer& b) { return reinterpret_cast<uintptr_t>(b.host) % kAlignment == 0; }

void test_size_classes() {
  for (size_t bytes = 1; bytes <= kSlabMax; bytes += bytes < 5000 ? 1 : 61) {
    const size_t cls = class_of(bytes);
    if (kClassBytes[cls] < bytes || (cls > 0 && kClassBytes[cls - 1] >= bytes)) {
      CHECK_EQ(cls, bytes);  // shows the bytes that have the wrong class
    }
  }
  for (size_t cls = 0; cls < kClasses; ++cls) {
    CHECK(kClassBytes[cls] % kAlignment == 0);
    CHECK_EQ(class_of(kClassBytes[cls]), cls);
  }
  CHECK_EQ(class_of(kSlabMax + 1), kClasses);
  CHECK_EQ(class_of(size_t{1} << 60), kClasses);
}

void test_blocks() {
  Allocator& a = caching();
  const Statistics before = statistics();
  const Buffer none = a.allocate(0);
  CHECK(none.host == nullptr && none.bytes == 0);
  a.release(none);
  CHECK_EQ(statistics().allocations, before.allocations);
  for (size_t bytes : {size_t{1}, size_t{63}, size_t{64}, size_t{65}, size_t{1024}, size_t{1025},
                       size_t{40000}, kMiB - 1, kMiB, kMiB + 1, 3 * kMiB + 5}) {
    const Buffer b = a.allocate(bytes);
    CHECK(aligned(b) && b.bytes == bytes && b.from == &a);
    std::memset(b.host, 0xab, bytes);
    a.release(b);
    const Buffer again = a.allocate(bytes);
    CHECK(again.host == b.host);  // last in, first out
    a.release(again);
  }
}

void test_statistics() {
  Allocator& a = caching();
  empty_cache();
  const Statistics s0 = statistics();
  CHECK_EQ(s0.cached_bytes, 0);
  reset_peak();
  const Buffer small = a.allocate(100);
  const Buffer large = a.allocate(50 * kMiB);
  const Statistics s1 = statistics();
  CHECK_EQ(s1.current_bytes - s0.current_bytes, int64_t(100 + 50 * kMiB));
  CHECK(s1.reserved_bytes - s0.reserved_bytes >= int64_t(50 * kMiB));
  CHECK_EQ(s1.peak_bytes, s1.current_bytes);
  CHECK_EQ(s1.allocations - s0.allocations, 2);
  CHECK_EQ(s1.live_blocks - s0.live_blocks, 2);
  CHECK_EQ(s1.system_allocations - s0.system_allocations, 2);
  a.release(large);
  const Statistics s2 = statistics();
  CHECK_EQ(s2.current_bytes - s0.current_bytes, 100);
  CHECK_EQ(s2.peak_bytes, s1.peak_bytes);
  CHECK(s2.cached_bytes - s1.cached_bytes >= int64_t(50 * kMiB));
  CHECK_EQ(s2.reserved_bytes, s1.reserved_bytes);
  reset_peak();
  CHECK_EQ(statistics().peak_bytes, s2.current_bytes);
  a.release(a.allocate(50 * kMiB));
  CHECK_EQ(statistics().system_allocations, s1.system_allocations);
  a.release(small);
  CHECK_EQ(statistics().live_blocks, s0.live_blocks);
  empty_cache();
  CHECK_EQ(statistics().cached_bytes, 0);
  CHECK(statistics().reserved_bytes <= s0.reserved_bytes);
}

// Resident pages of this process in bytes, or -1 where the system does not tell.
[[maybe_unused]] int64_t resident() {
  int64_t size = 0;
  int64_t pages = -1;
  if (FILE* file = std::fopen("/proc/self/statm", "r")) {
    if (std::fscanf(file, "%" SCNd64 " %" SCNd64, &size, &pages) != 2) pages = -1;
    std::fclose(file);
  }
  return pages < 0 ? -1 : pages * int64_t(sysconf(_SC_PAGESIZE));
}

// Released blocks of one class serve others before a page is touched for the first time.
void test_classes_join() {
  Allocator& a = caching();
  empty_cache();
  for (const size_t first : {size_t{40000}, size_t{200000}, size_t{900000}}) {
    std::vector<Buffer> blocks;
    for (size_t held = 0; held < 6 * kMiB; held += first) blocks.push_back(a.allocate(first));
    for (const Buffer& b : blocks) a.release(b);
    const int64_t full = statistics().reserved_bytes;
    for (const size_t next : {size_t{50000}, size_t{150000}, size_t{700000}, size_t{900000}}) {
      blocks.clear();
      for (size_t held = 0; held < 4 * kMiB; held += next) blocks.push_back(a.allocate(next));
      CHECK_EQ(statistics().reserved_bytes, full);
      for (const Buffer& b : blocks) a.release(b);
    }
    empty_cache();
  }
}

// Small blocks that live on hold the pages they lie on and no others.
void test_pinned_slabs() {
  Allocator& a = caching();
  empty_cache();
  const Statistics s0 = statistics();
  std::vector<Buffer> live;
  std::vector<Buffer> dead;
  for (int round = 0; round < 20; ++round) {
    live.push_back(a.allocate(64));
    for (size_t bytes : {size_t{1000}, size_t{30000}, size_t{500000}, 3 * kMiB, 7 * kMiB}) {
      dead.push_back(a.allocate(bytes));
      std::memset(dead.back().host, 1, bytes);
    }
  }
  [[maybe_unused]] const int64_t full = resident();
  for (const Buffer& b : dead) a.release(b);
  CHECK(statistics().cached_bytes >= int64_t(200 * kMiB));
  empty_cache();
  const Statistics s1 = statistics();
  CHECK_EQ(s1.cached_bytes, 0);
  CHECK_EQ(s1.current_bytes - s0.current_bytes, 20 * 64);
  // Bits and two pages for each live block, at most.
  CHECK(s1.reserved_bytes - s0.reserved_bytes < int64_t(8 * kMiB));
  if (!kSanitized && full > 0) CHECK(resident() < full - int64_t(190 * kMiB));
  // What was given back is carved again.
  dead.clear();
  for (int i = 0; i < 5; ++i) {
    dead.push_back(a.allocate(900000));
    std::memset(dead.back().host, 2, 900000);
  }
  CHECK_EQ(statistics().system_allocations, s1.system_allocations);
  for (const Buffer& b : dead) a.release(b);
  for (const Buffer& b : live) a.release(b);
  empty_cache();
  CHECK(statistics().reserved_bytes <= s0.reserved_bytes);
}

// empty_cache() reaches into the lists of threads that are alive and idle.
void test_lists_of_other_threads() {
  empty_cache();
  const Statistics before = statistics();
  std::atomic<int> stage{0};
  std::thread other([&] {
    std::vector<Buffer> blocks;
    for (size_t i = 0; i < 40; ++i) blocks.push_back(caching().allocate(64 + 700 * i));
    for (const Buffer& b : blocks) caching().release(b);
    stage = 1;
    while (stage < 2) std::this_thread::yield();
    caching().release(caching().allocate(64));
  });
  while (stage < 1) std::this_thread::yield();
  CHECK(statistics().cached_bytes > before.cached_bytes);
  CHECK_EQ(statistics().allocations - before.allocations, 40);
  empty_cache();
  CHECK_EQ(statistics().cached_bytes, 0);
  stage = 2;
  other.join();
  CHECK_EQ(statistics().live_blocks, before.live_blocks);
}

// Large blocks of all sizes share memory: free ones join and serve what fits.
void test_ranges() {
  Allocator& a = caching();
  empty_cache();
  const Statistics s0 = statistics();
  std::vector<Buffer> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(a.allocate(10 * kMiB));
  const int64_t full = statistics().reserved_bytes;
  for (const Buffer& b : blocks) a.release(b);
  CHECK_EQ(statistics().cached_bytes, full - s0.reserved_bytes);
  // Smaller, larger, and in all as much: the system is not asked, or for little.
  for (size_t bytes : {kMiB + 1, 3 * kMiB, 17 * kMiB}) {
    blocks.assign(1, a.allocate(bytes));
    std::memset(blocks[0].host, 1, bytes);
    CHECK(statistics().reserved_bytes <= full + int64_t(kSanitized ? 8 : 7) * int64_t(kMiB));
    a.release(blocks[0]);
  }
  // Of two that fit the tighter one is taken.
  empty_cache();
  const Buffer wide = a.allocate(20 * kMiB);
  const Buffer fence = a.allocate(2 * kMiB);
  const Buffer tight = a.allocate(6 * kMiB);
  const Buffer end = a.allocate(2 * kMiB);
  a.release(wide);
  a.release(tight);
  const Buffer fits = a.allocate(6 * kMiB - 1000);
  // Up to what its own growth left beside it.
  CHECK(std::abs(static_cast<char*>(fits.host) - static_cast<char*>(tight.host)) <
        int64_t(2 * kMiB));
  a.release(fits);
  a.release(fence);
  a.release(end);
  empty_cache();
  CHECK_EQ(statistics().cached_bytes, 0);
  CHECK_EQ(statistics().reserved_bytes, s0.reserved_bytes);
}

// Room that was asked for beforehand serves blocks side by side, and is none of them.
void test_room() {
  Allocator& a = caching();
  empty_cache();
  const Statistics s0 = statistics();
  a.make_room(64 * kMiB);
  const Statistics s1 = statistics();
  CHECK(s1.reserved_bytes >= s0.reserved_bytes + int64_t(64 * kMiB));
  CHECK_EQ(s1.current_bytes, s0.current_bytes);
  CHECK_EQ(s1.live_blocks, s0.live_blocks);
  a.make_room(60 * kMiB);
  std::vector<Buffer> blocks;
  for (int i = 0; i < 3; ++i) blocks.push_back(a.allocate(21 * kMiB));
  CHECK_EQ(statistics().system_allocations, s1.system_allocations);
  for (const Buffer& b : blocks) a.release(b);
  a.make_room(0);
  a.make_room(SIZE_MAX / 4);  // more than there is: nothing happens
  CHECK_EQ(statistics().reserved_bytes, s1.reserved_bytes);
  empty_cache();
  CHECK_EQ(statistics().reserved_bytes, s0.reserved_bytes);
}

// Free huge pages that lie apart serve one large block, where the system can move pages.
void test_scattered_ranges() {
  Allocator& a = caching();
  empty_cache();
  const int64_t before = statistics().reserved_bytes;
  std::vector<Buffer> fences;
  std::vector<Buffer> gaps;
  for (int i = 0; i < 16; ++i) {
    fences.push_back(a.allocate(2 * kMiB));
    gaps.push_back(a.allocate(6 * kMiB));
    std::memset(fences.back().host, i, fences.back().bytes);
  }
  const int64_t full = statistics().reserved_bytes;
  for (const Buffer& b : gaps) a.release(b);
  for (int round = 0; round < 3; ++round) {
    const Buffer large = a.allocate(size_t(40 + 20 * round) * kMiB);
    std::memset(large.host, round, large.bytes);
#if defined(__linux__)
    if (!kSanitized) CHECK(statistics().reserved_bytes <= full + int64_t(2 * kMiB));
#endif
    a.release(large);
  }
  CHECK(full >= before);
  for (int i = 0; i < 16; ++i) {
    const auto* p = static_cast<const unsigned char*>(fences[size_t(i)].host);
    CHECK(p[0] == i && p[fences[size_t(i)].bytes - 1] == i);
    a.release(fences[size_t(i)]);
  }
  empty_cache();
  CHECK_EQ(statistics().reserved_bytes, before);
}

// Refused requests change nothing.
template <class F>
void check_refused(const std::string& words, F&& f) {
  const Statistics before = statistics();
  CHECK_FAILS(OutOfMemory, words, f());
  const Statistics after = statistics();
  CHECK_EQ(after.current_bytes, before.current_bytes);
  CHECK_EQ(after.peak_bytes, before.peak_bytes);
  CHECK_EQ(after.live_blocks, before.live_blocks);
  CHECK_EQ(after.allocations, before.allocations);
}

void test_limits() {
  Allocator& a = caching();
  const int64_t used = statistics().current_bytes;
  set_limit(used + 1000);
  CHECK_EQ(limit(), used + 1000);
  const Buffer b = a.allocate(600);
  check_refused("memory: the limit is reached, asked for 401 bytes, limit ",
                [&] { a.allocate(401); });
  check_refused(", in use ", [&] { a.allocate(kMiB); });
  const Buffer rest = a.allocate(400);
  a.release(rest);
  a.release(b);
  set_limit(0);
  for (size_t huge : {std::numeric_limits<size_t>::max(), std::numeric_limits<size_t>::max() - 63,
                      std::numeric_limits<size_t>::max() / 2, size_t{1} << 62, size_t{1} << 46}) {
    check_refused("asked for " + std::to_string(huge) + " bytes, limit none, in use ",
                  [&] { a.allocate(huge); });
  }
  CHECK_FAILS(Value, "memory.set_limit: bytes must be at least 0, got -1", set_limit(-1));
  CHECK_FAILS(Value, "got -1", set_cache_limit(-1));
  CHECK_FAILS(Value, "got -2", fail_nth_allocation(-2));

  fail_nth_allocation(2);
  a.release(a.allocate(10));
  check_refused("memory: this allocation was set to fail, asked for 10 bytes, limit none",
                [&] { a.allocate(10); });
  a.release(a.allocate(10));
  fail_nth_allocation(1);
  fail_nth_allocation(0);
  a.release(a.allocate(10));
}

void test_cache_limit() {
  Allocator& a = caching();
  empty_cache();
  set_cache_limit(int64_t(10 * kMiB));
  std::vector<Buffer> blocks;
  for (int i = 0; i < 8; ++i) blocks.push_back(a.allocate(4 * kMiB - 64));
  for (const Buffer& b : blocks) a.release(b);
  CHECK(statistics().cached_bytes <= int64_t(10 * kMiB));
  CHECK(statistics().cached_bytes >= int64_t(4 * kMiB));
  // Small blocks go together.
  blocks.clear();
  for (int i = 0; i < 1000; ++i) blocks.push_back(a.allocate(50000));
  for (const Buffer& b : blocks) a.release(b);
  CHECK(statistics().cached_bytes <= int64_t(20 * kMiB));
  set_cache_limit(0);
  blocks.assign(1, a.allocate(2 * kMiB));
  a.release(blocks[0]);
  CHECK(statistics().cached_bytes < int64_t(kMiB));
  set_cache_limit(int64_t{1} << 32);
  empty_cache();
  CHECK_EQ(statistics().cached_bytes, 0);
}

// Random traffic against a model: no two live blocks share a byte.
void churn(unsigned seed, int steps) {
  std::mt19937 rng(seed);
  std::vector<std::pair<Buffer, unsigned char>> live;
  const auto intact = [](const std::pair<Buffer, unsigned char>& entry) {
    const auto* p = static_cast<const unsigned char*>(entry.first.host);
    const size_t n = entry.first.bytes;
    return p[0] == entry.second && p[n / 2] == entry.second && p[n - 1] == entry.second;
  };
  bool good = true;
  for (int i = 0; i < steps; ++i) {
    if (live.size() < 40 || rng() % 2) {
      const size_t bytes = 1 + rng() % (size_t{1} << (1 + rng() % 21));
      const Buffer b = caching().allocate(bytes);
      const auto mark = static_cast<unsigned char>(rng());
      good = good && aligned(b);
      std::memset(b.host, mark, bytes);
      live.emplace_back(b, mark);
    } else {
      const size_t at = rng() % live.size();
      good = good && intact(live[at]);
      caching().release(live[at].first);
      live[at] = live.back();
      live.pop_back();
    }
    if (i % 997 == 0) empty_cache();
  }
  for (const auto& entry : live) {
    good = good && intact(entry);
    caching().release(entry.first);
  }
  CHECK(good);
}

void test_threads() {
  const Statistics before = statistics();
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 3; ++t) threads.emplace_back(churn, t, kSanitized ? 1500 : 5000);
  churn(9, kSanitized ? 1500 : 5000);
  for (auto& t : threads) t.join();
  CHECK_EQ(statistics().live_blocks, before.live_blocks);
  CHECK_EQ(statistics().current_bytes, before.current_bytes);

  // A block may be released by another thread, and an ended thread keeps nothing.
  std::vector<Buffer> blocks;
  for (int i = 0; i < 500; ++i) blocks.push_back(caching().allocate(128));
  std::thread([&] {
    for (const Buffer& b : blocks) caching().release(b);
  }).join();
  CHECK_EQ(statistics().live_blocks, before.live_blocks);
  empty_cache();
  CHECK_EQ(statistics().cached_bytes, 0);
}

// A pipeline: one thread allocates, the next checks and releases.
void test_producer_and_consumer() {
  const Statistics before = statistics();
  constexpr size_t kSlots = 64;
  constexpr size_t kBlocks = kSanitized ? 5000 : 30000;
  std::atomic<void*> slots[kSlots] = {};
  const auto bytes_of = [](size_t i) { return size_t{16} << (i * 7 % 13); };
  std::atomic<bool> good{true};
  std::thread consumer([&] {
    for (size_t i = 0; i < kBlocks; ++i) {
      void* data = nullptr;
      while ((data = slots[i % kSlots].exchange(nullptr)) == nullptr) std::this_thread::yield();
      size_t mark = 0;
      std::memcpy(&mark, data, sizeof(mark));
      if (mark != i) good = false;
      caching().release({data, bytes_of(i), &caching(), nullptr});
    }
  });
  std::thread collector([&] {
    for (int i = 0; i < 200; ++i) {
      if (i % 4 == 0) empty_cache();
      const Statistics now = statistics();
      if (now.live_blocks < before.live_blocks || now.reserved_bytes < now.cached_bytes)
        good = false;
      std::this_thread::yield();
    }
  });
  for (size_t i = 0; i < kBlocks; ++i) {
    const Buffer b = caching().allocate(bytes_of(i));
    std::memcpy(b.host, &i, sizeof(i));
    while (slots[i % kSlots].load() != nullptr) std::this_thread::yield();
    slots[i % kSlots] = b.host;
  }
  consumer.join();
  collector.join();
  CHECK(good);
  CHECK_EQ(statistics().live_blocks, before.live_blocks);
  CHECK_EQ(statistics().current_bytes, before.current_bytes);
}

// Threads that come and go hand their lists on.
void test_many_threads() {
  const Statistics before = statistics();
  for (unsigned round = 0; round < 10; ++round) {
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < 6; ++t) threads.emplace_back(churn, 100 * round + t, 150);
    for (auto& t : threads) t.join();
  }
  CHECK_EQ(statistics().live_blocks, before.live_blocks);
  CHECK_EQ(statistics().current_bytes, before.current_bytes);
  empty_cache();
  CHECK_EQ(statistics().cached_bytes, 0);
}

// The system refuses: what is cached goes first, then the error, and nothing is lost.
void test_system_refuses() {
  const int code = tinyt::test::in_child([] {
    empty_cache();
    const Statistics before = statistics();
    std::vector<Buffer> cached;
    for (int i = 0; i < 4; ++i) cached.push_back(caching().allocate(100 * kMiB));
    struct rlimit limit{};
    getrlimit(RLIMIT_AS, &limit);
    int64_t mapped = 0;  // pages
    if (FILE* file = std::fopen("/proc/self/statm", "r")) {
      if (std::fscanf(file, "%" SCNd64, &mapped) != 1) mapped = 0;
      std::fclose(file);
    }
    if (mapped == 0) return 0;
    limit.rlim_cur = static_cast<rlim_t>(mapped * sysconf(_SC_PAGESIZE)) + 150 * kMiB;
    setrlimit(RLIMIT_AS, &limit);
    // Free memory of 200 MiB in two parts, and 150 MiB that the system still has.
    caching().release(cached[0]);
    caching().release(cached[2]);
    const Buffer fits = caching().allocate(300 * kMiB);
    if (statistics().cached_bytes > int64_t(2 * kMiB)) return 2;
    try {
      caching().allocate(900 * kMiB);
      return 3;
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::OutOfMemory) return 4;
      if (std::string(e.what()).find("the system refused") == std::string::npos) return 5;
    }
    for (const Buffer& b : {fits, cached[1], cached[3]}) caching().release(b);
    const Buffer small = caching().allocate(100);
    caching().release(small);
    empty_cache();
    const Statistics after = statistics();
    return after.live_blocks == before.live_blocks && after.current_bytes == before.current_bytes &&
                   after.reserved_bytes <= before.reserved_bytes
               ? 0
               : 6;
  });
  CHECK_EQ(code, 0);
}

void test_arena() {
  const Statistics before = statistics();
  CHECK(&current() == &caching());
  Buffer escaped;
  {
    Arena arena(4096);
    CHECK_EQ(arena.capacity_bytes(), 0);
    arena.enter();
    CHECK(&current() == &arena);
    {
      Arena inner;
      inner.enter();
      CHECK(&current() == &inner);
      CHECK_FAILS(Runtime, "memory.Arena: enter: it is entered already", inner.enter());
      CHECK_FAILS(Runtime, "is not innermost here", arena.exit());
      inner.exit();
      CHECK_FAILS(Runtime, "was not entered", inner.exit());
      inner.enter();  // and is destroyed while entered
    }
    CHECK(&current() == &arena);
    CHECK(current().allocate(0).host == nullptr);
    const Buffer a = current().allocate(1);
    const Buffer b = current().allocate(100);
    CHECK(aligned(a) && aligned(b) && a.host != b.host);
    CHECK_EQ(arena.used_bytes(), 64 + 128);
    const int64_t blocks = statistics().live_blocks;
    std::memset(b.host, 1, b.bytes);
    a.from->release(a);
    b.from->release(b);
    CHECK_EQ(statistics().live_blocks, blocks);  // chunks count, not what is bumped
    arena.reset();
    CHECK_EQ(arena.used_bytes(), 0);
    CHECK_EQ(arena.peak_bytes(), 64 + 128);
    CHECK_EQ(arena.capacity_bytes(), 0);

    escaped = arena.allocate(10000);  // more than a chunk
    CHECK(arena.capacity_bytes() > 10000);
    std::memset(escaped.host, 7, escaped.bytes);
    for (int i = 0; i < 100; ++i) {
      const Buffer x = arena.allocate(200);
      std::memset(x.host, 8, x.bytes);
      arena.release(x);
    }
    check_refused("asked for", [&] { arena.allocate(std::numeric_limits<size_t>::max()); });
    fail_nth_allocation(1);
    check_refused("set to fail", [&] { arena.allocate(50000); });
    arena.exit();
  }
  CHECK(&current() == &caching());
  CHECK_EQ(statistics().live_blocks, before.live_blocks + 1);
  const auto* bytes = static_cast<const unsigned char*>(escaped.host);
  CHECK(bytes[0] == 7 && bytes[9999] == 7);
  std::thread([&] { escaped.from->release(escaped); }).join();
  CHECK_EQ(statistics().live_blocks, before.live_blocks);
  CHECK_EQ(statistics().current_bytes, before.current_bytes);
}

void test_fork() {
  const Buffer b = caching().allocate(1000);
  std::thread other([] {
    for (size_t i = 0; i < 3000; ++i) caching().release(caching().allocate(size_t{64} << (i % 16)));
  });
  const int code = tinyt::test::in_child([&] {
    const int64_t live = statistics().live_blocks;
    for (int i = 0; i < 200; ++i) caching().release(caching().allocate(size_t{1} << (i % 22)));
    caching().release(b);
    empty_cache();
    std::thread([] { caching().release(caching().allocate(64)); }).join();
    return statistics().live_blocks == live - 1 ? 0 : 1;
  });
  other.join();
  caching().release(b);
  CHECK_EQ(code, 0);
}

#if defined(TINYT_POISON_ASAN)
void test_poison() {
  const auto closed = [](const void* p) { return __asan_address_is_poisoned(p) != 0; };
  for (size_t bytes : {size_t{1}, size_t{100}, size_t{64}, kMiB, 2 * kMiB}) {
    const Buffer b = caching().allocate(bytes);
    auto* p = static_cast<char*>(b.host);
    CHECK(!closed(p) && !closed(p + bytes - 1) && closed(p + bytes) && closed(p + bytes + 63));
    caching().release(b);
    CHECK(closed(p) && closed(p + bytes - 1));
  }
  Arena arena;
  const Buffer b = arena.allocate(100);
  auto* p = static_cast<char*>(b.host);
  CHECK(!closed(p) && !closed(p + 99) && closed(p + 100) && closed(p + 163));
  arena.release(b);
  CHECK(closed(p));
}
#endif

// Released by a static destructor, after this thread's own lists are gone.
struct Late {
  Buffer block = caching().allocate(300);
  ~Late() { caching().release(block); }
};

}  // namespace

int main() {
  test_size_classes();
  test_blocks();
  test_statistics();
  test_limits();
  test_cache_limit();
  test_classes_join();
  test_pinned_slabs();
  test_ranges();
  test_room();
  test_scattered_ranges();
  test_lists_of_other_threads();
  test_threads();
  test_producer_and_consumer();
  test_many_threads();
  test_arena();
  if (tinyt::test::kThreadsAfterFork) test_fork();
  if (!kSanitized && tinyt::test::kThreadsAfterFork) test_system_refuses();
#if defined(TINYT_POISON_ASAN)
  test_poison();
#endif
  static Late late;  // last: its block keeps a slab from being given back
  return tinyt::test::summary();
}
