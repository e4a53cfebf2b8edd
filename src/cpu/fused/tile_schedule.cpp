#include "cpu/fused/tile_schedule.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "core/base/parallel.h"
#include "cpu/copy/gather.h"
#include "cpu/reduce/reduce.h"
#include "cpu/reduce/reduce_parts.h"
#include "cpu/register.h"
#include "cpu/schedule/levels.h"
#include "cpu/schedule/tiles.h"
#include "cpu/schedule/workspace.h"

namespace tinyt::cpu {

namespace {

constexpr int64_t kManySteps = 8;                 // hide that loads from an L3 wait
constexpr int64_t kRowItem = 8;                   // bytes of the room for a value of a row
constexpr int64_t kOneTurn = kChunkElements * 4;  // bytes: threads begin once for both
constexpr int64_t kFewBlocks = 8;                 // of bytes: as large as one of doubles
constexpr int64_t kLeastTurned = 2048;            // elements, to read whole lines
// Operands that come from far away: smaller tiles overlap these reads with writes, and pay where
// few steps use each element, or past an L3's share. Theirs is no power of two, or tiles and
// operands would end in the same 12 bits (kStreamPiece).
constexpr int64_t kFarRead = kFarBytes;
constexpr int64_t kNear = kLiveTileBytes + kTileBytes / 2;  // of tiles on the stack

// What of a region one turn computes: rows of one outer position, columns of each.
struct TilePart {
  int64_t outer, row, rows, col, cols;
};

// A region cut into parts.
struct Cut {
  static constexpr int64_t kEvenCols = 64;  // whole cache lines
  static constexpr int64_t kTurnedCols = 64;
  int64_t rows, cols;  // of a part, at most
  int64_t row_parts, col_parts, count;
  int64_t loop_rows, space_cols;  // of the space

  // Parts of at most so many elements; of several, an even number as large as each other.
  // What lies along the rows is read in squares.
  Cut(const TileSpace& space, int64_t elements)
      : loop_rows(space.outer.empty() ? 1 : space.outer.back()), space_cols(space.cols) {
    const int64_t most = space.turned ? std::max(kTurnedCols, elements / loop_rows) : elements;
    cols = even(space.cols, std::min(space.cols, most), kEvenCols);
    rows = std::clamp<int64_t>(elements / std::max<int64_t>(1, cols), 1, loop_rows);
    if (cols == space.cols) rows = even(loop_rows, rows, 1);
    row_parts = ceil_div(loop_rows, rows);
    col_parts = ceil_div(space.cols, cols);
    count = space.row_count() / loop_rows * row_parts * col_parts;
  }

  static int64_t even(int64_t n, int64_t most, int64_t multiple) {
    if (n <= most) return most;
    return std::min(most, round_up(ceil_div(n, round_up(ceil_div(n, most), 2)), multiple));
  }

  TilePart part(int64_t i) const {
    const int64_t col = i % col_parts * cols, row = i / col_parts % row_parts * rows;
    return {i / col_parts / row_parts, row, std::min(rows, loop_rows - row), col,
            std::min(cols, space_cols - col)};
  }
};

// A region and the memory of one run.
struct TileJob {
  const TileProgram& program;
  std::span<const TileOperand> operands;
  const TileSpace& space;
  std::span<char* const> outputs = {};
  uint64_t replaced = 0;  // outputs that lie where an operand does, a bit each
  int64_t read = 0;       // bytes of the operands
  uint64_t streams = 0;   // outputs that go past the caches

  const TileProgram::Register& reg(int r) const {
    return program.registers[static_cast<size_t>(r)];
  }
  int64_t item(int r) const { return static_cast<int64_t>(size_of(reg(r).dtype)); }
  // Outputs that go past the caches have a tile each, and so have operands that are gathered.
  int stream_tiles() const { return streams == 0 ? 0 : static_cast<int>(program.outputs.size()); }
  int tiles() const { return program.tiles + stream_tiles() + space.gathered; }
  bool goes_past(size_t output) const { return (streams >> output & 1) != 0; }
  int64_t elements() const { return space.row_count() * space.cols; }
  int64_t loop_rows() const { return space.outer.empty() ? 1 : space.outer.back(); }
};

struct Reducer {
  const ReduceTable* table = kernels().reduce;
  int op = 0, dtype = 0;
  int64_t item = 0, block = 0;

  Reducer() = default;
  explicit Reducer(const TileProgram::Step& step)
      : op(static_cast<int>(reduction_of(step.op))),
        dtype(static_cast<int>(step.dtype)),
        item(static_cast<int64_t>(size_of(step.dtype))),
        block(column_block_of(reduction_of(step.op)) * kReduceLanes) {}

  void rows(const char* in, int64_t count, int64_t row, int64_t n, char* out) const {
    table->rows[op][dtype](in, count, row, n, out);
  }
  // Values of blocks into the first one: neighbours first, an odd one out moves up.
  void combine(char* values, int64_t count) const {
    join_pairwise(count, [&](int64_t i, int64_t k) {
      table->accumulate[op][dtype](values + k * kRowItem, 1, 1, 0, values + i * kRowItem);
    });
  }
};

// Runs the steps on parts of at most `elements` of at most `rows` rows.
class Runner {
  // Where a register lies; with rows this far apart, along which it is dense or one element.
  struct View {
    char* data;
    int64_t row;
    bool inner;
  };

 public:
  // `memory`: as much as bytes() says; `whole`: room for what run_pieces() keeps.
  Runner(const TileJob& job, int64_t elements, int64_t rows, char* memory, char* whole)
      : job_(job),
        elements_(elements),
        tile_bytes_(tile_bytes(job, elements)),
        row_bytes_(row_bytes(rows)),
        memory_(memory),
        whole_(whole),
        at_(reinterpret_cast<View*>(tile(job.tiles()) + job.program.row_tiles * row_bytes_)) {}

  static int64_t bytes(const TileJob& job, int64_t elements, int64_t rows) {
    return job.tiles() * tile_bytes(job, elements) + job.program.row_tiles * row_bytes(rows) +
           static_cast<int64_t>(job.program.registers.size() * sizeof(View));
  }

  static int64_t widest(const TileProgram& program) {
    size_t bytes = 1;
    for (const TileProgram::Register& r : program.registers)
      bytes = std::max(bytes, size_of(r.dtype));
    return static_cast<int64_t>(bytes);
  }

  // How many elements a tile has, so that all of them stay close.
  static int64_t tile_elements(const TileProgram& program, const TileSpace& space) {
    const int tiles = std::max(1, program.tiles + space.gathered);
    const int64_t bytes = std::clamp(kLiveTileBytes / tiles, kLeastTileBytes, kTileBytes);
    return bytes / widest(program);
  }

  void run(const TilePart& at) {
    place(at);
    for (const TileProgram::Step& step : job_.program.steps) execute(step, at);
    for (size_t o = 0; o < job_.outputs.size(); ++o)
      if (job_.goes_past(o)) stream(o, at);
  }

  // A block of a row, and its reductions' values, one after another every `step` bytes.
  void run_block(const TilePart& at, char* value, int64_t step) {
    place(at);
    for (const TileProgram::Step& s : job_.program.steps) {
      if (info(s.op).kind == OpKind::Reduce) {
        Reducer(s).rows(at_[s.in[0]].data, 1, 0, at.cols, value);
        value += step;
      } else if (!job_.program.is_row_step(s)) {
        execute(s, at);
      }
    }
  }

  // The same in pieces of a tile each: what is reduced of `kept` registers lies whole, each of them
  // `room` bytes after the one before.
  void run_pieces(const TilePart& block, std::span<const int> kept, int64_t room, char* value,
                  int64_t step) {
    // Operands first: results may take their place.
    reduce_whole(block, true, kept, room, value, step);
    for (TilePart at = block; at.col < block.col + block.cols; at.col += elements_) {
      at.cols = std::min(elements_, block.col + block.cols - at.col);
      place(at);
      for (size_t k = 0; k < kept.size(); ++k)
        at_[kept[k]].data =
            whole_ + static_cast<int64_t>(k) * room + (at.col - block.col) * job_.item(kept[k]);
      for (const TileProgram::Step& s : job_.program.steps)
        if (info(s.op).kind != OpKind::Reduce && !job_.program.is_row_step(s)) execute(s, at);
    }
    reduce_whole(block, false, kept, room, value, step);
  }

  // What is one element a row, where the reductions' values are given, one array after another.
  void run_rows(const TilePart& at, char* const* values) {
    place(at);
    for (const TileProgram::Step& step : job_.program.steps) {
      if (info(step.op).kind == OpKind::Reduce) {
        std::memcpy(at_[step.out].data, *values++, at.rows * job_.item(step.out));
      } else if (job_.program.is_row_step(step)) {
        execute(step, at);
      }
    }
  }

 private:
  static int64_t tile_bytes(const TileJob& job, int64_t elements) {
    return round_up(elements * widest(job.program), kCacheLine);
  }
  static int64_t row_bytes(int64_t rows) { return round_up(rows * kRowItem, kCacheLine); }
  char* tile(int i) const { return memory_ + i * tile_bytes_; }

  void place(const TilePart& at) {
    const TileProgram& program = job_.program;
    const int64_t first_row = at.outer * job_.loop_rows() + at.row;
    char* const rows = tile(job_.tiles());
    int gathered = job_.tiles() - job_.space.gathered;
    for (size_t r = 0; r < program.registers.size(); ++r) {
      const auto number = static_cast<int>(r);
      if (number < program.inputs) {
        at_[r] = input(number, at);
        if (job_.operands[r].gather != 0) at_[r] = gather(number, at, tile(gathered++));
        continue;
      }
      const TileProgram::Register& reg = program.registers[r];
      const int64_t item = job_.item(number), cols = job_.space.cols;
      if (reg.per_row) {
        at_[r] = {reg.place >= 0 ? rows + reg.place * row_bytes_
                                 : job_.outputs[~reg.place] + first_row * item,
                  item, false};
      } else if (reg.place >= 0) {
        at_[r] = {tile(reg.place), at.cols * item, true};
      } else if (job_.goes_past(static_cast<size_t>(~reg.place))) {
        at_[r] = {tile(program.tiles + ~reg.place), at.cols * item, true};
      } else {
        at_[r] = {output(~reg.place, at), cols * item, true};
      }
    }
  }

  // Where a part of an output lies.
  char* output(int o, const TilePart& at) const {
    const int64_t row = at.outer * job_.loop_rows() + at.row;
    return job_.outputs[o] + (row * job_.space.cols + at.col) * job_.item(job_.program.outputs[o]);
  }

  View input(int r, const TilePart& at) const {
    const TileOperand& operand = job_.operands[static_cast<size_t>(r)];
    int64_t bytes = at.col * (operand.inner ? job_.item(r) : operand.gather), row = 0;
    if (!operand.stride.empty()) {
      row = operand.stride.back();
      bytes += at.row * row;
      int64_t outer = at.outer;
      for (size_t d = operand.stride.size() - 1; d-- > 0; outer /= job_.space.outer[d])
        bytes += outer % job_.space.outer[d] * operand.stride[d];
    }
    return {operand.data + bytes, row, operand.inner};
  }

  // The operand's part, dense.
  View gather(int r, const TilePart& at, char* to) const {
    const int64_t item = job_.item(r);
    const Block from{at_[r].data, at_[r].row, job_.operands[static_cast<size_t>(r)].gather};
    copy_block(from, {to, at.cols * item, item}, static_cast<size_t>(item), at.rows, at.cols);
    return {to, at.cols * item, true};
  }

  // The reductions of operands, or of all else.
  void reduce_whole(const TilePart& block, bool of_operands, std::span<const int> kept,
                    int64_t room, char* value, int64_t step) const {
    for (const TileProgram::Step& s : job_.program.steps) {
      if (info(s.op).kind != OpKind::Reduce) continue;
      const int r = s.in[0];
      if ((r < job_.program.inputs) == of_operands) {
        const auto k = std::ranges::find(kept, r) - kept.begin();
        const char* in = of_operands            ? input(r, block).data
                         : k < std::ssize(kept) ? whole_ + k * room
                                                : output(~job_.reg(r).place, block);
        Reducer(s).rows(in, 1, 0, block.cols, value);
      }
      value += step;
    }
  }

  void execute(const TileProgram::Step& step, const TilePart& at) {
    if (info(step.op).kind == OpKind::Reduce) {
      const View& in = at_[step.in[0]];
      Reducer(step).rows(in.data, at.rows, in.row, at.cols, at_[step.out].data);
    } else if (step.op == OpId::cast) {
      convert(step, at);
    } else {
      compute(step, at);
    }
  }

  // As few rows as the operands' strides allow.
  void compute(const TileProgram::Step& step, const TilePart& at) {
    char* ptr[kMaxOperands];
    int64_t row[kMaxOperands];
    uint8_t inner[kMaxOperands];
    const bool by_rows = job_.program.is_row_step(step);
    const int64_t cols = by_rows ? 1 : at.cols;
    bool one_run = at.rows > 1;
    for (int k = 0; k <= step.inputs; ++k) {
      const int r = k == 0 ? step.out : step.in[k - 1];
      const View& v = at_[r];
      ptr[k] = v.data;
      row[k] = v.row;
      inner[k] = (v.inner && !by_rows) || k == 0;
      const bool is_dense = v.row == cols * job_.item(r) && (inner[k] != 0 || cols == 1);
      one_run = one_run && (is_dense || (v.row == 0 && inner[k] == 0));
    }
    if (one_run)
      for (int k = 0; k <= step.inputs; ++k) inner[k] = row[k] != 0;
    kernels().elementwise->kernel[static_cast<int>(step.op)][static_cast<int>(step.dtype)](
        {ptr, one_run ? 1 : at.rows, one_run ? at.rows * cols : cols, row, inner});
  }

  void convert(const TileProgram::Step& step, const TilePart& at) {
    const auto from = static_cast<int>(step.dtype), to = static_cast<int>(job_.reg(step.out).dtype);
    const auto half = static_cast<int>(step.half);
    const ElementwiseTable& table = *kernels().elementwise;
    const CastKernel kernel = step.half == DType::Float32 ? table.cast[from][to]
                              : to == from                ? table.round[half]
                                                          : table.narrow[half];
    const View &in = at_[step.in[0]], &out = at_[step.out];
    const int64_t cols = job_.program.is_row_step(step) ? 1 : at.cols, item = job_.item(step.out);
    const bool is_dense = in.inner || cols == 1;
    if (is_dense && in.row == cols * job_.item(step.in[0]) && out.row == cols * item)
      return kernel(in.data, out.data, at.rows * cols);
    for (int64_t r = 0; r < at.rows; ++r) {
      char* const line = out.data + r * out.row;
      kernel(in.data + r * in.row, line, is_dense ? cols : 1);
      if (is_dense) continue;
      for (int64_t done = item; done < cols * item; done *= 2)
        std::memcpy(line + done, line, std::min(done, cols * item - done));
    }
  }

  void stream(size_t o, const TilePart& at) {
    const int r = job_.program.outputs[o];
    const View& from = at_[r];
    const int64_t item = job_.item(r), cols = job_.space.cols;
    char* to = job_.outputs[o] + ((at.outer * job_.loop_rows() + at.row) * cols + at.col) * item;
    const bool one_run = at.cols == cols;
    const int64_t bytes = at.cols * item * (one_run ? at.rows : 1);
    for (int64_t i = 0; i < (one_run ? 1 : at.rows); ++i)
      kernels().copy->stream(from.data + i * bytes, to + i * cols * item, bytes);
  }

  const TileJob& job_;
  int64_t elements_, tile_bytes_, row_bytes_;
  char *memory_, *whole_;
  View* at_;  // of each register
};

// On the stack where that is enough: a page of it that is not used is not touched either.
template <int64_t kBytes, class F>
[[gnu::noinline]] void run_on_stack(const TileJob& job, int64_t elements, int64_t rows, char* whole,
                                    F&& body) {
  alignas(kCacheLine) char memory[kBytes];
  Runner runner(job, elements, rows, memory, whole);
  body(runner);
}

// The memory of runners for tasks that threads share: that of small ones is on the stack.
struct RunnersLayout {
  int64_t elements, rows;
  int64_t whole;  // bytes that each has for run_pieces()
  int64_t bytes;  // of its tiles
  int64_t slot, slots;

  RunnersLayout(const TileJob& job, int64_t elements_, int64_t rows_, int64_t tasks,
                int64_t whole_ = 0)
      : elements(elements_),
        rows(rows_),
        whole(whole_),
        bytes(round_up(Runner::bytes(job, elements, rows), kCacheLine)),
        slot(whole + (bytes <= kNear ? 0 : bytes)),
        slots(slot == 0 ? 1 : std::clamp<int64_t>(tasks, 1, num_threads())) {}
  int64_t workspace() const { return slot * slots; }
};

class Runners {
 public:
  Runners(const TileJob& job, const RunnersLayout& layout)
      : job_(job),
        layout_(layout),
        memory_(layout.workspace()),
        slots_(memory_.data(), layout.slot, layout.slots) {}

  template <class F>
  void with_one(F&& body) {
    const int64_t elements = layout_.elements, rows = layout_.rows, bytes = layout_.bytes;
    slots_.with_one([&](char* memory) {
      if (bytes <= kNear / 8) return run_on_stack<kNear / 8>(job_, elements, rows, memory, body);
      if (bytes <= kNear) return run_on_stack<kNear>(job_, elements, rows, memory, body);
      Runner runner(job_, elements, rows, memory + layout_.whole, memory);
      body(runner);
    });
  }

 private:
  const TileJob& job_;
  const RunnersLayout layout_;
  Workspace memory_;
  Slots slots_;
};

// Whether rows that are reduced block by block go on in pieces: it takes longer (ADR 0016), but
// tiles of whole blocks may take more memory than eager's values, where there are few elements.
bool in_pieces(const TileJob& job, int64_t block) {
  return job.elements() < kFewBlocks * block && Runner::bytes(job, block, 1) > kNear;
}

// What reductions take that lies in tiles.
SmallVec<int, 4> reduced_tiles(const TileProgram& program) {
  SmallVec<int, 4> found;
  for (const TileProgram::Step& step : program.steps) {
    const int r = step.in[0];
    if (info(step.op).kind == OpKind::Reduce && r >= program.inputs &&
        program.registers[r].place >= 0 && std::ranges::find(found, r) == found.end())
      found.push_back(r);
  }
  return found;
}

// Whether only one element is made of each row, and rows are longer than a tile.
bool has_long_rows(const TileJob& job) {
  return job.program.reduces && !job.program.uses_rows &&
         (job.space.cols > kRowBlock || in_pieces(job, job.space.cols));
}

// How such rows are cut into blocks that are reduced side by side, then combined.
struct LongRows {
  SmallVec<Reducer, 4> reducers;
  int64_t cols, block, rows, blocks, grain;
  bool pieces;
  SmallVec<int, 4> kept;  // of a block in pieces
  int64_t room;           // bytes of one of them

  explicit LongRows(const TileJob& job)
      : cols(job.space.cols), rows(job.space.row_count()), pieces(false) {
    for (const TileProgram::Step& step : job.program.steps)
      if (info(step.op).kind == OpKind::Reduce) reducers.push_back(Reducer(step));
    block = cols > kRowBlock ? reducers[0].block : cols;
    blocks = ceil_div(cols, block);
    grain = std::max<int64_t>(1, kChunkElements / block);
    pieces = in_pieces(job, block);
    if (pieces) kept = reduced_tiles(job.program);
    int64_t item = 1;
    for (const int r : kept) item = std::max(item, job.item(r));
    room = round_up(block * item, kCacheLine);
  }
  // values[reduction][row][block]
  int64_t values() const { return std::ssize(reducers) * rows * blocks * kRowItem; }
  RunnersLayout of_blocks(const TileJob& job) const {
    const int64_t tile = pieces ? Runner::tile_elements(job.program, job.space) : block;
    return {job, std::min(tile, block), 1, ceil_div(rows * blocks, grain), std::ssize(kept) * room};
  }
  RunnersLayout of_rows(const TileJob& job) const { return {job, 0, job.loop_rows(), 1}; }
  int64_t workspace(const TileJob& job) const {
    return values() + std::max(of_blocks(job).workspace(), of_rows(job).workspace());
  }
};

void reduce_long_rows(const TileJob& job) {
  const LongRows plan(job);
  const SmallVec<Reducer, 4>& reducers = plan.reducers;
  const int64_t cols = plan.cols, block = plan.block, rows = plan.rows, blocks = plan.blocks;
  const auto count = static_cast<int64_t>(reducers.size());
  const int64_t loop_rows = job.loop_rows();
  const Workspace values(plan.values());
  const auto value = [&](int64_t k, int64_t i) {
    return values.data() + k * rows * blocks * kRowItem + i * kRowItem;
  };
  {
    Runners runners(job, plan.of_blocks(job));
    parallel_ranges(rows * blocks, plan.grain, [&](int64_t begin, int64_t end) {
      runners.with_one([&](Runner& runner) {
        for (int64_t i = begin; i < end; ++i) {
          const int64_t row = i / blocks, first = i % blocks * block;
          const TilePart at{row / loop_rows, row % loop_rows, 1, first,
                            std::min(block, cols - first)};
          char* const to = values.data() + i * kRowItem;
          const int64_t step = rows * blocks * kRowItem;
          if (plan.pieces) {
            runner.run_pieces(at, plan.kept, plan.room, to, step);
          } else {
            runner.run_block(at, to, step);
          }
        }
      });
    });
  }
  for (int64_t k = 0; k < count; ++k)
    for (int64_t row = 0; row < rows; ++row) {
      reducers[k].combine(value(k, row * blocks), blocks);
      std::memmove(values.data() + k * rows * blocks * kRowItem + row * reducers[k].item,
                   value(k, row * blocks), reducers[k].item);
    }
  Runners(job, plan.of_rows(job)).with_one([&](Runner& runner) {
    SmallVec<char*, 4> reduced(static_cast<size_t>(count));
    for (int64_t outer = 0; outer < rows / loop_rows; ++outer) {
      for (int64_t k = 0; k < count; ++k)
        reduced[k] = value(k, 0) + outer * loop_rows * reducers[k].item;
      runner.run_rows({outer, 0, loop_rows, 0, cols}, reduced.data());
    }
  });
}

// Bytes of the operands; of small ones none.
int64_t bytes_read(const TileJob& job) {
  int64_t bytes = 0;
  constexpr auto kMost = static_cast<int64_t>(kMaxItemSize);
  if (job.elements() * std::ssize(job.operands) * kMost < kFarRead) return bytes;
  for (size_t i = 0; i < job.operands.size(); ++i) {
    const TileOperand& operand = job.operands[i];
    int64_t elements = operand.inner || operand.gather != 0 ? job.space.cols : 1;
    for (size_t d = 0; d < job.space.outer.size(); ++d)
      if (operand.stride[d] != 0) elements *= job.space.outer[d];
    bytes += elements * job.item(static_cast<int>(i));
  }
  return bytes;
}

// Which results go past the caches: not over an operand, whose lines have been read.
uint64_t stream_bytes(const TileJob& job) {
  uint64_t found = 0;
  for (size_t o = 0; o < job.outputs.size(); ++o) {
    const int r = job.program.outputs[o];
    if (job.reg(r).per_row) continue;
    if (job.read < kStreamRead && job.elements() * job.item(r) < kStreamBytes) continue;
    found |= uint64_t{1} << o;
  }
  return found & ~job.replaced;
}

// A unit of parallel work: as much as a single op's. Half of a small region's elements may be that.
int64_t grain_of(const TileProgram& program) {
  const auto steps = static_cast<int64_t>(program.steps.size());
  return std::max(kHeavyChunk, 2 * kChunkElements / std::max<int64_t>(2, steps));
}

Cut cut_of(const TileJob& job) {
  const TileProgram& program = job.program;
  const TileSpace& space = job.space;
  int64_t elements = Runner::tile_elements(program, space);
  if (job.streams == 0) {
    const int64_t grain = grain_of(program);
    if (job.elements() > grain) elements = std::min(elements, grain);
    if (job.read >= (std::ssize(program.steps) < kManySteps ? kFarRead : kFarReadOfMany))
      elements = std::min(elements, kFarPiece / Runner::widest(program));
  } else if (std::ssize(program.steps) < kManySteps) {  // more work hides that stores wait
    elements = std::min(elements, kStreamPiece / Runner::widest(program));
  }
  if (program.reduces) elements = std::max(elements, space.cols);
  if (space.turned) elements = std::max(elements, kLeastTurned);
  // Tiles past the stack may be more than eager's values: not more than one of them.
  const int64_t least = program.reduces ? space.cols : 1;
  const int64_t most = std::max(kNear, job.elements() * Runner::widest(program) / num_threads());
  Cut cut{space, elements};
  while (elements > least && Runner::bytes(job, cut.rows * cut.cols, cut.rows) > most) {
    elements = std::max(least, std::min(elements, cut.rows * cut.cols) / 2);
    cut = {space, elements};
  }
  return cut;
}

// How a region that is no reduction is cut, and its parts shared out.
struct Tiles {
  Cut cut;
  int64_t parts;  // of a task
  RunnersLayout layout;

  explicit Tiles(TileJob& job)
      : cut(job_and_cut(job)),
        // Each chunk of streams ends with a fence, which waits for memory.
        parts(std::max<int64_t>(1, (job.streams != 0 ? kChunkElements : grain_of(job.program)) /
                                       (cut.rows * cut.cols))),
        layout(job, cut.rows * cut.cols, cut.rows, ceil_div(cut.count, parts)) {}

 private:
  static Cut job_and_cut(TileJob& job) {
    job.read = bytes_read(job);
    job.streams = stream_bytes(job);
    return cut_of(job);
  }
};

// Whether blocks of a product pay, once its kernel tells of them.
class BlockChoice {
 public:
  explicit BlockChoice(const TileJob& job) : job_(job) {}

  // Not where a few tasks would do what more threads can.
  bool takes(int64_t cols, int64_t tasks) const {
    const int64_t elements = job_.space.row_count() * cols;
    return cols == job_.space.cols && pays(elements * Runner::widest(job_.program)) &&
           tasks >= std::min<int64_t>(ceil_div(elements, grain_of(job_.program)), num_threads());
  }
  RunnersLayout layout() const {
    return {job_, Runner::tile_elements(job_.program, job_.space), 0, num_threads()};
  }

 private:
  // Whole rows are cheaper than blocks where the result stays close, but threads begin once more
  // for them, which counts where there is work for both turns, though little. They are read from
  // memory faster, too: a block's rows of another large operand are too short to be fetched ahead.
  bool pays(int64_t bytes) const {
    if (bytes > kL2Bytes) return !reads_another();
    const auto& steps = job_.program.steps;
    return num_threads() > 1 && bytes <= kOneTurn &&
           std::any_of(steps.begin(), steps.end(), [](const TileProgram::Step& step) {
             return info(step.op).kind == OpKind::Scalar && !has_flag(step.op, op_flags::cheap);
           });
  }

  // Whether there are more operands with all elements of the space than the product's result.
  bool reads_another() const {
    return std::ranges::count_if(job_.operands, [](const TileOperand& operand) {
             return (operand.inner || operand.gather != 0) &&
                    std::ranges::find(operand.stride, 0) == operand.stride.end();
           }) > 1;
  }

  const TileJob& job_;
};

// Runs a region on blocks of a product.
class BlockTail final : public Epilogue {
 public:
  explicit BlockTail(const TileJob& job) : job_(job) {}

  bool begin(int64_t cols, int64_t tasks) override {
    const BlockChoice choice(job_);
    if (!choice.takes(cols, tasks)) return false;
    elements_ = choice.layout().elements;
    runners_.emplace(job_, choice.layout());
    return true;
  }
  void run(int64_t row, int64_t rows, int64_t col, int64_t cols) override {
    runners_->with_one([&](Runner& runner) {
      const int64_t wide = std::min(cols, elements_), most = std::max<int64_t>(1, elements_ / wide);
      for (int64_t r = row, count = 0; r < row + rows; r += count) {
        const int64_t outer = r / job_.loop_rows(), first = r % job_.loop_rows();
        count = std::min({most, row + rows - r, job_.loop_rows() - first});
        for (int64_t c = col; c < col + cols; c += wide)
          runner.run({outer, first, count, c, std::min(wide, col + cols - c)});
      }
    });
  }
  bool told() const { return runners_.has_value(); }

 private:
  const TileJob& job_;
  int64_t elements_ = 0;
  std::optional<Runners> runners_;
};

// States what a BlockTail takes.
class TailWorkspace final : public Epilogue {
 public:
  explicit TailWorkspace(const TileJob& job) : choice_(job) {}

  bool begin(int64_t cols, int64_t tasks) override {
    told_ = choice_.takes(cols, tasks);
    return told_;
  }
  void run(int64_t, int64_t, int64_t, int64_t) override {}
  bool told() const { return told_; }
  int64_t bytes() const { return choice_.layout().workspace(); }

 private:
  BlockChoice choice_;
  bool told_ = false;
};

uint64_t find_replaced(std::span<const TileOperand> operands, std::span<char* const> outputs) {
  uint64_t found = 0;
  for (size_t o = 0; o < outputs.size(); ++o)
    for (const TileOperand& operand : operands) found |= uint64_t{operand.data == outputs[o]} << o;
  return found;
}

}  // namespace

void run_product(Kernel kernel, const KernelCall& product, const TileProgram& program,
                 std::span<const TileOperand> operands, const TileSpace& space,
                 std::span<char* const> outputs) {
  {
    const TileJob job{program, operands, space, outputs};
    BlockTail tail(job);
    KernelCall call = product;
    call.tail = &tail;
    kernel(call);
    if (tail.told()) return;
  }
  run_tiles(program, operands, space, outputs);
}

void run_tiles(const TileProgram& program, std::span<const TileOperand> operands,
               const TileSpace& space, std::span<char* const> outputs) {
  TileJob job{program, operands, space, outputs, find_replaced(operands, outputs)};
  if (has_long_rows(job)) return reduce_long_rows(job);
  const Tiles tiles(job);
  Runners runners(job, tiles.layout);
  parallel_ranges(tiles.cut.count, tiles.parts, [&](int64_t begin, int64_t end) {
    runners.with_one([&](Runner& runner) {
      for (int64_t i = begin; i < end; ++i) runner.run(tiles.cut.part(i));
    });
    if (job.streams != 0) kernels().copy->fence();
  });
}

size_t tiles_workspace(const TileProgram& program, std::span<const TileOperand> operands,
                       const TileSpace& space, uint64_t replaced) {
  TileJob job{program, operands, space, {}, replaced};
  return static_cast<size_t>(has_long_rows(job) ? LongRows(job).workspace(job)
                                                : Tiles(job).layout.workspace());
}

size_t product_workspace(const KernelCall& product, const TileProgram& program,
                         std::span<const TileOperand> operands, const TileSpace& space,
                         uint64_t replaced) {
  const TileJob job{program, operands, space, {}, replaced};
  TailWorkspace tail(job);
  KernelCall call = product;
  call.tail = &tail;
  const size_t of_kernel = workspace_of(call);
  if (tail.told()) return of_kernel + static_cast<size_t>(tail.bytes());
  return std::max(of_kernel, tiles_workspace(program, operands, space, replaced));
}

}  // namespace tinyt::cpu
