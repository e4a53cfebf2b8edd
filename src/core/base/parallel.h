// The one thread pool. Work is cut into chunks by the caller, from the problem alone, so results
// do not depend on how many threads run them.
#pragma once

#include <cstdint>
#include <type_traits>

namespace tinyt {

// A borrowed callable: no allocation, valid for the duration of the call.
template <class Sig>
class FunctionRef;
template <class R, class... Args>
class FunctionRef<R(Args...)> {
 public:
  template <class F>
    requires(!std::is_same_v<std::remove_cvref_t<F>, FunctionRef>)
  FunctionRef(F&& f)
      : object_(const_cast<void*>(static_cast<const void*>(&f))),
        call_([](void* o, Args... args) -> R {
          return (*static_cast<std::remove_reference_t<F>*>(o))(args...);
        }) {}
  R operator()(Args... args) const { return call_(object_, args...); }

 private:
  void* object_;
  R (*call_)(void*, Args...);
};

// Threads used, the caller included: TINYT_NUM_THREADS (ValueError where it is no number of
// threads), else OMP_NUM_THREADS, else the cores that the process may use, at most its CPU quota.
int num_threads();
// Takes effect for later calls; ValueError below 1. Safe from any thread.
void set_num_threads(int n);

// Runs body(chunk) for chunk in [0, chunks); returns when all are done. Runs inline when there is
// one chunk, one thread, or when called from inside the pool. When chunks throw, the error of the
// lowest chunk is rethrown. Workers copy the caller's floating-point mode. Safe from several
// threads at once, and in a child after fork.
void parallel_for(int64_t chunks, FunctionRef<void(int64_t)> body);

// Chunks of b in a, and what they hold; a is not negative.
inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
inline int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

// Splits [0, n) into chunks of `grain` (the last one shorter): body(begin, end).
template <class F>
void parallel_ranges(int64_t n, int64_t grain, F&& body) {
  if (n <= grain) {
    if (n > 0) body(int64_t{0}, n);
    return;
  }
  parallel_for(ceil_div(n, grain), [&](int64_t c) {
    const int64_t begin = c * grain;
    body(begin, begin + grain < n ? begin + grain : n);
  });
}

}  // namespace tinyt
