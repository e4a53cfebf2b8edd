#include "core/base/fork.h"

#include <exception>

#if !defined(_WIN32)
#include <pthread.h>
#endif

namespace tinyt {

namespace {

constexpr int kThreadBits = 40;
constexpr uint64_t kThreadMask = (uint64_t{1} << kThreadBits) - 1;

constinit std::atomic<uint32_t> g_forks{0};
constinit std::atomic<uint64_t> g_survivor{0};  // the thread that the last fork was called from
constinit std::atomic<uint64_t> g_thread_numbers{0};

uint64_t this_thread() {
  static constinit thread_local uint64_t number = 0;
  if (number == 0) number = ++g_thread_numbers & kThreadMask;
  return number;
}

uint64_t own_mark() { return uint64_t{g_forks.load()} << kThreadBits | this_thread(); }

}  // namespace

// All of them; its own mutex guards the list, and is taken first.
struct ForkSafeMutexes {
  std::mutex mutex;
  ForkSafeMutex* first = nullptr;

  void add(ForkSafeMutex& m) {
    const std::lock_guard lock(mutex);
    m.next_ = first;
    if (first) first->before_ = &m;
    first = &m;
  }
  void remove(ForkSafeMutex& m) {
    const std::lock_guard lock(mutex);
    if (m.next_) m.next_->before_ = m.before_;
    (m.before_ ? m.before_->next_ : first) = m.next_;
  }
  void before_fork() {
    mutex.lock();
    for (ForkSafeMutex* m = first; m; m = m->next_) m->lock();
  }
  void after_fork() {
    for (ForkSafeMutex* m = first; m; m = m->next_) m->unlock();
    mutex.unlock();
  }
};

namespace {

constinit ForkSafeMutexes g_mutexes;
constinit std::atomic<const AllocatorForkHandlers*> g_allocator{nullptr};
constinit std::atomic<void (*)()> g_in_children[4]{};

#if !defined(_WIN32)
constinit const AllocatorForkHandlers* g_told = nullptr;  // those that know of the present fork

void before_fork() {
  g_mutexes.before_fork();
  g_told = g_allocator.load();
  if (g_told) g_told->before();
}

void after_fork(bool child) {
  if (g_told) g_told->after(child);
  if (child) {
    g_survivor = this_thread();
    ++g_forks;
  }
  g_mutexes.after_fork();
  if (!child) return;
  for (const auto& function : g_in_children)
    if (const auto call = function.load()) call();
}

[[maybe_unused]] const bool g_hooked =
    pthread_atfork(before_fork, [] { after_fork(false); }, [] { after_fork(true); }) == 0;
#endif

}  // namespace

void set_allocator_fork_handlers(const AllocatorForkHandlers* handlers) { g_allocator = handlers; }

void call_in_children(void (*function)()) {
  for (auto& place : g_in_children) {
    void (*none)() = nullptr;
    if (place.compare_exchange_strong(none, function)) return;
  }
  std::terminate();  // too few places
}

uint32_t fork_count() { return g_forks.load(std::memory_order_relaxed); }

ForkSafeMutex::ForkSafeMutex() { g_mutexes.add(*this); }
ForkSafeMutex::~ForkSafeMutex() { g_mutexes.remove(*this); }

// Whether the thread that holds it has stayed in a parent process.
bool RunMutex::is_lost(uint64_t owner) {
  return owner != 0 && owner >> kThreadBits != g_forks.load() &&
         (owner & kThreadMask) != g_survivor.load();
}

bool RunMutex::try_lock() {
  uint64_t owner = 0;
  while (!owner_.compare_exchange_weak(owner, own_mark(), std::memory_order_acquire))
    if (owner != 0 && !is_lost(owner)) return false;
  return true;
}

void RunMutex::lock() {
  while (!try_lock()) {
    const uint64_t owner = owner_.load(std::memory_order_relaxed);
    if (owner != 0 && !is_lost(owner)) owner_.wait(owner);
  }
}

void RunMutex::unlock() {
  owner_.store(0, std::memory_order_release);
  owner_.notify_one();
}

bool RunMutex::is_mine() const {
  return (owner_.load(std::memory_order_relaxed) & kThreadMask) == this_thread();
}

}  // namespace tinyt
