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

struct SortJob {
  const Tensor &x, &values, &indices;  // contiguous, lines along the last dimension
  int64_t length;
  int64_t kept;  // elements of a sorted line that are written
  bool descending;
  int64_t share;  // elements of a line that one thread takes at a time

  int64_t item() const { return static_cast<int64_t>(x.itemsize()); }
  bool may_be_wide() const {
    return item() == 8 || std::bit_width(static_cast<uint64_t>(length)) > 32;
  }
};

// Memory for one line: entries twice, and the counters of every share.
struct SortBuffers {
  int64_t entries, counters;  // bytes

  explicit SortBuffers(const SortJob& job)
      : entries(job.length * static_cast<int64_t>(job.may_be_wide() ? sizeof(Wide) : 8)),
        counters(ceil_div(job.length, job.share) * (int64_t{8} << digit_bits(job.length))) {}
  int64_t bytes() const { return 2 * entries + counters; }
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
  const char* in = job.x.data() + line * job.length * kItem;
  char* values = job.values.data() + line * job.kept * kItem;
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
  const char* in = job.x.data() + line * job.length * kItem;
  char* values = job.values.data() + line * job.kept * kItem;
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
  const char* in = job.x.data() + line * job.length * job.item();
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
  const SortBuffers space(job);
  const int64_t n = job.length;
  auto* keys = reinterpret_cast<uint64_t*>(scratch + space.entries);
  auto* counters = reinterpret_cast<int64_t*>(scratch + 2 * space.entries);
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
  auto* other = reinterpret_cast<Wide*>(scratch + space.entries);
  const Wide* sorted = radix_sort(entries, other, counters, job, 0, key_bits);
  write_line<K, Kind>(job, line, [=](int64_t i) {
    return Entry<K, int64_t>{static_cast<K>(sorted[i].key + range.least), sorted[i].index};
  });
}

// ---- all lines

// Chunks of whole lines. A wave of chunks shares the scratch, so that it does not grow with the
// number of lines. Long lines come one after another.
template <class K, KeyKind Kind>
void sort_lines(const SortJob& job, int64_t lines) {
  const int64_t in_chunk = std::max<int64_t>(1, kChunkElements / job.length);
  if (job.length <= kMaxRanked) {
    return parallel_ranges(lines, in_chunk, [&](int64_t begin, int64_t end) {
      for (int64_t line = begin; line < end; ++line) sort_short<K, Kind>(job, line);
    });
  }
  const int64_t per_chunk = job.length >= kSharedLength ? lines : in_chunk;
  const int64_t chunks = ceil_div(lines, per_chunk);
  const int64_t wave = std::min<int64_t>(chunks, 2 * num_threads());
  const int64_t bytes = SortBuffers(job).bytes();
  const Workspace scratch(wave * bytes);
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
  const int64_t length = x.rank() == 0 ? 1 : x.shape().back();
  const int64_t kept = x.rank() == 0 ? 1 : values.shape().back();
  const bool alone = length < kSharedLength || num_threads() == 1;
  const int64_t share = alone ? length : std::max(kChunkElements, ceil_div(length, kMaxShares));
  const SortJob job{x, values, indices, length, kept, descending, share};
  const int64_t lines = x.numel() / length;
  with_key_of(x.dtype(), [&]<class K, KeyKind Kind>() { sort_lines<K, Kind>(job, lines); });
}

Tensor with_last(const Tensor& t, size_t dim) {
  Dims shape(t.shape()), strides(t.strides());
  std::rotate(shape.begin() + dim, shape.begin() + dim + 1, shape.end());
  std::rotate(strides.begin() + dim, strides.begin() + dim + 1, strides.end());
  return t.view(shape, strides, t.offset());
}

void kernel_sort(const KernelCall& call) {
  const Tensor &x = call.inputs[0], &values = call.outputs[0], &indices = call.outputs[1];
  if (x.numel() == 0) return;
  AttrReader read(call.attrs);
  const auto dim = static_cast<size_t>(read.integer());
  const bool descending = read.flag();
  if (x.rank() == 0 || dim + 1 == x.shape().size()) {
    return sort_last(as_contiguous(x), values, indices, descending);
  }
  const Tensor lines = as_contiguous(with_last(x, dim));
  const Tensor sorted = Tensor::empty(lines.shape(), x.dtype(), x.device());
  const Tensor order = Tensor::empty(lines.shape(), DType::Int64, x.device());
  sort_last(lines, sorted, order, descending);
  copy_into(sorted, with_last(values, dim));
  copy_into(order, with_last(indices, dim));
}

}  // namespace tinyt::cpu
