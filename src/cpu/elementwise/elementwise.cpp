#include "cpu/elementwise/elementwise.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "cpu/elementwise/complex.h"
#include "cpu/index/index.h"
#include "cpu/schedule/levels.h"
#include "cpu/schedule/tiles.h"

namespace tinyt::cpu {
namespace {

// What one call runs: the kernel and the dtype it takes each operand in (operand 0: the output).
struct ElementwiseCall {
  TileKernel kernel;
  int operands;
  std::array<const Tensor*, kMaxOperands> tensor;
  std::array<DType, kMaxOperands> want;
  std::array<char*, kMaxOperands> data;
  DType compute;  // of the call; the kernel's may be wider
  alignas(kMaxItemSize) char constant[kMaxOperands][kMaxItemSize];

  explicit ElementwiseCall(const KernelCall& call);
  void convert_constant(int k);
  bool direct(int k) const { return tensor[k]->dtype() == want[k]; }
};

ElementwiseCall::ElementwiseCall(const KernelCall& call)
    : operands(static_cast<int>(call.inputs.size()) + 1), compute(call.compute) {
  bool mixed = false;
  for (const Tensor& t : call.inputs) mixed |= t.dtype() != compute;
  const DType dtype = kernel_dtype(call.op, compute, mixed);
  kernel = is_complex(dtype)
               ? complex_kernel(call.op, dtype)
               : kernels().elementwise->kernel[static_cast<int>(call.op)][static_cast<int>(dtype)];
  require(kernel != nullptr, ErrorKind::DType, name_of(call.op), ": not implemented for ",
          name_of(call.compute));
  tensor[0] = &call.outputs[0];
  want[0] = info(call.op).dtype_rule == DTypeRule::Bool ? DType::Bool
            : has_flag(call.op, op_flags::real_result)  ? real_of(dtype)
                                                        : dtype;
  data[0] = tensor[0]->host_data();
  for (int k = 1; k < operands; ++k) {
    tensor[k] = &call.inputs[static_cast<size_t>(k - 1)];
    want[k] = k == 1 && has_flag(call.op, op_flags::predicate_first) ? DType::Bool : dtype;
    data[k] = tensor[k]->host_data();
    if (tensor[k]->numel() == 1) convert_constant(k);
  }
}

// Converted once, not once a tile. Integers beyond the dtype of the call wrap, as in PyTorch.
void ElementwiseCall::convert_constant(int k) {
  DType from = tensor[k]->dtype();
  if (is_integral(compute) && from != compute && want[k] != DType::Bool) {
    cast_elements(data[k], from, constant[k], compute, 1);
    data[k] = constant[k];
    from = compute;
  }
  if (from == want[k]) return;
  alignas(kMaxItemSize) char wide[kMaxItemSize];
  cast_elements(data[k], from, wide, want[k], 1);
  std::memcpy(constant[k], wide, sizeof wide);
  data[k] = constant[k];
}

bool is_constant(const ElementwiseCall& job, int k) { return job.tensor[k]->numel() == 1; }

// Whether the result goes past the caches: from a tile in L1, so that kernels need no second form.
bool streams_job(const ElementwiseCall& job) {
  const Tensor& out = *job.tensor[0];
  bool fresh = out.numel() * static_cast<int64_t>(out.itemsize()) >= kStreamBytes;
  // In place, the lines have been read anyway.
  for (int k = 1; k < job.operands; ++k) fresh &= job.data[k] != job.data[0];
  return fresh;
}

// How many elements of every operand fit into a tile.
int64_t tile_elements(const ElementwiseCall& job, bool stream) {
  size_t widest = size_of(job.compute);
  for (int k = 0; k < job.operands; ++k) {
    widest = std::max({widest, size_of(job.want[k]), job.tensor[k]->itemsize()});
  }
  return static_cast<int64_t>((stream ? size_t{kStreamPiece} : sizeof(Tile)) / widest);
}

// One contiguous range through a tile.
void stream_range(const ElementwiseCall& job, std::array<char*, kMaxOperands> ptr,
                  const std::array<uint8_t, kMaxOperands>& inner,
                  const std::array<int64_t, kMaxOperands>& item, int64_t n) {
  constexpr int64_t kNoRows[kMaxOperands] = {};
  const int64_t step = kStreamPiece / item[0];
  char* out = ptr[0];
  Tile tile;
  ptr[0] = tile.bytes;
  for (int64_t i = 0; i < n; i += step) {
    const int64_t count = std::min(step, n - i);
    job.kernel({ptr.data(), 1, count, kNoRows, inner.data()});
    kernels().copy->stream(tile.bytes, out + i * item[0], count * item[0]);
    for (int k = 1; k < job.operands; ++k) ptr[k] += step * item[k];
  }
  kernels().copy->fence();
}

// Several chunks are even in number and size: a short last one would leave a thread idle.
int64_t even_chunk(int64_t n) {
  constexpr int64_t kRound = 1024;  // elements: whole cache lines, and pieces that are streamed
  if (n <= kChunkElements) return kChunkElements;
  return round_up(ceil_div(n, round_up(ceil_div(n, kChunkElements), 2)), kRound);
}

// Same dtypes, and every operand either as dense as the output or one element: a flat range.
bool run_flat(const ElementwiseCall& job) {
  const Tensor& out = *job.tensor[0];
  const int64_t n = out.numel();
  if (!out.is_contiguous() || !job.direct(0)) return false;
  std::array<uint8_t, kMaxOperands> inner{1};
  std::array<int64_t, kMaxOperands> item{};
  for (int k = 0; k < job.operands; ++k) {
    const Tensor& t = *job.tensor[k];
    const bool dense = t.numel() == n && t.is_contiguous() && job.direct(k);
    if (!dense && !(k > 0 && is_constant(job, k))) return false;
    inner[k] = dense;
    item[k] = dense ? static_cast<int64_t>(size_of(job.want[k])) : 0;
  }
  const std::array<int64_t, kMaxOperands> no_rows{};
  const bool stream = streams_job(job);
  parallel_ranges(n, even_chunk(n), [&](int64_t begin, int64_t end) {
    std::array<char*, kMaxOperands> ptr{};
    for (int k = 0; k < job.operands; ++k) ptr[k] = job.data[k] + begin * item[k];
    if (stream) return stream_range(job, ptr, inner, item, end - begin);
    job.kernel({ptr.data(), 1, end - begin, no_rows.data(), inner.data()});
  });
  return true;
}

// Whether the kernel can read (write) operand k where it lies.
bool in_place(const ElementwiseCall& job, const Loops& loops, int k) {
  const int64_t col = loops.cols().stride[k];
  const auto size = static_cast<int64_t>(size_of(job.want[k]));
  if (k > 0 && is_constant(job, k)) return true;
  return job.direct(k) && (col == size || (col == 0 && k > 0));
}

// One operand of one tile, as the kernel takes it.
struct View {
  char* data;
  int64_t row;
  uint8_t inner;
};

// A wider kernel must not see or pass on more than the dtype of the call holds: operands and
// results of a third dtype are rounded to it in between.
void round_tile(const ElementwiseCall& job, int k, char* dense, int64_t n) {
  const DType wide = job.want[k];
  if (job.direct(k) || wide == job.compute || job.tensor[k]->dtype() == job.compute ||
      wide == DType::Bool) {
    return;
  }
  Tile narrow;
  cast_elements(dense, wide, narrow.bytes, job.compute, n);
  cast_elements(narrow.bytes, job.compute, dense, wide, n);
}

View load_operand(const ElementwiseCall& job, int k, const Block& block, int64_t rows, int64_t cols,
                  char* dense) {
  const DType from = job.tensor[k]->dtype();
  const auto size = static_cast<int64_t>(size_of(job.want[k]));
  if (block.col == 0) {  // one value a row
    const int64_t values = block.row == 0 ? 1 : rows;
    load_tile({block.data, 0, block.row}, from, 1, values, job.want[k], dense);
    round_tile(job, k, dense, values);
    return {dense, block.row == 0 ? 0 : size, 0};
  }
  load_tile(block, from, rows, cols, job.want[k], dense);
  round_tile(job, k, dense, rows * cols);
  return {dense, cols * size, 1};
}

void store_result(const ElementwiseCall& job, char* dense, const Block& to, int64_t rows,
                  int64_t cols, bool stream) {
  const Tensor& out = *job.tensor[0];
  const auto size = static_cast<int64_t>(out.itemsize());
  if (stream && job.direct(0) && to.col == size) {
    const bool one_run = to.row == cols * size;
    const int64_t bytes = (one_run ? rows * cols : cols) * size;
    for (int64_t r = 0; r < (one_run ? 1 : rows); ++r) {
      kernels().copy->stream(dense + r * cols * size, to.data + r * to.row, bytes);
    }
    return;
  }
  round_tile(job, 0, dense, rows * cols);
  store_tile(dense, job.want[0], to, out.dtype(), rows, cols);
}

// `lies`: which operands the kernel reads (writes) in place.
void run_tile(const ElementwiseCall& job, const Loops& loops, const TileCursor& at,
              const std::array<bool, kMaxOperands>& lies, bool stream) {
  Tile dense[kMaxOperands];
  std::array<char*, kMaxOperands> ptr{};
  std::array<int64_t, kMaxOperands> row{};
  std::array<uint8_t, kMaxOperands> inner{};
  const int64_t rows = at.rows(), cols = at.cols();
  for (int k = 0; k < job.operands; ++k) {
    const Block block = loops.block(k, job.data[k] + at.offset(k));
    View view{block.data, block.row, static_cast<uint8_t>(block.col != 0)};
    if (!lies[k]) {
      view = k > 0 ? load_operand(job, k, block, rows, cols, dense[k].bytes)
                   : View{dense[0].bytes, cols * static_cast<int64_t>(size_of(job.want[0])), 1};
    }
    ptr[k] = view.data;
    row[k] = view.row;
    inner[k] = view.inner;
  }
  job.kernel({ptr.data(), rows, cols, row.data(), inner.data()});
  if (!lies[0]) {
    store_result(job, dense[0].bytes, loops.block(0, job.data[0] + at.offset(0)), rows, cols,
                 stream);
  }
}

// The operand that crosses the result, where all others lie along it; else 0.
int crossing_operand(const ElementwiseCall& job, const Loops& loops) {
  const auto size = static_cast<int64_t>(job.tensor[0]->itemsize());
  if (!in_place(job, loops, 0)) return 0;
  int found = 0;
  for (int k = 1; k < job.operands; ++k) {
    if (in_place(job, loops, k)) continue;
    const bool crosses = job.direct(k) && job.want[k] == job.want[0] && loops.crosses(k, size) &&
                         job.data[k] != job.data[0];
    if (found != 0 || !crosses) return 0;
    found = k;
  }
  return found;
}

// Pieces of that operand are transposed into L2, where the kernel reads them: not into the result,
// whose rows may share a few sets of a cache.
void run_crossing(const ElementwiseCall& job, const Loops& loops, int crossing) {
  struct alignas(64) Piece {
    char bytes[kPieceBytes];
  };
  constexpr int64_t kPieceOfLine = 4 * kCacheLine;  // rows of 1 KiB take longer runs of the others
  const size_t item = job.tensor[0]->itemsize();
  const auto size = static_cast<int64_t>(item);
  const int64_t rows = std::min(kPieceOfLine / size, loops.rows().size);
  const TileGrid grid(loops, rows, static_cast<int64_t>(sizeof(Piece)) / size / rows);
  for_each_tile(grid, job.operands, [&](const TileCursor& at) {
    Piece dense;
    std::array<char*, kMaxOperands> ptr{};
    std::array<int64_t, kMaxOperands> row{};
    std::array<uint8_t, kMaxOperands> inner{};
    const auto block_of = [&](int k) { return loops.block(k, job.data[k] + at.offset(k)); };
    for (int k = 0; k < job.operands; ++k) {
      const Block block = block_of(k);
      ptr[k] = block.data;
      row[k] = block.row;
      inner[k] = block.col != 0;
    }
    ptr[crossing] = dense.bytes;
    row[crossing] = at.cols() * size;
    inner[crossing] = 1;
    const Block in = block_of(crossing);
    transpose({in.data, in.col, dense.bytes, row[crossing], at.cols(), at.rows(), false}, item);
    job.kernel({ptr.data(), at.rows(), at.cols(), row.data(), inner.data()});
  });
}

// Whether every operand that is not a constant crosses the result, and no dtype changes.
bool all_cross(const ElementwiseCall& job, const Loops& loops) {
  const auto size = static_cast<int64_t>(job.tensor[0]->itemsize());
  bool crosses = in_place(job, loops, 0);
  for (int k = 1; k < job.operands && crosses; ++k) {
    if (is_constant(job, k)) continue;
    crosses = job.direct(k) && job.want[k] == job.want[0] && loops.crosses(k, size) &&
              job.data[k] != job.data[0];
  }
  return crosses;
}

// The kernel runs along the operands, and what it makes is transposed out of the cache.
void run_along_operands(const ElementwiseCall& job, const Loops& loops) {
  const size_t item = job.tensor[0]->itemsize();
  const auto size = static_cast<int64_t>(item);
  const int64_t bytes = job.tensor[0]->numel() * size;
  const bool stream = bytes >= kStreamTransposedBytes;
  const int64_t fit = static_cast<int64_t>(sizeof(Tile)) / size;
  const int64_t least = kCacheLine / size;  // of a piece of the result's rows
  const int64_t most = std::max(2 * least, fit / loops.rows().size / least * least);
  for_each_tile(
      TileGrid(loops, fit / std::min(most, loops.cols().size), most), job.operands,
      [&](const TileCursor& at) {
        Tile dense;
        std::array<char*, kMaxOperands> ptr{dense.bytes};
        std::array<int64_t, kMaxOperands> row{at.rows() * size};
        std::array<uint8_t, kMaxOperands> inner{1};
        const auto block_of = [&](int k) { return loops.block(k, job.data[k] + at.offset(k)); };
        bool one_run = true;
        for (int k = 1; k < job.operands; ++k) {
          const Block block = block_of(k);
          ptr[k] = block.data;
          row[k] = block.col;
          inner[k] = block.row != 0;
          one_run &= inner[k] == 0 || row[k] == row[0];
        }
        const int64_t lines = one_run ? 1 : at.cols(), items = one_run ? at.cols() : 1;
        job.kernel({ptr.data(), lines, items * at.rows(), row.data(), inner.data()});
        const Block out = block_of(0);
        transpose({dense.bytes, row[0], out.data, out.row, at.cols(), at.rows(), stream}, item);
      },
      1, stream);
}

void run_tiled(const ElementwiseCall& job) {
  const Loops loops({job.tensor.data(), static_cast<size_t>(job.operands)});
  if (all_cross(job, loops)) return run_along_operands(job, loops);
  const int crossing = crossing_operand(job, loops);
  if (crossing > 0) return run_crossing(job, loops, crossing);
  const bool stream = streams_job(job);
  std::array<bool, kMaxOperands> lies{};
  bool all = true;
  for (int k = 0; k < job.operands; ++k) {
    lies[k] = in_place(job, loops, k) && (k > 0 || !stream);
    all &= lies[k];
  }
  // With nothing to gather, rows are as long as they come.
  const auto grid = all ? TileGrid(loops, kChunkElements / loops.cols().size, kChunkElements)
                        : TileGrid::filling(loops, tile_elements(job, stream));
  for_each_tile(
      grid, job.operands, [&](const TileCursor& at) { run_tile(job, loops, at, lies, stream); }, 1,
      stream);
}

}  // namespace

DType kernel_dtype(OpId op, DType compute, bool mixed) {
  if (is_complex(compute)) return compute;
  const bool has_one =
      kernels().elementwise->kernel[static_cast<int>(op)][static_cast<int>(compute)] != nullptr;
  return has_one && !(is_half(compute) && mixed) ? compute : info(compute).compute;
}

namespace {

// Whether a divisor is a number that may wrap to zero in the dtype of a call.
bool may_wrap(const Tensor& divisor, DType compute) {
  return divisor.numel() == 1 && divisor.itemsize() > size_of(compute);
}

bool checks_divisor(const KernelCall& call) {
  return divides(call.op) && is_integral(call.compute) && call.outputs[0].numel() != 0;
}

// Whether a divisor of integers holds a zero, also one that wraps to it.
bool has_zero(const Tensor& divisor, DType compute) {
  if (may_wrap(divisor, compute)) {
    uint64_t value;
    cast_elements(divisor.host_data(), divisor.dtype(), reinterpret_cast<char*>(&value),
                  DType::Int64, 1);
    return value << (64 - 8 * size_of(compute)) == 0;
  }
  return count_nonzero(divisor) != divisor.numel();
}

}  // namespace

void kernel_elementwise(const KernelCall& call) {
  if (call.outputs[0].numel() == 0) return;
  if (checks_divisor(call)) {
    require(!has_zero(call.inputs[1], call.compute), ErrorKind::Runtime, name_of(call.op),
            ": division by zero");
  }
  const ElementwiseCall job(call);
  if (!run_flat(job)) run_tiled(job);
}

int64_t workspace_elementwise(const KernelCall& call) {
  if (!checks_divisor(call) || may_wrap(call.inputs[1], call.compute)) return 0;
  return nonzero_bytes(call.inputs[1]);
}

}  // namespace tinyt::cpu
