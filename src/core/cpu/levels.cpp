#include "levels.h"

#include <cstdlib>
#include <sstream>
#include <string>

#include "../error.h"

#if defined(__x86_64__)
#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#endif

namespace tinyt::cpu {
namespace {

#if defined(__x86_64__)

struct Registers {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
};

Registers cpuid(unsigned leaf, unsigned subleaf = 0) {
  Registers r;
  // All zero when there is no leaf.
  __get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx);
  return r;
}

// The register states the operating system saves on a context switch.
uint64_t enabled_states() {
  uint32_t low, high;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low | (static_cast<uint64_t>(high) << 32);
}

constexpr bool has_all(uint64_t value, uint64_t bits) { return (value & bits) == bits; }

// Feature bits of the x86-64 psABI levels (Intel's and AMD's manuals, CPUID).
[[maybe_unused]] bool supports_v2() {
  constexpr unsigned kSse3 = 1u << 0, kSsse3 = 1u << 9, kCx16 = 1u << 13, kSse41 = 1u << 19,
                     kSse42 = 1u << 20, kPopcnt = 1u << 23;
  return has_all(cpuid(1).ecx, kSse3 | kSsse3 | kCx16 | kSse41 | kSse42 | kPopcnt);
}

[[maybe_unused]] bool supports_v3() {
  constexpr unsigned kFma = 1u << 12, kMovbe = 1u << 22, kOsxsave = 1u << 27, kAvx = 1u << 28,
                     kF16c = 1u << 29;
  constexpr unsigned kBmi1 = 1u << 3, kAvx2 = 1u << 5, kBmi2 = 1u << 8;
  constexpr unsigned kLzcnt = 1u << 5;
  constexpr uint64_t kXmmYmm = 0x6;
  return supports_v2() && has_all(cpuid(1).ecx, kFma | kMovbe | kOsxsave | kAvx | kF16c) &&
         has_all(cpuid(7).ebx, kBmi1 | kAvx2 | kBmi2) && has_all(cpuid(0x80000001).ecx, kLzcnt) &&
         has_all(enabled_states(), kXmmYmm);
}

[[maybe_unused]] bool supports_v4() {
  constexpr unsigned kF = 1u << 16, kDq = 1u << 17, kCd = 1u << 28, kBw = 1u << 30, kVl = 1u << 31;
  constexpr uint64_t kOpmaskZmm = 0xE0;
  return supports_v3() && has_all(cpuid(7).ebx, kF | kDq | kCd | kBw | kVl) &&
         has_all(enabled_states(), kOpmaskZmm);
}

// The operating system grants the tiles' registers on request, to the whole process, whose signal
// frames then need 8 KiB more: so only a level that is about to be used asks.
// Documentation/arch/x86/xstate.rst
#if defined(__linux__)
constexpr int kTileData = 18;
bool tiles_offered() {
  constexpr int kSupported = 0x1021;
  uint64_t states = 0;
  return syscall(SYS_arch_prctl, kSupported, &states) == 0 && (states >> kTileData & 1) != 0;
}
bool tiles_granted() {
  constexpr int kRequest = 0x1023;
  return syscall(SYS_arch_prctl, kRequest, kTileData) == 0;
}
#else
bool tiles_offered() { return false; }
bool tiles_granted() { return false; }
#endif

constexpr unsigned kAvx512Bf16 = 1u << 5;

[[maybe_unused]] bool supports_bf16() {
  constexpr unsigned kAvx512Vnni = 1u << 11;
  return supports_v4() && has_all(cpuid(7).ecx, kAvx512Vnni) &&
         has_all(cpuid(7, 1).eax, kAvx512Bf16);
}

[[maybe_unused]] bool supports_amx() {
  constexpr unsigned kBf16 = 1u << 22, kTile = 1u << 24, kInt8 = 1u << 25;
  constexpr unsigned kPrefetchw = 1u << 8;
  constexpr uint64_t kTileStates = 0x60000;
  return supports_v4() && has_all(cpuid(7).edx, kBf16 | kTile | kInt8) &&
         has_all(cpuid(7, 1).eax, kAvx512Bf16) && has_all(cpuid(0x80000001).ecx, kPrefetchw) &&
         has_all(enabled_states(), kTileStates) && tiles_offered();
}

#else

bool supports_neon() { return true; }  // every AArch64 has it
bool tiles_granted() { return false; }

#endif

}  // namespace

// One row per level the compiler had: suffix, name, whose tables it has, its tables for halves and
// bytes, whether it needs the tiles' registers.
#if defined(TINYT_HAS_V2)
#define TINYT_ROW_V2(ROW) ROW(v2, "x86-64-v2", v2, nullptr, nullptr, false)
#else
#define TINYT_ROW_V2(ROW)
#endif
#if defined(TINYT_HAS_V3)
#define TINYT_ROW_V3(ROW) ROW(v3, "x86-64-v3", v3, nullptr, nullptr, false)
#else
#define TINYT_ROW_V3(ROW)
#endif
#if defined(TINYT_HAS_V4)
#define TINYT_ROW_V4(ROW) ROW(v4, "x86-64-v4", v4, nullptr, nullptr, false)
#else
#define TINYT_ROW_V4(ROW)
#endif
#if defined(TINYT_HAS_NEON)
#define TINYT_ROW_NEON(ROW) ROW(neon, "neon", neon, nullptr, nullptr, false)
#else
#define TINYT_ROW_NEON(ROW)
#endif
#if defined(TINYT_HAS_BF16)
#define TINYT_ROW_BF16(ROW) \
  ROW(bf16, "x86-64-v4-bf16", v4, &tinyt_matmul_bf16, &tinyt_conv_bf16, false)
#else
#define TINYT_ROW_BF16(ROW)
#endif
#if defined(TINYT_HAS_AMX)
#define TINYT_ROW_AMX(ROW) ROW(amx, "x86-64-v4-amx", v4, &tinyt_matmul_amx, &tinyt_conv_amx, true)
#else
#define TINYT_ROW_AMX(ROW)
#endif
#define TINYT_BASE_LEVELS(ROW) \
  TINYT_ROW_V2(ROW) TINYT_ROW_V3(ROW) TINYT_ROW_V4(ROW) TINYT_ROW_NEON(ROW)
#define TINYT_ALL_LEVELS(ROW) TINYT_BASE_LEVELS(ROW) TINYT_ROW_BF16(ROW) TINYT_ROW_AMX(ROW)

#define TINYT_DECLARE(level, name, base, low, conv, tiles)     \
  extern "C" const ElementwiseTable tinyt_elementwise_##level; \
  extern "C" const CopyTable tinyt_copy_##level;               \
  extern "C" const ReduceTable tinyt_reduce_##level;           \
  extern "C" const PairTable tinyt_pairs_##level;              \
  extern "C" const ScanTable tinyt_scan_##level;               \
  extern "C" const SortTable tinyt_sort_##level;               \
  extern "C" const SelectTable tinyt_select_##level;           \
  extern "C" const SoftmaxTable tinyt_softmax_##level;         \
  extern "C" const NormTable tinyt_norm_##level;               \
  extern "C" const BatchNormTable tinyt_batch_norm_##level;    \
  extern "C" const OptimTable tinyt_optim_##level;             \
  extern "C" const AttentionTable tinyt_attention_##level;     \
  extern "C" const RandomTable tinyt_random_##level;           \
  extern "C" const VariateTable tinyt_variates_##level;        \
  extern "C" const GemmTable tinyt_gemm_##level;               \
  extern "C" const ResampleTable tinyt_resample_##level;       \
  extern "C" const DirectTable tinyt_direct_##level;           \
  extern "C" const ColumnsTable tinyt_columns_##level;         \
  extern "C" const WinogradTable tinyt_winograd_##level;       \
  extern "C" const PoolTable tinyt_pool_##level;
TINYT_BASE_LEVELS(TINYT_DECLARE)
#undef TINYT_DECLARE
extern "C" const LowTable tinyt_matmul_bf16;
extern "C" const LowTable tinyt_matmul_amx;
extern "C" const ConvTilesTable tinyt_conv_bf16;
extern "C" const ConvTilesTable tinyt_conv_amx;

namespace {

const Kernels kLevels[] = {
#define TINYT_KERNELS(level, name, base, low, conv, tiles) \
  {name,                                                   \
   &tinyt_elementwise_##base,                              \
   &tinyt_copy_##base,                                     \
   &tinyt_reduce_##base,                                   \
   &tinyt_pairs_##base,                                    \
   &tinyt_scan_##base,                                     \
   &tinyt_sort_##base,                                     \
   &tinyt_select_##base,                                   \
   &tinyt_softmax_##base,                                  \
   &tinyt_norm_##base,                                     \
   &tinyt_batch_norm_##base,                               \
   &tinyt_optim_##base,                                    \
   &tinyt_attention_##base,                                \
   &tinyt_random_##base,                                   \
   &tinyt_variates_##base,                                 \
   &tinyt_gemm_##base,                                     \
   &tinyt_resample_##base,                                 \
   &tinyt_direct_##base,                                   \
   &tinyt_columns_##base,                                  \
   &tinyt_winograd_##base,                                 \
   &tinyt_pool_##base,                                     \
   low,                                                    \
   conv},
    TINYT_ALL_LEVELS(TINYT_KERNELS)
#undef TINYT_KERNELS
};
constexpr int kLevelCount = sizeof(kLevels) / sizeof(kLevels[0]);
constexpr bool kNeedsTiles[] = {
#define TINYT_TILES(level, name, base, low, conv, tiles) tiles,
    TINYT_ALL_LEVELS(TINYT_TILES)
#undef TINYT_TILES
};

[[noreturn]] void fail_level(std::string_view asked) {
  std::ostringstream names;
  for (const LevelInfo& level : levels()) {
    if (level.supported) names << (names.tellp() > 0 ? ", " : "") << level.name;
  }
  fail(ErrorKind::Value, "TINYT_ISA: must be one of the levels this machine supports (",
       names.str(), "), got '", asked, "'");
}

const Kernels& choose() {
  const char* value = std::getenv("TINYT_ISA");
  const std::string_view asked = value != nullptr ? value : "";
  const auto list = levels();
  for (int i = kLevelCount - 1; i >= 0; --i) {
    if (list[i].supported && (asked.empty() || asked == list[i].name) &&
        (!kNeedsTiles[i] || tiles_granted()))
      return kLevels[i];
  }
  fail_level(asked);
}

}  // namespace

std::span<const LevelInfo> levels() {
#define TINYT_INFO(level, name, base, low, conv, tiles) {name, supports_##level()},
  static const LevelInfo list[] = {TINYT_ALL_LEVELS(TINYT_INFO)};
#undef TINYT_INFO
  return list;
}

const Kernels& kernels() {
  static const Kernels& chosen = choose();
  return chosen;
}

}  // namespace tinyt::cpu
