#include "cpu/conv/conv_dilated.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "core/base/parallel.h"
#include "cpu/schedule/levels.h"
#include "cpu/schedule/workspace.h"

namespace tinyt::cpu {
namespace {

constexpr int64_t kChainBytes = 2048;  // most bytes of terms in one chain of fma
constexpr int64_t kDilatedRows = 48;   // of weights, which stay in L2 for a block
constexpr int64_t kDilatedBlockBytes = int64_t{1} << 19;  // of a block's columns and sums
constexpr int64_t kMinDilatedBlocks = 16;                 // of a problem with so many smallest ones
constexpr int64_t kMaxKernel = 32;                        // along a dimension that is cut

// Along one dimension, neighbouring positions and the taps, neighbours too, that they meet.
struct DilatedSegment {
  int64_t first, count;
  int64_t tap, taps;
};
using Region = std::array<DilatedSegment, kSpatial>;
using Cuts = std::array<bool, kSpatial>;  // the dimensions along which the output is cut

int64_t positions_of(const Region& r) { return r[0].count * r[1].count * r[2].count; }
int64_t taps_of(const Region& r) { return r[0].taps * r[1].taps * r[2].taps; }

// The taps inside the source at position p of dimension d.
DilatedSegment taps_at(const Columns& c, size_t d, int64_t p) {
  DilatedSegment s = {p, 1, 0, 0};
  for (int64_t tap = 0; tap < c.kernel[d]; ++tap) {
    const int64_t at = p * c.multiply[d] + tap * c.tap_step[d] + c.offset[d];
    if (at >= 0 && at < c.source[d] && s.taps++ == 0) s.tap = tap;
  }
  return s;
}

// All positions: cut where their taps change, or as one that meets all taps.
std::vector<DilatedSegment> segments_of(const Columns& c, size_t d, bool cut) {
  if (!cut) return {{0, c.positions[d], 0, c.kernel[d]}};
  const int64_t ends = std::max<int64_t>(0, (c.kernel[d] - 1) * c.tap_step[d]) + c.offset[d];
  std::vector<DilatedSegment> list;
  for (int64_t p = 0; p < c.positions[d];) {
    DilatedSegment s = taps_at(c, d, p);
    if (s.taps == c.kernel[d]) {  // and so do all up to the last one
      s.count = std::min(c.positions[d], (c.source[d] - 1 - ends) / c.multiply[d] + 1) - p;
    }
    p += s.count;
    if (list.empty() || list.back().tap != s.tap || list.back().taps != s.taps) {
      list.push_back(s);
    } else {
      list.back().count += s.count;
    }
  }
  return list;
}

std::vector<Region> regions_of(const Columns& c, const Cuts& cuts) {
  std::vector<Region> list;
  for (const DilatedSegment& z : segments_of(c, 0, cuts[0])) {
    for (const DilatedSegment& y : segments_of(c, 1, cuts[1])) {
      for (const DilatedSegment& x : segments_of(c, 2, cuts[2])) list.push_back({z, y, x});
    }
  }
  return list;
}

// Registers of columns times taps: what the products take.
int64_t cost_of(const ConvProblem& d, const Cuts& cuts) {
  const int64_t lanes = kernels().gemm->tile[static_cast<size_t>(d.dtype)].cols / 2;
  int64_t cost = 0;
  for (const Region& r : regions_of(d.columns, cuts)) {
    cost += ceil_div(d.images * positions_of(r), lanes) * taps_of(r);
  }
  return cost;
}

constexpr Cuts kUncut = {};

Cuts best_cuts(const ConvProblem& d) {
  Cuts best = kUncut;
  int64_t least = cost_of(d, best);
  for (unsigned i = 1; i < 1u << kSpatial; ++i) {
    Cuts cuts;
    bool possible = true;
    for (size_t k = 0; k < kSpatial; ++k) {
      cuts[k] = (i >> k & 1) != 0;
      possible = possible && !(cuts[k] && d.columns.kernel[k] > kMaxKernel);
    }
    if (!possible) continue;
    const int64_t cost = cost_of(d, cuts);
    if (cost < least) best = cuts, least = cost;
  }
  return best;
}

// Channels whose terms make a chain of fma.
int64_t part_of(const ConvProblem& d) {
  const int64_t bytes = d.taps() * static_cast<int64_t>(size_of(d.dtype));
  return ceil_div(d.ins, std::max<int64_t>(1, ceil_div(d.ins * bytes, kChainBytes)));
}

// Positions.
int64_t block_of(const ConvProblem& d) {
  const auto size = static_cast<int64_t>(size_of(d.dtype));
  const int64_t cols = kernels().gemm->tile[static_cast<size_t>(d.dtype)].cols;
  const int64_t most = kDilatedBlockBytes / ((part_of(d) * d.taps() + d.outs) * size);
  return std::min(most, d.images * d.positions() / kMinDilatedBlocks) / cols * cols;
}

class RegionsProduct {
 public:
  RegionsProduct(const ConvProblem& d, const Cuts& cuts)
      : d_(d),
        size_(static_cast<int64_t>(size_of(d.dtype))),
        type_(static_cast<size_t>(d.dtype)),
        tile_(kernels().gemm->tile[type_]),
        regions_(regions_of(d.columns, cuts)),
        part_(part_of(d)),
        rows_(round_up(d.outs, tile_.rows)),
        block_(block_of(d)) {
    std::stable_sort(regions_.begin(), regions_.end(), [&](const Region& a, const Region& b) {
      return taps_of(a) > taps_of(b);  // the longest tasks first
    });
  }

  // A thread packs weights, and then computes.
  int64_t workspace() const {
    return weight_bytes() + std::max(packed_bytes(), block_bytes()) * num_threads();
  }

  void run(const Tensor& lines, const Tensor& y) {
    const Workspace weights(weight_bytes());
    pack_weights(lines, weights.data());
    const int64_t threads = num_threads(), bytes = block_bytes();
    const Workspace memory(bytes * threads);
    Slots slots(memory.data(), bytes, threads);
    std::vector<int64_t> first;  // blocks before each region
    int64_t blocks = 0;
    for (const Region& r : regions_) {
      first.push_back(blocks);
      blocks += ceil_div(d_.images * positions_of(r), block_);
    }
    parallel_for(d_.groups * blocks, [&](int64_t i) {
      const int64_t group = i / blocks, at = i % blocks;
      const auto region = std::upper_bound(first.begin(), first.end(), at) - first.begin() - 1;
      slots.with_one([&](char* slot) {
        run_block(regions_[static_cast<size_t>(region)],
                  (at - first[static_cast<size_t>(region)]) * block_, group, weights.data(), slot,
                  y.host_data());
      });
    });
  }

 private:
  int64_t weight_bytes() const { return d_.groups * d_.taps() * d_.ins * rows_ * size_; }
  int64_t packed_bytes() const {
    return round_up(part_ * d_.taps() * tile_.rows * size_, memory::kAlignment);
  }
  int64_t block_bytes() const {
    return round_up((part_ * d_.taps() + d_.outs) * block_ * size_, memory::kAlignment);
  }

  // The weights of a part of the channels, from channel k on: in panels of rows, tap by tap.
  int64_t place_of(int64_t group, int64_t k) const {
    return (group * d_.ins + k) * d_.taps() * rows_ * size_;
  }

  void pack_weights(const Tensor& lines, char* out) const {
    const int64_t panels = rows_ / tile_.rows, taps = d_.taps(), depth = d_.ins * taps;
    const int64_t step = tile_.rows * size_, parts = ceil_div(d_.ins, part_);
    const int64_t threads = num_threads(), bytes = packed_bytes();
    const Workspace memory(bytes * threads);
    Slots slots(memory.data(), bytes, threads);
    parallel_for(d_.groups * parts * panels, [&](int64_t i) {
      const int64_t group = i / panels / parts, k = i / panels % parts * part_;
      const int64_t line = i % panels * tile_.rows, channels = std::min(part_, d_.ins - k);
      const StridedLines a = {lines.host_data() + group * d_.outs * depth * size_, depth, 1};
      char* to = out + place_of(group, k) + line * channels * taps * size_;
      slots.with_one([&](char* packed) {
        const Panel panel = {line, std::min(tile_.rows, d_.outs - line), k * taps, channels * taps,
                             tile_.rows};
        kernels().gemm->pack[type_](&a, panel, packed);
        for (int64_t tap = 0; tap < taps; ++tap) {
          for (int64_t c = 0; c < channels; ++c, to += step) {
            std::memcpy(to, packed + (c * taps + tap) * step, static_cast<size_t>(step));
          }
        }
      });
    });
  }

  // What a region's tap number i meets at its positions, as a kernel of its own.
  ColumnSource source_of(const Region& r, int64_t group, int64_t i) const {
    const Columns& c = d_.columns;
    const Sizes tap = {r[0].tap + i / r[2].taps / r[1].taps, r[1].tap + i / r[2].taps % r[1].taps,
                       r[2].tap + i % r[2].taps};
    const int64_t skipped = group * d_.ins * c.channel_stride;
    ColumnSource s{.data = c.data + skipped * size_,
                   .begin = -skipped,
                   .end = d_.images * c.image_stride - skipped,
                   .image_stride = c.image_stride,
                   .channel_stride = c.channel_stride,
                   .source = {},
                   .positions = {},
                   .kernel = {1, 1, 1},
                   .multiply = {},
                   .offset = {},
                   .tap_step = {1, 1, 1}};
    for (size_t d = 0; d < kSpatial; ++d) {
      s.source[d] = c.source[d];
      s.positions[d] = r[d].count;
      s.multiply[d] = c.multiply[d];
      s.offset[d] = c.offset[d] + r[d].first * c.multiply[d] + tap[d] * c.tap_step[d];
    }
    return s;
  }

  // Positions of a region, through all images, from `at` on.
  void run_block(const Region& r, int64_t at, int64_t group, const char* weights, char* slot,
                 char* y) const {
    const int64_t count = std::min(block_, d_.images * positions_of(r) - at);
    char* const sums = slot + part_ * d_.taps() * block_ * size_;
    if (taps_of(r) == 0) std::memset(sums, 0, static_cast<size_t>(d_.outs * block_ * size_));
    for (int64_t k = 0; k < d_.ins && taps_of(r) > 0; k += part_) {
      const int64_t channels = std::min(part_, d_.ins - k), depth = channels * taps_of(r);
      pack_columns(r, group, {at, count, k, channels, tile_.cols}, slot);
      for (const TapRun& run : runs_of(r)) {
        const int64_t skipped = run.number * channels;
        multiply(weights + place_of(group, k) + run.tap * channels * tile_.rows * size_,
                 slot + skipped * tile_.cols * size_, channels, run.taps, depth, count,
                 k > 0 || run.number > 0, sums);
      }
    }
    put(r, at, count, sums, y + group * d_.outs * d_.positions() * size_);
  }

  // Taps of a region that are neighbours in the kernel: the first one's number among the region's.
  struct TapRun {
    int64_t tap, taps, number;
  };
  std::vector<TapRun> runs_of(const Region& r) const {
    const Sizes& kernel = d_.columns.kernel;
    std::vector<TapRun> list;
    for (int64_t i = 0; i < taps_of(r); i += r[2].taps) {
      const int64_t z = r[0].tap + i / r[2].taps / r[1].taps;
      const int64_t y = r[1].tap + i / r[2].taps % r[1].taps;
      const int64_t tap = (z * kernel[1] + y) * kernel[2] + r[2].tap;
      if (!list.empty() && list.back().tap + list.back().taps == tap) {
        list.back().taps += r[2].taps;
      } else {
        list.push_back({tap, r[2].taps, i});
      }
    }
    return list;
  }

  // Panels of what all taps of a region meet, tap by tap.
  void pack_columns(const Region& r, int64_t group, const Panel& all, char* out) const {
    const int64_t tap_bytes = all.depth * all.width * size_;
    for (int64_t i = 0; i < all.count; i += all.width) {
      const int64_t count = std::min(all.width, all.count - i);
      for (int64_t tap = 0; tap < taps_of(r); ++tap, out += tap_bytes) {
        const ColumnSource source = source_of(r, group, tap);
        kernels().columns->pack[type_](&source,
                                       {all.first + i, count, all.k0, all.depth, all.width}, out);
      }
    }
  }

  void multiply(const char* weights, const char* columns, int64_t channels, int64_t taps,
                int64_t depth, int64_t cols, bool accumulate, char* sums) const {
    const int64_t a_panel = tile_.rows * channels * d_.taps();
    for (int64_t row = 0; row < d_.outs; row += kDilatedRows) {
      kernels().gemm->block[type_]({.rows = std::min(kDilatedRows, d_.outs - row),
                                    .cols = cols,
                                    .depth = channels * taps,
                                    .a = weights + row / tile_.rows * a_panel * size_,
                                    .a_line = 1,
                                    .a_step = tile_.rows,
                                    .a_panel = a_panel,
                                    .b = columns,
                                    .b_step = tile_.cols,
                                    .b_panel = tile_.cols * depth,
                                    .c = sums,
                                    .row = row,
                                    .col = 0,
                                    .c_row = tile_.cols,
                                    .run = tile_.cols,
                                    .c_run = d_.outs * tile_.cols,
                                    .accumulate = accumulate,
                                    .add = nullptr,
                                    .add_row = 0,
                                    .add_col = 0});
    }
  }

  // The sums of a block to their places in y, row by row of the region.
  void put(const Region& r, int64_t at, int64_t count, const char* sums, char* y) const {
    const Sizes& n = d_.columns.positions;
    for (int64_t done = 0; done < count;) {
      const int64_t x = (at + done) % r[2].count, row = (at + done) / r[2].count;
      const int64_t plane = row / r[1].count, image = plane / r[0].count;
      const int64_t lane = done % tile_.cols, room = tile_.cols - lane;
      const int64_t run = std::min({r[2].count - x, count - done, room});
      const int64_t line = (r[0].first + plane % r[0].count) * n[1] + r[1].first + row % r[1].count;
      const int64_t to =
          image * d_.groups * d_.outs * d_.positions() + line * n[2] + r[2].first + x;
      for (int64_t i = 0; i < d_.outs; ++i) {
        const char* from = sums + ((done / tile_.cols * d_.outs + i) * tile_.cols + lane) * size_;
        char* out = y + (to + i * d_.positions()) * size_;
        if (size_ == 4) {
          copy_run(reinterpret_cast<const uint32_t*>(from), reinterpret_cast<uint32_t*>(out), run);
        } else {
          copy_run(reinterpret_cast<const uint64_t*>(from), reinterpret_cast<uint64_t*>(out), run);
        }
      }
      done += run;
    }
  }

  const ConvProblem& d_;
  int64_t size_;  // of an element
  size_t type_;
  GemmTile tile_;
  std::vector<Region> regions_;
  int64_t part_;  // channels
  int64_t rows_;
  int64_t block_;  // positions
};

}  // namespace

DilatedBlock dilated_block(const ConvProblem& d) { return {part_of(d), block_of(d)}; }

DilatedCost dilated_cost(const ConvProblem& d) {
  return {cost_of(d, best_cuts(d)), cost_of(d, kUncut)};
}

void dilated_product(const ConvProblem& d, const Tensor& lines, const Tensor& y) {
  RegionsProduct(d, best_cuts(d)).run(lines, y);
}

int64_t dilated_workspace(const ConvProblem& d) {
  return RegionsProduct(d, best_cuts(d)).workspace();
}

}  // namespace tinyt::cpu
