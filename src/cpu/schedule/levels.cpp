#include "cpu/schedule/levels.h"

#include <cstdlib>
#include <sstream>
#include <string>

#include "core/base/error.h"
#include "cpu/schedule/features.h"

namespace tinyt::cpu {
namespace {

// The tiles' registers are granted to the whole process, whose signal frames then need 8 KiB more:
// so only a level that is about to be used asks.
bool tiles_granted() {
#if defined(__x86_64__) && defined(__linux__)
  constexpr int kRequest = 0x1023;
  return syscall(SYS_arch_prctl, kRequest, kTileData) == 0;
#else
  return false;
#endif
}

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

const LevelTables kLevels[] = {
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
  for (const KnownLevel& level : kKnownLevels) {
    if (asked == level.name && level.supported())
      fail(ErrorKind::Value, "tinyt: this build does not have TINYT_ISA's level '", asked,
           "', only ", names.str(), "; -C cmake.define.TINYT_LEVELS=all builds all of them");
  }
  fail(ErrorKind::Value, "tinyt: TINYT_ISA must be one of the levels this machine supports (",
       names.str(), "), got '", asked, "'");
}

const LevelTables& choose() {
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

const LevelTables& kernels() {
  static const LevelTables& chosen = choose();
  return chosen;
}

}  // namespace tinyt::cpu
