#include "core/graph/decompositions.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "core/base/fork.h"
#include "core/graph/capture_log.h"
#include "core/ops/fallback.h"
#include "core/ops/infer.h"
#include "core/ops/mode.h"

namespace tinyt {

namespace {

using Key = std::vector<int64_t>;
using Kept = std::shared_ptr<const CaptureLog>;

// Of all kinds of calls; beyond, the oldest goes.
constexpr size_t kMostKept = 1024;

std::atomic<Decomposer> g_decomposer{nullptr};

struct Cache {
  ForkSafeMutex mutex;
  std::multimap<Key, Kept> of;  // of one kind several, where sizes decide
  std::deque<std::multimap<Key, Kept>::iterator> order;
  size_t recorded = 0;
};
Cache& cache() {
  static Cache& only = *new Cache;
  return only;
}

Key key_of(OpId op, std::span<const Tensor> operands, const Attrs& attrs) {
  // Numbers may be computed in the default dtype.
  Key key{static_cast<int64_t>(op), std::ssize(operands), static_cast<int64_t>(default_dtype())};
  for (const Tensor& t : operands)
    key.push_back(int64_t{t.rank()} << 16 | static_cast<int64_t>(t.dtype()) << 1 |
                  t.impl()->is_scalar);
  for (const int64_t v : attrs.ints) key.push_back(v);
  for (const double v : attrs.floats) key.push_back(std::bit_cast<int64_t>(v));
  return key;
}

// What of a kind is kept, the newest first.
std::vector<Kept> find(const Key& key) {
  Cache& all = cache();
  const std::lock_guard lock(all.mutex);
  const auto [first, end] = all.of.equal_range(key);
  std::vector<Kept> found;
  for (auto at = end; at != first;) found.push_back((--at)->second);
  return found;
}

void keep(Key key, Kept made) {
  Cache& all = cache();
  Kept oldest;  // destroyed after the lock
  const std::lock_guard lock(all.mutex);
  ++all.recorded;
  if (all.order.size() == kMostKept) {
    oldest = std::move(all.order.front()->second);
    all.of.erase(all.order.front());
    all.order.pop_front();
  }
  all.order.push_back(all.of.emplace(std::move(key), std::move(made)));
}

// Operands of a scalar row in the dtype that they promote to. Numbers stay, for whom a half would
// be too narrow, unless there is nothing else. What is real beside complex numbers stays real, in
// the dtype of their parts.
void promote_operands(OpId op, const Attrs& attrs, std::vector<Tensor>& operands) {
  Inferred inferred;
  infer(op, operands, attrs, inferred);
  if (const DType compute = inferred.compute; is_complex(compute)) {
    const size_t first = has_flag(op, op_flags::predicate_first) ? 1 : 0;
    for (Tensor& t : std::span(operands).subspan(first))
      t = cast(t, is_complex(t.dtype()) ? compute : real_of(compute));
    return;
  }
  const bool numbers = std::ranges::all_of(operands, [](const Tensor& t) { return t.rank() == 0; });
  for (Tensor& t : operands)
    if (t.rank() > 0 || (numbers && !t.impl()->is_scalar)) t = cast(t, inferred.compute);
}

// This thread's calls are recorded into a graph for as long as it lives, in no other mode.
class Recording {
 public:
  explicit Recording(Graph& graph) : modes_(t_modes) {
    t_modes = {};
    t_modes.grad = false;
    set_recording(&graph);
  }
  ~Recording() { t_modes = modes_; }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

 private:
  const PausedRecording paused_;
  const Modes modes_;
};

Kept record(OpId op, std::span<const Tensor> operands, const Attrs& attrs) {
  Decomposer decomposer = g_decomposer;
  require(decomposer != nullptr, ErrorKind::NotImplemented, name_of(op),
          ": decompositions are not loaded");
  Graph graph;
  const auto made = std::make_shared<CaptureLog>(graph);
  graph.log = made.get();
  {
    const Recording recording(graph);
    std::vector<Tensor> arguments;
    for (const Tensor& t : operands) {  // one recording for all devices
      const Tensor like = geometry_of(t);
      like.storage().buffer.device = {};
      arguments.push_back(graph.add_argument(like));
    }
    if (info(op).kind == OpKind::Scalar) promote_operands(op, attrs, arguments);
    for (const Tensor& t : decomposer(op, arguments, attrs)) graph.add_output(t);
    graph.finish();
  }
  const bool calls_only =
      graph.writes().empty() &&
      std::ranges::none_of(graph.nodes(), [](auto& n) { return n.opaque || n.op == OpId::update; });
  require(made->failure().empty() && calls_only, ErrorKind::Runtime, name_of(op),
          ": its decomposition cannot be kept: ",
          made->failure().empty() ? "it writes into a tensor, or calls what is no operation"
                                  : made->failure());
  return made;
}

// The results of the kept recording that decides as this call does, or of a new one: `run` gives
// nothing where a recording decides otherwise.
template <class Run>
auto with_recording(OpId op, std::span<const Tensor> operands, const Attrs& attrs, const Run& run) {
  Key key = key_of(op, operands, attrs);
  for (const Kept& kept : find(key))
    if (auto found = run(*kept)) return *std::move(found);
  const Kept made = record(op, operands, attrs);
  auto found = run(*made);
  require(found.has_value(), ErrorKind::Runtime, name_of(op),
          ": its decomposition decides otherwise for operands without elements");
  keep(std::move(key), made);
  return *std::move(found);
}

std::vector<Tensor> run_decomposition(OpId op, std::span<const Tensor> operands, const Attrs& attrs,
                                      Device device) {
  return with_recording(op, operands, attrs,
                        [&](const CaptureLog& log) { return log.run(operands, device); });
}

}  // namespace

void register_decomposer(Decomposer decomposer) {
  g_decomposer = decomposer;
  register_decompose(run_decomposition);
}

std::unique_ptr<Graph> decomposition_of(OpId op, std::span<const Tensor> operands,
                                        const Attrs& attrs) {
  return with_recording(op, operands, attrs, [&](const CaptureLog& log) {
    auto graph = std::make_unique<Graph>();
    std::string why;
    int64_t guard = -1;
    std::optional<std::unique_ptr<Graph>> found;
    if (log.replay(operands, *graph, why, guard)) found = std::move(graph);
    return found;
  });
}

std::pair<size_t, size_t> kept_decompositions() {
  Cache& all = cache();
  const std::lock_guard lock(all.mutex);
  return {all.order.size(), all.recorded};
}

void forget_decompositions() {
  Cache& all = cache();
  std::multimap<Key, Kept> gone;  // destroyed after the lock
  const std::lock_guard lock(all.mutex);
  gone.swap(all.of);
  all.order.clear();
}

}  // namespace tinyt
