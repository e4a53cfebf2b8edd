#include "core/ops/op_profile.h"

#include <atomic>
#include <chrono>
#include <new>
#include <utility>

#include "core/base/error.h"
#include "core/base/fork.h"
#include "core/ops/kernels.h"

namespace tinyt {

namespace {

ForkSafeMutex g_profile_mutex;  // of g_events and writes to g_on
std::vector<OpEvent> g_events;
std::atomic<bool> g_on{false};
std::atomic<bool> g_with_shapes{false};
Kernels g_timed;

// The time of `run`, which is noted when it throws, too.
template <class Run>
void timed(std::string_view name, std::span<const Tensor> inputs, std::span<const Tensor> outputs,
           Run run) {
  struct Note {
    OpEvent event;
    ~Note() {
      event.end = profile_clock();
      note_event(std::move(event));
    }
  } scope;
  OpEvent& event = scope.event;
  event.name = name;
  event.thread = profile_thread();
  // Memory that nobody else holds yet was taken for this call, unless it is an operand's.
  const auto is_operand = [&](const Tensor& t) {
    for (const Tensor& x : inputs)
      if (&x.storage() == &t.storage()) return true;
    return false;
  };
  for (const Tensor& t : outputs)
    if (t.storage().refs.load(std::memory_order_relaxed) == 1 && !is_operand(t))
      event.bytes += static_cast<int64_t>(t.storage().buffer.bytes);
  if (g_with_shapes.load(std::memory_order_relaxed))
    for (const Tensor& t : inputs) {
      event.shapes.push_back(t.shape());
      event.dtypes.push_back(t.dtype());
    }
  event.begin = profile_clock();
  run();
}

void timed_kernel(const KernelCall& call) {
  timed(name_of(call.op), call.inputs, call.outputs,
        [&] { kernels_of(call.outputs[0].device()).row(call.op)(call); });
}

void timed_copy(const Tensor& from, const Tensor& to) {
  timed("copy_", {&from, 1}, {}, [&] { kernels_of(to.device()).copy_into(from, to); });
}

Kernels timed_kernels(const Kernels& own) {
  Kernels out = own;
  for (Kernel& kernel : out.rows)
    if (kernel) kernel = timed_kernel;
  out.copy_into = timed_copy;
  return out;
}

}  // namespace

bool is_profiled() { return g_on.load(std::memory_order_relaxed); }

void note_event(OpEvent event) noexcept {
  const std::lock_guard<ForkSafeMutex> lock(g_profile_mutex);
  try {
    if (g_on) g_events.push_back(std::move(event));
  } catch (const std::bad_alloc&) {  // left out: the call itself has run
  }
}

int64_t profile_clock() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

int64_t profile_thread() {
  static std::atomic<int64_t> threads{0};
  thread_local const int64_t own = ++threads;
  return own;
}

void start_profile(bool with_shapes) {
  {
    const std::lock_guard<ForkSafeMutex> lock(g_profile_mutex);
    require(!g_on, ErrorKind::Runtime, "profile: a profile is on already");
    g_on = true;
    g_events.clear();
    g_with_shapes.store(with_shapes, std::memory_order_relaxed);
  }
  // Made once: a thread may still be in one when the profile ends.
  static const bool made = [] {
    g_timed = timed_kernels(kernels_of({}));
    return true;
  }();
  if (made) set_eager_kernels(DeviceKind::CPU, g_timed);
}

std::vector<OpEvent> stop_profile() {
  const std::lock_guard<ForkSafeMutex> lock(g_profile_mutex);
  require(g_on, ErrorKind::Runtime, "profile: no profile is on");
  set_eager_kernels(DeviceKind::CPU, kernels_of({}));
  g_on = false;
  return std::exchange(g_events, {});
}

}  // namespace tinyt
