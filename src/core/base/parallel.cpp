// The thread pool. One job runs at a time: the caller offers it to sleeping or spinning workers,
// one word each, and takes chunks itself; whoever did not take up the offer by the time the chunks
// are gone has it withdrawn, so that a worker slow to wake costs nothing. Every thread has a share
// of neighbouring chunks, the same one in every job, and so finds in its caches what it wrote there
// in the last one; whoever is done helps the others.
#include "core/base/parallel.h"

#include <algorithm>
#include <atomic>
#include <cfenv>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <functional>
#include <mutex>
#include <span>
#include <string_view>
#include <system_error>
#include <thread>

#include "core/base/cgroup.h"
#include "core/base/error.h"
#include "core/base/fork.h"

#if defined(__x86_64__) || defined(_M_X64)
#include <immintrin.h>
#endif
#if !defined(_WIN32)
#include <pthread.h>
#include <signal.h>
#endif
#if defined(__linux__)
#include <sched.h>
#endif

namespace tinyt {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kMaxWorkers = 255;  // larger settings use this many and the caller
constexpr auto kSpinTime = std::chrono::microseconds(40);

void pause_cpu() {
#if defined(__x86_64__) || defined(_M_X64)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

int usable_cores() {
#if defined(__linux__)
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
#endif
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

const bool g_alone = usable_cores() == 1;

// Waits until ready() for as long as a wake-up costs, where other cores can make it come true.
template <class F>
bool spin_until(F&& ready) {
  if (ready()) return true;
  if (g_alone) return false;
  const auto deadline = Clock::now() + kSpinTime;
  do {
    for (int i = 0; i < 32; ++i) {
      if (ready()) return true;
      pause_cpu();
    }
  } while (Clock::now() < deadline);
  return false;
}

// Rounding and flush-to-zero of a thread.
class FpMode {
 public:
#if defined(__x86_64__) || defined(_M_X64)
  FpMode() : control_(_mm_getcsr() & ~kFlags) {}
  void apply() const {
    const unsigned now = _mm_getcsr();
    if ((now & ~kFlags) != control_) _mm_setcsr((now & kFlags) | control_);
  }

 private:
  static constexpr unsigned kFlags = 0x3f;  // what happened, as opposed to what is wanted
  unsigned control_;
#else
  FpMode() { std::fegetenv(&environment_); }
  void apply() const { std::fesetenv(&environment_); }

 private:
  std::fenv_t environment_;
#endif
};

// The chunks that one thread takes first.
struct alignas(64) Share {
  std::atomic<int64_t> next{0};
  int64_t end = 0;
};

struct Job {
  FunctionRef<void(int64_t)> body;
  std::span<Share> shares;
  FpMode mode{};
  std::mutex error_mutex{};
  std::atomic<int64_t> error_chunk{INT64_MAX};
  std::exception_ptr error{};

  // All chunks of a share that nobody has taken. Those past one that threw do not matter.
  void run_share(Share& share) noexcept {
    for (int64_t c; (c = share.next.fetch_add(1, std::memory_order_relaxed)) < share.end;) {
      if (c > error_chunk.load(std::memory_order_relaxed)) return;
      try {
        body(c);
      } catch (...) {
        const std::lock_guard lock(error_mutex);
        if (c > error_chunk.load(std::memory_order_relaxed)) return;
        error_chunk.store(c, std::memory_order_relaxed);
        error = std::current_exception();
      }
    }
  }
  // Thread `own` of the job.
  void run(size_t own) noexcept {
    for (size_t i = 0; i < shares.size(); ++i) run_share(shares[(own + i) % shares.size()]);
  }
};

enum State : uint32_t {
  kIdle,     // awake, looking for an offer
  kParked,   // asleep, or about to be
  kOffered,  // the caller's: take it, or it is withdrawn
  kRunning,
  kAwaited,  // running, and the caller sleeps until it is done
};

struct alignas(64) Worker {
  std::atomic<uint32_t> state{kIdle};
};

// Trivially destructible, so workers may outlive static destructors: they are detached and end
// with the process, which therefore never waits for a body that waits for the interpreter.
struct Pool {
  std::atomic<bool> busy{false};
  Job* job = nullptr;
  int workers = 0;  // changed by whoever holds busy
  bool hooked = false;
  Worker slots[kMaxWorkers];
  Share shares[kMaxWorkers + 1];  // the caller's is the first
};
constinit Pool g_pool;
constinit std::atomic<int> g_threads{0};  // 0: not asked for yet
constinit thread_local bool t_inside = false;

void work(Worker& self) noexcept {
  t_inside = true;
  auto& state = self.state;
  for (;;) {
    const auto offered = [&] { return state.load(std::memory_order_relaxed) == kOffered; };
    if (!spin_until(offered)) {
      uint32_t expected = kIdle;
      if (state.compare_exchange_strong(expected, kParked)) state.wait(kParked);
    }
    uint32_t expected = kOffered;
    if (!state.compare_exchange_strong(expected, kRunning)) continue;
    g_pool.job->mode.apply();
    g_pool.job->run(static_cast<size_t>(&self - g_pool.slots) + 1);
    if (state.exchange(kIdle) == kAwaited) state.notify_one();
  }
}

// Starts one more worker; false when the system refuses.
bool add_worker() {
  if (!g_pool.hooked) {
    // The child of a fork has no workers; it makes its own when it needs them.
    call_in_children([] {
      for (Worker& worker : g_pool.slots) worker.state = kIdle;
      g_pool.workers = 0;
      g_pool.busy = false;
    });
    g_pool.hooked = true;
  }
#if !defined(_WIN32)
  // Signals are for the threads of the program: Python's Ctrl-C belongs to its main thread.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
#endif
  bool started = true;
  try {
    std::thread(work, std::ref(g_pool.slots[g_pool.workers])).detach();
    ++g_pool.workers;
  } catch (const std::system_error&) {
    started = false;
  }
#if !defined(_WIN32)
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
#endif
  return started;
}

void offer(Worker& worker) {
  if (worker.state.exchange(kOffered) == kParked) worker.state.notify_one();
}

// Withdraws the offer, or waits until the worker is done with it.
void collect(Worker& worker) {
  auto& state = worker.state;
  uint32_t seen = kOffered;
  if (state.compare_exchange_strong(seen, kIdle)) return;
  const auto done = [&] {
    seen = state.load(std::memory_order_acquire);
    return seen != kRunning;
  };
  if (spin_until(done)) return;
  seen = kRunning;
  if (state.compare_exchange_strong(seen, kAwaited)) state.wait(kAwaited);
}

void run_shared(int64_t chunks, FunctionRef<void(int64_t)> body, int threads) {
  const int wanted =
      static_cast<int>(std::min({chunks - 1, int64_t{threads} - 1, int64_t{kMaxWorkers}}));
  while (g_pool.workers < wanted && add_worker()) {
  }
  const int helpers = std::min(wanted, g_pool.workers);
  const std::span<Share> shares(g_pool.shares, static_cast<size_t>(helpers) + 1);
  for (int64_t i = 0, n = helpers + 1; i < n; ++i) {
    shares[i].next.store(i * chunks / n, std::memory_order_relaxed);
    shares[i].end = (i + 1) * chunks / n;
  }
  Job job{body, shares};
  g_pool.job = &job;
  for (int i = 0; i < helpers; ++i) offer(g_pool.slots[i]);
  t_inside = true;
  job.run(0);
  t_inside = false;
  for (int i = 0; i < helpers; ++i) collect(g_pool.slots[i]);
  g_pool.busy.store(false, std::memory_order_release);
  if (job.error) std::rethrow_exception(job.error);
}

// A whole text as a number of threads; 0 where it is none.
int threads_of(std::string_view text) {
  int n = 0;
  const auto [stop, bad] = std::from_chars(text.data(), text.data() + text.size(), n);
  return bad == std::errc{} && stop == text.data() + text.size() && n >= 1 ? n : 0;
}

std::string_view variable(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? "" : text;
}

// OMP_NUM_THREADS may list numbers for nested levels, and is not ours to refuse.
int default_threads() {
  if (const std::string_view text = variable("TINYT_NUM_THREADS"); !text.empty()) {
    const int n = threads_of(text);
    require(n >= 1, ErrorKind::Value,
            "TINYT_NUM_THREADS: must be a whole number of at least 1 without spaces, got '", text,
            "'; correct it or unset it");
    return n;
  }
  const std::string_view text = variable("OMP_NUM_THREADS");
  if (const int n = threads_of(text.substr(0, text.find(','))); n >= 1) return n;
  const int cores = usable_cores();
  return std::min(cores, cpu_quota().value_or(cores));
}

}  // namespace

int num_threads() {
  int n = g_threads.load(std::memory_order_relaxed);
  if (n == 0) {
    int none = 0;
    n = default_threads();
    if (!g_threads.compare_exchange_strong(none, n)) n = none;
  }
  return n;
}

void set_num_threads(int n) {
  require(n >= 1, ErrorKind::Value, "set_num_threads: needs at least 1 thread, got ", n);
  g_threads = n;
}

void parallel_for(int64_t chunks, FunctionRef<void(int64_t)> body) {
  const int threads = num_threads();
  // A second caller does not queue: the cores are taken, it is soonest done alone.
  if (chunks <= 1 || threads == 1 || t_inside ||
      g_pool.busy.exchange(true, std::memory_order_acquire)) {
    for (int64_t c = 0; c < chunks; ++c) body(c);
    return;
  }
  run_shared(chunks, body, threads);
}

}  // namespace tinyt
