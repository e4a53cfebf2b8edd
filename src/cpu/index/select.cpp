#include "cpu/index/select.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "cpu/copy/copy.h"
#include "cpu/index/sort.h"
#include "cpu/index/sort_keys.h"
#include "cpu/schedule/levels.h"
#include "cpu/schedule/tiles.h"
#include "cpu/schedule/workspace.h"

namespace tinyt::cpu {
namespace {

// From this share of a line on, its first elements are found by sorting it.
constexpr int64_t kSortedShare = 8;
// So few are kept in order all the time.
constexpr int64_t kFew = 16;
// Of more, candidates gather behind the best so far, at least so many, so that weeding is rare.
constexpr int64_t kCandidates = 96;
// From this length on, a sample says where in the line's order a rank is.
constexpr int64_t kSampledLength = 512;

// What is selected from a line: values in the stable order (of equal ones, the one that stands
// first), so that the answer is unique.
struct Selection {
  OpId op;
  DType dtype;
  int64_t length;
  int64_t k = 1;  // topk: how many; kthvalue: which one, from 1
  bool descending = false;
  bool ignore_nan = false;

  bool by_rank() const { return op != OpId::topk; }
  // Entries that the selection from one line needs.
  int64_t room() const {
    return by_rank() ? length : std::min(k + std::max(k, kCandidates), length);
  }
};

// ---- the first k

// The next of elements [i, length) that may come before the one at `bound`.
template <class K>
class Next {
 public:
  explicit Next(const Selection& s) : length_(s.length) {
    const SelectTable& table = *kernels().select;
    find_ = (s.descending ? table.above : table.below)[static_cast<int>(s.dtype)];
  }
  int64_t operator()(const char* line, int64_t i, int64_t bound) const {
    return find_ ? find_(line, i, length_, line + bound * static_cast<int64_t>(sizeof(K))) : i;
  }

 private:
  int64_t length_;
  SelectTable::Next find_;
};

// The first k of n in order, front of `entries`: each takes its place among the best so far.
template <class K, class I, KeyKind Kind>
void insert_first(const Selection& s, const char* line, const KeyReader<K, Kind>& key,
                  Entry<K, I>* entries) {
  if (s.k == 1 && s.length <= kMaxRanked) {  // sooner than a guess at each of them
    Entry<K, I> best = {key(line, 0), 0};
    for (int64_t i = 1; i < s.length; ++i) {
      const Entry<K, I> entry = {key(line, i), static_cast<I>(i)};
      best = entry.key < best.key ? entry : best;
    }
    entries[0] = best;
    return;
  }
  const Next<K> next(s);
  for (int64_t i = 0; i < s.length; ++i) {
    if (i >= s.k && (i = next(line, i, entries[s.k - 1].index)) == s.length) break;
    const K at = key(line, i);
    if (i >= s.k && !(at < entries[s.k - 1].key)) continue;
    int64_t place = std::min(i, s.k - 1);
    for (; place > 0 && at < entries[place - 1].key; --place) entries[place] = entries[place - 1];
    entries[place] = {at, static_cast<I>(i)};
  }
}

// The same of many. Candidates gather behind the best k so far; when there is no more room, the
// worse half goes, and what comes later must beat the k-th.
template <class K, class I, KeyKind Kind>
void select_first(const Selection& s, const char* line, const KeyReader<K, Kind>& key,
                  Entry<K, I>* entries) {
  if (s.k <= kFew) return insert_first(s, line, key, entries);
  const Next<K> next(s);
  const int64_t room = s.room();
  const Entry<K, I>& last = entries[s.k - 1];  // of the best so far, once there is a bound
  int64_t count = 0;
  bool bound = false;
  for (int64_t i = 0; i < s.length; ++i) {
    if (count == room) {
      std::nth_element(entries, entries + s.k - 1, entries + count);
      count = s.k;
      bound = true;
    }
    if (bound && (i = next(line, i, last.index)) == s.length) break;
    const K at = key(line, i);
    if (!bound || at < last.key) entries[count++] = {at, static_cast<I>(i)};
  }
  if (count > s.k) std::nth_element(entries, entries + s.k - 1, entries + count);
  std::sort(entries, entries + s.k);
}

// ---- one rank

template <class K, KeyKind Kind>
int64_t count_nans(const Selection& s, const char* line, const KeyReader<K, Kind>& key) {
  if constexpr (Kind != KeyKind::Float) return 0;
  const auto infinity = static_cast<K>(infinity_bits(s.dtype));
  const auto next = kernels().select->above[static_cast<int>(s.dtype)];
  int64_t count = 0;
  for (int64_t i = next(line, 0, s.length, &infinity); i < s.length; ++i) {
    count += key(line, i) == KeyReader<K, Kind>::kNaN;
  }
  return count;
}

// Rank, from 0, of the element that a median or k-th value is.
int64_t rank_of(const Selection& s, int64_t nans) {
  if (s.op == OpId::kthvalue) return s.k - 1;
  const int64_t count = s.length - nans;
  // The first NaN stands at rank `count`; it is the median unless it is ignored.
  return nans == 0 || (s.ignore_nan && count > 0) ? (count - 1) / 2 : count;
}

// Loads the elements between two of a sample that most likely lie on either side of a rank: Floyd
// and Rivest, "Expected time bounds for selection" (1975). Returns how many, and how many are less.
template <class K, class I, KeyKind Kind>
int64_t load_bracket(const Selection& s, const char* line, const KeyReader<K, Kind>& key,
                     int64_t rank, Entry<K, I>* entries, int64_t& less) {
  const auto between = kernels().select->between[static_cast<int>(s.dtype)];
  if (!between) return 0;
  constexpr auto kItem = static_cast<int64_t>(sizeof(K));
  const auto length = static_cast<double>(s.length);
  const auto step = static_cast<int64_t>(std::cbrt(length));  // a sample of n^(2/3)
  const int64_t sample = s.length / step;
  for (int64_t i = 0; i < sample; ++i) {
    entries[i] = {key(line, i * step), static_cast<I>(i * step)};
  }
  // Four standard deviations of the rank that the element has in a random sample.
  const auto margin = static_cast<int64_t>(2 * std::sqrt(static_cast<double>(sample)));
  const int64_t from = rank / step - margin, to = rank / step + margin;
  const char *low = nullptr, *high = nullptr;
  if (from >= 0) {
    std::nth_element(entries, entries + from, entries + sample);
    low = line + entries[from].index * kItem;
  }
  if (to < sample) {
    std::nth_element(entries + std::max<int64_t>(from, 0), entries + to, entries + sample);
    high = line + entries[to].index * kItem;
  }
  uint16_t positions[kSelectPart];
  int64_t count = 0;
  for (int64_t begin = 0; begin < s.length; begin += kSelectPart) {
    const int64_t n = std::min(kSelectPart, s.length - begin);
    int64_t part_less = 0;
    const int64_t found = between(line + begin * kItem, n, low, high, positions, &part_less);
    less += part_less;
    for (int64_t i = 0; i < found; ++i) {
      const int64_t at = begin + positions[i];
      entries[count++] = {key(line, at), static_cast<I>(at)};
    }
  }
  return count;
}

// Where the element of the rank asked for stands in the line.
template <class K, class I, KeyKind Kind>
int64_t select_rank(const Selection& s, const char* line, const KeyReader<K, Kind>& key,
                    Entry<K, I>* entries) {
  const int64_t n = s.length, nans = count_nans(s, line, key), rank = rank_of(s, nans);
  if (n <= kMaxRanked) {
    Rank<K> ranks[kMaxRanked];
    rank_line(key, line, n, ranks);
    return std::find(ranks, ranks + n, rank) - ranks;
  }
  int64_t count = 0, less = 0;
  if (nans == 0 && n >= kSampledLength) count = load_bracket(s, line, key, rank, entries, less);
  if (rank < less || rank >= less + count) {  // unlikely after a sample
    key.load(line, 0, n, entries);
    count = n;
    less = 0;
  }
  std::nth_element(entries, entries + rank - less, entries + count);
  return static_cast<int64_t>(entries[rank - less].index);
}

// ---- all lines

bool is_sorted(const Selection& s) {
  return !s.by_rank() && s.k != 1 && (s.length <= kMaxRanked || s.k >= s.length / kSortedShare);
}

// How lines are shared out, and the entries of threads at work on some.
template <class E>
struct SelectLines {
  int64_t lines, grain, room, bytes, slots;

  SelectLines(const Selection& s, const Tensor& x)
      : lines(x.numel() / s.length),
        grain(std::max<int64_t>(1, kChunkElements / s.length)),
        room(s.room() * static_cast<int64_t>(sizeof(E))),
        bytes(round_up(room, kCacheLine)),
        slots(std::min<int64_t>(num_threads(), ceil_div(lines, grain))) {}
  int64_t workspace() const { return bytes * (slots - 1) + room; }
};

template <class K, class I, KeyKind Kind>
void select_lines(const Selection& s, const Tensor& x, const Tensor& values,
                  const Tensor& indices) {
  using E = Entry<K, I>;
  constexpr auto kItem = static_cast<int64_t>(sizeof(K));
  const int64_t count = s.by_rank() ? 1 : s.k;
  const KeyReader<K, Kind> key(s.dtype, s.descending);
  const SelectLines<E> plan(s, x);
  const Workspace memory(plan.workspace());
  Slots slots(memory.data(), plan.bytes, plan.slots);
  const auto select = [&](int64_t begin, int64_t end, E* entries) {
    for (int64_t l = begin; l < end; ++l) {
      const char* line = x.host_data() + l * s.length * kItem;
      if (s.by_rank()) {
        entries[0].index = static_cast<I>(select_rank(s, line, key, entries));
      } else {
        select_first(s, line, key, entries);
      }
      for (int64_t i = 0; i < count; ++i) {
        const auto from = static_cast<int64_t>(entries[i].index);
        std::memcpy(values.host_data() + (l * count + i) * kItem, line + from * kItem, sizeof(K));
        indices.ptr<int64_t>()[l * count + i] = from;
      }
    }
  };
  parallel_ranges(plan.lines, plan.grain, [&](int64_t begin, int64_t end) {
    slots.with_one([&](char* own) { select(begin, end, reinterpret_cast<E*>(own)); });
  });
}

template <class F>
void with_entry_of(const Selection& s, F&& body) {
  with_key_of(s.dtype, [&]<class K, KeyKind Kind>() {
    if (s.length <= INT64_C(0xffffffff)) {
      body.template operator()<K, uint32_t, Kind>();
    } else {
      body.template operator()<K, int64_t, Kind>();
    }
  });
}

// Lines along the last dimension of contiguous tensors.
void select_last(const Selection& s, const Tensor& x, const Tensor& values, const Tensor& indices) {
  if (is_sorted(s)) return sort_last(x, values, indices, s.descending);
  with_entry_of(s, [&]<class K, class I, KeyKind Kind>() {
    select_lines<K, I, Kind>(s, x, values, indices);
  });
}

int64_t workspace_select_last(const Selection& s, const Tensor& x) {
  if (is_sorted(s)) return workspace_sort_last(x);
  int64_t bytes = 0;
  with_entry_of(
      s, [&]<class K, class I, KeyKind>() { bytes = SelectLines<Entry<K, I>>(s, x).workspace(); });
  return bytes;
}

Selection read_selection(const KernelCall& call, int64_t& dim) {
  AttrReader read(call.attrs);
  Selection s{call.op, call.inputs[0].dtype(), 1};
  if (call.op != OpId::median) s.k = read.integer();
  dim = read.integer();
  if (call.op == OpId::topk) s.descending = read.flag();
  if (call.op == OpId::median) {
    read.flag();  // keepdim
    s.ignore_nan = read.flag();
  }
  if (call.inputs[0].rank() > 0) {
    s.length = call.inputs[0].size(static_cast<size_t>(dim));
  } else {
    s.k = 1;  // a 0-d result holds its value, even of the first 0
  }
  return s;
}

void kernel_select(const KernelCall& call) {
  const Tensor &x = call.inputs[0], &values = call.outputs[0], &indices = call.outputs[1];
  if (values.numel() == 0) return;
  int64_t dim = 0;
  const Selection s = read_selection(call, dim);
  const auto d = static_cast<size_t>(dim);
  if (is_last(x, d)) return select_last(s, as_contiguous(x), values, indices);
  const Tensor lines = as_contiguous(with_last(x, d));
  // One value a line lies in the same order wherever the dimension was.
  if (call.op != OpId::topk) return select_last(s, lines, values, indices);
  const Tensor to = with_last(values, d), places = with_last(indices, d);
  const Tensor found = Tensor::empty(to.shape(), x.dtype(), x.device());
  const Tensor at = Tensor::empty(to.shape(), DType::Int64, x.device());
  select_last(s, lines, found, at);
  copy_into(found, to);
  copy_into(at, places);
}

}  // namespace

void kernel_topk(const KernelCall& call) { kernel_select(call); }
void kernel_kthvalue(const KernelCall& call) { kernel_select(call); }
void kernel_median(const KernelCall& call) { kernel_select(call); }

int64_t workspace_select(const KernelCall& call) {
  const Tensor &x = call.inputs[0], &values = call.outputs[0];
  if (values.numel() == 0) return 0;
  int64_t dim = 0;
  const Selection s = read_selection(call, dim);
  const auto d = static_cast<size_t>(dim);
  if (is_last(x, d)) return dense_bytes(x) + workspace_select_last(s, x);
  const Tensor lines = with_last(x, d);
  return dense_bytes(lines) + (call.op == OpId::topk ? sorted_bytes(values) : 0) +
         workspace_select_last(s, lines);
}

}  // namespace tinyt::cpu
