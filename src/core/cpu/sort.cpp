#include "sort.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "axes.h"
#include "copy.h"
#include "sort_keys.h"
#include "tiles.h"

namespace tinyt::cpu {
namespace {

// Below this length inserting beats counting.
constexpr int64_t kInsertionLimit = 48;
// From this length on, several threads sort one line.
constexpr int64_t kSharedLength = 4 * kChunkElements;
constexpr int64_t kMaxShares = 64;

template <class E>
void insertion_sort(E* entries, int64_t n) {
  for (int64_t i = 1; i < n; ++i) {
    const E entry = entries[i];
    int64_t at = i;
    for (; at > 0 && entries[at - 1].key > entry.key; --at) entries[at] = entries[at - 1];
    entries[at] = entry;
  }
}

// Stable least-significant-byte radix sort; returns whichever buffer holds the result.
template <class K, class I>
const Entry<K, I>* radix_sort(Entry<K, I>* entries, Entry<K, I>* other, int64_t n) {
  constexpr size_t kBytes = sizeof(K);
  std::array<std::array<int64_t, 256>, kBytes> counts{};
  for (int64_t i = 0; i < n; ++i) {
    for (size_t b = 0; b < kBytes; ++b) ++counts[b][entries[i].key >> (8 * b) & 255];
  }
  for (size_t b = 0; b < kBytes; ++b) {
    auto& first = counts[b];
    const auto digit = [b](const Entry<K, I>& e) { return e.key >> (8 * b) & 255; };
    if (first[digit(entries[0])] == n) continue;  // this byte is the same everywhere
    int64_t total = 0;
    for (int64_t& count : first) total += std::exchange(count, total);
    for (int64_t i = 0; i < n; ++i) other[first[digit(entries[i])]++] = entries[i];
    std::swap(entries, other);
  }
  return entries;
}

// The same by several threads. Of one byte, every chunk counts its digits; digit by digit and chunk
// by chunk in order, that says where each chunk puts its entries.
template <class K, class I>
const Entry<K, I>* shared_radix_sort(Entry<K, I>* entries, Entry<K, I>* other, int64_t n) {
  const int64_t share = std::max(kChunkElements, ceil_div(n, kMaxShares));
  std::vector<std::array<int64_t, 256>> first(static_cast<size_t>(ceil_div(n, share)));
  for (size_t b = 0; b < sizeof(K); ++b) {
    const auto digit = [b](const Entry<K, I>& e) { return e.key >> (8 * b) & 255; };
    parallel_ranges(n, share, [&](int64_t begin, int64_t end) {
      auto& counts = first[static_cast<size_t>(begin / share)];
      counts.fill(0);
      for (int64_t i = begin; i < end; ++i) ++counts[digit(entries[i])];
    });
    int64_t total = 0;
    for (size_t d = 0; d < 256; ++d) {
      for (auto& counts : first) total += std::exchange(counts[d], total);
    }
    parallel_ranges(n, share, [&](int64_t begin, int64_t end) {
      auto& to = first[static_cast<size_t>(begin / share)];
      for (int64_t i = begin; i < end; ++i) other[to[digit(entries[i])]++] = entries[i];
    });
    std::swap(entries, other);
  }
  return entries;
}

struct SortJob {
  const Tensor &x, &values, &indices;  // contiguous, lines along the last dimension
  int64_t length;
  bool descending;
};

// Writes elements [begin, end) of a sorted line.
template <class E>
void write_sorted(const SortJob& job, int64_t line, const E* sorted, int64_t begin, int64_t end) {
  constexpr size_t kItem = sizeof(sorted->key);
  const auto item = static_cast<int64_t>(kItem);
  const char* in = job.x.data() + line * job.length * item;
  char* values = job.values.data() + line * job.length * item;
  int64_t* indices = job.indices.ptr<int64_t>() + line * job.length;
  for (int64_t i = begin; i < end; ++i) {
    const auto from = static_cast<int64_t>(sorted[i].index);
    std::memcpy(values + i * item, in + from * item, kItem);
    indices[i] = from;
  }
}

template <class K, class I, KeyKind Kind>
void sort_line(const SortJob& job, int64_t line, char* scratch) {
  const int64_t n = job.length;
  const char* in = job.x.data() + line * n * static_cast<int64_t>(sizeof(K));
  auto* entries = reinterpret_cast<Entry<K, I>*>(scratch);
  const KeyReader<K, Kind> key(job.x.dtype(), job.descending);
  if (n < kSharedLength || num_threads() == 1) {
    key.load(in, 0, n, entries);
    const Entry<K, I>* sorted = entries;
    if (n <= kInsertionLimit) {
      insertion_sort(entries, n);
    } else {
      sorted = radix_sort(entries, entries + n, n);
    }
    return write_sorted(job, line, sorted, 0, n);
  }
  parallel_ranges(n, kChunkElements,
                  [&](int64_t begin, int64_t end) { key.load(in, begin, end, entries); });
  const Entry<K, I>* sorted = shared_radix_sort(entries, entries + n, n);
  parallel_ranges(n, kChunkElements,
                  [&](int64_t begin, int64_t end) { write_sorted(job, line, sorted, begin, end); });
}

// Chunks of whole lines. A wave of chunks shares the scratch, so that it does not grow with the
// number of lines. Long lines come one after another.
template <class K, class I, KeyKind Kind>
void sort_lines(const SortJob& job, int64_t lines) {
  const bool shared = job.length >= kSharedLength;
  const int64_t per_chunk = shared ? lines : std::max<int64_t>(1, kChunkElements / job.length);
  const int64_t chunks = ceil_div(lines, per_chunk);
  const int64_t wave = std::min<int64_t>(chunks, 2 * num_threads());
  const auto bytes = 2 * job.length * static_cast<int64_t>(sizeof(Entry<K, I>));
  const int64_t size[] = {wave * bytes};
  const Tensor scratch = Tensor::empty(size, DType::UInt8, job.x.device());
  for (int64_t first = 0; first < chunks; first += wave) {
    parallel_for(std::min(wave, chunks - first), [&](int64_t c) {
      const int64_t begin = (first + c) * per_chunk, end = std::min(lines, begin + per_chunk);
      for (int64_t line = begin; line < end; ++line) {
        sort_line<K, I, Kind>(job, line, scratch.data() + c * bytes);
      }
    });
  }
}

void sort_last(const Tensor& x, const Tensor& values, const Tensor& indices, bool descending) {
  const int64_t length = x.rank() == 0 ? 1 : x.shape().back();
  const SortJob job{x, values, indices, length, descending};
  const int64_t lines = x.numel() / length;
  with_key_of(x.dtype(), [&]<class K, KeyKind Kind>() {
    if (length <= INT64_C(0xffffffff)) {
      sort_lines<K, uint32_t, Kind>(job, lines);
    } else {
      sort_lines<K, int64_t, Kind>(job, lines);
    }
  });
}

}  // namespace

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
