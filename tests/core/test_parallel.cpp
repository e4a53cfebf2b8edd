#include "core/base/parallel.h"

#include <unistd.h>

#include <atomic>
#include <cfenv>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "check.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace {

using namespace tinyt;
using tinyt::test::in_child;

// Every chunk runs exactly once, whatever the number of threads.
void test_coverage() {
  for (int threads : {1, 2, 3, 8}) {
    set_num_threads(threads);
    CHECK_EQ(num_threads(), threads);
    bool good = true;
    for (int64_t chunks : {0, 1, 2, 3, 7, 64, 1000}) {
      std::vector<int> runs(static_cast<size_t>(chunks), 0);
      parallel_for(chunks, [&](int64_t c) { ++runs[static_cast<size_t>(c)]; });
      for (int n : runs) good = good && n == 1;
    }
    CHECK(good);
    for (int64_t n : {0, 1, 9, 10, 11, 100, 101}) {
      std::vector<int> runs(static_cast<size_t>(n), 0);
      parallel_ranges(n, 10, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) ++runs[static_cast<size_t>(i)];
      });
      for (int k : runs) good = good && k == 1;
    }
    CHECK(good);
  }
}

// Workers that park, are woken late, and find the offer withdrawn.
void test_many_small_jobs() {
  set_num_threads(3);
  int64_t total = 0;
  for (int round = 0; round < 2000; ++round) {
    int64_t parts[4] = {};
    parallel_for(4, [&](int64_t c) { parts[c] = c + round; });
    for (int64_t p : parts) total += p;
    if (round % 100 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  CHECK_EQ(total, 4 * (1999 * 2000 / 2) + 2000 * 6);
}

void test_really_parallel() {
  set_num_threads(3);
  // Each chunk waits for the others: only passes when three threads run them.
  std::atomic<int> inside{0};
  parallel_for(3, [&](int64_t) {
    ++inside;
    while (inside < 3) std::this_thread::yield();
  });
  CHECK_EQ(inside.load(), 3);
}

// One that is held up leaves the rest of its share to the others.
void test_help() {
  set_num_threads(3);
  for (int64_t held : {0, 4, 8}) {
    std::atomic<int> done{0};
    parallel_for(9, [&](int64_t c) {
      while (c == held && done < 8) std::this_thread::yield();
      ++done;
    });
    CHECK_EQ(done.load(), 9);
  }
}

void test_nested() {
  set_num_threads(3);
  std::vector<int> runs(50, 0);
  std::atomic<int> moved{0};
  parallel_for(5, [&](int64_t c) {
    const auto self = std::this_thread::get_id();
    parallel_for(10, [&](int64_t d) {
      if (std::this_thread::get_id() != self) ++moved;
      ++runs[static_cast<size_t>(c * 10 + d)];
    });
  });
  CHECK_EQ(moved.load(), 0);
  for (int n : runs) CHECK_EQ(n, 1);
}

void test_errors() {
  for (int threads : {1, 2, 3}) {
    set_num_threads(threads);
    for (int round = 0; round < 50; ++round) {
      CHECK_FAILS(Value, "chunk 3 failed", parallel_for(40, [&](int64_t c) {
                    if (c >= 3 && c % 2 == 1) fail(ErrorKind::Value, "chunk ", c, " failed");
                  }));
    }
    std::atomic<int> runs{0};
    parallel_for(10, [&](int64_t) { ++runs; });
    CHECK_EQ(runs.load(), 10);
  }
  CHECK_FAILS(Value, "set_num_threads: needs at least 1 thread, got 0", set_num_threads(0));
  CHECK_EQ(num_threads(), 3);
}

void test_callers() {
  set_num_threads(3);
  std::atomic<int64_t> total{0};
  std::vector<std::thread> callers;
  for (int t = 0; t < 4; ++t) {
    callers.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        int64_t parts[5] = {};
        parallel_for(5, [&](int64_t c) { parts[c] = c; });
        for (int64_t p : parts) total += p;
      }
    });
  }
  for (auto& t : callers) t.join();
  CHECK_EQ(total.load(), 4 * 200 * 10);
}

void test_floating_point_mode() {
  set_num_threads(3);
  // Three chunks that meet, so that workers surely take part.
  const auto gather = [](auto&& value) {
    std::vector<double> out(3);
    std::atomic<int> inside{0};
    parallel_for(3, [&](int64_t c) {
      ++inside;
      while (inside < 3) std::this_thread::yield();
      out[static_cast<size_t>(c)] = value();
    });
    return out;
  };
  volatile double one = 1.0, three = 3.0;
  const auto third = [&] { return one / three; };
  const double nearest = third();
  std::fesetround(FE_UPWARD);
  // Compared with the caller, not with what the mode should give: valgrind ignores modes.
  const double upward = third();
  const auto up = gather(third);
  std::fesetround(FE_TONEAREST);
  for (double x : up) CHECK_EQ(x, upward);
  for (double x : gather(third)) CHECK_EQ(x, nearest);
#if defined(__x86_64__)
  volatile double tiny = 1e-308;
  const auto subnormal = [&] { return tiny / 16; };
  const unsigned before = _mm_getcsr();
  _mm_setcsr(before | 0x8040);
  const double expected = subnormal();
  const auto flushed = gather(subnormal);
  _mm_setcsr(before);
  for (double x : flushed) CHECK_EQ(x, expected);
  for (double x : gather(subnormal)) CHECK(x != 0.0);
#endif
}

void test_fork() {
  set_num_threads(3);
  std::atomic<int> warm{0};
  parallel_for(3, [&](int64_t) { ++warm; });
  // Another thread keeps the pool busy meanwhile.
  std::atomic<bool> stop{false};
  std::thread other([&] {
    while (!stop) parallel_for(8, [](int64_t) {});
  });
  for (int round = 0; round < 5; ++round) {
    const int code = in_child([] {
      std::atomic<int> inside{0};
      parallel_for(3, [&](int64_t) {
        ++inside;
        while (inside < 3) std::this_thread::yield();
      });
      return inside == 3 ? 0 : 1;
    });
    CHECK_EQ(code, 0);
  }
  stop = true;
  other.join();
}

// A process may end while workers spin or sleep, and while another thread runs a job.
[[noreturn]] void run_and_exit() {
  set_num_threads(3);
  std::thread([] {
    for (;;) parallel_for(8, [](int64_t) {});
  }).detach();
  for (int i = 0; i < 20; ++i) parallel_for(8, [](int64_t) {});
  std::exit(7);
}

void test_exit(const char* program) {
  // A new image, since the sanitizers take threads of the parent for live ones in a mere fork.
  for (int round = 0; round < 5; ++round) {
    CHECK_EQ(in_child([&] { return execl(program, program, "exit", nullptr); }), 7);
  }
}

// Has to come first: the variable is read once.
void test_default(const char* setting, int expected) {
  setenv("TINYT_NUM_THREADS", setting, 1);
  CHECK_EQ(in_child([&] { return num_threads(); }), expected);
}

void test_bad_setting(const char* setting) {
  setenv("TINYT_NUM_THREADS", setting, 1);
  CHECK_EQ(in_child([&] {
             CHECK_FAILS(Value, "TINYT_NUM_THREADS", num_threads());
             return 0;
           }),
           0);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) run_and_exit();
  unsetenv("TINYT_NUM_THREADS");
  unsetenv("OMP_NUM_THREADS");
  const int cores = in_child([] { return num_threads(); });
  CHECK(cores >= 1);
  setenv("OMP_NUM_THREADS", "5,2", 1);
  test_default("", 5);
  test_default("3", 3);
  for (const char* bad : {"0", "-2", "four", "2x", "99999999999999999999", " 2"})
    test_bad_setting(bad);
  unsetenv("OMP_NUM_THREADS");
  test_default("", cores);
  test_coverage();
  test_many_small_jobs();
  test_really_parallel();
  test_help();
  test_nested();
  test_errors();
  test_callers();
  test_floating_point_mode();
  if (tinyt::test::kThreadsAfterFork) test_fork();
  test_exit(argv[0]);
  return tinyt::test::summary();
}
