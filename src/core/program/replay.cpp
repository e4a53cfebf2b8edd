#include "core/program/replay.h"

#include <algorithm>
#include <bit>
#include <list>
#include <map>

#include "core/memory/set_to_fail.h"
#include "core/program/program.h"

namespace tinyt {

namespace {

using Slot = LazyRegion::Slot;

constexpr size_t kMostPrograms = 256;

Simplify g_simplify = nullptr;

struct Operand {
  int64_t slot;
  DType dtype;
  Dims shape, strides;
  int64_t offset;
  std::span<const int64_t> words;

  bool is_number() const { return slot < 0; }
};

// Goes through a region's operations in their order and dispatches them on other tensors.
class Replay {
 public:
  explicit Replay(const LazyRegion& region) : region_(region) {}
  virtual ~Replay() = default;
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;
  void run() {
    while (at_ < region_.words.size()) step();
  }

 protected:
  virtual Tensor number(size_t which) = 0;
  virtual Tensor see(const Operand& operand) = 0;
  virtual void make(int64_t slot, Tensor t) = 0;
  virtual void view(OpId op, const Tensor& of, const Attrs& attrs, const Operand& out) = 0;
  virtual std::pair<int64_t, int64_t> draw(size_t which) = 0;
  // An operation has run, with these operands.
  virtual void done(std::span<const Operand> operands) = 0;

  const LazyRegion& region_;

 private:
  int64_t next() { return region_.words[at_++]; }
  std::span<const int64_t> next(size_t n) {
    at_ += n;
    return {region_.words.data() + at_ - n, n};
  }

  Operand operand() {
    const size_t begin = at_;
    const int64_t word = next();
    if (word < 0) return {-1, static_cast<DType>(-1 - word), {}, {}, 0, {}};
    Operand out{word >> 16, static_cast<DType>(word >> 8 & 255), {}, {}, next(), {}};
    const auto rank = static_cast<size_t>(word & LazyRegion::kMostRank);
    out.shape = Dims(next(rank));
    out.strides = word & 128 ? contiguous_strides(out.shape) : Dims(next(rank));
    out.words = {region_.words.data() + begin, at_ - begin};
    return out;
  }

  Tensor tensor(const Operand& operand) {
    return operand.is_number() ? number(numbers_++) : see(operand);
  }

  Attrs attrs(OpId op, size_t ints, size_t floats) {
    Attrs out;
    for (int64_t v : next(ints)) out.add(v);
    if (ints >= 2 && has_flag(op, op_flags::random))
      std::tie(out.ints[ints - 2], out.ints[ints - 1]) = draw(draws_++);
    for (int64_t v : next(floats)) out.add_float(std::bit_cast<double>(v));
    return out;
  }

  void step() {
    const int64_t head = next();
    const auto op = static_cast<OpId>(head >> 8 & 255);
    const Attrs given =
        attrs(op, head >> 32 & LazyRegion::kMostInts, static_cast<uint64_t>(head) >> 56);
    std::vector<Operand> operands;
    std::vector<Tensor> in;
    for (size_t n = head >> 16 & LazyRegion::kMostInputs; n > 0; --n) {
      operands.push_back(operand());
      in.push_back(tensor(operands.back()));
    }
    switch (head & 255) {
      case LazyRegion::Call: {
        Outputs out = dispatch(op, in, given);
        for (int i = 0; i < info(op).outputs; ++i) {
          operands.push_back({next(), DType::Float32, {}, {}, 0, {}});
          make(operands.back().slot, std::move(out[i]));
        }
        break;
      }
      case LazyRegion::View:
        operands.push_back(operand());
        view(op, in[0], given, operands.back());
        break;
      case LazyRegion::Into:
        operands.push_back(operand());
        dispatch_into(op, in, given, see(operands.back()));
        break;
      default:
        operands.push_back(operand());
        assign(see(operands.back()), in[0]);
    }
    in.clear();
    done(operands);
  }

  size_t at_ = 0, numbers_ = 0, draws_ = 0;
};

// The elements of memory that was there, as a program takes them.
Tensor argument_of(const Slot& slot, Ref<Storage> storage, int64_t offset) {
  const Dims flat{slot.end - slot.first};
  const Dims& shape = numel_of(slot.dense) == flat[0] && !slot.mixed ? slot.dense : flat;
  return Tensor::from_storage(std::move(storage), shape, contiguous_strides(shape), offset,
                              slot.dtype);
}

Ref<Storage> storage_on(Device device) {
  Ref<Storage> storage(new Storage);
  storage->buffer.device = device;
  return storage;
}

// What runs a region's operations, one for all regions of the same words.
struct Planned {
  RunMutex mutex;  // of the numbers
  std::vector<Tensor> cells;
  std::unique_ptr<Program> program;  // null: they run one by one
};

// Records the region anew in a graph, where memory that was there is an argument.
class Recording : public Replay {
 public:
  Recording(const LazyRegion& region, Graph& graph, std::vector<Tensor>& cells)
      : Replay(region), graph_(graph), cells_(cells), whole_(region.slots.size()) {
    for (const Tensor& n : region.numbers) {
      cells_.push_back(Tensor::number(n.dtype()));
      cells_.back().impl()->is_scalar = true;
      graph_.add_number(cells_.back());
    }
    for (size_t i = 0; i < whole_.size(); ++i)
      if (!region.slots[i].made)
        whole_[i] = graph_.add_argument(argument_of(region.slots[i], storage_on(region.device), 0));
  }

  const Tensor& whole(size_t slot) const { return whole_[slot]; }

 private:
  Tensor number(size_t which) override { return cells_[which]; }

  // One tensor for all operands alike: the graph knows which operation made it.
  Tensor see(const Operand& o) override {
    Tensor& seen = seen_[{o.words.begin(), o.words.end()}];
    if (!seen) {
      const Tensor& whole = whole_[o.slot];
      seen = whole.dtype() == o.dtype && whole.shape() == o.shape && whole.is_contiguous() &&
                     whole.strides() == o.strides
                 ? whole
                 : whole.view_as(o.dtype, o.shape, o.strides, o.offset);
    }
    return seen;
  }

  void make(int64_t slot, Tensor t) override { whole_[slot] = std::move(t); }

  void view(OpId op, const Tensor& of, const Attrs& attrs, const Operand& out) override {
    seen_[{out.words.begin(), out.words.end()}] = dispatch(op, {&of, 1}, attrs).first;
  }

  // Each has a generator of its own.
  std::pair<int64_t, int64_t> draw(size_t which) override {
    return {static_cast<int64_t>(which), 0};
  }

  void done(std::span<const Operand>) override {}

  Graph& graph_;
  std::vector<Tensor>& cells_;
  std::vector<Tensor> whole_;  // of each slot
  std::map<std::vector<int64_t>, Tensor> seen_;
};

// Runs a region, and gives its memory free whatever happens.
class Run {
 public:
  explicit Run(LazyRegion& region) : region_(region), is_made_(region.slots.size(), false) {
    for (const auto& [word, slot] : region_.offsets) region_.words[word] -= start_of(slot);
    for (Slot& slot : region_.slots) {
      if (slot.mixed) {
        slot.first = 0;
        slot.end = static_cast<int64_t>(slot.storage->buffer.bytes / size_of(slot.dtype));
      }
      versions_.push_back(slot.storage->version);
      is_seen_.push_back(slot.made && slot.storage->refs.load() > 1);
    }
  }

  ~Run() {
    for (size_t i = 0; i < region_.slots.size(); ++i)
      if (region_.slots[i].storage) release(i);
  }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  std::vector<int64_t> key() const;
  std::shared_ptr<Planned> plan() const;
  bool run(Planned& planned);
  void run_one_by_one();

 private:
  friend class OneByOne;

  int64_t start_of(int64_t slot) const {
    const Slot& s = region_.slots[slot];
    return s.mixed ? 0 : s.first;
  }

  void release(size_t i) {
    Storage& s = *region_.slots[i].storage;
    s.version = versions_[i];
    s.value = -1;
    if (region_.slots[i].made && !is_made_[i] && is_seen_[i])
      s.fault = std::make_unique<const std::string>(fault_);
    s.held.fetch_sub(1, std::memory_order_acq_rel);
    s.lazy.store(s.fault ? kNeverMade : nullptr, std::memory_order_release);
    region_.slots[i].storage = {};
  }

  void fill(size_t i, const Tensor& result) {
    region_.slots[i].storage->buffer = std::exchange(result.storage().buffer, {});
    is_made_[i] = true;
  }

  LazyRegion& region_;
  std::vector<bool> is_made_, is_seen_;
  std::vector<uint64_t> versions_;
  std::string fault_;
};

// Runs the operations as eager calls, and frees memory as they would.
class OneByOne : public Replay {
 public:
  explicit OneByOne(Run& run) : Replay(run.region_), run_(run) {}

 private:
  Tensor number(size_t which) override { return region_.numbers[which]; }

  Tensor see(const Operand& o) override {
    const Slot& slot = region_.slots[o.slot];
    return Tensor::from_storage(slot.storage, o.shape, o.strides,
                                o.offset + (slot.made ? 0 : run_.start_of(o.slot)), o.dtype);
  }

  void make(int64_t slot, Tensor t) override { run_.fill(static_cast<size_t>(slot), t); }
  void view(OpId, const Tensor&, const Attrs&, const Operand&) override {}
  std::pair<int64_t, int64_t> draw(size_t which) override { return region_.draws[which]; }

  void done(std::span<const Operand> operands) override {
    for (const Operand& o : operands) {
      if (o.is_number()) continue;
      Slot& slot = run_.region_.slots[o.slot];
      if (--slot.uses == 0 && slot.made) run_.release(static_cast<size_t>(o.slot));
    }
  }

  Run& run_;
};

std::vector<int64_t> Run::key() const {
  std::vector<int64_t> key;
  key.reserve(region_.words.size() + region_.slots.size() + 3);
  key.push_back(code_of(region_.device));
  key.push_back(static_cast<int64_t>(default_dtype()));
  key.push_back(static_cast<int64_t>(region_.slots.size()));
  for (size_t i = 0; i < region_.slots.size(); ++i) {
    const Slot& slot = region_.slots[i];
    const int64_t kind = slot.made ? is_seen_[i] : 2 + slot.written + 2 * slot.mixed;
    key.push_back(kind | static_cast<int64_t>(slot.dtype) << 3 |
                  (slot.made ? 0 : slot.end - slot.first) << 8);
  }
  key.insert(key.end(), region_.words.begin(), region_.words.end());
  return key;
}

// Null where the region cannot be a graph, as one that sees memory as another dtype.
std::shared_ptr<Planned> Run::plan() const {
  auto planned = std::make_shared<Planned>();
  const auto graph = std::make_shared<Graph>();
  try {
    Recording recording(region_, *graph, planned->cells);
    struct Recorded {
      Graph* before;
      explicit Recorded(Graph* graph) : before(set_recording(graph)) {}
      ~Recorded() { set_recording(before); }
    };
    {
      const Recorded recorded(graph.get());
      recording.run();
    }
    for (size_t i = 0; i < region_.slots.size(); ++i)
      if (is_seen_[i]) graph->add_output(recording.whole(i));
    graph->finish();
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::Capture) throw;
    return planned;
  }
  const std::shared_ptr<const Graph> simpler = g_simplify ? g_simplify(graph) : graph;
  const FrontUnlocked unlocked;
  planned->program = std::make_unique<Program>(*simpler);
  return planned;
}

std::string never_computed(const std::exception& e) {
  return std::string("lazy: this tensor was never computed, as an operation before it failed: ") +
         e.what();
}

// False where an operation failed, or memory was short: nothing has been written then.
bool Run::run(Planned& planned) {
  std::vector<Tensor> arguments;
  for (const Slot& slot : region_.slots)
    if (!slot.made) arguments.push_back(argument_of(slot, slot.storage, slot.first));
  std::optional<std::vector<Tensor>> results;
  {
    const FrontUnlocked unlocked(region_.large);
    const std::lock_guard lock(planned.mutex);
    for (size_t i = 0; i < planned.cells.size(); ++i)
      std::memcpy(planned.cells[i].host_data(), region_.numbers[i].host_data(),
                  planned.cells[i].itemsize());
    try {
      results = planned.program->run(arguments, {}, region_.draws);
    } catch (const memory::SetToFail& e) {
      fault_ = never_computed(e);
      throw;
    } catch (const std::exception&) {
      return false;
    }
  }
  size_t next = 0;
  for (size_t i = 0; i < region_.slots.size(); ++i)
    if (is_seen_[i]) fill(i, (*results)[next++]);
  return true;
}

void Run::run_one_by_one() {
  const FrontUnlocked unlocked(region_.large);
  try {
    OneByOne(*this).run();
  } catch (const std::exception& e) {
    fault_ = never_computed(e);
    throw;
  }
}

// Programs by their regions' words, the last used first.
class Cache {
 public:
  std::shared_ptr<Planned> find(const std::vector<int64_t>& key, uint64_t hash) {
    const std::lock_guard lock(mutex_);
    const auto [first, end] = places_.equal_range(hash);
    for (auto it = first; it != end; ++it) {
      if (it->second->key != key) continue;
      entries_.splice(entries_.begin(), entries_, it->second);
      ++info_.hits;
      return it->second->planned;
    }
    ++info_.misses;
    return nullptr;
  }

  void add(std::vector<int64_t> key, uint64_t hash, std::shared_ptr<Planned> planned) {
    std::list<Entry> gone;  // after the lock is given back
    const std::lock_guard lock(mutex_);
    entries_.push_front({std::move(key), hash, std::move(planned)});
    places_.emplace(hash, entries_.begin());
    if (entries_.size() > kMostPrograms) {
      const auto last = std::prev(entries_.end());
      const auto [first, end] = places_.equal_range(last->hash);
      places_.erase(std::find_if(first, end, [&](const auto& p) { return p.second == last; }));
      gone.splice(gone.begin(), entries_, last);
    }
  }

  void clear() {
    std::list<Entry> gone;
    const std::lock_guard lock(mutex_);
    gone.swap(entries_);
    places_.clear();
    info_ = {};
  }

  LazyCacheInfo info() {
    const std::lock_guard lock(mutex_);
    LazyCacheInfo out = info_;
    out.most = kMostPrograms;
    out.programs = static_cast<int64_t>(entries_.size());
    return out;
  }

 private:
  struct Entry {
    std::vector<int64_t> key;
    uint64_t hash;
    std::shared_ptr<Planned> planned;
  };
  ForkSafeMutex mutex_;
  std::list<Entry> entries_;
  std::unordered_multimap<uint64_t, std::list<Entry>::iterator> places_;
  LazyCacheInfo info_;
};

Cache& cache() {
  static Cache* const all = new Cache;  // tensors may outlive static objects
  return *all;
}

uint64_t hash_of(std::span<const int64_t> words) {
  uint64_t h = words.size();
  for (int64_t word : words) {
    h = (h ^ static_cast<uint64_t>(word)) * 0x9E3779B97F4A7C15;
    h ^= h >> 32;
  }
  return h;
}

}  // namespace

void set_lazy_simplify(Simplify simplify) { g_simplify = simplify; }
LazyCacheInfo lazy_cache_info() { return cache().info(); }
void clear_lazy_cache() { cache().clear(); }

void run_region(LazyRegion& region) {
  Run run(region);
  // A single operation needs no program.
  if (region.calls > 1) {
    std::vector<int64_t> key = run.key();
    const uint64_t hash = hash_of(key);
    std::shared_ptr<Planned> planned = cache().find(key, hash);
    if (!planned) {
      try {
        planned = run.plan();
      } catch (...) {
        run.run_one_by_one();  // nothing recorded is lost
        throw;
      }
      cache().add(std::move(key), hash, planned);
    }
    if (planned->program && run.run(*planned)) return;
  }
  run.run_one_by_one();
}

}  // namespace tinyt
