// The output is cut into 4x4 tiles, and the tiles, numbered through all images, into blocks: the
// transformed input and the products of a block stay in the cache. Lavin and Gray 2016, "Fast
// Algorithms for Convolutional Neural Networks".
#include "winograd.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>

#include "../parallel.h"
#include "levels.h"
#include "scratch.h"

namespace tinyt::cpu {
namespace {

constexpr int64_t kSide = 4;       // of a tile of the output
constexpr int64_t kElements = 36;  // of a tile of the input
constexpr int64_t kDepth = 256;    // most terms in one chain of fma
constexpr int64_t kMinChannels = 16;
constexpr int64_t kMinTiles = 32;
constexpr int64_t kMaxTiles = 256;  // of a block
constexpr int64_t kBlockElements = int64_t{1} << 19;
constexpr int64_t kManyBlocks = 8;       // each is run by one thread
constexpr int64_t kWeightsOfTask = 512;  // 3x3 kernels
constexpr int64_t kChannelsOfTask = 8;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

// The problem and how it is cut.
struct Plan {
  const Direct& d;
  GemmTile tile = kernels().gemm->tile[static_cast<int>(DType::Float32)];
  int64_t lanes = kernels().winograd->lanes;
  int64_t down, across;  // tiles of a plane of the output
  int64_t tiles;         // of all planes
  int64_t depth;         // terms of a sum: (channel, tap of the first dimension)
  int64_t chain;         // of them in one chain
  int64_t rows;          // outs, rounded up
  int64_t block;         // tiles of a block
  int64_t left, top;     // of the first tile in the source
  bool flipped;

  explicit Plan(const Direct& direct) : d(direct) {
    const Columns& c = d.columns;
    down = ceil_div(c.positions[1], kSide);
    across = ceil_div(c.positions[2], kSide);
    tiles = d.images * c.positions[0] * down * across;
    depth = d.ins * c.kernel[0];
    chain = ceil_div(depth, ceil_div(depth, kDepth));
    rows = round_up(d.outs, tile.rows);
    const int64_t fit = kBlockElements / (kElements * (depth + d.outs));
    block = std::clamp(round_up(fit, tile.cols), round_up(96, tile.cols), kMaxTiles);
    block = std::min(block, round_up(tiles, tile.cols));
    flipped = c.tap_step[1] < 0;
    top = c.offset[1] - (flipped ? 2 : 0);
    left = c.offset[2] - (flipped ? 2 : 0);
  }
  int64_t data_size() const { return kElements * depth * block; }
  int64_t products_size() const { return kElements * d.outs * block; }
};

// Where a tile lies.
struct TileAt {
  int64_t plane, y, x;  // y and x in tiles

  TileAt(const Plan& p, int64_t tile)
      : plane(tile / p.across / p.down), y(tile / p.across % p.down), x(tile % p.across) {}
};

// The input of a block's tiles in a form that has each tile's elements at one place in 24 planes:
// row i of every tile row, its columns dealt to four. Next to each other in a plane are the tiles
// of a row and one more, for the last two columns.
class TilePlanes {
 public:
  TilePlanes(const Plan& p, int64_t first, int64_t count) : p_(p), count_(count) {
    first_row_ = first / p.across;
    rows_ = (first + count - 1) / p.across - first_row_ + 1;
    first_x_ = rows_ == 1 ? first % p.across : 0;
    groups_ = rows_ == 1 ? count + 1 : p.across + 1;
    plane_ = rows_ * groups_ + 3 * p.lanes;
    for (int64_t i = 0; i < round_up(count, p.tile.cols); ++i) {
      const int64_t t = first + std::min(i, count - 1);
      const int64_t at = (t / p.across - first_row_) * groups_ + t % p.across - first_x_;
      if (i % p.lanes == 0) start_[i / p.lanes] = at;
      index_[i] = static_cast<int32_t>(at - start_[i / p.lanes]);
    }
  }
  int64_t size() const { return 24 * plane_ + line_size(); }

  // Makes `memory` ready for channels.
  void clear(float* memory) const { std::fill_n(memory, size(), 0.0f); }

  // Transforms term k of all sums.
  void transform(int64_t k, float* memory, float* data) const {
    const Columns& c = p_.d.columns;
    const int64_t channel = k / c.kernel[0], tap = k % c.kernel[0];
    for (int64_t r = 0; r < rows_; ++r) {
      const TileAt at(p_, (first_row_ + r) * p_.across);
      const int64_t image = at.plane / c.positions[0];
      const int64_t z =
          at.plane % c.positions[0] * c.multiply[0] + c.offset[0] + tap * c.tap_step[0];
      const bool there = z >= 0 && z < c.source[0];
      const float* plane = reinterpret_cast<const float*>(c.data) + image * c.image_stride +
                           channel * c.channel_stride + (there ? z : 0) * c.source[1] * c.source[2];
      for (int64_t i = 0; i < 6; ++i) {
        const int64_t y = at.y * kSide + p_.top + i;
        const bool inside = there && y >= 0 && y < c.source[1];
        deal(inside ? plane + y * c.source[2] : nullptr, memory + 24 * plane_,
             memory + 4 * i * plane_ + r * groups_);
      }
    }
    const auto* winograd = kernels().winograd;
    for (int64_t i = 0; i < round_up(count_, p_.tile.cols); i += p_.lanes) {
      float* out = data + (i / p_.tile.cols * p_.depth + k) * p_.tile.cols + i % p_.tile.cols;
      winograd->input(memory + start_[i / p_.lanes], plane_, index_ + i, out, p_.depth * p_.block);
    }
  }

 private:
  int64_t line_size() const { return 4 * round_up(groups_, p_.lanes); }

  // One line of the source, null for zeros.
  void deal(const float* from, float* line, float* to) const {
    const int64_t width = p_.d.columns.source[2], x = first_x_ * kSide + p_.left;
    const int64_t begin = std::clamp<int64_t>(-x, 0, 4 * groups_);
    const int64_t end = std::clamp<int64_t>(width - x, begin, 4 * groups_);
    if (from != nullptr) {
      copy_run(from + x + begin, line + begin, end - begin);
    } else {
      zero_run(line + begin, end - begin);
    }
    kernels().winograd->deal(line, groups_, to, plane_);
  }

  const Plan& p_;
  int64_t count_, first_row_, rows_, first_x_, groups_, plane_;
  int64_t start_[kMaxTiles];  // of a register of tiles
  int32_t index_[kMaxTiles];
};

// All weights, in panels as the products read them: element by element, chain by chain.
void transform_weights(const Plan& p, const float* w, float* out) {
  const int64_t taps = p.d.taps();
  const int64_t panels = p.rows / p.tile.rows;
  const int64_t grain = std::max<int64_t>(1, kWeightsOfTask / (p.depth * p.tile.rows));
  parallel_ranges(panels, grain, [&](int64_t begin, int64_t end) {
    for (int64_t panel = begin; panel < end; ++panel) {
      const int64_t first = panel * p.tile.rows, count = std::min(p.tile.rows, p.d.outs - first);
      for (int64_t k = 0; k < p.depth; ++k) {
        const int64_t start = k / p.chain * p.chain, chain = std::min(p.chain, p.depth - start);
        kernels().winograd->weights(
            w + first * p.depth * 9 + k * 9, p.d.ins * taps, p.flipped, count,
            out + start * p.rows + first * chain + (k - start) * p.tile.rows, p.depth * p.rows);
      }
    }
  });
}

// One block of tiles of one group.
class WinogradBlock {
 public:
  WinogradBlock(const Plan& p, int64_t first, const float* weights, float* memory, float* y)
      : p_(p),
        first_(first),
        count_(std::min(p.block, p.tiles - first)),
        weights_(weights),
        data_(memory),
        products_(memory + p.data_size()),
        y_(y) {}

  // False where a result is not finite.
  bool run(Slots& slots) {
    const TilePlanes planes(p_, first_, count_);
    parallel_ranges(p_.depth, kChannelsOfTask, [&](int64_t begin, int64_t end) {
      slots.with_one([&](char* slot) {
        auto* memory = reinterpret_cast<float*>(slot);
        planes.clear(memory);
        for (int64_t k = begin; k < end; ++k) planes.transform(k, memory, data_);
      });
    });
    parallel_for(kElements, [&](int64_t element) { multiply(element); });
    std::atomic<bool> finite{true};
    parallel_ranges(p_.d.outs, kChannelsOfTask, [&](int64_t begin, int64_t end) {
      for (int64_t i = 0; i < count_; i += p_.lanes) {
        if (!finish(i, begin, end)) finite.store(false, std::memory_order_relaxed);
      }
    });
    return finite.load();
  }

 private:
  void multiply(int64_t element) const {
    for (int64_t k = 0; k < p_.depth; k += p_.chain) {
      const int64_t depth = std::min(p_.chain, p_.depth - k);
      kernels().gemm->block[static_cast<int>(DType::Float32)](
          {.rows = p_.d.outs,
           .cols = round_up(count_, p_.tile.cols),
           .depth = depth,
           .a = weights_ + (element * p_.depth + k) * p_.rows,
           .a_line = 1,
           .a_step = p_.tile.rows,
           .a_panel = p_.tile.rows * depth,
           .b = data_ + element * p_.depth * p_.block + k * p_.tile.cols,
           .b_step = p_.tile.cols,
           .b_panel = p_.tile.cols * p_.depth,
           .c = products_ + element * p_.d.outs * p_.block,
           .row = 0,
           .col = 0,
           .c_row = p_.block,
           .run = p_.block,
           .c_run = 0,
           .accumulate = k > 0,
           .add = nullptr,
           .add_row = 0,
           .add_col = 0});
    }
  }

  // The results of the tiles from `i` on, of channels [begin, end).
  bool finish(int64_t i, int64_t begin, int64_t end) const {
    const Columns& c = p_.d.columns;
    const int64_t height = c.positions[1], width = c.positions[2];
    const int64_t lanes = std::min(p_.lanes, count_ - i), plane = height * width;
    float lines[4 * 4 * kMaxLanes];
    bool finite = true;
    for (int64_t o = begin; o < end; ++o) {
      finite &=
          kernels().winograd->output(products_ + o * p_.block + i, p_.d.outs * p_.block, lines);
      for (int64_t lane = 0; lane < lanes;) {
        const TileAt at(p_, first_ + i + lane);
        const int64_t run = std::min(lanes - lane, p_.across - at.x);
        const int64_t image = at.plane / c.positions[0], z = at.plane % c.positions[0];
        float* to = y_ + ((image * p_.d.groups * p_.d.outs + o) * c.positions[0] + z) * plane +
                    at.y * kSide * width + at.x * kSide;
        const int64_t n = std::min(run * kSide, width - at.x * kSide);
        for (int64_t r = 0; r < std::min(kSide, height - at.y * kSide); ++r) {
          copy_run(lines + (r * p_.lanes + lane) * kSide, to + r * width, n);
        }
        lane += run;
      }
    }
    return finite;
  }

  const Plan& p_;
  int64_t first_, count_;
  const float* weights_;
  float *data_, *products_, *y_;
};

int64_t bytes_of(int64_t elements) {
  return round_up(elements * static_cast<int64_t>(sizeof(float)), memory::kAlignment);
}

// Room for TilePlanes of any block.
int64_t bytes_of_planes(const Plan& p) {
  const int64_t plane = (p.block / p.across + 2) * (p.across + 1) + 3 * p.lanes;
  return bytes_of(24 * plane + 4 * round_up(p.across + 1, p.lanes));
}

bool run_group(const Plan& p, const float* w, float* y) {
  const int64_t blocks = ceil_div(p.tiles, p.block);
  const bool many = blocks >= kManyBlocks;  // then a block is run by one thread
  const int64_t threads = num_threads(), block_bytes = bytes_of(p.data_size() + p.products_size());
  const int64_t planes_bytes = bytes_of_planes(p);
  const Scratch weights(bytes_of(kElements * p.depth * p.rows));
  const Scratch memory(block_bytes * (many ? threads : 1)), planes(planes_bytes * threads);
  auto* u = reinterpret_cast<float*>(weights.data());
  transform_weights(p, w, u);
  Slots block_slots(memory.data(), block_bytes, many ? threads : 1);
  Slots plane_slots(planes.data(), planes_bytes, threads);
  std::atomic<bool> finite{true};
  const auto run = [&](int64_t i) {
    block_slots.with_one([&](char* slot) {
      WinogradBlock block(p, i * p.block, u, reinterpret_cast<float*>(slot), y);
      if (!block.run(plane_slots)) finite.store(false, std::memory_order_relaxed);
    });
  };
  if (many) {
    parallel_for(blocks, run);
  } else {
    for (int64_t i = 0; i < blocks; ++i) run(i);
  }
  return finite.load();
}

}  // namespace

bool winograd_pays(const Direct& d) {
  const Columns& c = d.columns;
  if (d.dtype != DType::Float32 || d.outs < kMinChannels || d.ins < kMinChannels) return false;
  for (int i = 1; i < kSpatial; ++i) {
    if (c.kernel[i] != 3 || c.multiply[i] != 1 || std::abs(c.tap_step[i]) != 1) return false;
  }
  if (c.tap_step[1] != c.tap_step[2]) return false;
  return Plan(d).tiles >= kMinTiles;
}

bool winograd_product(const Direct& d, const Tensor& lines, const Tensor& y) {
  for (int64_t g = 0; g < d.groups; ++g) {
    Direct group = d;
    group.columns.data += g * d.ins * d.columns.channel_stride * int64_t{sizeof(float)};
    const float* w = lines.ptr<float>() + g * d.outs * d.ins * d.taps();
    const Plan plan(group);
    if (!run_group(plan, w, y.ptr<float>() + g * d.outs * d.positions())) return false;
  }
  return true;
}

}  // namespace tinyt::cpu
