#include "sort.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "copy.h"
#include "tiles.h"

namespace tinyt::cpu {
namespace {

// Below this length inserting beats counting.
constexpr int64_t kInsertionLimit = 48;

// A sort key that orders as an unsigned integer, and where its element stood.
template <class K, class I>
struct Entry {
  K key;
  I index;
};

enum class KeyKind : uint8_t { Unsigned, Signed, Float };

KeyKind kind_of(DType t) {
  if (is_float(t)) return KeyKind::Float;
  return is_bool(t) || t == DType::UInt8 ? KeyKind::Unsigned : KeyKind::Signed;
}

// The bits of +infinity; anything above it, sign aside, is a NaN.
uint64_t infinity_of(DType t) {
  switch (t) {
    case DType::Float16:
      return 0x7c00;
    case DType::BFloat16:
      return 0x7f80;
    case DType::Float32:
      return 0x7f800000;
    default:
      return 0x7ff0000000000000;
  }
}

// Maps the bits of a value to a key. All NaNs are one key, the largest; both zeros are one key.
template <class K, KeyKind Kind>
K key_of(K bits, [[maybe_unused]] K infinity) {
  constexpr K kSign = static_cast<K>(K{1} << (sizeof(K) * 8 - 1));
  if constexpr (Kind == KeyKind::Unsigned) return bits;
  if constexpr (Kind == KeyKind::Signed) return bits ^ kSign;
  const K magnitude = bits & static_cast<K>(~kSign);
  if (magnitude > infinity) return static_cast<K>(~K{0});
  if (magnitude == 0) return kSign;
  return bits & kSign ? static_cast<K>(~bits) : static_cast<K>(bits | kSign);
}

template <class K, class I, KeyKind Kind>
void load_keys(const char* line, int64_t n, K infinity, bool descending, Entry<K, I>* entries) {
  const K flip = descending ? static_cast<K>(~K{0}) : K{0};
  for (int64_t i = 0; i < n; ++i) {
    K bits;
    __builtin_memcpy(&bits, line + i * static_cast<int64_t>(sizeof(K)), sizeof(K));
    const K key = key_of<K, Kind>(bits, infinity) ^ flip;
    entries[i] = {key, static_cast<I>(i)};
  }
}

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

struct SortJob {
  const Tensor &x, &values, &indices;  // contiguous, lines along the last dimension
  int64_t length;
  bool descending;
};

template <class K, class I, KeyKind Kind>
void sort_line(const SortJob& job, int64_t line, char* scratch) {
  const int64_t n = job.length;
  const char* in = job.x.data() + line * n * static_cast<int64_t>(sizeof(K));
  char* values = job.values.data() + line * n * static_cast<int64_t>(sizeof(K));
  int64_t* indices = job.indices.ptr<int64_t>() + line * n;
  auto* entries = reinterpret_cast<Entry<K, I>*>(scratch);
  const auto infinity = static_cast<K>(infinity_of(job.x.dtype()));
  load_keys<K, I, Kind>(in, n, infinity, job.descending, entries);
  const Entry<K, I>* sorted = entries;
  if (n <= kInsertionLimit) {
    insertion_sort(entries, n);
  } else {
    sorted = radix_sort(entries, entries + n, n);
  }
  for (int64_t i = 0; i < n; ++i) {
    const auto from = static_cast<int64_t>(sorted[i].index);
    std::memcpy(values + i * static_cast<int64_t>(sizeof(K)),
                in + from * static_cast<int64_t>(sizeof(K)), sizeof(K));
    indices[i] = from;
  }
}

// Chunks of whole lines. A wave of chunks shares the scratch, so that it does not grow with the
// number of lines.
template <class K, class I, KeyKind Kind>
void sort_lines(const SortJob& job, int64_t lines) {
  const int64_t per_chunk = std::max<int64_t>(1, kChunkElements / job.length);
  const int64_t chunks = (lines + per_chunk - 1) / per_chunk;
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

template <class K, KeyKind Kind>
void sort_keys(const SortJob& job, int64_t lines) {
  if (job.length <= INT64_C(0xffffffff)) {
    sort_lines<K, uint32_t, Kind>(job, lines);
  } else {
    sort_lines<K, int64_t, Kind>(job, lines);
  }
}

template <class K>
void sort_kinds(const SortJob& job, int64_t lines) {
  switch (kind_of(job.x.dtype())) {
    case KeyKind::Unsigned:
      return sort_keys<K, KeyKind::Unsigned>(job, lines);
    case KeyKind::Signed:
      return sort_keys<K, KeyKind::Signed>(job, lines);
    case KeyKind::Float:
      return sort_keys<K, KeyKind::Float>(job, lines);
  }
}

void sort_last(const Tensor& x, const Tensor& values, const Tensor& indices, bool descending) {
  const int64_t length = x.rank() == 0 ? 1 : x.shape().back();
  const SortJob job{x, values, indices, length, descending};
  const int64_t lines = x.numel() / length;
  switch (x.itemsize()) {
    case 1:
      return sort_kinds<uint8_t>(job, lines);
    case 2:
      return sort_kinds<uint16_t>(job, lines);
    case 4:
      return sort_kinds<uint32_t>(job, lines);
    default:
      return sort_kinds<uint64_t>(job, lines);
  }
}

// The view with dimension `dim` moved to the end.
Tensor with_last(const Tensor& t, size_t dim) {
  Dims shape(t.shape()), strides(t.strides());
  std::rotate(shape.begin() + dim, shape.begin() + dim + 1, shape.end());
  std::rotate(strides.begin() + dim, strides.begin() + dim + 1, strides.end());
  return t.view(shape, strides, t.offset());
}

}  // namespace

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
