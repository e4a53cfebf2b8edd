#include "core/graph/lazy.h"

#include <algorithm>
#include <bit>
#include <mutex>

#include "core/base/checked.h"
#include "core/device/runtime.h"
#include "core/graph/graph.h"
#include "core/memory/thread_pointer.h"
#include "core/ops/seam.h"
#include "core/program/replay.h"

namespace tinyt {

namespace {

// A region runs when it has so many operations or words, or holds so much memory that was there:
// what is never looked at must not grow without end.
constexpr int64_t kMostCalls = 2048;
constexpr size_t kMostWords = size_t{1} << 20;
constexpr size_t kMostHeldBytes = size_t{1} << 30;

TINYT_THREAD_POINTER Lazy* t_lazy = nullptr;
thread_local std::shared_ptr<Lazy> t_last;  // what has ended, for the next block
thread_local const Lazy* t_running = nullptr;

// Recordings under way, so that other threads may run them.
struct Registry {
  ForkSafeMutex mutex;
  std::vector<std::shared_ptr<Lazy>> all;
  std::vector<std::shared_ptr<Lazy>> lost;  // in a child: those that other threads were running
};
Registry& g_registry = *new Registry;  // tensors may outlive static objects
std::atomic<int> g_recordings{0};

// In a child after fork: recordings of other threads are whole unless they were in the middle.
void drop_lost() {
  std::erase_if(g_registry.all, [](const std::shared_ptr<Lazy>& lazy) {
    if (lazy->is_lost()) g_registry.lost.push_back(lazy);
    return lazy->is_lost();
  });
  g_recordings = static_cast<int>(g_registry.all.size());
}

[[maybe_unused]] const bool g_hooked = (call_in_children(drop_lost), true);

Registry& registry() { return g_registry; }

std::vector<std::shared_ptr<Lazy>> recordings() {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  return r.all;
}

[[noreturn]] void fail_unfinished(const Lazy* owner) {
  for (const std::shared_ptr<Lazy>& lazy : g_registry.lost)
    require(lazy.get() != owner, ErrorKind::Runtime,
            "lazy: the operations that make this value were running in another thread when the "
            "process forked, so the child has not got it; read it before the fork");
  fail(ErrorKind::Runtime, "lazy: a value is read while the operations that make it run");
}

// Memory that others may write without a word.
bool is_shared(const Tensor& x) {
  return x.storage().release_foreign || x.storage().exports.load(std::memory_order_relaxed) > 0;
}

// Of a call's tensors that are no numbers of Python.
Device place_of(std::span<const Tensor> inputs) {
  const auto found =
      std::ranges::find_if_not(inputs, [](const Tensor& t) { return t.impl()->is_scalar; });
  return found == inputs.end() ? Device{} : found->device();
}

// Tensors of others have no values.
bool can_record(Device device) { return device == Device{} || runtime_of(device).has_memory(); }

bool fits(std::span<const Tensor> inputs, const Attrs& attrs, size_t rank) {
  return inputs.size() <= LazyRegion::kMostInputs && attrs.ints.size() <= LazyRegion::kMostInts &&
         attrs.floats.size() <= LazyRegion::kMostFloats && rank <= LazyRegion::kMostRank &&
         std::ranges::all_of(
             inputs, [](const Tensor& t) { return t.shape().size() <= LazyRegion::kMostRank; });
}

}  // namespace

Lazy* lazily() { return t_lazy; }
Lazy* set_lazily(Lazy* lazy) { return std::exchange(t_lazy, lazy); }

LazyHooks& lazy_hooks() {
  static LazyHooks hooks;
  return hooks;
}

bool begin_lazy() {
  if (t_lazy) return false;
  std::shared_ptr<Lazy> lazy = std::exchange(t_last, nullptr);
  if (!lazy) lazy = std::make_shared<Lazy>();
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  t_lazy = lazy.get();
  r.all.push_back(std::move(lazy));
  ++g_recordings;
  return true;
}

void end_lazy() {
  Lazy* const own = std::exchange(t_lazy, nullptr);
  require(own, ErrorKind::Runtime, "lazy: the block ends in another thread than it began in");
  struct Ending {
    Lazy* own;
    ~Ending() {
      Registry& r = registry();
      const std::lock_guard lock(r.mutex);
      const auto it = std::find_if(r.all.begin(), r.all.end(),
                                   [this](const auto& lazy) { return lazy.get() == own; });
      if (it == r.all.end()) return;  // a child after fork
      t_last = std::move(*it);
      r.all.erase(it);
      --g_recordings;
    }
  } const ending{own};
  own->flush();
}

void settle_slowly(Storage& storage) {
  for (const Lazy* last = nullptr;;) {
    Lazy* const owner = storage.lazy.load(std::memory_order_acquire);
    if (!owner) return;
    if (owner == kNeverMade) fail(ErrorKind::Runtime, *storage.fault);
    const bool has_memory =
        storage.buffer.host || storage.buffer.handle || storage.buffer.bytes == 0;
    if (owner == t_running && has_memory) return;  // an operation of the run itself
    if (owner == last || owner == t_running) fail_unfinished(owner);
    last = owner;
    for (const std::shared_ptr<Lazy>& lazy : recordings())
      if (lazy.get() == owner) lazy->flush();
  }
}

void settle_write_slowly(Storage& storage) {
  if (t_running) return;
  settle_slowly(storage);
  if (storage.held.load(std::memory_order_acquire)) settle_all();
}

void settle_all() {
  if (g_recordings.load(std::memory_order_relaxed) == 0 || t_running) return;
  for (const std::shared_ptr<Lazy>& lazy : recordings()) lazy->flush();
}

void LazyRegion::clear() {
  words.clear();
  slots.clear();
  slot_of.clear();
  offsets.clear();
  numbers.clear();
  draws.clear();
  calls = 0;
  held_bytes = 0;
  large = false;
}

// A thread must not wait for a recording while it keeps the front end's lock: who runs it may need
// that one.
class Lazy::Locked {
 public:
  explicit Locked(Lazy& lazy) : lazy_(lazy) {
    if (lazy_.mutex_.is_mine()) {
      ++lazy_.depth_;
      return;
    }
    if (lazy_.mutex_.try_lock()) return;
    const FrontUnlocked unlocked;
    lazy_.mutex_.lock();
  }
  ~Locked() {
    if (lazy_.depth_ > 0) {
      --lazy_.depth_;
    } else {
      lazy_.mutex_.unlock();
    }
  }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  Lazy& lazy_;
};

bool Lazy::makes(const Tensor& x) const {
  const Storage& s = x.storage();
  return s.lazy.load(std::memory_order_relaxed) == this && s.value >= 0;
}

bool Lazy::holds(const Tensor& x) const {
  return makes(x) || region_.slot_of.contains(&x.storage());
}

// What others may write is read now: copied where the operation waits for another operand anyway.
bool Lazy::prepare(std::span<const Tensor>& inputs, std::vector<Tensor>& copies, Device device) {
  bool shared = false, waits = false, weak = !inputs.empty();
  for (const Tensor& t : inputs) {
    const Lazy* owner = t.storage().lazy.load(std::memory_order_acquire);
    if (owner && owner != this) materialize(t);
    if (t.is_recorded() || (t.device() != device && !t.impl()->is_scalar)) return false;
    shared |= is_shared(t);
    waits |= owner == this;
    weak &= t.impl()->is_scalar;
  }
  if (weak) return false;  // a constant
  if (!shared) return true;
  if (!waits) return false;
  copies.assign(inputs.begin(), inputs.end());
  const PausedRecording paused;
  for (Tensor& t : copies)
    if (is_shared(t)) t = dispatch(OpId::copy, {&t, 1}).first;
  inputs = copies;
  return true;
}

// No other recording may read what this one writes.
bool Lazy::prepare_write(const Tensor& to) {
  const Lazy* owner = to.storage().lazy.load(std::memory_order_acquire);
  if (owner && owner != this) materialize(to);
  if (is_shared(to) || to.is_recorded() || !can_record(to.device())) return false;
  bool is_ours;
  {
    const Locked lock(*this);
    is_ours = holds(to);
  }
  if (to.storage().held.load(std::memory_order_acquire) > (is_ours ? 1 : 0)) settle_all();
  return true;
}

void Lazy::go_to(Device device) {
  if (region_.device == device) return;
  flush();
  region_.device = device;
}

int64_t Lazy::slot_for(const Tensor& x) {
  Storage& s = x.storage();
  if (makes(x)) return s.value;
  const auto [it, is_new] =
      region_.slot_of.try_emplace(&s, static_cast<int64_t>(region_.slots.size()));
  if (is_new) {
    region_.slots.push_back({x.impl()->storage, x.dtype(), false});
    s.held.fetch_add(1, std::memory_order_acq_rel);
    region_.held_bytes += s.buffer.bytes;
  }
  return it->second;
}

void Lazy::add_operand(const Tensor& x) {
  std::vector<int64_t>& words = region_.words;
  if (x.impl()->is_scalar && !makes(x)) {
    words.push_back(-1 - static_cast<int64_t>(x.dtype()));
    region_.numbers.push_back(x);
    return;
  }
  const int64_t number = slot_for(x);
  LazyRegion::Slot& slot = region_.slots[number];
  const bool dense = x.is_contiguous();
  ++slot.uses;
  region_.large |= x.numel() >= kReleaseLockElements;
  words.push_back(number << 16 | static_cast<int64_t>(x.dtype()) << 8 | int64_t{dense} << 7 |
                  x.rank());
  if (!slot.made) {
    slot.mixed |= slot.dtype != x.dtype();
    if (x.numel() > 0) {
      region_.offsets.emplace_back(words.size(), number);
      const auto [first, end] = element_range(x);
      const bool is_new = slot.end == 0;
      slot.first = is_new ? first : std::min(slot.first, first);
      slot.end = std::max(slot.end, end);
    }
    if (dense && (slot.uses == 1 || x.numel() > numel_of(slot.dense))) slot.dense = x.shape();
  }
  words.push_back(x.numel() == 0 ? 0 : x.offset());
  words.insert(words.end(), x.shape().begin(), x.shape().end());
  if (!dense) words.insert(words.end(), x.strides().begin(), x.strides().end());
}

void Lazy::begin_call(LazyRegion::Kind kind, OpId op, std::span<const Tensor> inputs,
                      const Attrs& attrs) {
  std::vector<int64_t>& words = region_.words;
  words.push_back(kind | static_cast<int64_t>(op) << 8 | static_cast<int64_t>(inputs.size()) << 16 |
                  static_cast<int64_t>(attrs.ints.size()) << 32 |
                  static_cast<int64_t>(attrs.floats.size()) << 56);
  words.insert(words.end(), attrs.ints.begin(), attrs.ints.end());
  if (kind != LazyRegion::Assign && has_flag(op, op_flags::random)) {
    region_.draws.emplace_back(words[words.size() - 2], words[words.size() - 1]);
    words[words.size() - 2] = words[words.size() - 1] = 0;
  }
  for (double v : attrs.floats) words.push_back(std::bit_cast<int64_t>(v));
  for (const Tensor& t : inputs) add_operand(t);
  region_.calls += kind != LazyRegion::View;
  if (region_.calls >= kMostCalls || region_.words.size() >= kMostWords ||
      region_.held_bytes >= kMostHeldBytes)
    is_long_.store(true, std::memory_order_relaxed);
}

void Lazy::keep_short() {
  if (is_long_.load(std::memory_order_relaxed)) flush();
}

// A tensor that a run gives memory.
Tensor Lazy::make(const Dims& shape, DType dtype) {
  Ref<Storage> storage(new Storage);
  storage->buffer.bytes = bytes_of("lazy", shape, dtype);
  storage->buffer.device = region_.device;
  storage->value = static_cast<int64_t>(region_.slots.size());
  storage->held.store(1, std::memory_order_relaxed);
  storage->lazy.store(this, std::memory_order_release);
  region_.slots.push_back({storage, dtype, true});
  region_.slots.back().uses = 1;
  region_.words.push_back(storage->value);
  return Tensor::from_storage(std::move(storage), shape, contiguous_strides(shape), 0, dtype);
}

bool Lazy::record(OpId op, std::span<const Tensor> inputs, const Attrs& attrs,
                  const Inferred& inferred, Outputs& out) {
  if (has_flag(op, op_flags::dynamic_shape)) return false;
  const bool is_placed = has_flag(op, op_flags::on_device);
  const Device device = is_placed ? device_in(op, inferred.attrs) : place_of(inputs);
  if (op == OpId::to_device || !can_record(device)) return false;
  keep_short();
  if (inferred.is_view) {
    const Locked lock(*this);
    if (!makes(inputs[0])) return false;
    out.first =
        inputs[0].view_as(inferred.dtype[0], inferred.shape[0], inferred.strides, inferred.offset);
    // Operands say their geometry themselves; that of as_strided counts from the storage's start.
    if (op == OpId::as_strided || !fits(inputs, attrs, out.first.shape().size())) return true;
    begin_call(LazyRegion::View, op, inputs, attrs);
    add_operand(out.first);
    return true;
  }
  std::vector<Tensor> copies;
  if (!fits(inputs, attrs, 0) || !prepare(inputs, copies, device)) return false;
  const Locked lock(*this);
  go_to(device);
  begin_call(LazyRegion::Call, op, inputs, attrs);
  out = Outputs(info(op).outputs);
  for (int i = 0; i < info(op).outputs; ++i) out[i] = make(inferred.shape[i], inferred.dtype[i]);
  return true;
}

void Lazy::add_written(const Tensor& to) {
  add_operand(to);
  Storage& s = to.storage();
  if (!makes(to)) {
    region_.slots[slot_for(to)].written = true;
    s.lazy.store(this, std::memory_order_release);
  }
  to.count_write();
}

bool Lazy::record_into(OpId op, std::span<const Tensor> inputs, const Attrs& attrs,
                       const Tensor& out) {
  keep_short();
  std::vector<Tensor> copies;
  if (has_flag(op, op_flags::dynamic_shape) || !fits(inputs, attrs, out.shape().size()))
    return false;
  if (!prepare_write(out) || !prepare(inputs, copies, out.device())) return false;
  const Locked lock(*this);
  go_to(out.device());
  begin_call(LazyRegion::Into, op, inputs, attrs);
  add_written(out);
  return true;
}

bool Lazy::record_assign(const Tensor& to, const Tensor& from) {
  keep_short();
  std::vector<Tensor> copies;
  std::span<const Tensor> source(&from, 1);
  if (!fits(source, {}, to.shape().size()) || !prepare_write(to)) return false;
  // A number alone is no constant here.
  if (!(from.impl()->is_scalar && !from.is_recorded()) && !prepare(source, copies, to.device()))
    return false;
  const Locked lock(*this);
  go_to(to.device());
  begin_call(LazyRegion::Assign, OpId::copy, source, {});
  add_written(to);
  return true;
}

void Lazy::flush() {
  const Locked lock(*this);
  if (running_ || region_.words.empty()) return;
  struct Running {
    Lazy& lazy;
    const Lazy* outer;
    explicit Running(Lazy& l) : lazy(l), outer(std::exchange(t_running, &l)) {
      lazy.running_ = true;
    }
    ~Running() {
      lazy.running_ = false;
      t_running = outer;
    }
  } const running(*this);
  const PausedRecording paused;
  LazyRegion region = std::exchange(region_, std::move(spare_));
  is_long_.store(false, std::memory_order_relaxed);
  struct Kept {
    LazyRegion &region, &spare;
    ~Kept() {
      region.clear();
      spare = std::move(region);
    }
  } const kept{region, spare_};
  run_region(region);
}

}  // namespace tinyt
