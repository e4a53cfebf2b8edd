// The output is cut into 4x4 tiles, and the tiles, numbered through all images, into blocks: the
// transformed input and the products of a block stay in the cache. Lavin and Gray 2016, "Fast
// Algorithms for Convolutional Neural Networks".
#include "cpu/conv/winograd.h"

#include <algorithm>
#include <atomic>

#include "cpu/conv/winograd_tiles.h"

namespace tinyt::cpu {
namespace {

using namespace winograd;

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
    const TilePlanes planes(p_, input_of(p_), first_, count_);
    transform_block(planes, p_.depth, slots,
                    {.data = data_,
                     .element = p_.data_step(),
                     .line = p_.tile.cols,
                     .panel = p_.tile.cols * p_.depth});
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
           .b = data_ + element * p_.data_step() + k * p_.tile.cols,
           .b_step = p_.tile.cols,
           .b_panel = p_.tile.cols * p_.depth,
           .c = products_ + element * p_.products_step(),
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

  // Tiles next to each other in the output.
  struct Run {
    int64_t lane, width, height;  // of its first tile; in elements
    int64_t to;                   // in the output of channel 0
  };

  int64_t cut_runs(int64_t i, Run* runs) const {
    const Sizes& n = p_.d.columns.positions;
    const int64_t lanes = std::min(p_.lanes, count_ - i);
    int64_t count = 0;
    for (int64_t lane = 0; lane < lanes;) {
      const TileAt at(p_, first_ + i + lane);
      const int64_t run = std::min(lanes - lane, p_.across - at.x);
      const int64_t y = at.y * kSide, x = at.x * kSide, image = at.plane / n[0];
      const int64_t plane = image * p_.d.groups * p_.d.outs * n[0] + at.plane % n[0];
      runs[count++] = {lane, std::min(run * kSide, n[2] - x), std::min(kSide, n[1] - y),
                       (plane * n[1] + y) * n[2] + x};
      lane += run;
    }
    return count;
  }

  // The results of the tiles from `i` on, of channels [begin, end).
  bool finish(int64_t i, int64_t begin, int64_t end) const {
    const Sizes& n = p_.d.columns.positions;
    float lines[4 * 4 * kMaxLanes];
    Run runs[kMaxLanes];
    const int64_t count = cut_runs(i, runs);
    bool finite = true;
    for (int64_t o = begin; o < end; ++o) {
      finite &= kernels().winograd->output(products_ + o * p_.block + i, p_.products_step(), lines);
      for (int64_t k = 0; k < count; ++k) {
        const Run& run = runs[k];
        float* to = y_ + o * product(n) + run.to;
        for (int64_t r = 0; r < run.height; ++r) {
          copy_run(lines + (r * p_.lanes + run.lane) * kSide, to + r * n[2], run.width);
        }
      }
    }
    return finite;
  }

  const Plan& p_;
  int64_t first_, count_;
  const float* weights_;
  float *data_, *products_, *y_;
};

// The memory of a group's blocks.
struct GroupLayout {
  int64_t blocks;
  bool many;  // then a block is run by one thread
  int64_t threads, slots, weight_bytes, block_bytes, planes_bytes;

  explicit GroupLayout(const Plan& p)
      : blocks(ceil_div(p.tiles, p.block)),
        many(blocks >= kManyBlocks),
        threads(num_threads()),
        slots(many ? threads : 1),
        weight_bytes(bytes_of(kElements * p.depth * p.rows)),
        block_bytes(bytes_of(p.data_size() + p.products_size())),
        planes_bytes(bytes_of_planes(p)) {}
  int64_t workspace() const { return weight_bytes + block_bytes * slots + planes_bytes * threads; }
};

bool run_group(const Plan& p, const float* w, float* y) {
  const GroupLayout at(p);
  const Workspace weights(at.weight_bytes), memory(at.block_bytes * at.slots);
  const Workspace planes(at.planes_bytes * at.threads);
  auto* u = reinterpret_cast<float*>(weights.data());
  transform_weights(p, w, u);
  Slots block_slots(memory.data(), at.block_bytes, at.slots);
  Slots plane_slots(planes.data(), at.planes_bytes, at.threads);
  std::atomic<bool> finite{true};
  const auto run = [&](int64_t i) {
    block_slots.with_one([&](char* slot) {
      WinogradBlock block(p, i * p.block, u, reinterpret_cast<float*>(slot), y);
      if (!block.run(plane_slots)) finite.store(false, std::memory_order_relaxed);
    });
  };
  if (at.many) {
    parallel_for(at.blocks, run);
  } else {
    for (int64_t i = 0; i < at.blocks; ++i) run(i);
  }
  return finite.load();
}

}  // namespace

int64_t winograd_workspace(const ConvProblem& d) {
  const ConvProblem group = group_of(d, 0);
  return GroupLayout(Plan(group)).workspace();
}

bool winograd_product(const ConvProblem& d, const Tensor& lines, const Tensor& y) {
  for (int64_t g = 0; g < d.groups; ++g) {
    const ConvProblem group = group_of(d, g);
    const float* w = lines.ptr<float>() + g * d.outs * d.ins * d.taps();
    const Plan plan(group);
    if (!run_group(plan, w, y.ptr<float>() + g * d.outs * d.positions())) return false;
  }
  return true;
}

}  // namespace tinyt::cpu
