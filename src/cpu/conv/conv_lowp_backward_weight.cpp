// The gradient of the weights, block by block of positions: products of the channels' lines, each
// of which a tap reads from another place on, with the gradient's lines. Between those there are
// zeros where the channels' lines go on.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <vector>

#include "core/base/parallel.h"
#include "cpu/conv/conv_blocks.h"
#include "cpu/conv/conv_lowp.h"
#include "cpu/copy/copy.h"
#include "cpu/matmul/matmul_lowp.h"
#include "cpu/schedule/levels.h"
#include "cpu/schedule/workspace.h"

namespace tinyt::cpu {
namespace {

using namespace conv_blocks;

constexpr int64_t kLowSide = 16;                      // of a tile
constexpr int64_t kStepLength = 32;                   // positions
constexpr int64_t kItem = 2;                          // bytes
constexpr int64_t kLowBlockBytes = int64_t{1} << 20;  // of both operands
constexpr int64_t kMaxWeightBlock = 4096;
constexpr int64_t kLowChannelsOfTask = 8;

Blocks cut(const ConvProblem& d) {
  const int64_t lines = round_up(d.ins, kLowSide) + round_up(d.outs, kLowSide);
  const int64_t fit = kLowBlockBytes / (kItem * lines);
  return {d, std::clamp(fit, kMinBlock, kMaxWeightBlock),
          4 * fit / Blocks::depth_of_row(d.columns)};
}

// One group.
class LowWeights {
 public:
  explicit LowWeights(const ConvProblem& d)
      : d_(d),
        blocks_(cut(d)),
        channels_(round_up(d.ins, kLowSide)),
        outs_(round_up(d.outs, kLowSide)),
        stride_(odd_lines(blocks_.images() * blocks_.lines().size() * kItem)),
        pair_(odd_lines(2 * outs_ * kItem)),
        most_steps_(ceil_div(blocks_.positions(), kStepLength)),
        line_(odd_lines(most_steps_ * kStepLength * kItem)) {
    for (int64_t t = 0; t < d.taps(); ++t) taps_.push_back(blocks_.lines().offset_of(t) * kItem);
  }

  int64_t workspace() const {
    return numel_of(shape()) * static_cast<int64_t>(sizeof(float)) + source_bytes() +
           lines_bytes() * num_threads() + pairs_bytes();
  }

  // [taps, channels, outs], rounded up to whole tiles.
  Tensor sums(int64_t group, const Tensor& grad) {
    x_ = reinterpret_cast<const uint16_t*>(d_.columns.data) +
         group * d_.ins * d_.columns.channel_stride;
    grad_ = grad.ptr<uint16_t>() + group * d_.outs * d_.positions();
    const Tensor sums = Tensor::empty(shape(), DType::Float32);
    std::memset(sums.host_data(), 0, static_cast<size_t>(sums.numel()) * sizeof(float));
    const int64_t threads = num_threads();
    const Workspace source(source_bytes()), lines(lines_bytes() * threads), pairs(pairs_bytes());
    clear_source(source.data());
    Slots slots(lines.data(), lines_bytes(), threads);
    for (int64_t i = 0; i < blocks_.count(); ++i) {
      const PositionBlock b = blocks_[i];
      if (blocks_.sides_differ()) clear_source(source.data());
      const int64_t shares = ceil_div(d_.ins, kLowChannelsOfTask);
      parallel_for(shares + outs_ / kLowSide, [&](int64_t task) {
        if (task < shares) return pack_channels(b, task * kLowChannelsOfTask, source.data());
        slots.with_one([&](char* slot) {
          pack_outputs(b, (task - shares) * kLowSide, slot, line_, pairs.data());
        });
      });
      add_block(b, source.data(), pairs.data(), sums);
    }
    return sums;
  }

 private:
  Dims shape() const { return {d_.taps(), channels_, outs_}; }
  int64_t lines_bytes() const { return kLowSide * line_; }
  int64_t pairs_bytes() const { return blocks_.images() * most_steps_ * kLowSide * pair_; }
  // Tiles read beyond the last position.
  int64_t source_bytes() const { return channels_ * stride_ + kStepLength * kItem; }
  void clear_source(char* source) const {
    std::memset(source, 0, static_cast<size_t>(source_bytes()));
  }
  int64_t steps_of_image(const PositionBlock& b) const {
    return ceil_div((b.rows - 1) * blocks_.lines().pitch() + b.cols, kStepLength);
  }

  // What a block reads of some channels, from `first` on.
  void pack_channels(const PositionBlock& b, int64_t first, char* source) const {
    const PaddedLines& lines = blocks_.lines();
    for (int64_t c = first; c < std::min(first + kLowChannelsOfTask, d_.ins); ++c) {
      for (int64_t i = 0; i < b.images; ++i) {
        const uint16_t* from =
            x_ + (b.image + i) * d_.columns.image_stride + c * d_.columns.channel_stride;
        auto* to = reinterpret_cast<uint16_t*>(source + c * stride_) + i * lines.size();
        lines.for_lines(
            b.z, b.y, b.x,
            [&](int64_t at, int64_t count) { std::fill_n(to + at, count, uint16_t{0}); },
            [&](const LineRun& run) {
              kernels().conv_tiles->copy({.from = from + run.from,
                                          .from_row = run.from_row,
                                          .step = run.step,
                                          .rows = run.rows,
                                          .n = run.n,
                                          .to = to + run.to,
                                          .to_row = lines.pitch()});
            });
      }
    }
  }

  // The gradients of kLowSide outputs from `first` on, as rows of pairs of positions. `lines` have
  // room for them as lines, rows of the output a pitch apart.
  void pack_outputs(const PositionBlock& b, int64_t first, char* lines, int64_t line,
                    char* pairs) const {
    const Sizes& n = d_.columns.positions;
    const int64_t count = std::min(kLowSide, d_.outs - first), steps = steps_of_image(b);
    std::memset(lines, 0, static_cast<size_t>(count * line));
    for (int64_t i = 0; i < b.images; ++i) {
      const uint16_t* image = grad_ + ((b.image + i) * d_.groups * d_.outs + first) * product(n) +
                              (b.z * n[1] + b.y) * n[2] + b.x;
      for (int64_t o = 0; o < count; ++o) {
        kernels().conv_tiles->copy({.from = image + o * product(n),
                                    .from_row = n[2],
                                    .step = 1,
                                    .rows = b.rows,
                                    .n = b.cols,
                                    .to = lines + o * line,
                                    .to_row = blocks_.lines().pitch()});
      }
      kernels().conv_tiles->turn(lines, line, count, steps * kStepLength,
                                 pairs + i * steps * kLowSide * pair_ + 2 * first * kItem, pair_);
    }
  }

  // A task has some channels, some outputs and the taps along the last dimension.
  void add_block(const PositionBlock& b, const char* source, const char* pairs,
                 const Tensor& sums) const {
    const int64_t steps = steps_of_image(b), taps = d_.columns.kernel[2];
    std::vector<int64_t> offsets;
    for (int64_t i = 0; i < b.images * steps; ++i) {
      offsets.push_back((i / steps * blocks_.lines().size() + i % steps * kStepLength) * kItem);
    }
    const int64_t down = ceil_div(channels_, kTilePanel), across = ceil_div(outs_, kTilePanel);
    parallel_for(down * across * (d_.taps() / taps), [&](int64_t task) {
      const int64_t c = task % down * kTilePanel, o = task / down % across * kTilePanel;
      const int64_t tap = task / down / across * taps;
      const UsingTiles tiles(*kernels().low);
      kernels().conv_tiles->weights({.channels = std::min(kTilePanel, channels_ - c),
                                     .outs = std::min(kTilePanel, outs_ - o),
                                     .taps = taps,
                                     .steps = b.images * steps,
                                     .source = source + c * stride_,
                                     .stride = stride_,
                                     .offset = offsets.data(),
                                     .tap = taps_.data() + tap,
                                     .grads = pairs + 2 * o * kItem,
                                     .pair = pair_,
                                     .sums = sums.ptr<float>() + (tap * channels_ + c) * outs_ + o,
                                     .sums_tap = 4 * channels_ * outs_,
                                     .sums_row = 4 * outs_});
    });
  }

  const ConvProblem& d_;
  Blocks blocks_;
  int64_t channels_, outs_;  // in whole tiles
  int64_t stride_, pair_;    // bytes from a channel to the next, and from two positions to the next
  int64_t most_steps_, line_;                      // of a block's lines, and the bytes of one
  const uint16_t *x_ = nullptr, *grad_ = nullptr;  // of a group
  std::vector<int64_t> taps_;                      // where each reads, in bytes
};

bool all_finite(const Tensor& t) {
  constexpr uint32_t kExponent = 0x7F800000;
  const auto* bits = t.ptr<uint32_t>();
  std::atomic<bool> finite{true};
  parallel_ranges(t.numel(), kPackChunk, [&](int64_t begin, int64_t end) {
    bool found = false;
    for (int64_t i = begin; i < end; ++i) found |= (bits[i] & kExponent) == kExponent;
    if (found) finite.store(false, std::memory_order_relaxed);
  });
  return finite.load();
}

}  // namespace

int64_t lowp_conv_weights_workspace(const ConvProblem& d) { return LowWeights(d).workspace(); }

bool lowp_conv_weights(const ConvProblem& d, const Tensor& grad, const Tensor& dw) {
  const int64_t taps = d.taps(), size = d.outs * d.ins * taps;
  for (int64_t g = 0; g < d.groups; ++g) {
    const Tensor sums = LowWeights(d).sums(g, grad);
    if (!all_finite(sums)) return false;
    const int64_t row = sums.size(2), tap = sums.size(1) * row;
    const Dims shape{d.outs, d.ins, taps};
    copy_into(sums.view(shape, Dims{1, row, tap}, 0),
              dw.view(shape, Dims{d.ins * taps, taps, 1}, dw.offset() + g * size));
  }
  return true;
}

}  // namespace tinyt::cpu
