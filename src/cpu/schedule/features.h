#pragma once

// What the machine's processor and operating system offer, without the rest of the library: the
// build asks it, too (cmake/machine_levels.cpp).

#include <cstdint>

#if defined(__x86_64__)
#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#endif

namespace tinyt::cpu {

#if defined(__x86_64__)

struct Registers {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
};

inline Registers cpuid(unsigned leaf, unsigned subleaf = 0) {
  Registers r;
  // All zero when there is no leaf.
  __get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx);
  return r;
}

// The register states the operating system saves on a context switch.
inline uint64_t enabled_states() {
  uint32_t low, high;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low | (static_cast<uint64_t>(high) << 32);
}

constexpr bool has_all(uint64_t value, uint64_t bits) { return (value & bits) == bits; }

// Feature bits of the x86-64 psABI levels (Intel's and AMD's manuals, CPUID).
inline bool supports_v2() {
  constexpr unsigned kSse3 = 1u << 0, kSsse3 = 1u << 9, kCx16 = 1u << 13, kSse41 = 1u << 19,
                     kSse42 = 1u << 20, kPopcnt = 1u << 23;
  return has_all(cpuid(1).ecx, kSse3 | kSsse3 | kCx16 | kSse41 | kSse42 | kPopcnt);
}

inline bool supports_v3() {
  constexpr unsigned kFma = 1u << 12, kMovbe = 1u << 22, kOsxsave = 1u << 27, kAvx = 1u << 28,
                     kF16c = 1u << 29;
  constexpr unsigned kBmi1 = 1u << 3, kAvx2 = 1u << 5, kBmi2 = 1u << 8;
  constexpr unsigned kLzcnt = 1u << 5;
  constexpr uint64_t kXmmYmm = 0x6;
  return supports_v2() && has_all(cpuid(1).ecx, kFma | kMovbe | kOsxsave | kAvx | kF16c) &&
         has_all(cpuid(7).ebx, kBmi1 | kAvx2 | kBmi2) && has_all(cpuid(0x80000001).ecx, kLzcnt) &&
         has_all(enabled_states(), kXmmYmm);
}

inline bool supports_v4() {
  constexpr unsigned kF = 1u << 16, kDq = 1u << 17, kCd = 1u << 28, kBw = 1u << 30, kVl = 1u << 31;
  constexpr uint64_t kOpmaskZmm = 0xE0;
  return supports_v3() && has_all(cpuid(7).ebx, kF | kDq | kCd | kBw | kVl) &&
         has_all(enabled_states(), kOpmaskZmm);
}

// The operating system grants the tiles' registers on request (tiles_granted of levels.cpp).
// Documentation/arch/x86/xstate.rst
inline constexpr int kTileData = 18;
inline bool tiles_offered() {
#if defined(__linux__)
  constexpr int kSupported = 0x1021;
  uint64_t states = 0;
  return syscall(SYS_arch_prctl, kSupported, &states) == 0 && (states >> kTileData & 1) != 0;
#else
  return false;
#endif
}

inline constexpr unsigned kAvx512Bf16 = 1u << 5;

inline bool supports_bf16() {
  constexpr unsigned kAvx512Vnni = 1u << 11;
  return supports_v4() && has_all(cpuid(7).ecx, kAvx512Vnni) &&
         has_all(cpuid(7, 1).eax, kAvx512Bf16);
}

inline bool supports_amx() {
  constexpr unsigned kBf16 = 1u << 22, kTile = 1u << 24, kInt8 = 1u << 25;
  constexpr unsigned kPrefetchw = 1u << 8;
  constexpr uint64_t kTileStates = 0x60000;
  return supports_v4() && has_all(cpuid(7).edx, kBf16 | kTile | kInt8) &&
         has_all(cpuid(7, 1).eax, kAvx512Bf16) && has_all(cpuid(0x80000001).ecx, kPrefetchw) &&
         has_all(enabled_states(), kTileStates) && tiles_offered();
}

#else

inline bool supports_neon() { return true; }  // every AArch64 has it

#endif

// A level's suffix, as the build names it, its name, and whether this machine can run it.
struct KnownLevel {
  const char* suffix;
  const char* name;
  bool (*supported)();
};

// Lowest first.
inline constexpr KnownLevel kKnownLevels[] = {
#if defined(__x86_64__)
    {"v2", "x86-64-v2", supports_v2},       {"v3", "x86-64-v3", supports_v3},
    {"v4", "x86-64-v4", supports_v4},       {"bf16", "x86-64-v4-bf16", supports_bf16},
    {"amx", "x86-64-v4-amx", supports_amx},
#else
    {"neon", "neon", supports_neon},
#endif
};

}  // namespace tinyt::cpu
