// Conditions, and what was measured for them. The machine model has no say: a number here that
// changes, changes bits.
#include "cpu/conv/conv_strategy.h"

#include <algorithm>
#include <cstdlib>

#include "cpu/conv/conv_blocks.h"
#include "cpu/conv/conv_dilated.h"
#include "cpu/conv/conv_direct.h"
#include "cpu/conv/conv_lines.h"
#include "cpu/conv/winograd_tiles.h"
#include "cpu/schedule/levels.h"

namespace tinyt::cpu {
namespace {

// Lowp: with fewer channels on a side, half of a tile would be zeros, and float32 is as fast
// (ADR 0008).
constexpr int64_t kMinLowpChannels = 16;
constexpr int64_t kMinLowpPositions = 16;
constexpr double kMaxLowpPacked = 1 << 22;  // elements

// Direct: nothing is reused between rows of a product of so few channels, so packing would not pay.
// It reaches the bandwidth of memory above 28x28 (benchmarks/notes/convolution.md, depthwise).
constexpr int64_t kMaxPairs = 16;             // of channels in a group
constexpr int64_t kMaxTerms = 256;            // of the sum for one element
constexpr double kMaxDirectPacked = 1 << 24;  // elements

// Winograd: half of the time at 64 channels, more above (ADR 0008).
constexpr int64_t kMinChannels = 16;
constexpr int64_t kMinTiles = 32;
// Products for a position, of which the definition has nine: tiles may stick out of a plane (2x2
// with 128 channels 1.05 -> 0.66 ms by the definition).
constexpr double kMaxProducts = 6.5;

// Lines: only weights are packed (7x7 stem 9.1 -> 6.1 ms, 1x1 256 to 64 at 56x56 9.8 -> 6.4).
constexpr int64_t kMinPositions = conv_blocks::kMinBlocks * conv_blocks::kMinBlock;
constexpr double kMaxPacked = 1 << 22;             // elements
constexpr int64_t kMaxWeights = int64_t{1} << 16;  // read again for each block: they stay in L2
// Packing a register of columns takes as long as using it for so many outputs: 1.7 ns and 0.15
// each.
constexpr int64_t kOutsOfPacking = 12;

// Dilated: a tenth of the products, which meet zeros only, is left out.
constexpr int64_t kDilatedGain = 10;  // one part in so many
// Of a part: what a register of positions reads is looked up anew for each tap and part.
constexpr int64_t kMinDilatedChannels = 24;
constexpr int64_t kMinDilatedBlock = 96;  // positions: all weights are read again for each block

bool lowp_pays(const ConvProblem& p) {
  if (p.dtype != DType::BFloat16 || kernels().conv_tiles == nullptr) return false;
  if (p.ins < kMinLowpChannels || p.outs < kMinLowpChannels || p.taps() == 0) return false;
  if (p.images * p.positions() < kMinLowpPositions) return false;
  return conv_blocks::Blocks::smallest(p) <= kMaxLowpPacked;
}

bool direct_pays(const ConvProblem& p) {
  if (p.images == 0 || p.taps() == 0 || p.ins * p.outs > kMaxPairs || p.ins * p.taps() > kMaxTerms)
    return false;
  return direct_packed(p) <= kMaxDirectPacked;
}

// The kernel's last two dimensions are 3, without stride and dilation along them.
bool winograd_pays(const ConvProblem& p) {
  const Columns& c = p.columns;
  if (p.dtype != DType::Float32 || p.outs < kMinChannels || p.ins < kMinChannels) return false;
  for (int i = 1; i < kSpatial; ++i) {
    if (c.kernel[i] != 3 || c.multiply[i] != 1 || std::abs(c.tap_step[i]) != 1) return false;
  }
  if (c.tap_step[1] != c.tap_step[2]) return false;
  const int64_t tiles = winograd::Plan(p).tiles;
  return tiles >= kMinTiles && static_cast<double>(winograd::kElements * tiles) <=
                                   kMaxProducts * static_cast<double>(p.images * p.positions());
}

// Rows of the output fill registers well enough.
bool lines_pay(const ConvProblem& p) {
  if (p.images * p.positions() < kMinPositions || p.taps() == 0 ||
      p.outs * p.ins * p.taps() > kMaxWeights || conv_blocks::Blocks::smallest(p) > kMaxPacked)
    return false;
  const LinesFill fill = lines_fill(p);
  return fill.unused * p.outs <= kOutsOfPacking * fill.used;
}

bool dilated_pays(const ConvProblem& p) {
  if (p.taps() == 0) return false;
  const DilatedBlock block = dilated_block(p);
  if (block.channels < kMinDilatedChannels || block.positions < kMinDilatedBlock) return false;
  const DilatedCost cost = dilated_cost(p);
  return cost.cut * (kDilatedGain + 1) <= cost.whole * kDilatedGain;
}

// Whether the level's units take less time for weights than float32's Winograd form does.
bool lowp_weights_pay(const ConvProblem& p) {
  if (!lowp_pays(p)) return false;
  ConvProblem wide = p;
  wide.dtype = DType::Float32;
  return !(kernels().conv_tiles->winograd_weights && winograd_pays(wide));
}

}  // namespace

ConvStrategy choose_product(const ConvProblem& p, bool finite) {
  if (p.dtype == DType::BFloat16) return ConvStrategy::Lowp;  // choose_dtype has seen to it
  if (direct_pays(p)) return ConvStrategy::Direct;
  if (finite && winograd_pays(p)) return ConvStrategy::Winograd;
  if (lines_pay(p)) return ConvStrategy::Lines;
  return dilated_pays(p) ? ConvStrategy::Dilated : ConvStrategy::Product;
}

ConvStrategy choose_weights(const ConvProblem& p, bool finite) {
  if (lowp_weights_pay(p)) return ConvStrategy::Lowp;
  if (finite && winograd_pays(p)) return ConvStrategy::Winograd;
  return direct_pays(p) ? ConvStrategy::Direct : ConvStrategy::Product;
}

DType choose_dtype(DType operands, DType compute, std::span<const ConvProblem> products) {
  return std::ranges::all_of(products, lowp_pays) ? operands : compute;
}

}  // namespace tinyt::cpu
