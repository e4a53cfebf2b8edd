#include "cpu/index/sort.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "cpu/copy/copy.h"
#include "cpu/index/sort_keys.h"
#include "cpu/schedule/axes.h"
#include "cpu/schedule/levels.h"
#include "cpu/schedule/tiles.h"
#include "cpu/schedule/workspace.h"

namespace tinyt::cpu {
namespace {

// From this length on, several threads sort one line.
constexpr int64_t kSharedLength = 4 * kChunkElements;
constexpr int64_t kMaxShares = 64;
// Longer lines have wider digits: fewer passes, over counters that take longer to add up.
constexpr int64_t kWideDigitLength = 65536;

int digit_bits(int64_t length) { return length >= kWideDigitLength ? 11 : 8; }

// Keys of 64 bits that leave no room for positions.
using Wide = Entry<uint64_t, int64_t>;

// How the lines of a tensor, along its last dimension, are shared out, and the memory for that: of
// one line entries twice, and the counters of every share.
struct SortLines {
  int64_t length, lines, item;
  int64_t share;              // elements of a line that one thread takes at a time
  int64_t entries, counters;  // bytes
  // Chunks of whole lines. A wave of chunks shares the memory, so that it does not grow with the
  // number of lines. Long lines come one after another.
  int64_t in_chunk, per_chunk, chunks, wave;

  explicit SortLines(const Tensor& x)
      : length(x.rank() == 0 ? 1 : x.shape().back()),
        lines(x.numel() / length),
        item(static_cast<int64_t>(x.itemsize())) {
    const bool alone = length < kSharedLength || num_threads() == 1;
    share = alone ? length : std::max(kChunkElements, ceil_div(length, kMaxShares));
    const bool may_be_wide = item == 8 || std::bit_width(static_cast<uint64_t>(length)) > 32;
    entries = length * static_cast<int64_t>(may_be_wide ? sizeof(Wide) : 8);
    counters = ceil_div(length, share) * (int64_t{8} << digit_bits(length));
    in_chunk = std::max<int64_t>(1, kChunkElements / length);
    per_chunk = length >= kSharedLength ? lines : in_chunk;
    chunks = ceil_div(lines, std::max<int64_t>(1, per_chunk));
    wave = std::min<int64_t>(chunks, 2 * num_threads());
  }
  bool are_short() const { return length <= kMaxRanked; }
  int64_t line_bytes() const { return 2 * entries + counters; }
  int64_t workspace() const { return are_short() ? 0 : wave * line_bytes(); }
};

struct SortJob : SortLines {
  const Tensor &x, &values, &indices;  // contiguous
  int64_t kept;                        // elements of a sorted line that are written
  bool descending;
};

// ---- radix sort

// Stable, by bits [shift, shift + bits) of the keys, least significant digit first; returns
// whichever buffer holds the result. Of one digit, every share counts its entries; value by value
// and share by share in order, that says where each share puts them.
template <class E>
const E* radix_sort(E* entries, E* other, int64_t* counters, const SortJob& job, int shift,
                    int bits) {
  const int64_t n = job.length, share = job.share, shares = ceil_div(n, share);
  const int passes = std::max(1, static_cast<int>(ceil_div(bits, digit_bits(n))));
  const int width = std::max(1, static_cast<int>(ceil_div(bits, passes)));
  const int64_t digits = int64_t{1} << width;
  for (int pass = 0; pass < passes; ++pass, shift += width) {
    const auto digit = [shift, digits](const E& e) {
      return static_cast<int64_t>(sort_key(e) >> shift) & (digits - 1);
    };
    parallel_ranges(n, share, [&](int64_t begin, int64_t end) {
      int64_t* counts = counters + begin / share * digits;
      std::fill_n(counts, digits, 0);
      for (int64_t i = begin; i < end; ++i) ++counts[digit(entries[i])];
    });
    int64_t total = 0;
    for (int64_t d = 0; d < digits; ++d) {
      for (int64_t s = 0; s < shares; ++s) total += std::exchange(counters[s * digits + d], total);
    }
    parallel_ranges(n, share, [&](int64_t begin, int64_t end) {
      int64_t* next = counters + begin / share * digits;
      for (int64_t i = begin; i < end; ++i) other[next[digit(entries[i])]++] = entries[i];
    });
    std::swap(entries, other);
  }
  return entries;
}

// ---- one line

// Writes a sorted line; entry(i) is the key of element i and where it stood.
template <class K, KeyKind Kind, class F>
void write_line(const SortJob& job, int64_t line, F entry) {
  constexpr auto kItem = static_cast<int64_t>(sizeof(K));
  const KeyReader<K, Kind> key(job.x.dtype(), job.descending);
  const char* in = job.x.host_data() + line * job.length * kItem;
  char* values = job.values.host_data() + line * job.kept * kItem;
  int64_t* indices = job.indices.ptr<int64_t>() + line * job.kept;
  parallel_ranges(job.kept, job.share, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const Entry<K, int64_t> found = entry(i);
      const K bits = key.bits_of(found.key, in, found.index);
      __builtin_memcpy(values + i * kItem, &bits, sizeof(K));
      indices[i] = found.index;
    }
  });
}

// Short lines: every element goes where the number of those before it says.
template <class K, KeyKind Kind>
void sort_short(const SortJob& job, int64_t line) {
  constexpr auto kItem = static_cast<int64_t>(sizeof(K));
  const char* in = job.x.host_data() + line * job.length * kItem;
  char* values = job.values.host_data() + line * job.kept * kItem;
  int64_t* indices = job.indices.ptr<int64_t>() + line * job.kept;
  Rank<K> ranks[kMaxRanked];
  rank_line(KeyReader<K, Kind>(job.x.dtype(), job.descending), in, job.length, ranks);
  int64_t places[kMaxRanked];  // of all: no branch that depends on values
  for (int64_t i = 0; i < job.length; ++i) places[ranks[i]] = i;
  for (int64_t r = 0; r < job.kept; ++r) {
    __builtin_memcpy(values + r * kItem, in + places[r] * kItem, sizeof(K));
    indices[r] = places[r];
  }
}

struct KeyRange {
  uint64_t least = ~uint64_t{0}, most = 0;
  bool rising = true;
};

// Loads the keys of a line.
template <class K, KeyKind Kind>
KeyRange load_keys(const SortJob& job, int64_t line, uint64_t* keys) {
  const KeyReader<K, Kind> key(job.x.dtype(), job.descending);
  const char* in = job.x.host_data() + line * job.length * job.item;
  const int64_t share = job.share;
  KeyRange ranges[kMaxShares];
  parallel_ranges(job.length, share, [&](int64_t begin, int64_t end) {
    KeyRange range;
    uint64_t before = 0;
    for (int64_t i = begin; i < end; ++i) {
      const uint64_t k = keys[i] = key(in, i);
      range.least = std::min(range.least, k);
      range.most = std::max(range.most, k);
      range.rising &= before <= k;
      before = k;
    }
    ranges[begin / share] = range;
  });
  KeyRange all = ranges[0];
  for (int64_t begin = share; begin < job.length; begin += share) {
    const KeyRange& range = ranges[begin / share];
    all.least = std::min(all.least, range.least);
    all.most = std::max(all.most, range.most);
    all.rising = all.rising && range.rising && keys[begin - 1] <= keys[begin];
  }
  return all;
}

template <class K, KeyKind Kind>
void sort_line(const SortJob& job, int64_t line, char* scratch) {
  const int64_t n = job.length;
  auto* keys = reinterpret_cast<uint64_t*>(scratch + job.entries);
  auto* counters = reinterpret_cast<int64_t*>(scratch + 2 * job.entries);
  const KeyRange range = load_keys<K, Kind>(job, line, keys);
  if (range.rising) {
    return write_line<K, Kind>(
        job, line, [=](int64_t i) { return Entry<K, int64_t>{static_cast<K>(keys[i]), i}; });
  }
  const int key_bits = std::bit_width(range.most - range.least);
  const int place_bits = std::bit_width(static_cast<uint64_t>(n - 1));
  if (key_bits + place_bits <= 64) {
    // The distance from the least key, above the position.
    parallel_ranges(n, job.share, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        keys[i] = (keys[i] - range.least) << place_bits | static_cast<uint64_t>(i);
      }
    });
    auto* other = reinterpret_cast<uint64_t*>(scratch);
    const uint64_t* sorted = radix_sort(keys, other, counters, job, place_bits, key_bits);
    const uint64_t mask = (uint64_t{1} << place_bits) - 1;
    return write_line<K, Kind>(job, line, [=](int64_t i) {
      return Entry<K, int64_t>{static_cast<K>((sorted[i] >> place_bits) + range.least),
                               static_cast<int64_t>(sorted[i] & mask)};
    });
  }
  auto* entries = reinterpret_cast<Wide*>(scratch);
  parallel_ranges(n, job.share, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) entries[i] = {keys[i] - range.least, i};
  });
  auto* other = reinterpret_cast<Wide*>(scratch + job.entries);
  const Wide* sorted = radix_sort(entries, other, counters, job, 0, key_bits);
  write_line<K, Kind>(job, line, [=](int64_t i) {
    return Entry<K, int64_t>{static_cast<K>(sorted[i].key + range.least), sorted[i].index};
  });
}

// ---- all lines

template <class K, KeyKind Kind>
void sort_lines(const SortJob& job) {
  const int64_t lines = job.lines, wave = job.wave, chunks = job.chunks;
  const int64_t per_chunk = job.per_chunk, bytes = job.line_bytes();
  if (job.are_short()) {
    return parallel_ranges(lines, job.in_chunk, [&](int64_t begin, int64_t end) {
      for (int64_t line = begin; line < end; ++line) sort_short<K, Kind>(job, line);
    });
  }
  const Workspace scratch(job.workspace());
  for (int64_t first = 0; first < chunks; first += wave) {
    parallel_for(std::min(wave, chunks - first), [&](int64_t c) {
      const int64_t begin = (first + c) * per_chunk, end = std::min(lines, begin + per_chunk);
      for (int64_t line = begin; line < end; ++line) {
        sort_line<K, Kind>(job, line, scratch.data() + c * bytes);
      }
    });
  }
}

}  // namespace

void sort_last(const Tensor& x, const Tensor& values, const Tensor& indices, bool descending) {
  const int64_t kept = x.rank() == 0 ? 1 : values.shape().back();
  const SortJob job{SortLines(x), x, values, indices, kept, descending};
  with_key_of(x.dtype(), [&]<class K, KeyKind Kind>() { sort_lines<K, Kind>(job); });
}

int64_t workspace_sort_last(const Tensor& x) { return SortLines(x).workspace(); }

Tensor with_last(const Tensor& t, size_t dim) {
  Dims shape(t.shape()), strides(t.strides());
  std::rotate(shape.begin() + dim, shape.begin() + dim + 1, shape.end());
  std::rotate(strides.begin() + dim, strides.begin() + dim + 1, strides.end());
  return t.view(shape, strides, t.offset());
}

bool is_last(const Tensor& x, size_t dim) { return x.rank() == 0 || dim + 1 == x.shape().size(); }

int64_t sorted_bytes(const Tensor& like) {
  return like.numel() * static_cast<int64_t>(like.itemsize() + sizeof(int64_t));
}

void kernel_sort(const KernelCall& call) {
  const Tensor &x = call.inputs[0], &values = call.outputs[0], &indices = call.outputs[1];
  if (x.numel() == 0) return;
  AttrReader read(call.attrs);
  const auto dim = static_cast<size_t>(read.integer());
  const bool descending = read.flag();
  if (is_last(x, dim)) {
    return sort_last(as_contiguous(x), values, indices, descending);
  }
  const Tensor lines = as_contiguous(with_last(x, dim));
  const Tensor sorted = Tensor::empty(lines.shape(), x.dtype(), x.device());
  const Tensor order = Tensor::empty(lines.shape(), DType::Int64, x.device());
  sort_last(lines, sorted, order, descending);
  copy_into(sorted, with_last(values, dim));
  copy_into(order, with_last(indices, dim));
}

int64_t workspace_sort(const KernelCall& call) {
  const Tensor& x = call.inputs[0];
  const auto dim = static_cast<size_t>(AttrReader(call.attrs).integer());
  if (x.numel() == 0) return 0;
  if (is_last(x, dim)) return dense_bytes(x) + workspace_sort_last(x);
  const Tensor lines = with_last(x, dim);
  return dense_bytes(lines) + sorted_bytes(lines) + workspace_sort_last(lines);
}

}  // namespace tinyt::cpu
