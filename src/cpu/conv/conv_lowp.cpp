// A task computes a block of positions. In its copy of the source two channels lie side by side:
// there a tile of the columns of any tap can be read as it is, with nothing to pack.
#include "cpu/conv/conv_lowp.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "core/base/parallel.h"
#include "cpu/conv/conv_blocks.h"
#include "cpu/copy/copy.h"
#include "cpu/matmul/matmul_lowp.h"
#include "cpu/schedule/levels.h"
#include "cpu/schedule/workspace.h"

namespace tinyt::cpu {
namespace {

using namespace conv_blocks;

constexpr int64_t kPairBytes = 4;
constexpr int64_t kLowStepBytes = 2048;  // of a panel of weights
// Sums and pairs of a block, which share L2 with the weights in use; and its positions.
constexpr int64_t kBlockSums = kL2Bytes / 8, kBlockPairs = kL2Bytes / 8;
constexpr int64_t kMaxLowpBlock = 2048;
constexpr int64_t kConvPackTask = 64;  // steps of weights

// Pairs of channels, in whole steps.
int64_t pairs_of(const ConvProblem& d) { return round_up(ceil_div(d.ins, 2), kStepPairs); }

Blocks cut(const ConvProblem& d) {
  const int64_t pairs = pairs_of(d);
  const int64_t fit = std::min(kBlockSums / round_up(d.outs, kTilePanel), kBlockPairs / pairs);
  const int64_t share = d.images * d.positions() / kMinBlocks;
  const int64_t wide = 4 * kBlockPairs / (pairs * Blocks::depth_of_row(d.columns));
  return {d, std::clamp(std::min(fit, share), kMinBlock, kMaxLowpBlock), wide};
}

class LowConv {
 public:
  explicit LowConv(const ConvProblem& d)
      : d_(d),
        blocks_(cut(d)),
        pairs_(pairs_of(d)),
        stride_(odd_lines(blocks_.images() * blocks_.lines().size() * kPairBytes)),
        steps_(pairs_ / kStepPairs * d.taps()),
        panels_(ceil_div(d.outs, kTilePanel)) {
    for (int64_t s = 0; s < steps_; ++s) {
      const int64_t first = s / d.taps() * kStepPairs;
      offsets_.push_back(first * stride_ + blocks_.lines().offset_of(s % d.taps()) * kPairBytes);
    }
  }

  // The weights tap by tap are gone when the blocks begin.
  int64_t workspace(const Tensor& lines) const {
    return weight_bytes() +
           std::max(dense_bytes(by_tap(lines)), (source_bytes() + sum_bytes()) * num_threads());
  }

  void run(const Tensor& lines, const Tensor& y) {
    y_ = y.ptr<uint16_t>();
    const Workspace weights(weight_bytes());
    pack_weights(lines, weights.data());
    const int64_t threads = num_threads(), slot_bytes = source_bytes() + sum_bytes();
    const Workspace memory(slot_bytes * threads);
    // What no block writes stays zero.
    for (int64_t i = 0; i < threads; ++i) clear_source(memory.data() + i * slot_bytes);
    Slots slots(memory.data(), slot_bytes, threads);
    parallel_for(d_.groups * blocks_.count(), [&](int64_t i) {
      slots.with_one([&](char* slot) {
        run_block(blocks_[i % blocks_.count()], i / blocks_.count(), weights.data(), slot);
      });
    });
  }

 private:
  int64_t weight_bytes() const { return d_.groups * panels_ * steps_ * kLowStepBytes; }
  Tensor by_tap(const Tensor& lines) const {
    const int64_t taps = d_.taps(), matrix = d_.outs * d_.ins;
    return lines.view(Dims{d_.groups, taps, d_.outs, d_.ins},
                      Dims{matrix * taps, 1, d_.ins * taps, taps}, lines.offset());
  }
  // Tiles read beyond the last position.
  int64_t source_bytes() const { return pairs_ * stride_ + kTilePanel * kPairBytes; }
  int64_t sum_bytes() const {
    const int64_t panels = blocks_.images() * ceil_div(blocks_.positions(), kTilePanel);
    return panels_ * panels * kTilePanel * kTilePanel * 4;
  }
  void clear_source(char* source) const {
    std::memset(source, 0, static_cast<size_t>(source_bytes()));
  }

  // For each group, panel of outputs and step, the weights of two tiles: 32 channels of an output
  // a row.
  void pack_weights(const Tensor& lines, char* out) const {
    const int64_t taps = d_.taps(), matrix = d_.outs * d_.ins;
    const Tensor dense = as_contiguous(by_tap(lines));
    const auto* from = dense.ptr<uint16_t>();
    parallel_ranges(d_.groups * panels_ * steps_, kConvPackTask, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t step = i % steps_, first = i / steps_ % panels_ * kTilePanel;
        const int64_t group = i / steps_ / panels_, channel = step / taps * 2 * kStepPairs;
        const int64_t count = std::min(2 * kStepPairs, d_.ins - channel);
        const uint16_t* line =
            from + (group * taps + step % taps) * matrix + first * d_.ins + channel;
        char* to = out + i * kLowStepBytes;
        std::memset(to, 0, kLowStepBytes);
        for (int64_t o = 0; o < std::min(kTilePanel, d_.outs - first); ++o, line += d_.ins) {
          std::memcpy(to + o * 4 * kStepPairs, line, static_cast<size_t>(2 * count));
        }
      }
    });
  }

  void run_block(const PositionBlock& b, int64_t group, const char* weights, char* slot) const {
    const Sizes& n = d_.columns.positions;
    if (blocks_.sides_differ()) clear_source(slot);
    for (int64_t i = 0; i < b.images; ++i) pack_image(b, group, i, slot);
    const UsingTiles tiles(*kernels().low);
    kernels().conv_tiles->multiply({.outs = d_.outs,
                                    .steps = steps_,
                                    .weights = weights + group * panels_ * steps_ * kLowStepBytes,
                                    .source = slot,
                                    .offset = offsets_.data(),
                                    .stride = stride_,
                                    .images = b.images,
                                    .image = blocks_.lines().size() * kPairBytes,
                                    .rows = b.rows,
                                    .width = b.cols,
                                    .pitch = blocks_.lines().pitch(),
                                    .sums = slot + source_bytes(),
                                    .out = y_ +
                                           (b.image * d_.groups + group) * d_.outs * product(n) +
                                           (b.z * n[1] + b.y) * n[2] + b.x,
                                    .out_channel = product(n),
                                    .out_image = d_.groups * d_.outs * product(n),
                                    .out_row = n[2]});
  }

  // What a block reads of its image number i.
  void pack_image(const PositionBlock& b, int64_t group, int64_t i, char* slot) const {
    const Columns& c = d_.columns;
    const PaddedLines& lines = blocks_.lines();
    const auto* channel = reinterpret_cast<const uint16_t*>(c.data) +
                          (b.image + i) * c.image_stride + group * d_.ins * c.channel_stride;
    auto* to = reinterpret_cast<uint32_t*>(slot) + i * lines.size();
    for (int64_t k = 0; k < d_.ins; k += 2) {
      const bool two = k + 1 < d_.ins;
      lines.for_lines(
          b.z, b.y, b.x, [&](int64_t at, int64_t count) { std::fill_n(to + at, count, 0u); },
          [&](const LineRun& run) {
            const uint16_t* low = channel + run.from;
            kernels().conv_tiles->pair({.low = low,
                                        .high = two ? low + c.channel_stride : nullptr,
                                        .from_row = run.from_row,
                                        .step = run.step,
                                        .rows = run.rows,
                                        .n = run.n,
                                        .to = to + run.to,
                                        .to_row = lines.pitch()});
          });
      channel += 2 * c.channel_stride;
      to += stride_ / kPairBytes;
    }
  }

  const ConvProblem& d_;
  Blocks blocks_;
  int64_t pairs_, stride_;  // stride_: bytes from a pair of channels to the next
  int64_t steps_, panels_;
  std::vector<int64_t> offsets_;  // of steps, in bytes
  uint16_t* y_ = nullptr;
};

}  // namespace

void lowp_conv_product(const ConvProblem& d, const Tensor& lines, const Tensor& y) {
  LowConv(d).run(lines, y);
}

int64_t lowp_conv_workspace(const ConvProblem& d, const Tensor& lines) {
  return LowConv(d).workspace(lines);
}

}  // namespace tinyt::cpu
