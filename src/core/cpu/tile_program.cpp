#include "tile_program.h"

#include <cstring>

#include "../parallel.h"
#include "levels.h"
#include "reduce.h"
#include "scratch.h"
#include "tiles.h"

namespace tinyt::cpu {

namespace {

constexpr int64_t kTileBytes = 16384;  // of the values in between: half of a small L1
constexpr int64_t kStreamPiece =
    2048;  // of what goes past the caches at once, as in elementwise.cpp
constexpr int64_t kMostRowBlock = kColumnBlock * kReduceLanes;

// What of a region one call of the kernels computes: rows of one outer position, columns of each.
struct Part {
  int64_t outer, row, rows, col, cols;
};

// A region cut into parts.
struct Cut {
  int64_t rows, cols;  // of a part, at most
  int64_t row_parts, col_parts, count;
  int64_t loop_rows, space_cols;  // of the space

  Cut(const TileSpace& space, int64_t elements)
      : loop_rows(space.outer.empty() ? 1 : space.outer.back()), space_cols(space.cols) {
    cols = std::min(space.cols, elements);
    rows = std::clamp<int64_t>(elements / std::max<int64_t>(1, cols), 1, loop_rows);
    row_parts = ceil_div(loop_rows, rows);
    col_parts = ceil_div(space.cols, cols);
    count = space.row_count() / loop_rows * row_parts * col_parts;
  }

  Part part(int64_t i) const {
    const int64_t col = i % col_parts * cols, row = i / col_parts % row_parts * rows;
    return {i / col_parts / row_parts, row, std::min(rows, loop_rows - row), col,
            std::min(cols, space_cols - col)};
  }
};

// Runs the steps on parts, and reduces rows in the order of levels.h.
class Runner {
 public:
  Runner(const TileProgram& program, std::span<const TileOperand> operands, const TileSpace& space,
         bool stream = false)
      : program_(program),
        operands_(operands),
        space_(space),
        stream_(stream),
        loop_rows_(space.outer.empty() ? 1 : space.outer.back()),
        dtype_(program.registers[static_cast<size_t>(program.result())]),
        item_(static_cast<int64_t>(size_of(dtype_))) {}

  // How many elements of every value fit into a tile.
  static int64_t tile_elements(const TileProgram& program) {
    size_t widest = 1;
    for (const DType t : program.registers) widest = std::max(widest, size_of(t));
    return kTileBytes / static_cast<int64_t>(widest);
  }

  // A part of the result, whose rows are dense.
  void store(const Part& at, char* out) {
    const int64_t row = at.outer * loop_rows_ + at.row;
    char* to = out + (row * space_.cols + at.col) * item_;
    if (!stream_) return compute(at, to, space_.cols * item_);
    compute(at, last_, at.cols * item_);
    const bool one_run = at.cols == space_.cols;
    const int64_t bytes = at.cols * item_ * (one_run ? at.rows : 1);
    for (int64_t r = 0; r < (one_run ? 1 : at.rows); ++r)
      kernels().copy->stream(last_ + r * bytes, to + r * space_.cols * item_, bytes);
  }

  // Rows of at most a block, reduced.
  void reduce_rows(const Part& at, char* out) {
    compute(at, last_, at.cols * item_);
    kernels().reduce->rows[index()][static_cast<int>(dtype_)](
        last_, at.rows, at.cols * item_, at.cols, out + (at.outer * loop_rows_ + at.row) * item_);
  }

  // One block of a row, reduced.
  void reduce_block(const Part& at, char* value) {
    const int64_t step = tile_elements(program_);
    for (int64_t done = 0; done < at.cols; done += step)
      compute({at.outer, at.row, 1, at.col + done, std::min(step, at.cols - done)},
              last_ + done * item_, 0);
    kernels().reduce->row[index()][static_cast<int>(dtype_)](last_, at.cols, value);
  }

  // Values of blocks into the first one: neighbours first, an odd one out moves up.
  void combine(char* values, int64_t count) {
    if (count == 1) return;
    int64_t left = 1;
    while (2 * left < count) left *= 2;
    combine(values, left);
    combine(values + left * item_, count - left);
    kernels().reduce->accumulate[index()][static_cast<int>(dtype_)](values + left * item_, 1, 1, 0,
                                                                    values);
  }

  int64_t item() const { return item_; }

 private:
  // The last step writes to `out`, whose rows are `out_row` bytes apart. The others write over what
  // they read where that is as large, else into another tile.
  void compute(const Part& at, char* out, int64_t out_row) {
    int64_t base[TileProgram::kMaxInputs];
    for (int i = 0; i < program_.inputs; ++i) base[i] = offset(operands_[i], at);
    char* made[TileProgram::kMaxSteps];
    int tile = 0;
    for (size_t s = 0; s < program_.steps.size(); ++s) {
      const TileProgram::Step& step = program_.steps[s];
      char* ptr[kMaxOperands];
      int64_t row[kMaxOperands];
      uint8_t inner[kMaxOperands] = {1};
      const auto item = size_of(program_.registers[step.out]);
      for (int i = 0; i < step.inputs; ++i) {
        const int r = step.in[i];
        const auto size = static_cast<int64_t>(size_of(program_.registers[r]));
        if (r >= program_.inputs) {
          ptr[i + 1] = made[r - program_.inputs];
          row[i + 1] = at.cols * size;
          inner[i + 1] = 1;
          if (static_cast<size_t>(size) != item) tile = ptr[i + 1] == tiles_[0] ? 1 : 0;
          continue;
        }
        const TileOperand& operand = operands_[r];
        ptr[i + 1] = operand.data + base[r];
        row[i + 1] = operand.stride.empty() ? 0 : operand.stride.back();
        inner[i + 1] = operand.inner;
      }
      const bool is_last = s + 1 == program_.steps.size();
      ptr[0] = made[s] = is_last ? out : tiles_[tile];
      row[0] = is_last ? out_row : at.cols * static_cast<int64_t>(item);
      kernels().elementwise->kernel[static_cast<int>(step.op)][static_cast<int>(step.dtype)](
          {ptr, at.rows, at.cols, row, inner});
    }
  }

  // Of a part's first element.
  int64_t offset(const TileOperand& operand, const Part& at) const {
    const auto r = static_cast<size_t>(&operand - operands_.data());
    int64_t bytes =
        operand.inner ? at.col * static_cast<int64_t>(size_of(program_.registers[r])) : 0;
    if (operand.stride.empty()) return bytes;
    bytes += at.row * operand.stride.back();
    int64_t outer = at.outer;
    for (size_t d = operand.stride.size() - 1; d-- > 0; outer /= space_.outer[d])
      bytes += outer % space_.outer[d] * operand.stride[d];
    return bytes;
  }

  int index() const { return static_cast<int>(reduction_of(program_.reduction)); }

  const TileProgram& program_;
  std::span<const TileOperand> operands_;
  const TileSpace& space_;
  bool stream_;  // the result goes past the caches
  int64_t loop_rows_;
  DType dtype_;
  int64_t item_;
  alignas(64) char tiles_[2][kTileBytes];
  alignas(64) char last_[kMostRowBlock * 8];
};

// Rows longer than a block: their blocks are reduced side by side, then combined.
void reduce_long_rows(const TileProgram& program, std::span<const TileOperand> operands,
                      const TileSpace& space, int64_t block, char* out) {
  const int64_t rows = space.row_count(), blocks = ceil_div(space.cols, block);
  const int64_t loop_rows = space.outer.empty() ? 1 : space.outer.back();
  const auto item = static_cast<int64_t>(size_of(program.registers[program.result()]));
  const Scratch values(rows * blocks * item);
  parallel_ranges(
      rows * blocks, std::max<int64_t>(1, kChunkElements / block), [&](int64_t begin, int64_t end) {
        Runner runner(program, operands, space);
        for (int64_t i = begin; i < end; ++i) {
          const int64_t row = i / blocks, first = i % blocks * block;
          runner.reduce_block(
              {row / loop_rows, row % loop_rows, 1, first, std::min(block, space.cols - first)},
              values.data() + i * item);
        }
      });
  Runner runner(program, operands, space);
  for (int64_t row = 0; row < rows; ++row) {
    runner.combine(values.data() + row * blocks * item, blocks);
    std::memcpy(out + row * item, values.data() + row * blocks * item, static_cast<size_t>(item));
  }
}

// Whether the result goes past the caches: not over an operand, whose lines have been read.
bool streams(const TileProgram& program, std::span<const TileOperand> operands,
             const TileSpace& space, const char* out) {
  const auto item = static_cast<int64_t>(size_of(program.registers[program.result()]));
  bool fresh = space.row_count() * space.cols * item >= kStreamBytes;
  for (const TileOperand& operand : operands) fresh &= operand.data != out;
  return fresh && !program.reduces;
}

}  // namespace

void run_tiles(const TileProgram& program, std::span<const TileOperand> operands,
               const TileSpace& space, char* out) {
  const bool stream = streams(program, operands, space, out);
  int64_t elements = Runner::tile_elements(program);
  if (program.reduces) {
    const int64_t block = column_block_of(reduction_of(program.reduction)) * kReduceLanes;
    if (space.cols > block) return reduce_long_rows(program, operands, space, block, out);
    elements = std::max(elements, space.cols);
  } else if (stream) {
    elements = kStreamPiece * elements / kTileBytes;
  }
  const Cut cut(space, elements);
  parallel_ranges(cut.count, std::max<int64_t>(1, kChunkElements / (cut.rows * cut.cols)),
                  [&](int64_t begin, int64_t end) {
                    Runner runner(program, operands, space, stream);
                    for (int64_t i = begin; i < end; ++i)
                      program.reduces ? runner.reduce_rows(cut.part(i), out)
                                      : runner.store(cut.part(i), out);
                    if (stream) kernels().copy->fence();
                  });
}

}  // namespace tinyt::cpu
