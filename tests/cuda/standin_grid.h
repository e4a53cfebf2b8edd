// Blocks of a kernel on the CPU: a fiber per thread where the kernel has barriers, else a loop over
// the threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "standin_device.h"
#include "standin_fibers.h"
#include "standin_module.h"

namespace standin {

// ---- the order of threads and blocks

enum class Order { kForward, kReverse, kRandom };
inline std::atomic<Order> g_order{Order::kForward};
inline std::atomic<unsigned> g_seed{1};  // another for each launch

inline void set_order(const char* name) {
  const char* const names[] = {"forward", "reverse", "random"};
  for (int i = 0; i < 3; ++i)
    if (strcmp(name, names[i]) == 0) return g_order.store(static_cast<Order>(i));
  fprintf(stderr, "stand-in: no order %s\n", name);
  abort();
}

// A permutation of the blocks that takes no memory: a step with no common divisor with their count.
class BlockOrder {
 public:
  BlockOrder(Order order, uint64_t count, unsigned seed) : order_(order), count_(count) {
    if (order != Order::kRandom) return;
    std::minstd_rand random(seed);
    first_ = random() % count;
    step_ = random() % count;
    while (std::gcd(step_, count) != 1) step_ = (step_ + 1) % count;
  }
  uint64_t operator[](uint64_t i) const {
    if (order_ == Order::kReverse) return count_ - 1 - i;
    return static_cast<uint64_t>((first_ + static_cast<unsigned __int128>(i) * step_) % count_);
  }

 private:
  Order order_;
  uint64_t count_, first_ = 0, step_ = 1;
};

// ---- dynamic shared memory

// Of a worker, and never freed: bytes between guards that show what was written past these.
class SharedMemory {
 public:
  static constexpr size_t kGuard = 512;  // and alignment
  static constexpr int kNew = 0xFF, kUntouched = 0xFD;

  static SharedMemory& of_worker() {
    static thread_local SharedMemory& memory = *new SharedMemory;
    return memory;
  }
  char* begin() const { return begin_; }
  void prepare(size_t bytes) {
    bytes_ = bytes;
    memset(begin_ - kGuard, kUntouched, kGuard);
    memset(begin_ + bytes, kUntouched, kGuard);
  }
  void fill() { memset(begin_, kNew, bytes_); }
  bool has_whole_guards() const { return is_guard(begin_ - kGuard) && is_guard(begin_ + bytes_); }

 private:
  SharedMemory()
      : begin_(static_cast<char*>(aligned_alloc(kGuard, kMaxSharedBytes + 2 * kGuard)) + kGuard) {}
  static bool is_guard(const char* from) {
    return from[0] == static_cast<char>(kUntouched) && memcmp(from, from + 1, kGuard - 1) == 0;
  }
  char* const begin_;
  size_t bytes_ = 0;
};
static_assert(kMaxSharedBytes % SharedMemory::kGuard == 0);

// ---- a launch

class GridRun {
 public:
  GridRun(const StandinModule& module, const StandinKernel& kernel, StandinDim grid,
          StandinDim block, size_t shared_bytes, void* const* values)
      : module_(module),
        kernel_(kernel),
        grid_(grid),
        block_(block),
        shared_bytes_(shared_bytes),
        values_(values) {}

  // An error where threads wait at a barrier or an operation that others do not reach, and where
  // memory is used as the hardware does not allow it.
  Status run() {
    *module_.grid_dim = grid_;
    *module_.block_dim = block_;
    *module_.barrier = wait_at_barrier;
    const unsigned threads = block_.x * block_.y * block_.z, seed = g_seed++;
    order_ = g_order;
    random_.seed(seed);
    prepare_threads(threads);
    if (module_.has_barriers && fibers().size() < threads) fibers().resize(threads);
    shared_.prepare(shared_bytes_);
    if (module_.services)
      *module_.services = {wait_for_warp,   copy,         end_copies,
                           wait_for_copies, check_shared, shared_.begin()};
    const uint64_t plane = uint64_t{grid_.x} * grid_.y, count = plane * grid_.z;
    const BlockOrder blocks(order_, count, seed);
    g_running = this;
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t b = blocks[i];
      *module_.block = {static_cast<unsigned>(b % grid_.x),
                        static_cast<unsigned>(b % plane / grid_.x),
                        static_cast<unsigned>(b / plane)};
      if (module_.shared_begin)  // NaNs
        memset(module_.shared_begin, SharedMemory::kNew, own_shared_bytes());
      shared_.fill();
      run_block();
      if (status_ == kSuccess && !shared_.has_whole_guards())
        fail(kIllegalAddress, "writes outside %zu bytes of shared memory", shared_bytes_);
      if (status_ != kSuccess) return status_;
    }
    return kSuccess;
  }

 private:
  // Threads that operations of a warp wait for: the whole block where there are no such operations.
  struct Warp {
    unsigned first, count;
  };
  static constexpr unsigned kWarpSize = 32;

  static thread_local GridRun* g_running;

  // Of this worker, and never freed.
  static std::vector<Fiber>& fibers() {
    static thread_local std::vector<Fiber>& fibers = *new std::vector<Fiber>;
    return fibers;
  }

  size_t own_shared_bytes() const {
    return static_cast<size_t>(module_.shared_end - module_.shared_begin);
  }

  void prepare_threads(unsigned threads) {
    for (unsigned t = 0; t < threads; ++t)
      places_.push_back({t % block_.x, t / block_.x % block_.y, t / block_.x / block_.y});
    threads_.resize(threads);
    std::iota(threads_.begin(), threads_.end(), 0u);
    const unsigned most = module_.services ? kWarpSize : threads;
    for (unsigned first = 0; first < threads; first += most) {
      warps_.push_back({first, std::min(most, threads - first)});
      const auto begin = threads_.begin() + first;
      if (order_ == Order::kReverse) std::reverse(begin, begin + warps_.back().count);
    }
    if (order_ == Order::kForward) std::reverse(warps_.begin(), warps_.end());  // the last is next
  }

  void shuffle(const Warp& warp) {
    const auto begin = threads_.begin() + warp.first;
    if (order_ == Order::kRandom) std::shuffle(begin, begin + warp.count, random_);
  }

  void run_block() {
    if (module_.has_barriers) return run_fibers();
    for (const Warp& warp : warps_) shuffle(warp);
    for (const unsigned t : threads_) {
      *module_.thread = places_[t];
      kernel_.run_thread(values_);
    }
  }

  void run_fibers() {
    std::vector<Fiber>& all = fibers();
    for (const unsigned t : threads_) all[t].prepare(t, enter_fiber);
    do {
      std::vector<Warp>& left = left_;
      left = warps_;
      while (!left.empty()) {
        if (order_ == Order::kRandom) std::swap(left[random_() % left.size()], left.back());
        const bool goes_on = run_warp(left.back());
        if (status_ != kSuccess) return;
        if (!goes_on) left.pop_back();
      }
    } while (pass_barrier(all));
  }

  // Threads of a warp, until each waits or has returned; whether some may go on.
  bool run_warp(const Warp& warp) {
    shuffle(warp);
    Fiber* const all = fibers().data();
    for (unsigned i = warp.first; i < warp.first + warp.count; ++i) {
      const unsigned t = threads_[i];
      if (all[t].state != Fiber::State::kReady) continue;
      *module_.thread = places_[t];
      current_ = &all[t];
      driver_.switch_to(current_->context);
      if (status_ != kSuccess) return false;
    }
    return module_.services && pass_operations(all + warp.first, warp);
  }

  // ---- barriers

  // Lets the threads of a block go on from a barrier; false: none waits, or not all.
  bool pass_barrier(std::vector<Fiber>& all) {
    size_t waiting = 0;
    bool at_one = true;
    for (const unsigned t : threads_) {
      const bool waits = all[t].state == Fiber::State::kAtBarrier;
      waiting += waits;
      at_one = at_one && waits && all[t].barrier == all[threads_[0]].barrier;
    }
    if (waiting != 0 && !at_one) fail_at_barrier(waiting, all);
    if (!at_one) return false;
    for (const unsigned t : threads_) all[t].state = Fiber::State::kReady;
    return true;
  }

  void fail_at_barrier(size_t waiting, const std::vector<Fiber>& all) {
    int line = 0;
    for (const unsigned t : threads_)
      if (all[t].state == Fiber::State::kAtBarrier) line = std::max(line, all[t].barrier);
    fail(kLaunchFailed,
         "has a barrier that not all threads reach: line %d, %zu of %zu threads wait%s", line,
         waiting, threads_.size(), waiting == threads_.size() ? ", some at another barrier" : "");
  }

  // ---- operations of warps

  // Does those that all their lanes wait at; whether there was one.
  bool pass_operations(Fiber* lanes, const Warp& warp) {
    const StandinWarpCall* waiting = nullptr;
    unsigned waiting_lanes = 0;
    bool passed = false;
    for (unsigned lane = 0; lane < warp.count; ++lane) {
      if (lanes[lane].state != Fiber::State::kAtWarp) continue;
      const StandinWarpCall& call = *lanes[lane].call;
      if (pass_operation(lanes, warp.count, call, call.mask >> lane & 1)) {
        passed = true;
        continue;
      }
      waiting = &call;
      waiting_lanes |= 1u << lane;
    }
    if (waiting && !passed)
      fail(kLaunchFailed,
           "has an operation that not all lanes of warp %u reach: %s, line %d, mask %#x, lanes %#x "
           "wait",
           warp.first / kWarpSize, waiting->name, waiting->line, waiting->mask, waiting_lanes);
    return passed;
  }

  static bool pass_operation(Fiber* lanes, unsigned count, const StandinWarpCall& call,
                             bool is_named) {
    if (!is_named) return false;
    void* operands[kWarpSize] = {};
    for (unsigned lane = 0; lane < kWarpSize; ++lane) {
      if (!(call.mask >> lane & 1)) continue;
      if (lane >= count || lanes[lane].state != Fiber::State::kAtWarp) return false;
      const StandinWarpCall& other = *lanes[lane].call;
      if (other.combine != call.combine || other.line != call.line || other.mask != call.mask)
        return false;
      operands[lane] = other.operand;
    }
    for (unsigned lane = 0; lane < count; ++lane)
      if (call.mask >> lane & 1) lanes[lane].state = Fiber::State::kReady;
    call.combine(operands);
    return true;
  }

  // ---- errors

  template <class... A>
  void fail(Status status, const char* format, A... values) {
    status_ = status;
    fprintf(stderr, "stand-in: kernel %s ", kernel_.name);
    fprintf(stderr, format, values...);
    fprintf(stderr, " (block %u, %u, %u)\n", module_.block->x, module_.block->y, module_.block->z);
  }

  // Of the thread that runs, which does not go on.
  template <class... A>
  void fail_thread(Status status, const char* format, A... values) {
    fail(status, format, values...);
    const StandinDim& at = *module_.thread;
    fprintf(stderr, "stand-in: in thread %u, %u, %u\n", at.x, at.y, at.z);
    leave_fiber(Fiber::State::kReturned);
  }

  // ---- what kernels call

  static void enter_fiber() {
    GridRun& run = *g_running;
    run.kernel_.run_thread(run.values_);
    run.leave_fiber(Fiber::State::kReturned);
    abort();  // a fiber that has returned is not entered again
  }

  static void wait_at_barrier(int line) {
    if (g_running->current_ == nullptr) abort();  // a barrier that nvrtcCompileProgram has not seen
    g_running->current_->barrier = line;
    g_running->leave_fiber(Fiber::State::kAtBarrier);
  }

  static void wait_for_warp(const StandinWarpCall* call) {
    g_running->current_->call = call;
    g_running->leave_fiber(Fiber::State::kAtWarp);
  }

  // What is copied to is NaNs until the copy is waited for: it may be written any time.
  static void copy(void* to, const void* from, unsigned bytes, unsigned read) {
    GridRun& run = *g_running;
    check_shared(to, bytes);
    if (read > bytes) run.fail_thread(kLaunchFailed, "copies %u bytes, and reads %u", bytes, read);
    if (read != 0 && reinterpret_cast<uintptr_t>(from) % bytes != 0)
      run.fail_thread(kMisalignedAddress, "copies %u bytes from %p", bytes, from);
    memset(to, SharedMemory::kNew, bytes);
    run.current_->copies.push({to, from, bytes, read});
  }
  static void end_copies() { g_running->current_->copies.end_group(); }
  static void wait_for_copies(unsigned later) { g_running->current_->copies.wait(later); }

  static void check_shared(const void* place, unsigned bytes) {
    GridRun& run = *g_running;
    const char* const at = static_cast<const char*>(place);
    const auto lies_in = [&](const char* begin, size_t size) {
      return at >= begin && at < begin + size && bytes <= static_cast<size_t>(begin + size - at);
    };
    if (!lies_in(run.shared_.begin(), run.shared_bytes_) &&
        !lies_in(run.module_.shared_begin, run.own_shared_bytes()))
      run.fail_thread(kIllegalAddress, "has no shared memory at %+td of %zu bytes",
                      at - run.shared_.begin(), run.shared_bytes_);
    if (reinterpret_cast<uintptr_t>(at) % bytes != 0)
      run.fail_thread(kMisalignedAddress, "uses %u bytes of shared memory at %p", bytes, place);
  }

  void leave_fiber(Fiber::State state) {
    Fiber& fiber = *current_;
    fiber.state = state;
    fiber.context.switch_to(driver_);
  }

  const StandinModule& module_;
  const StandinKernel& kernel_;
  const StandinDim grid_, block_;
  const size_t shared_bytes_;
  void* const* const values_;
  SharedMemory& shared_ = SharedMemory::of_worker();
  Order order_ = Order::kForward;
  std::minstd_rand random_;
  std::vector<StandinDim> places_;  // threadIdx of each thread
  std::vector<unsigned> threads_;   // of each warp, in the order in which they run
  std::vector<Warp> warps_, left_;  // the next one last; those that have not come to a barrier
  Status status_ = kSuccess;
  Fiber* current_ = nullptr;
  FiberContext driver_;
};

inline thread_local GridRun* GridRun::g_running = nullptr;

}  // namespace standin
