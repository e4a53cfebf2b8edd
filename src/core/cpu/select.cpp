#include "select.h"

#include <algorithm>
#include <cstring>

#include "copy.h"
#include "sort.h"
#include "sort_keys.h"
#include "tiles.h"

namespace tinyt::cpu {
namespace {

// What is selected from a line: values in the stable order (of equal ones, the one that stands
// first), so that the answer is unique.
struct Selection {
  OpId op;
  DType dtype;
  int64_t length;
  int64_t k = 1;  // topk: how many; kthvalue: which one, from 1
  bool descending = false;
  bool ignore_nan = false;
};

// The first k of n in order, front of `entries` (room for 2 k). Candidates gather behind the best
// k so far; when there is no more room, the worse half goes, and what comes later must beat the
// k-th.
template <class E, class Key>
void select_first(const Selection& s, const char* line, const Key& key, E* entries) {
  const int64_t room = std::min(2 * s.k, s.length);
  int64_t count = 0;
  bool full = false;  // whether entries[k - 1] is a bound
  for (int64_t i = 0; i < s.length; ++i) {
    const auto at = key(line, i);
    if (full && !(at < entries[s.k - 1].key)) continue;
    if (count == room) {
      std::nth_element(entries, entries + s.k - 1, entries + count);
      count = s.k;
      full = true;
      if (!(at < entries[s.k - 1].key)) continue;
    }
    entries[count++] = {at, static_cast<decltype(entries->index)>(i)};
  }
  if (count > s.k) std::nth_element(entries, entries + s.k - 1, entries + count);
  std::sort(entries, entries + s.k);
}

// Rank, from 0, of the element that a median or k-th value is.
template <class E, class Key>
int64_t rank_of(const Selection& s, const Key&, const E* entries) {
  if (s.op == OpId::kthvalue) return s.k - 1;
  int64_t count = s.length;
  for (int64_t i = 0; Key::kFloat && i < s.length; ++i) count -= entries[i].key == Key::kNaN;
  if (count == s.length) return (count - 1) / 2;
  // The first NaN stands at rank `count`; it is the median unless it is ignored.
  return s.ignore_nan && count > 0 ? (count - 1) / 2 : count;
}

template <class E, class Key>
void select_rank(const Selection& s, const char* line, const Key& key, E* entries) {
  key.load(line, 0, s.length, entries);
  const int64_t rank = rank_of(s, key, entries);
  std::nth_element(entries, entries + rank, entries + s.length);
  entries[0] = entries[rank];
}

template <class K, class I, KeyKind Kind>
void select_lines(const Selection& s, const Tensor& x, const Tensor& values,
                  const Tensor& indices) {
  using E = Entry<K, I>;
  constexpr auto kItem = static_cast<int64_t>(sizeof(K));
  const bool one = s.op != OpId::topk;
  const int64_t count = one ? 1 : s.k;
  const int64_t room = one ? s.length : std::min(2 * s.k, s.length);
  const int64_t lines = x.numel() / s.length;
  const KeyReader<K, Kind> key(s.dtype, s.descending);
  const int64_t grain = std::max<int64_t>(1, kChunkElements / s.length);
  parallel_ranges(lines, grain, [&](int64_t begin, int64_t end) {
    const int64_t size[] = {room * static_cast<int64_t>(sizeof(E))};
    const Tensor scratch = Tensor::empty(size, DType::UInt8, x.device());
    auto* entries = reinterpret_cast<E*>(scratch.data());
    for (int64_t l = begin; l < end; ++l) {
      const char* line = x.data() + l * s.length * kItem;
      one ? select_rank(s, line, key, entries) : select_first(s, line, key, entries);
      for (int64_t i = 0; i < count; ++i) {
        const auto from = static_cast<int64_t>(entries[i].index);
        std::memcpy(values.data() + (l * count + i) * kItem, line + from * kItem, sizeof(K));
        indices.ptr<int64_t>()[l * count + i] = from;
      }
    }
  });
}

// Lines along the last dimension of contiguous tensors.
void select_last(const Selection& s, const Tensor& x, const Tensor& values, const Tensor& indices) {
  with_key_of(s.dtype, [&]<class K, KeyKind Kind>() {
    if (s.length <= INT64_C(0xffffffff)) {
      select_lines<K, uint32_t, Kind>(s, x, values, indices);
    } else {
      select_lines<K, int64_t, Kind>(s, x, values, indices);
    }
  });
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
  if (x.rank() == 0 || d + 1 == x.shape().size())
    return select_last(s, as_contiguous(x), values, indices);
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

}  // namespace tinyt::cpu
