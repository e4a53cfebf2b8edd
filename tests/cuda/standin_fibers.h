// Blocks of a kernel on the CPU: a fiber per thread where the kernel has barriers, else a loop over
// the threads.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "standin_module.h"

// The asm below is for x86-64; ucontext is portable, with two system calls a switch.
#if !defined(__x86_64__) || defined(STANDIN_UCONTEXT)
#include <ucontext.h>
#define STANDIN_PORTABLE
#endif

namespace standin {

// ---- fibers

#ifdef STANDIN_PORTABLE
struct FiberContext {
  ucontext_t context;
  void prepare(char* stack, size_t bytes, void (*entry)()) {
    getcontext(&context);
    context.uc_stack.ss_sp = stack;
    context.uc_stack.ss_size = bytes;
    context.uc_link = nullptr;
    makecontext(&context, entry, 0);
  }
  void switch_to(FiberContext& to) { swapcontext(&context, &to.context); }
};
#else
extern "C" void standin_switch(void** from, void* to);
asm(R"(
.text
.globl standin_switch
.hidden standin_switch
.type standin_switch, @function
standin_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size standin_switch, . - standin_switch
)");

struct FiberContext {
  void* stack_pointer = nullptr;
  void prepare(char* stack, size_t bytes, void (*entry)()) {
    // Six registers, the address that `ret` goes to, and that of a caller, which there is not.
    void** const top = reinterpret_cast<void**>(stack + bytes);
    std::fill(top - 8, top, nullptr);
    top[-2] = reinterpret_cast<void*>(entry);
    stack_pointer = top - 8;
  }
  void switch_to(FiberContext& to) { standin_switch(&stack_pointer, to.stack_pointer); }
};
#endif

// A stack with a guard page below it, used again by later blocks.
struct Fiber {
  static constexpr size_t kStack = 64 << 10, kGuard = 4096;
  FiberContext context;
  char* stack = nullptr;
  int barrier = 0;  // the line of the barrier that it waits at; 0: it has returned

  // Tops at different offsets in their pages: else all of them share a few sets of the L1 cache.
  void prepare(unsigned number, void (*entry)()) {
    if (stack == nullptr) {
      void* const mapped = mmap(nullptr, kGuard + kStack, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (mapped == MAP_FAILED || mprotect(mapped, kGuard, PROT_NONE) != 0) {
        perror("stand-in: stack of a fiber");
        abort();
      }
      stack = static_cast<char*>(mapped) + kGuard;
    }
    context.prepare(stack, kStack - number % 16 * 256, entry);
  }
};

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

// ---- a launch

class GridRun {
 public:
  GridRun(const StandinModule& module, const StandinKernel& kernel, StandinDim grid,
          StandinDim block, void* const* values)
      : module_(module), kernel_(kernel), grid_(grid), block_(block), values_(values) {}

  // False where threads of a block wait at a barrier that others do not reach.
  bool run() {
    *module_.grid_dim = grid_;
    *module_.block_dim = block_;
    *module_.barrier = wait_at_barrier;
    const unsigned threads = block_.x * block_.y * block_.z, seed = g_seed++;
    order_ = g_order;
    random_.seed(seed);
    threads_.resize(threads);
    std::iota(threads_.begin(), threads_.end(), 0u);
    if (order_ == Order::kReverse) std::reverse(threads_.begin(), threads_.end());
    if (module_.has_barriers && fibers().size() < threads) fibers().resize(threads);
    const uint64_t plane = uint64_t{grid_.x} * grid_.y, count = plane * grid_.z;
    const BlockOrder blocks(order_, count, seed);
    g_running = this;
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t b = blocks[i];
      *module_.block = {static_cast<unsigned>(b % grid_.x),
                        static_cast<unsigned>(b % plane / grid_.x),
                        static_cast<unsigned>(b / plane)};
      if (module_.shared_begin)  // NaNs
        memset(module_.shared_begin, 0xFF,
               static_cast<size_t>(module_.shared_end - module_.shared_begin));
      if (!run_block()) return false;
    }
    return true;
  }

 private:
  static thread_local GridRun* g_running;

  // Of this worker, and never freed.
  static std::vector<Fiber>& fibers() {
    static thread_local std::vector<Fiber>& fibers = *new std::vector<Fiber>;
    return fibers;
  }

  void shuffle() {
    if (order_ == Order::kRandom) std::shuffle(threads_.begin(), threads_.end(), random_);
  }

  void set_thread(unsigned t) {
    *module_.thread = {t % block_.x, t / block_.x % block_.y, t / block_.x / block_.y};
  }

  bool run_block() {
    shuffle();
    if (module_.has_barriers) return run_fibers();
    for (const unsigned t : threads_) {
      set_thread(t);
      kernel_.run_thread(values_);
    }
    return true;
  }

  bool run_fibers() {
    std::vector<Fiber>& all = fibers();
    for (const unsigned t : threads_) all[t].prepare(t, enter_fiber);
    for (;; shuffle()) {
      size_t waiting = 0;
      for (const unsigned t : threads_) {
        set_thread(t);
        current_ = &all[t];
        driver_.switch_to(current_->context);
        waiting += current_->barrier != 0;
      }
      if (waiting == 0) return true;
      const int line = all[threads_[0]].barrier;
      const bool at_one = std::all_of(threads_.begin(), threads_.end(),
                                      [&](unsigned t) { return all[t].barrier == line; });
      if (!at_one) return tell_barrier(waiting, all);
    }
  }

  bool tell_barrier(size_t waiting, const std::vector<Fiber>& all) {
    int line = 0;
    for (const unsigned t : threads_) line = std::max(line, all[t].barrier);
    fprintf(stderr,
            "stand-in: kernel %s has a barrier that not all threads reach: line %d, block "
            "(%u, %u, %u), %zu of %zu threads wait%s\n",
            kernel_.name, line, module_.block->x, module_.block->y, module_.block->z, waiting,
            threads_.size(), waiting == threads_.size() ? ", some at another barrier" : "");
    return false;
  }

  static void enter_fiber() {
    GridRun& run = *g_running;
    run.kernel_.run_thread(run.values_);
    run.leave_fiber(0);
    abort();  // a fiber that has returned is not entered again
  }

  static void wait_at_barrier(int line) {
    if (g_running->current_ == nullptr) abort();  // a barrier that nvrtcCompileProgram has not seen
    g_running->leave_fiber(line);
  }

  void leave_fiber(int barrier) {
    Fiber& fiber = *current_;
    fiber.barrier = barrier;
    fiber.context.switch_to(driver_);
  }

  const StandinModule& module_;
  const StandinKernel& kernel_;
  const StandinDim grid_, block_;
  void* const* const values_;
  Order order_ = Order::kForward;
  std::minstd_rand random_;
  std::vector<unsigned> threads_;  // in the order in which they run
  Fiber* current_ = nullptr;
  FiberContext driver_;
};

inline thread_local GridRun* GridRun::g_running = nullptr;

}  // namespace standin
