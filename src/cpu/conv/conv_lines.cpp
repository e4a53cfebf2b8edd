#include "cpu/conv/conv_lines.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "core/base/parallel.h"
#include "cpu/conv/conv_blocks.h"
#include "cpu/schedule/levels.h"
#include "cpu/schedule/workspace.h"

namespace tinyt::cpu {
namespace {

using namespace conv_blocks;

constexpr int64_t kLineTerms = 256;                  // most of the terms in one chain of fma
constexpr int64_t kLineElements = int64_t{1} << 16;  // of the lines of a block
constexpr int64_t kMaxBlock = 4096;                  // positions
// Storing parts of a row adds one part in so many to the time of a product.
constexpr int64_t kStoresOfRow = 10;

Blocks cut(const ConvProblem& d) {
  const int64_t share = d.images * d.positions() / kMinBlocks;
  const int64_t most = std::clamp(std::min(kLineElements / d.ins, share), kMinBlock, kMaxBlock);
  return {d, most, 4 * kLineElements / (d.ins * Blocks::depth_of_row(d.columns))};
}

// Whether taps meet the source's own lines, without a stride and without zeros.
bool lies_as_it_is(const Columns& c) {
  for (int d = 0; d < kSpatial; ++d) {
    const int64_t before = std::min<int64_t>(0, (c.kernel[d] - 1) * c.tap_step[d]);
    const int64_t first = c.offset[d] + before;
    const int64_t last = first + PaddedLines::span(c, d) + c.positions[d] - 1;
    if (c.multiply[d] != 1 || first < 0 || last >= c.source[d]) return false;
  }
  return true;
}

class LinesProduct {
 public:
  explicit LinesProduct(const ConvProblem& d)
      : d_(d),
        size_(static_cast<int64_t>(size_of(d.dtype))),
        type_(static_cast<size_t>(d.dtype)),
        tile_(kernels().gemm->tile[type_]),
        blocks_(cut(d)),
        in_place_(tile_.step == 1 && lies_as_it_is(d.columns)),
        pitch_(in_place_ ? d.columns.source[2] : blocks_.lines().pitch()),
        depth_(d.ins * d.taps()),
        chain_(even_part(depth_, kLineTerms)),
        rows_(round_up(d.outs, tile_.rows)) {}

  LinesFill fill() const {
    const PositionBlock b = blocks_[0];
    const int64_t used = b.rows * b.cols;
    return {used, products_of(b).elements - used};
  }

  int64_t tasks() const { return d_.groups * blocks_.count(); }
  bool tells(Epilogue* tail) const { return tail && tail->begin(d_.positions(), tasks()); }
  int64_t workspace() const { return weight_bytes() + slot_bytes() * num_threads(); }

  void run(const Tensor& lines, const Tensor& y, Epilogue* tail) {
    for (int64_t k = 0; k < depth_; ++k) {
      const int64_t channel = k / d_.taps(), tap = k % d_.taps();
      offsets_.push_back(in_place_
                             ? channel * d_.columns.channel_stride + offset_in_source(tap)
                             : channel * blocks_.lines().size() + blocks_.lines().offset_of(tap));
    }
    const Workspace weights(weight_bytes());
    for (int64_t g = 0; g < d_.groups; ++g) pack_weights(lines, g, weights.data());
    const int64_t threads = num_threads(), bytes = slot_bytes();
    const Workspace memory(bytes * threads);
    if (!in_place_) std::memset(memory.data(), 0, static_cast<size_t>(bytes * threads));
    Slots slots(memory.data(), bytes, threads);
    const bool tells = this->tells(tail);
    parallel_for(tasks(), [&](int64_t i) {
      const PositionBlock block = blocks_[i % blocks_.count()];
      const int64_t group = i / blocks_.count();
      slots.with_one(
          [&](char* slot) { run_block(block, group, weights.data(), slot, y.host_data()); });
      if (tells) tell(block, group, *tail);
    });
  }

 private:
  // How the rows of a block are computed: one by one, or as one with the elements between them.
  struct Products {
    int64_t count, cols;
    int64_t run, used;  // as in GemmBlock
    int64_t elements;   // of all registers, and the time that parts of a row take
  };

  Products products_of(const PositionBlock& b) const {
    const int64_t lanes = tile_.cols / 2, all = (b.rows - 1) * pitch_ + b.cols;
    const int64_t each = b.rows * time_of(b.cols), one = round_up(all, lanes);
    if (pitch_ == b.cols && b.cols == d_.columns.positions[2]) return {1, all, all, all, one};
    const int64_t parts = one + all / kStoresOfRow;
    if (parts < each) return {1, all, pitch_, b.cols, parts};
    return {b.rows, b.cols, b.cols, b.cols, each};
  }

  // In elements of whole tiles: one register by itself may have too few rows for as many chains as
  // hide the latency of an fma.
  int64_t time_of(int64_t cols) const {
    constexpr int64_t kChains = 8;
    const int64_t lanes = tile_.cols / 2, single = lanes * std::max(kChains, tile_.rows);
    const int64_t registers = ceil_div(cols, lanes);
    return registers / 2 * tile_.cols + registers % 2 * (single / tile_.rows);
  }

  int64_t weight_bytes() const { return d_.groups * rows_ * depth_ * size_; }
  int64_t slot_bytes() const {
    return in_place_ ? 0 : round_up(source_bytes(), memory::kAlignment);
  }
  // Tiles read beyond the last position.
  int64_t source_bytes() const { return (d_.ins * blocks_.lines().size() + kMaxTileLines) * size_; }
  int64_t offset_in_source(int64_t tap) const {
    const Columns& c = d_.columns;
    int64_t offset = 0, step = 1;
    for (int d = kSpatial - 1; d >= 0; --d) {
      offset += (tap % c.kernel[d] * c.tap_step[d] + c.offset[d]) * step;
      tap /= c.kernel[d];
      step *= c.source[d];
    }
    return offset;
  }

  // Of a group, chain by chain, in panels.
  void pack_weights(const Tensor& lines, int64_t group, char* out) const {
    const int64_t first = group * d_.outs * depth_, panels = rows_ / tile_.rows;
    const StridedLines a = {lines.host_data() + first * size_, depth_, 1};
    parallel_for(panels, [&](int64_t panel) {
      const int64_t line = panel * tile_.rows, count = std::min(tile_.rows, d_.outs - line);
      for (int64_t k = 0; k < depth_; k += chain_) {
        const int64_t depth = std::min(chain_, depth_ - k);
        kernels().gemm->pack[type_](
            &a, {line, count, k, depth, tile_.rows},
            out + (group * rows_ * depth_ + k * rows_ + line * depth) * size_);
      }
    });
  }

  void run_block(const PositionBlock& b, int64_t group, const char* weights, char* slot,
                 char* y) const {
    const Columns& c = d_.columns;
    weights += group * rows_ * depth_ * size_;
    if (blocks_.sides_differ() && !in_place_) {
      std::memset(slot, 0, static_cast<size_t>(source_bytes()));
    }
    const int64_t position = (b.z * c.positions[1] + b.y) * c.positions[2] + b.x;
    for (int64_t image = b.image; image < b.image + b.images; ++image) {
      const char* channels =
          c.data + (image * c.image_stride + group * d_.ins * c.channel_stride) * size_;
      char* out = y + ((image * d_.groups + group) * d_.outs * d_.positions() + position) * size_;
      if (in_place_) {
        const int64_t first = (b.z * c.source[1] + b.y) * c.source[2] + b.x;
        multiply(b, weights, channels + first * size_, out);
      } else {
        copy_channels(blocks_.lines(), c, d_.dtype, d_.ins, b.z, b.y, b.x, channels, slot);
        multiply(b, weights, slot, out);
      }
    }
  }

  void tell(const PositionBlock& b, int64_t group, Epilogue& tail) const {
    const Sizes& n = d_.columns.positions;
    const bool whole = b.cols == n[2];  // rows
    for (int64_t image = b.image; image < b.image + b.images; ++image)
      for (int64_t r = 0; r < (whole ? 1 : b.rows); ++r)
        tail.run((image * d_.groups + group) * d_.outs, d_.outs,
                 (b.z * n[1] + b.y + r) * n[2] + b.x, whole ? b.rows * n[2] : b.cols);
  }

  void multiply(const PositionBlock& b, const char* weights, const char* source, char* out) const {
    const Products products = products_of(b);
    const int64_t row = d_.columns.positions[2];
    for (int64_t k = 0; k < depth_; k += chain_) {
      for (int64_t r = 0; r < products.count; ++r) {
        const int64_t depth = std::min(chain_, depth_ - k);
        kernels().gemm->block[type_]({.rows = d_.outs,
                                      .cols = products.cols,
                                      .depth = depth,
                                      .a = weights + k * rows_ * size_,
                                      .a_line = 1,
                                      .a_step = tile_.rows,
                                      .a_panel = tile_.rows * depth,
                                      .b = source + r * pitch_ * size_,
                                      .b_step = 0,
                                      .b_panel = 0,
                                      .b_offset = offsets_.data() + k,
                                      .c = out + r * row * size_,
                                      .row = 0,
                                      .col = 0,
                                      .c_row = d_.positions(),
                                      .run = products.run,
                                      .c_run = row,
                                      .used = products.used,
                                      .accumulate = k > 0,
                                      .add = nullptr,
                                      .add_row = 0,
                                      .add_col = 0});
      }
    }
  }

  const ConvProblem& d_;
  int64_t size_;  // of an element
  size_t type_;
  GemmTile tile_;
  Blocks blocks_;
  bool in_place_;
  int64_t pitch_;  // from one row of a block to the next, in the source
  int64_t depth_, chain_, rows_;
  std::vector<int64_t> offsets_;  // of terms, from a row's first position
};

}  // namespace

LinesFill lines_fill(const ConvProblem& d) { return LinesProduct(d).fill(); }

void lines_product(const ConvProblem& d, const Tensor& lines, const Tensor& y, Epilogue* tail) {
  LinesProduct(d).run(lines, y, tail);
}

int64_t lines_workspace(const ConvProblem& d, Epilogue* tail) {
  const LinesProduct product(d);
  product.tells(tail);
  return product.workspace();
}

}  // namespace tinyt::cpu
