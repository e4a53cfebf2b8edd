// The machine model: every number that kernels take for granted of a processor, with its unit and
// its source. Kernels derive theirs from these as expressions, next to their use.
//
// All are constants of the build: nothing is measured at run time, so every machine of a level
// computes alike. None of them shows in a result: they say what stays in a cache, what threads
// share, what is fetched ahead. A number that cuts a sum or chooses between orders of a sum (chains
// of fma, blocks of keys or positions, kReduceLanes, what conv_strategy.cpp compares with) decides
// bits and stays with its kernel, although a cache may have suggested it.
//
// A page of docs/adr has the figures that a number comes from; "shows in" names the groups of
// `python -m benchmarks.compare` in which a change of it has to prove itself.
#pragma once

#include <cstdint>

namespace tinyt::cpu {

// ---- caches, in bytes. Machines measured: Ice Lake and Sapphire Rapids servers, Zen 4.

inline constexpr int64_t kCacheLine = 64;                    // x86-64, most AArch64
inline constexpr int64_t kPageBytes = 4096;                  // addresses alias, L1 sets repeat
inline constexpr int64_t kLeastL1Bytes = int64_t{32} << 10;  // data of a core: Zen 4, Skylake
inline constexpr int64_t kL1Bytes = int64_t{48} << 10;       // the same: Ice Lake and later
inline constexpr int64_t kL2Bytes = int64_t{1} << 20;        // of a core: Zen 4, Skylake servers
inline constexpr int64_t kL3Bytes = int64_t{32} << 20;       // of eight cores: Zen 4

// What is larger is in no core's L2, that of Sapphire Rapids included.
inline constexpr int64_t kFarBytes = 2 * kL2Bytes;
// A piece that one kernel leaves to the next in L2, beside all else.
inline constexpr int64_t kPieceBytes = kL2Bytes / 16;

// ---- stores past the caches

// From this size on, results are written past the caches: the next reader would not find them
// there, and the lines need not be read first. Measured (ADR 0010): up to 32 MiB the caches
// are faster, from 48 MiB on stores past them up to twice as fast.
inline constexpr int64_t kStreamBytes = int64_t{40} << 20;
// Transposing copies write lines far from each other, which do not stay in a cache from one piece
// to the next (ADR 0010). Shows in: copies.
inline constexpr int64_t kStreamTransposedBytes = kFarBytes;
// Regions of fused operations whose operands are so large leave no room in an L3 for what they
// write. Shows in: compile.
inline constexpr int64_t kStreamRead = 3 * kL3Bytes / 4;
// Bytes of a row, and cache lines of a run, from which on ends that go through the caches are
// little. Shows in: copies.
inline constexpr int64_t kStreamRowBytes = 2048;
inline constexpr int64_t kStreamRunLines = 16;
// Half a page goes at once. A load of a kernel's constant waits for a store under way whose address
// ends in the same 12 bits, and behind a whole page every load would.
inline constexpr int64_t kStreamPiece = kPageBytes / 2;

// ---- tiles of fused regions (ADR 0015). Shows in: compile.

inline constexpr int64_t kTileBytes = kL1Bytes / 3;          // of a value: there are three
inline constexpr int64_t kLeastTileBytes = kTileBytes / 4;   // of one among many
inline constexpr int64_t kLiveTileBytes = kPieceBytes;       // of all values of a region
inline constexpr int64_t kReusedRowBytes = kL2Bytes / 8;     // of a row whose reductions are used
inline constexpr int64_t kGatheredBytes = int64_t{4} << 20;  // what is read as it lies scattered
inline constexpr int64_t kFarReadOfMany = 3 * kL3Bytes / 8;  // a share of an L3: many steps hide L2
inline constexpr int64_t kFarPiece = kL1Bytes / 8;           // of a far operand; no power of two

// ---- fetching ahead. Shows in: copies (rows, indices), matmul, attention.

inline constexpr int64_t kRowsAheadBytes = kPageBytes;  // of rows that lie apart
inline constexpr int64_t kIndexedRowsAhead = 8;         // rows at computed places,
inline constexpr int64_t kIndexedAheadBytes = 512;      // and how much of each
inline constexpr int64_t kAheadOfRowBytes = 2048;       // of the rows of a normalisation
inline constexpr int64_t kStepsAheadOfB = 8;            // of k: a packed B need not fit into L1
inline constexpr int64_t kAheadOfABytes = 3072;         // a packed A comes from further away
inline constexpr int64_t kKeysAhead = 32;               // lines of keys and values

// From this many bytes a row on, memcpy is faster than a loop over registers: it knows how the
// processor copies much at once without reading the target first. Shows in: copies.
inline constexpr int64_t kMemcpyRowBytes = 8192;

// ---- what is worth a thread. A hand-over to a worker that is awake takes 0.2 us (ADR 0016).

// Elements of one unit of parallel work that goes over them once, or steps of a few instructions
// each. Shows in: elementwise, copies, overhead.
inline constexpr int64_t kChunkElements = 32768;
// The same where an element takes several passes: statistics, sums of parts, generated values.
inline constexpr int64_t kPassesChunk = kChunkElements / 2;
// The same where it takes several operands or far reads: an optimiser's step, the gates of an LSTM,
// searches; and the least of a fused region. Shows in: training, compile.
inline constexpr int64_t kHeavyChunk = kChunkElements / 8;
// The same where it takes some 100 ns: draws by rejection.
inline constexpr int64_t kDrawChunk = kChunkElements / 16;
// Elements that one unit packs or looks at. Shows in: matmul, matmul_low.
inline constexpr int64_t kPackChunk = 2 * kChunkElements;

// Multiplications of a product that are worth a task, with vector units. Shows in: matmul,
// convolution, attention.
inline constexpr int64_t kTaskProducts = int64_t{1} << 18;
// The same of halves and bytes on their units, eight times as fast (ADR 0007).
inline constexpr int64_t kLowpTaskProducts = 8 * kTaskProducts;

// Of a tensor that is converted or made in parts: elements of one, about. Sets the peak of memory
// under autocast (benchmarks/notes/convolution.md).
inline constexpr int64_t kPartElements = int64_t{1} << 19;

// ---- time of steps, roughly (ADR 0016): nanoseconds of one core with AVX-512 whose operands
// are in its caches. Other cores differ by a factor, hardly in how their products compare with
// their loops.

inline constexpr double kCallTime = 100;
inline constexpr double kMultiplicationTime = 0.01;  // and addition, of float32
inline constexpr double kLightTime = 0.02;    // of an element of an op that only loads and stores
inline constexpr double kHeavyTime = 0.2;     // of another one
inline constexpr double kGatheredTime = 0.2;  // on top, of an element that does not lie dense
inline constexpr int64_t kSharingTime = 300;  // until all threads have begun and are done
inline constexpr int64_t kLongStepTime = 20'000;  // from here on, a step is better cut up
inline constexpr int64_t kLeastGainTime = 200;    // worth running steps side by side for
inline constexpr int64_t kSharingLoss = 10;       // percent that a step loses where it is cut up

}  // namespace tinyt::cpu
