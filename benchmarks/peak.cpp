// The machine's own limits, for the last column of `python -m benchmarks.compare`: arithmetic from
// registers alone, memory traffic with plain and with streaming stores, and how far two cores are
// from each other. Nothing of tinyt is used here, so that the yardstick is not made of what it
// measures. `limits.py` builds it.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif
#if defined(__linux__)
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Runs body(thread) on all threads at once; the seconds until the last is done.
template <class F>
double together(int threads, F body) {
  std::atomic<int> ready{0};
  std::vector<double> begin(threads), end(threads);
  const auto run = [&](int t) {
    ++ready;
    while (ready.load() < threads) {
    }
    begin[t] = now();
    body(t);
    end[t] = now();
  };
  std::vector<std::thread> others;
  for (int t = 1; t < threads; ++t) others.emplace_back(run, t);
  run(0);
  for (std::thread& thread : others) thread.join();
  return *std::max_element(end.begin(), end.end()) - *std::min_element(begin.begin(), begin.end());
}

// Operations per second of body(n), which does n * operations of them: the best of windows as long
// as the batches in which the cases are timed.
template <class F>
double rate(int threads, double operations, F body) {
  constexpr double kLongEnough = 4e-3;
  constexpr int kWindows = 25;
  const auto window = [&](int64_t n) { return together(threads, [&](int) { body(n); }); };
  int64_t n = 1024;
  double seconds = window(n);
  for (; seconds < kLongEnough; seconds = window(n)) n *= 2;
  for (int more = 1; more < kWindows; ++more) seconds = std::min(seconds, window(n));
  return threads * operations * static_cast<double>(n) / seconds;
}

// ---- vectors of the level's width

#if defined(__AVX512F__)
constexpr int kBytes = 64;
#elif defined(__AVX__)
constexpr int kBytes = 32;
#else
constexpr int kBytes = 16;
#endif

template <class T>
struct VecOf {
  typedef T type __attribute__((vector_size(kBytes)));
};
template <class T>
using Vec = typename VecOf<T>::type;

volatile double sink;

// A value the optimiser knows nothing of: equal chains would be merged into one.
template <class V>
inline void opaque(V& value) {
#if defined(__x86_64__)
  asm volatile("" : "+v"(value));
#else
  asm volatile("" : "+w"(value));
#endif
}

// Chains of dependent steps: enough to fill two pipes of four cycles each, or of six, in 16 or 32
// registers.
#if defined(__AVX512F__) || defined(__aarch64__)
constexpr int kChains = 16;
#else
constexpr int kChains = 12;
#endif

// Runs `step` on every chain n times; the chains stay in registers.
template <class V, class Step>
void chains(int64_t n, Step step) {
  V acc[kChains] = {};
  for (V& chain : acc) opaque(chain);
  for (int64_t i = 0; i < n; ++i) {
#pragma GCC unroll 16
    for (int c = 0; c < kChains; ++c) acc[c] = step(acc[c]);
  }
  for (V& chain : acc) opaque(chain);
}

template <class T>
void multiply_add(int64_t n) {
  Vec<T> a = Vec<T>{} + static_cast<T>(0.5), b = a;
  opaque(a);
  opaque(b);
  // -ffp-contract=fast makes one instruction of it.
  chains<Vec<T>>(n, [&](Vec<T> x) { return x * a + b; });
}

template <class T>
double fma_peak(int threads) {
  constexpr double kLanes = kBytes / sizeof(T);
  return rate(threads, 2 * kLanes * kChains, multiply_add<T>);
}

#if defined(__AMX_BF16__) && defined(__AMX_INT8__) && defined(__linux__)
// Four tiles of C, two of A, two of B, 16 rows of 64 bytes each.
struct alignas(64) TileConfig {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

bool amx_granted() {
  constexpr int kRequest = 0x1023, kTileData = 18;  // Linux: Documentation/arch/x86/xstate.rst
  return syscall(SYS_arch_prctl, kRequest, kTileData) == 0;
}

template <bool kBfloat16>
void tile_products(int64_t n) {
  const TileConfig config;
  // GCC 12's _tile_loadconfig tells the optimiser of the first eight bytes only.
  asm volatile("" : : "r"(&config) : "memory");
  _tile_loadconfig(&config);
  // Statements of their own: some compilers' intrinsics are macros around `asm`.
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_zero(4);
  _tile_zero(5);
  _tile_zero(6);
  _tile_zero(7);
  for (int64_t i = 0; i < n; ++i) {
    if constexpr (kBfloat16) {
      _tile_dpbf16ps(0, 4, 6);
      _tile_dpbf16ps(1, 4, 7);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    } else {
      _tile_dpbssd(0, 4, 6);
      _tile_dpbssd(1, 4, 7);
      _tile_dpbssd(2, 5, 6);
      _tile_dpbssd(3, 5, 7);
    }
  }
  _tile_release();
}

double bfloat16_peak(int threads) {
  return amx_granted() ? rate(threads, 4 * 2 * 16 * 16 * 32, tile_products<true>) : 0;
}
double int8_peak(int threads) {
  return amx_granted() ? rate(threads, 4 * 2 * 16 * 16 * 64, tile_products<false>) : 0;
}
#elif defined(__AVX512BF16__) && defined(__AVX512VNNI__)
void dot_products(int64_t n) {
  __m512bh a = {};
  opaque(a);
  chains<__m512>(n, [&](__m512 x) { return _mm512_dpbf16_ps(x, a, a); });
}
void byte_products(int64_t n) {
  __m512i a = {};
  opaque(a);
  // GCC 12 spills the chains around the intrinsic.
  chains<__m512i>(n, [&](__m512i x) {
    asm("vpdpbusd %1, %1, %0" : "+v"(x) : "v"(a));
    return x;
  });
}
double bfloat16_peak(int threads) { return rate(threads, kChains * 2 * 32, dot_products); }
double int8_peak(int threads) { return rate(threads, kChains * 2 * 64, byte_products); }
#else
double bfloat16_peak(int) { return 0; }
double int8_peak(int) { return 0; }
#endif

// ---- memory traffic

using Line = Vec<float>;

template <bool kStreaming>
inline void put(Line* to, Line value) {
  if constexpr (kStreaming) {
#if defined(__AVX512F__)
    _mm512_stream_ps(reinterpret_cast<float*>(to), value);
#elif defined(__AVX__)
    _mm256_stream_ps(reinterpret_cast<float*>(to), value);
#elif defined(__x86_64__)
    _mm_stream_ps(reinterpret_cast<float*>(to), value);
#else
    *to = value;
#endif
  } else {
    *to = value;
  }
}

// Lines [begin, end) of kReads arrays into kWrites others; array i starts at memory + i * lines.
template <int kReads, int kWrites, bool kStreaming>
void traffic(Line* memory, int64_t lines, int64_t begin, int64_t end) {
  Line total[4] = {};
  Line* const out = memory + kReads * lines;
  int64_t i = begin;
  for (; i + 4 <= end; i += 4) {
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) {
      Line value = total[k];
      for (int r = 0; r < kReads; ++r) value += memory[r * lines + i + k];
      for (int w = 0; w < kWrites; ++w) put<kStreaming>(out + w * lines + i + k, value);
      if constexpr (kWrites == 0) total[k] = value;
    }
  }
  sink = (total[0] + total[1] + total[2] + total[3])[0];
}

Line* pages(size_t bytes) {
  void* p = nullptr;
  constexpr size_t kHuge = size_t{2} << 20;
  if (posix_memalign(&p, kHuge, (bytes + kHuge - 1) / kHuge * kHuge) != 0) return nullptr;
#if defined(__linux__)
  madvise(p, bytes, MADV_HUGEPAGE);
#endif
  return static_cast<Line*>(p);
}

template <int kReads, int kWrites, bool kStreaming>
double bandwidth(int threads, int64_t bytes) {
  constexpr int kArrays = kReads + kWrites;
  const int64_t lines =
      std::max<int64_t>(bytes / kArrays / kBytes / (4 * threads), 1) * 4 * threads;
  const int64_t total = lines * kArrays;
  Line* const memory = pages(static_cast<size_t>(total) * kBytes);
  if (memory == nullptr) return 0;
  std::fill(memory, memory + total, Line{});
  // Short passes are repeated, so that starting the threads does not count.
  const int64_t passes = std::max<int64_t>(1, (int64_t{64} << 20) / (total * kBytes));
  const int64_t part = lines / threads;
  double best = 0;
  for (int window = 0; window < 7; ++window) {
    const double seconds = together(threads, [&](int t) {
      for (int64_t p = 0; p < passes; ++p) {
        traffic<kReads, kWrites, kStreaming>(memory, lines, t * part, (t + 1) * part);
      }
    });
    best = std::max(best, static_cast<double>(passes * total) * kBytes / seconds);
  }
  std::free(memory);
  return best;
}

template <int kReads, int kWrites>
double best_bandwidth(int threads, int64_t bytes) {
  const double plain = bandwidth<kReads, kWrites, false>(threads, bytes);
  return kWrites == 0 ? plain : std::max(plain, bandwidth<kReads, kWrites, true>(threads, bytes));
}

}  // namespace

// Seconds that a cache line takes from one thread's core to another's and back: the best window.
extern "C" double peak_round_trip() {
  constexpr int kTrips = 1024, kWindows = 5;
  double best = 1;
  for (int window = 0; window < kWindows; ++window) {
    alignas(128) std::atomic<int> turn{0};
    const double seconds = together(2, [&](int t) {
      for (int i = t; i < 2 * kTrips; i += 2) {
        while (turn.load(std::memory_order_acquire) != i) {
        }
        turn.store(i + 1, std::memory_order_release);
      }
    });
    best = std::min(best, seconds / kTrips);
  }
  return best;
}

// Operations per second: 0 float32, 1 float64, 2 bfloat16, 3 int8. 0: the level has no such unit.
extern "C" double peak_rate(int kind, int threads) {
  switch (kind) {
    case 0:
      return fma_peak<float>(threads);
    case 1:
      return fma_peak<double>(threads);
    case 2:
      return bfloat16_peak(threads);
    case 3:
      return int8_peak(threads);
    default:
      return 0;
  }
}

// Bytes per second over `bytes` of memory in all, for `reads` arrays read to `writes` written;
// the better of plain and streaming stores. 0 for other mixes than those below.
extern "C" double peak_bandwidth(int reads, int writes, int threads, int64_t bytes) {
  if (reads == 1 && writes == 0) return best_bandwidth<1, 0>(threads, bytes);
  if (reads == 3 && writes == 1) return best_bandwidth<3, 1>(threads, bytes);
  if (reads == 2 && writes == 1) return best_bandwidth<2, 1>(threads, bytes);
  if (reads == 1 && writes == 1) return best_bandwidth<1, 1>(threads, bytes);
  if (reads == 1 && writes == 2) return best_bandwidth<1, 2>(threads, bytes);
  if (reads == 0 && writes == 1) return best_bandwidth<0, 1>(threads, bytes);
  return 0;
}
