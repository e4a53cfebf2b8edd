// A task computes a block of positions of some images. It copies what they read of the source,
// zeros around it and two channels side by side: there a tile of the columns of any tap can be read
// as it is, with nothing to pack.
#include "conv_low.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "../parallel.h"
#include "copy.h"
#include "levels.h"
#include "matmul_low.h"
#include "padded_lines.h"
#include "scratch.h"

namespace tinyt::cpu {
namespace {

constexpr int64_t kMinChannels = 16;
constexpr int64_t kMinPositions = 16;
constexpr double kMaxPacked = 1 << 22;  // pairs
constexpr int64_t kPairBytes = 4;
constexpr int64_t kLinePairs = 16;    // of a cache line
constexpr int64_t kStepBytes = 2048;  // of a panel of weights
// Sums and pairs of a block, which share L2 with the weights in use; and its positions.
constexpr int64_t kBlockSums = int64_t{1} << 17, kBlockPairs = int64_t{1} << 17;
constexpr int64_t kMinBlock = 64, kMaxBlock = 2048;
constexpr int64_t kMinBlocks = 8;  // of a problem with so many smallest ones
constexpr int64_t kPackTask = 64;  // steps of weights

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }
// The size of equal parts, at most `most`.
int64_t even_part(int64_t n, int64_t most) { return ceil_div(n, ceil_div(n, most)); }

// What belongs to a block. The cut does not show in the results.
struct Cut {
  int64_t pairs;  // of channels, in whole steps
  int64_t rows, cols, images;

  explicit Cut(const Direct& d) : pairs(round_up(ceil_div(d.ins, 2), kStepPairs)) {
    const Sizes& n = d.columns.positions;
    const int64_t fit = std::min(kBlockSums / round_up(d.outs, kTilePanel), kBlockPairs / pairs);
    const int64_t share = d.images * product(n) / kMinBlocks;
    const int64_t most = std::clamp(std::min(fit, share), kMinBlock, kMaxBlock);
    const Columns& c = d.columns;
    const int64_t lines = c.kernel[0] * (c.multiply[1] + PaddedLines::span(c, 1)) * c.multiply[2];
    const int64_t wide = 4 * kBlockPairs / (pairs * lines);  // of a single row
    cols = even_part(n[2], std::clamp(std::min(most, wide), kMinBlock, kMaxBlock));
    const int64_t pitch = PaddedLines::pitch_of(c, cols);
    rows = even_part(n[1], std::max<int64_t>(1, most / pitch));
    images = std::clamp<int64_t>(most / (rows * pitch), 1, d.images);
  }
};

class LowConv {
 public:
  LowConv(const Direct& d, const Tensor& y)
      : d_(d),
        cut_(d),
        lines_(d.columns, cut_.rows, cut_.cols),
        steps_(cut_.pairs / kStepPairs * d.taps()),
        panels_(ceil_div(d.outs, kTilePanel)),
        y_(y.ptr<uint16_t>()) {
    // An odd number of cache lines, so that the rows of a tile share no set of the cache.
    stride_ = ceil_div(cut_.images * lines_.size(), kLinePairs);
    stride_ = (stride_ + 1 - stride_ % 2) * kLinePairs;
    for (int64_t s = 0; s < steps_; ++s) {
      const int64_t first = s / d.taps() * kStepPairs;
      offsets_.push_back((first * stride_ + lines_.offset_of(s % d.taps())) * kPairBytes);
    }
  }

  void run(const Tensor& lines) {
    const Scratch weights(d_.groups * panels_ * steps_ * kStepBytes);
    pack_weights(lines, weights.data());
    const int64_t threads = num_threads(), slot_bytes = source_bytes() + sum_bytes();
    const Scratch memory(slot_bytes * threads);
    // What no block writes stays zero.
    for (int64_t i = 0; i < threads; ++i) clear_source(memory.data() + i * slot_bytes);
    Slots slots(memory.data(), slot_bytes, threads);
    const int64_t blocks = down() * across() * d_.columns.positions[0] * stacks() * d_.groups;
    parallel_for(blocks, [&](int64_t i) {
      slots.with_one([&](char* slot) { run_block(i, weights.data(), slot); });
    });
  }

 private:
  int64_t across() const { return ceil_div(d_.columns.positions[2], cut_.cols); }
  int64_t down() const { return ceil_div(d_.columns.positions[1], cut_.rows); }
  int64_t stacks() const { return ceil_div(d_.images, cut_.images); }
  // Tiles read beyond the last position.
  int64_t source_bytes() const { return (cut_.pairs * stride_ + kTilePanel) * kPairBytes; }
  int64_t sum_bytes() const {
    const int64_t positions = (cut_.rows - 1) * lines_.pitch() + cut_.cols;
    const int64_t corners = panels_ * cut_.images * ceil_div(positions, kTilePanel);
    return corners * kTilePanel * kTilePanel * 4;
  }
  void clear_source(char* source) const {
    std::memset(source, 0, static_cast<size_t>(source_bytes()));
  }

  // For each group, panel of outputs and step, the weights of two tiles: 32 channels of an output
  // a row.
  void pack_weights(const Tensor& lines, char* out) const {
    const int64_t taps = d_.taps(), matrix = d_.outs * d_.ins;
    const Tensor by_tap =
        as_contiguous(lines.view(Dims{d_.groups, taps, d_.outs, d_.ins},
                                 Dims{matrix * taps, 1, d_.ins * taps, taps}, lines.offset()));
    const auto* from = by_tap.ptr<uint16_t>();
    parallel_ranges(d_.groups * panels_ * steps_, kPackTask, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t step = i % steps_, first = i / steps_ % panels_ * kTilePanel;
        const int64_t group = i / steps_ / panels_, channel = step / taps * 2 * kStepPairs;
        const int64_t count = std::min(2 * kStepPairs, d_.ins - channel);
        const uint16_t* line =
            from + (group * taps + step % taps) * matrix + first * d_.ins + channel;
        char* to = out + i * kStepBytes;
        std::memset(to, 0, kStepBytes);
        for (int64_t o = 0; o < std::min(kTilePanel, d_.outs - first); ++o, line += d_.ins) {
          std::memcpy(to + o * 4 * kStepPairs, line, static_cast<size_t>(2 * count));
        }
      }
    });
  }

  void run_block(int64_t i, const char* weights, char* slot) const {
    const Sizes& n = d_.columns.positions;
    const int64_t x = i % across() * cut_.cols, y = i / across() % down() * cut_.rows;
    i /= across() * down();
    const int64_t z = i % n[0], first = i / n[0] % stacks() * cut_.images;
    const int64_t group = i / n[0] / stacks();
    const int64_t images = std::min(cut_.images, d_.images - first);
    // Each block has zeros at other places beside its lines.
    if (across() > 1 && lines_.has_sides()) clear_source(slot);
    for (int64_t k = 0; k < images; ++k) pack_image(first + k, group, z, y, x, k, slot);
    const UsingTiles tiles(*kernels().amx);
    kernels().conv_tiles->multiply(
        {.outs = d_.outs,
         .steps = steps_,
         .weights = weights + group * panels_ * steps_ * kStepBytes,
         .source = slot,
         .offset = offsets_.data(),
         .stride = stride_ * kPairBytes,
         .images = images,
         .image = lines_.size() * kPairBytes,
         .rows = std::min(cut_.rows, n[1] - y),
         .width = std::min(cut_.cols, n[2] - x),
         .pitch = lines_.pitch(),
         .sums = slot + source_bytes(),
         .out = y_ + (first * d_.groups + group) * d_.outs * product(n) + (z * n[1] + y) * n[2] + x,
         .out_channel = product(n),
         .out_image = d_.groups * d_.outs * product(n),
         .out_row = n[2]});
  }

  // What a block reads of one image, as number `place` of the block's.
  void pack_image(int64_t image, int64_t group, int64_t z, int64_t y, int64_t x, int64_t place,
                  char* slot) const {
    const Columns& c = d_.columns;
    const auto* channel = reinterpret_cast<const uint16_t*>(c.data) + image * c.image_stride +
                          group * d_.ins * c.channel_stride;
    auto* to = reinterpret_cast<uint32_t*>(slot) + place * lines_.size();
    for (int64_t i = 0; i < d_.ins; i += 2, channel += 2 * c.channel_stride, to += stride_) {
      const bool two = i + 1 < d_.ins;
      lines_.for_lines(
          z, y, x, [&](int64_t at, int64_t n) { std::fill_n(to + at, n, 0u); },
          [&](const LineRun& run) {
            const uint16_t* low = channel + run.from;
            kernels().conv_tiles->pair({.low = low,
                                        .high = two ? low + c.channel_stride : nullptr,
                                        .from_row = run.from_row,
                                        .step = run.step,
                                        .rows = run.rows,
                                        .n = run.n,
                                        .to = to + run.to,
                                        .to_row = lines_.pitch()});
          });
    }
  }

  const Direct& d_;
  Cut cut_;
  PaddedLines lines_;
  int64_t steps_, panels_, stride_;
  std::vector<int64_t> offsets_;  // of steps, in bytes
  uint16_t* y_;
};

}  // namespace

bool low_conv_pays(const Direct& d) {
  if (d.dtype != DType::BFloat16 || kernels().conv_tiles == nullptr) return false;
  if (d.ins < kMinChannels || d.outs < kMinChannels || d.taps() == 0) return false;
  if (d.images * d.positions() < kMinPositions) return false;
  // The largest block, whose lines may be astronomical.
  double packed = static_cast<double>(d.ins * d.columns.kernel[0]);
  for (int i = 1; i < kSpatial; ++i) {
    const auto step = static_cast<double>(d.columns.multiply[i]);
    const auto span = static_cast<double>(d.columns.kernel[i] - 1) *
                      static_cast<double>(std::abs(d.columns.tap_step[i]));
    packed *=
        step * (static_cast<double>(std::min(d.columns.positions[i], kMinBlock)) + span / step);
  }
  return packed <= kMaxPacked;
}

void low_conv(const Direct& d, const Tensor& lines, const Tensor& y) { LowConv(d, y).run(lines); }

}  // namespace tinyt::cpu
