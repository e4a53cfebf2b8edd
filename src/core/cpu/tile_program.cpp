#include "tile_program.h"

#include <memory>

#include "../parallel.h"
#include "levels.h"
#include "reduce.h"
#include "tiles.h"

namespace tinyt::cpu {

namespace {

// Runs the steps on tiles of one row, and reduces rows in the order of levels.h.
class Runner {
 public:
  Runner(const TileProgram& program, std::span<const TileOperand> operands, const TileSpace& space,
         char* out)
      : program_(program),
        operands_(operands),
        space_(space),
        out_(out),
        dtype_(program.registers[static_cast<size_t>(program.result())]),
        item_(static_cast<int64_t>(size_of(dtype_))),
        tiles_(new Tile[program.steps.size()]) {}

  // Elements [first, first + n) of a row, stored densely.
  void store(int64_t row, int64_t first, int64_t n) {
    for (int64_t at = first; at < first + n; at += kTileElements) {
      const int64_t count = std::min(kTileElements, first + n - at);
      compute(row, at, count, out_ + (row * space_.cols + at) * item_);
    }
  }

  void reduce(int64_t row) { tree(row, 0, space_.cols, out_ + row * item_); }

 private:
  // Computes one tile; the last step writes to `out`.
  void compute(int64_t row, int64_t col, int64_t n, char* out) {
    for (size_t s = 0; s < program_.steps.size(); ++s) {
      const TileProgram::Step& step = program_.steps[s];
      char* ptr[kMaxOperands];
      const int64_t strides[kMaxOperands] = {};
      uint8_t inner[kMaxOperands] = {1};
      ptr[0] = s + 1 == program_.steps.size() ? out : tiles_[s].bytes;
      for (int i = 0; i < step.inputs; ++i) {
        const int r = step.in[i];
        if (r >= program_.inputs) {
          ptr[i + 1] = tiles_[r - program_.inputs].bytes;
          inner[i + 1] = 1;
          continue;
        }
        const TileOperand& operand = operands_[static_cast<size_t>(r)];
        const auto item = static_cast<int64_t>(size_of(program_.registers[static_cast<size_t>(r)]));
        ptr[i + 1] = operand.data + row * operand.row_stride + (operand.inner ? col * item : 0);
        inner[i + 1] = operand.inner;
      }
      kernels().elementwise->kernel[static_cast<int>(step.op)][static_cast<int>(step.dtype)](
          {ptr, 1, n, strides, inner});
    }
  }

  // The value of elements [first, first + n) of a row: a block, or two halves of the block tree.
  void tree(int64_t row, int64_t first, int64_t n, char* value) {
    if (n <= kRowBlock) return block(row, first, n, value);
    int64_t left = kRowBlock;
    while (2 * left < n) left *= 2;
    alignas(16) char right[16];
    tree(row, first, left, value);
    tree(row, first + left, n - left, right);
    accumulate(right, 1, 1, value);
  }

  void block(int64_t row, int64_t first, int64_t n, char* value) {
    alignas(64) char lanes[kReduceLanes * 8];
    Tile tile;
    const auto& row_kernel = kernels().reduce->row[index()][static_cast<int>(dtype_)];
    for (int i = 0; i < kReduceLanes; ++i) row_kernel(nullptr, 0, lanes + i * item_);
    for (int64_t at = 0; at < n; at += kTileElements) {
      const int64_t count = std::min(kTileElements, n - at);
      compute(row, first + at, count, tile.bytes);
      const int64_t whole = count / kReduceLanes, rest = count % kReduceLanes;
      accumulate(tile.bytes, whole, kReduceLanes, lanes);
      if (rest) accumulate(tile.bytes + whole * kReduceLanes * item_, 1, rest, lanes);
    }
    row_kernel(lanes, kReduceLanes, value);
  }

  void accumulate(const char* in, int64_t n, int64_t cols, char* acc) {
    kernels().reduce->accumulate[index()][static_cast<int>(dtype_)](in, n, cols,
                                                                    kReduceLanes * item_, acc);
  }

  int index() const { return static_cast<int>(reduction_of(program_.reduction)); }

  const TileProgram& program_;
  std::span<const TileOperand> operands_;
  TileSpace space_;
  char* out_;
  DType dtype_;
  int64_t item_;
  std::unique_ptr<Tile[]> tiles_;
};

}  // namespace

void run_tiles(const TileProgram& program, std::span<const TileOperand> operands,
               const TileSpace& space, char* out) {
  if (program.reduces) {
    const int64_t grain = std::max<int64_t>(1, kChunkElements / std::max<int64_t>(1, space.cols));
    parallel_ranges(space.rows, grain, [&](int64_t begin, int64_t end) {
      Runner runner(program, operands, space, out);
      for (int64_t row = begin; row < end; ++row) runner.reduce(row);
    });
    return;
  }
  // Long rows are cut, short ones grouped.
  const int64_t pieces = (space.cols + kChunkElements - 1) / kChunkElements;
  const int64_t grain = std::max<int64_t>(1, kChunkElements / std::max<int64_t>(1, space.cols));
  parallel_ranges(space.rows * pieces, grain, [&](int64_t begin, int64_t end) {
    Runner runner(program, operands, space, out);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = (i % pieces) * kChunkElements;
      runner.store(i / pieces, first, std::min(kChunkElements, space.cols - first));
    }
  });
}

}  // namespace tinyt::cpu
