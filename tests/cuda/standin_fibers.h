// Fibers: threads of a block that switch where they wait.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "standin_module.h"

// The asm below is for x86-64; ucontext is portable, with two system calls a switch.
// It jumps where it would return: a processor foretells that, but no returns to other stacks.
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
  popq %rcx
  jmpq *%rcx
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

// An asynchronous copy to shared memory: the first `read` bytes, and zeros.
struct PendingCopy {
  void* to;
  const void* from;
  unsigned bytes, read;
  void run() const {
    memcpy(to, from, read);
    memset(static_cast<char*>(to) + read, 0, bytes - read);
  }
};

// Copies of a thread, in groups. Each is done when its thread waits for it, not sooner; what nobody
// waits for is never done (CUDA says no time for it).
class CopyQueue {
 public:
  void clear() {
    copies_.clear();
    group_ends_.clear();
  }
  void push(const PendingCopy& copy) { copies_.push_back(copy); }
  void end_group() { group_ends_.push_back(copies_.size()); }
  // Until no more than the last groups are left.
  void wait(size_t later) {
    if (group_ends_.size() <= later) return;
    const auto left = group_ends_.end() - static_cast<std::ptrdiff_t>(later);
    const size_t done = left[-1];
    for (size_t i = 0; i < done; ++i) copies_[i].run();
    copies_.erase(copies_.begin(), copies_.begin() + static_cast<std::ptrdiff_t>(done));
    group_ends_.erase(group_ends_.begin(), left);
    for (size_t& end : group_ends_) end -= done;
  }

 private:
  std::vector<PendingCopy> copies_;
  std::vector<size_t> group_ends_;  // how many copies there were at the end of each
};

// A thread, with a stack above a guard page. Later blocks use it again.
struct Fiber {
  enum class State { kReady, kAtBarrier, kAtWarp, kReturned };
  static constexpr size_t kStack = 64 << 10, kGuard = 4096;
  FiberContext context;
  char* stack = nullptr;
  State state = State::kReturned;
  int barrier = 0;                        // the line of the barrier that it waits at
  const StandinWarpCall* call = nullptr;  // the operation of its warp that it waits at
  CopyQueue copies;

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
    state = State::kReady;
    copies.clear();
  }
};

}  // namespace standin
