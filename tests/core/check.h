// The test harness of the C++ core: CHECK macros that count, and a summary for main to return.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <sstream>
#include <string>

#include "core/base/error.h"

namespace tinyt::test {

// ThreadSanitizer cannot follow threads that the child of a fork starts.
#if defined(__SANITIZE_THREAD__)
inline constexpr bool kThreadsAfterFork = false;
#elif defined(__has_feature)
inline constexpr bool kThreadsAfterFork = !__has_feature(thread_sanitizer);
#else
inline constexpr bool kThreadsAfterFork = true;
#endif

// Atomic, so that checks may run on pool threads.
inline std::atomic<int> passed{0};
inline std::atomic<int> failed{0};

inline void record(bool ok, const char* file, int line, const std::string& what) {
  ++(ok ? passed : failed);
  if (!ok) std::fprintf(stderr, "%s:%d: failed: %s\n", file, line, what.c_str());
}

template <class A, class B>
void record_equal(const A& a, const B& b, const char* file, int line, const char* what) {
  const bool ok = a == b;
  std::ostringstream os;
  if (!ok) os << what << ", got " << a << " and " << b;
  record(ok, file, line, os.str());
}

// `words` must occur in the message of a tinyt::Error of this kind.
template <class F>
void record_fails(ErrorKind kind, const std::string& words, const char* file, int line, F&& f) {
  std::string got = "no error";
  bool ok = false;
  try {
    f();
  } catch (const Error& e) {
    got = e.what();
    ok = e.kind() == kind && got.find(words) != std::string::npos;
  }
  record(ok, file, line, "expected an error with '" + words + "', got: " + got);
}

// What f returns in the child of a fork, or the child's exit status when f does not return. Told
// through a pipe, since a leak checker may change the status: it misses the parent's threads.
template <class F>
int in_child(F&& f) {
  int ends[2];
  if (pipe(ends) != 0) return -1;
  const pid_t child = fork();
  if (child == 0) {
    const int result = f();
    _exit(write(ends[1], &result, sizeof(result)) == sizeof(result) ? 0 : 1);
  }
  close(ends[1]);
  int result = -1;
  const bool told = read(ends[0], &result, sizeof(result)) == sizeof(result);
  close(ends[0]);
  int status = -1;
  waitpid(child, &status, 0);
  if (told) return result;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

inline int summary() {
  std::printf("%d passed, %d failed\n", passed.load(), failed.load());
  return failed == 0 ? 0 : 1;
}

}  // namespace tinyt::test

#define CHECK(condition) ::tinyt::test::record((condition), __FILE__, __LINE__, #condition)
#define CHECK_EQ(a, b) ::tinyt::test::record_equal((a), (b), __FILE__, __LINE__, #a " == " #b)
#define CHECK_FAILS(kind, words, ...)                                                \
  ::tinyt::test::record_fails(::tinyt::ErrorKind::kind, (words), __FILE__, __LINE__, \
                              [&] { (void)(__VA_ARGS__); })
