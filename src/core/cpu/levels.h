// Instruction-set levels. Files named *.simd.cpp are compiled once per level, each exporting one
// table; this header declares the tables and picks the level at load.
//
// A *.simd.cpp file keeps everything but its table in an anonymous namespace and uses no inline
// function of the standard library: a weak symbol compiled for AVX-512 could be linked into the
// baseline.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "../dtype.h"
#include "../ops.h"
#include "../optim_terms.h"

// A *.simd.cpp file is built with TINYT_LEVEL set to v2, v3, v4 or neon; its table is
//   extern "C" const ReduceTable TINYT_TABLE(reduce) = {...};
// A level that only adds units for some products (bf16, amx) has the tables of v4, and of its own
// those of *_LEVEL.simd.cpp.
#define TINYT_TABLE_CAT(kind, level) tinyt_##kind##_##level
#define TINYT_TABLE_AT(kind, level) TINYT_TABLE_CAT(kind, level)
#define TINYT_TABLE(kind) TINYT_TABLE_AT(kind, TINYT_LEVEL)

// The entries of a template's kernels in an array by dtype; the dtypes without one convert.
// BY_DTYPE: Int64 (unsigned, because integers wrap), Float32 and Float64.
#define TINYT_BY_DTYPE(kernel)                                                          \
  {                                                                                     \
    {}, {}, {}, {}, {}, kernel<uint64_t>, {}, {}, kernel<float>, kernel<double>, {}, {} \
  }
#define TINYT_BY_FLOAT(kernel)                                            \
  {                                                                       \
    {}, {}, {}, {}, {}, {}, {}, {}, kernel<float>, kernel<double>, {}, {} \
  }

namespace tinyt::cpu {

static_assert(static_cast<int>(DType::Int64) == 5 && static_cast<int>(DType::Float32) == 8 &&
              static_cast<int>(DType::Float64) == 9 && kDTypeCount == 12);

inline constexpr int64_t kCacheLine = 64;  // bytes

// rows x cols elements. Operand 0 is the output. Row strides are in bytes; the inner stride of an
// input is one element (1) or repeats the first (0). The output's inner stride is one element.
// All operands have the kernel's dtype, except: comparisons and tests write bool (one byte), a
// condition (flag K) is bool.
struct TileArgs {
  char* const* ptr;
  int64_t rows;
  int64_t cols;
  const int64_t* row_stride;
  const uint8_t* inner;
};
using TileKernel = void (*)(const TileArgs&);

// Converts n contiguous elements.
using CastKernel = void (*)(const void* from, void* to, int64_t n);

struct ElementwiseTable {
  TileKernel kernel[kOpCount][kDTypeCount];  // null: convert to the compute dtype, or no such op
  CastKernel cast[kDTypeCount][kDTypeCount];
};

// NumberSum takes a NaN as zero; Abs and Square are of each element.
enum class Reduction : uint8_t {
  Sum,
  Prod,
  Max,
  Min,
  NumberSum,
  AbsSum,
  SquareSum,
  AbsMax,
  AbsMin,
  Count
};
inline constexpr int kReductions = static_cast<int>(Reduction::Count);

// The order of a reduction, fixed by n alone (docs/adr/0004). A row is cut into blocks of
// kRowBlock elements; element k of a block goes to lane k % kReduceLanes, each lane takes its
// elements in order, and lanes combine in halves (16, 8, 4, 2, 1). Columns are cut into blocks of
// kColumnBlock rows, each taken in order. Blocks combine in a pairwise tree: neighbours first, an
// odd one out moves up unchanged. Products have kProductBlock in place of kColumnBlock: those of
// more numbers become subnormal, and processors are slow at that.
inline constexpr int kReduceLanes = 32;
inline constexpr int64_t kColumnBlock = 128;
inline constexpr int64_t kProductBlock = 32;
inline constexpr int64_t kRowBlock = kColumnBlock * kReduceLanes;

// The dtype is that of the elements in memory; values are of its compute dtype, int64 for sums of
// integers. A null entry: convert the elements to the compute dtype first.
struct ReduceTable {
  // out[r] from n contiguous elements of row r, of `count` rows that are row_stride bytes apart.
  void (*rows[kReductions][kDTypeCount])(const void* in, int64_t count, int64_t row_stride,
                                         int64_t n, void* out);
  // One value from n contiguous elements; the identity for n = 0.
  void (*row[kReductions][kDTypeCount])(const void* in, int64_t n, void* out);
  // out[c] from in[k][c] for k in [0, n); rows are row_stride bytes apart.
  void (*columns[kReductions][kDTypeCount])(const void* in, int64_t n, int64_t cols,
                                            int64_t row_stride, void* out);
  // acc[c] = acc[c] op in[k][c] for k = 0, ..., n - 1: a part of a block.
  void (*accumulate[kReductions][kDTypeCount])(const void* in, int64_t n, int64_t cols,
                                               int64_t row_stride, void* acc);
  // The same where the elements of a column are dense: acc[c] = acc[c] op in[c][k], columns are
  // col_stride bytes apart. Null for values of one byte.
  void (*accumulate_dense[kReductions][kDTypeCount])(const void* in, int64_t n, int64_t cols,
                                                     int64_t col_stride, void* acc);
  // First position of the largest (smallest) element; a NaN wins.
  int64_t (*argmax[kDTypeCount])(const void* in, int64_t n);
  int64_t (*argmin[kDTypeCount])(const void* in, int64_t n);
  // The same of each column of n rows, 0 < n < 2^31, and its value.
  using ArgColumns = void (*)(const void* in, int64_t n, int64_t cols, int64_t row_stride,
                              void* values, int64_t* positions);
  ArgColumns argmax_columns[kDTypeCount], argmin_columns[kDTypeCount];
};

// Two numbers of each block of elements (pairs.h). Moments: mean and sum of squared distances from
// it. Exponentials: maximum, and sum of exp(x - maximum), where that is finite, else of exp(x).
enum class PairReduction : uint8_t { Moments, Exponentials, Count };

// Floats; the dtype is that of the elements in memory.
struct PairTable {
  static constexpr int kCount = static_cast<int>(PairReduction::Count);
  // Of n contiguous elements, 0 < n <= kRowBlock.
  void (*row[kCount][kDTypeCount])(const void* in, int64_t n, double* first, double* second);
  // Of each column of n rows, 0 < n <= kColumnBlock, that are row_stride bytes apart.
  void (*columns[kCount][kDTypeCount])(const void* in, int64_t n, int64_t cols, int64_t row_stride,
                                       double* first, double* second);
};

// Columns of n elements that lie side by side, each in a lane of its own: element k of column i is
// at in + k * step + i items.
struct SoftmaxStrip {
  int64_t n;
  int64_t count;  // columns, at most kStripColumns
  const char* in;
  int64_t step;
  const char* grad = nullptr;  // of the output `in`, in the same places
  char* work = nullptr;        // a tile for the elements, which later passes read; may be `in`
  int64_t work_step = 0;
  void* top = nullptr;  // kStripColumns each
  void* log_sum = nullptr;
  const void* scale = nullptr;
  char* out = nullptr;
  int64_t out_step = 0;
  bool stream = false;  // `out` past the caches
};
inline constexpr int64_t kStripColumns = 127 * 16;

// One contiguous row of n elements. `out` may be any of the inputs.
struct SoftmaxRow {
  int64_t n;
  const void* in;
  const void* grad = nullptr;  // of the output `in`
  void* work = nullptr;        // of n elements; may be `in` or `out`
  const void* sums = nullptr;  // what log_sum gave
  int64_t wanted = 0;          // class of the row
  double scale = 1;
  void* out = nullptr;
  bool stream = false;  // `out` past the caches
};

// Float32 and Float64.
struct SoftmaxTable {
  void (*softmax[kDTypeCount])(const SoftmaxRow& row);
  void (*log_softmax[kDTypeCount])(const SoftmaxRow& row);
  // The gradient of the input from that of the output, and the output.
  void (*softmax_input[kDTypeCount])(const SoftmaxRow& row);
  void (*log_softmax_input[kDTypeCount])(const SoftmaxRow& row);
  // Two values: the maximum, and the logarithm of the sum of exp(x - maximum).
  void (*log_sum[kDTypeCount])(const SoftmaxRow& row);
  // scale * (exp(log_softmax) - [i = wanted]).
  void (*slopes[kDTypeCount])(const SoftmaxRow& row);
  // The same, with the same bits, for columns; strip_slopes leaves the wanted class to the caller.
  void (*strip_softmax[kDTypeCount])(const SoftmaxStrip& strip);
  void (*strip_log_softmax[kDTypeCount])(const SoftmaxStrip& strip);
  void (*strip_softmax_input[kDTypeCount])(const SoftmaxStrip& strip);
  void (*strip_log_softmax_input[kDTypeCount])(const SoftmaxStrip& strip);
  void (*strip_log_sum[kDTypeCount])(const SoftmaxStrip& strip);
  void (*strip_slopes[kDTypeCount])(const SoftmaxStrip& strip);
};

// Lines that lie side by side, one lane each: element k of line i is at in + k in_step + i items.
inline constexpr int64_t kScanColumns = 256;
inline constexpr int64_t kMaxScanPlace = INT32_MAX;  // elements of a line of extremes, at most
struct ScanColumns {
  int64_t n;     // elements of a line
  int64_t cols;  // lines, at most kScanColumns
  const char* in;
  int64_t in_step;
  char* out;  // may be `in`
  int64_t out_step;
  char* places = nullptr;  // of extremes, int64
  int64_t places_step = 0;
};
// How far a running extreme has come.
struct ScanExtreme {
  alignas(8) char best[8];
  int64_t at = 0, position = 0;
};

// Float32, which accumulates in float64, Float64 and Int64, which wraps (scan.simd.cpp).
struct ScanTable {
  struct Combining {
    // The next n elements of a line; `carry` is one value of what they accumulate in. Parts of a
    // line but the last have a multiple of kScanPart elements.
    void (*line)(const void* in, int64_t n, void* out, void* carry);
    void (*columns)(const ScanColumns& columns);
  };
  struct Extreme {
    void (*line)(const void* in, int64_t n, void* out, int64_t* places, ScanExtreme& state);
    void (*columns)(const ScanColumns& columns);
  };
  Combining sum[kDTypeCount], product[kDTypeCount];
  Extreme largest[kDTypeCount], smallest[kDTypeCount];
};
inline constexpr int64_t kScanPart = 16;

// Lines that are sorted by ranks have at most this many elements.
inline constexpr int64_t kMaxRanked = 128;
struct SortTable {
  // How many of n keys stand before each in the stable order.
  void (*ranks32)(const int32_t* keys, int64_t n, int32_t* rank);
  void (*ranks64)(const int64_t* keys, int64_t n, int64_t* rank);
};

// Elements of a line found by comparing registers; other dtypes are looked at one by one.
struct SelectTable {
  // The first of elements [begin, n) that is larger (smaller) than the one at `bound`, or a NaN, or
  // anything if that is one; n if there is none.
  using Next = int64_t (*)(const void* line, int64_t begin, int64_t n, const void* bound);
  Next above[kDTypeCount], below[kDTypeCount];
  // Writes the positions of those of n elements, at most kSelectPart, that lie from `low` to `high`
  // (null: no bound) and returns how many; `less`: how many lie below. There is no NaN.
  int64_t (*between[kDTypeCount])(const void* line, int64_t n, const void* low, const void* high,
                                  uint16_t* positions, int64_t* less);
};
inline constexpr int64_t kSelectPart = 4096;

// A contiguous row of a normalisation, or of its gradients (norm.simd.cpp). `forward` takes several
// that follow each other, with their statistics and results.
struct NormRow {
  int64_t n;
  int64_t rows = 1;
  double eps = 0;
  bool center = true;
  const void* x = nullptr;
  const void* grad = nullptr;    // of the output
  const void* weight = nullptr;  // null: none
  const void* bias = nullptr;
  void* stats = nullptr;  // mean and 1 / sqrt(var + eps)
  void* out = nullptr;
  bool stream = false;         // `out` past the caches
  void* out_weight = nullptr;  // sums over rows of the gradients of weight and bias; null: none
  void* out_bias = nullptr;
};

// Float32 and Float64.
struct NormTable {
  void (*stats[kDTypeCount])(const NormRow& row);
  void (*forward[kDTypeCount])(const NormRow& rows);  // the statistics too
  void (*backward[kDTypeCount])(const NormRow& row);
};

// One contiguous row of one channel of a batch or group normalisation (batch_norm.simd.cpp).
struct ChannelRow {
  int64_t n;
  double mean = 0, scale = 1;  // scale: 1 / sqrt(var + eps)
  double weight = 1, bias = 0;
  double shift = 0, slope = 0;  // of the gradient
  const void* x = nullptr;
  const void* grad = nullptr;  // of the output
  bool stream = false;         // the result past the caches
};

// The same for columns: one value of each number per column.
struct ChannelColumns {
  int64_t rows = 0, cols = 0;
  int64_t step = 0;  // elements from one row to the next, of x, grad and what has their shape
  const void *mean = nullptr, *scale = nullptr, *weight = nullptr, *bias = nullptr;
  const void *shift = nullptr, *slope = nullptr;
  const void* x = nullptr;
  const void* grad = nullptr;
  void* out = nullptr;  // of sums: one value per column
};

// Float32 and Float64; the numbers of a ChannelRow are values of that dtype.
struct BatchNormTable {
  void (*moments[kDTypeCount])(const ChannelRow& row, void* moments);  // of moments.h
  void (*forward[kDTypeCount])(const ChannelRow& row, void* out);
  void (*sums[kDTypeCount])(const ChannelRow& row, void* two);
  void (*input[kDTypeCount])(const ChannelRow& row, void* out);
  void (*column_sums[kDTypeCount])(const ChannelColumns& columns);
  void (*column_squares[kDTypeCount])(const ChannelColumns& columns);
  void (*column_dots[kDTypeCount])(const ChannelColumns& columns);
  void (*column_forward[kDTypeCount])(const ChannelColumns& columns);
  void (*column_input[kDTypeCount])(const ChannelColumns& columns);
};

// One contiguous row of an optimiser's step (optim.simd.cpp). Absent tensors are null; the others
// share no memory.
struct OptimRow {
  int64_t n;
  const OptimTerms& terms;
  void* param;
  const void* grad;
  void* state[kOptimStates];
};

// Float64, Float32, and the narrow floats: float32 rows whose values are rounded to the dtype.
struct OptimTable {
  void (*update[kOptimRules][kDTypeCount])(const OptimRow& row);
};

// What attention adds to a score: nothing, the mask, or -inf where the mask is 0. Masks have the
// dtype and the layout of the scores.
enum class MaskKind : uint8_t { None, Add, Keep };

// Scores of a block of keys against a panel of queries, one query a lane: [keys][lanes].
struct AttentionBlock {
  int64_t keys, lanes;
  int64_t used;  // of the lanes: a multiple of a register's
  void* scores;  // in: products; out: e^(score - top)
  double scale;  // of the products: 1 where the queries were scaled
  MaskKind kind;
  const void* mask;
  int64_t diagonal;  // the query of lane i sees keys up to diagonal + i
  void *top, *sum;   // of each lane so far: largest score, sum of e^(score - top)
  void* factor;      // out: e^(top before - top), for what was summed before
};

// Scores of a block of queries against keys, one key a lane: [queries][lanes].
struct AttentionSlopes {
  int64_t queries, lanes;
  int64_t used;  // of the lanes: a multiple of a register's
  void* scores;  // in: products of scaled queries; out: weights e^(score - log_sum)
  void* slopes;  // in: slopes of the weights; out: of the scores, weight (slope - delta)
  MaskKind kind;
  const void* mask;
  int64_t mask_row;             // elements from one query's mask to the next
  int64_t diagonal;             // query i sees the keys of lanes up to diagonal + i
  const void *log_sum, *delta;  // of each query
};

// Float32 and Float64.
struct AttentionTable {
  void (*weigh[kDTypeCount])(const AttentionBlock& block);
  // data[r][lane] *= factor[lane].
  void (*scale_rows[kDTypeCount])(void* data, int64_t rows, int64_t lanes, const void* factor);
  // data[r][lane] = data[r][lane] * factor[lane] + add[r][lane].
  void (*blend_rows[kDTypeCount])(void* data, int64_t rows, int64_t lanes, const void* factor,
                                  const void* add);
  // log_sum = top + log(sum), then sum = 1 / sum, or 0 where it is 0.
  void (*finish[kDTypeCount])(int64_t lanes, const void* top, void* sum, void* log_sum);
  void (*slopes[kDTypeCount])(const AttentionSlopes& block);
  // out[l] = sum over i < n of x[i] lines[l][i], for l < count; a line every `line` elements.
  void (*dots[kDTypeCount])(const void* x, const void* lines, int64_t line, int64_t count,
                            int64_t n, void* out);
  // A row of n scores to e^(score - top), with their largest and their sum.
  void (*weigh_row[kDTypeCount])(MaskKind kind, void* scores, const void* mask, int64_t n,
                                 void* top, void* sum);
  // out[i] += sum over l < count of weights[l] lines[l][i], in order, for i < n.
  void (*add_lines[kDTypeCount])(const void* weights, const void* lines, int64_t line,
                                 int64_t count, int64_t n, void* out);
};

struct RandomTable {
  // n elements of the stream (seed, counter offset); element i takes word i % 4 of counter
  // offset + i / 4. `begin` is a multiple of 4: the first element to write is out[0].
  void (*bits)(uint64_t seed, uint64_t offset, int64_t begin, int64_t n, int64_t* out);
  void (*uniform32)(uint64_t seed, uint64_t offset, int64_t begin, int64_t n, float* out);
  void (*uniform64)(uint64_t seed, uint64_t offset, int64_t begin, int64_t n, double* out);
  void (*normal32)(uint64_t seed, uint64_t offset, int64_t begin, int64_t n, float* out);
  void (*normal64)(uint64_t seed, uint64_t offset, int64_t begin, int64_t n, double* out);
};

// One panel of a packed operand: lines [first, first + count) (rows of A, columns of B) at depth
// [k0, k0 + depth), written as `width` consecutive values for each k, zero beyond `count`.
struct Panel {
  int64_t first, count;
  int64_t k0, depth;
  int64_t width;
};
using PackKernel = void (*)(const void* context, const Panel& panel, void* out);

// A matrix in memory: line i at depth k is data[i * line + k * depth] (strides in elements).
struct StridedLines {
  const void* data;
  int64_t line, depth;
};

// Where the taps of a kernel meet a source of three spatial dimensions: along each of them,
// position p and tap t read element p * multiply + t * tap_step + offset, or zero where that is no
// element. Strides are in elements; the whole source is data[begin] to data[end - 1].
struct ColumnSource {
  const void* data;  // of the group's first channel
  int64_t begin, end;
  int64_t image_stride, channel_stride;
  int64_t source[3], positions[3], kernel[3];
  int64_t multiply[3], offset[3], tap_step[3];
};
inline constexpr int64_t kMaxColumnLines = 64;

// The columns: for each (channel, tap) k, what the tap meets at each (image, position).
struct ColumnsTable {
  // Packs from a ColumnSource; the lines are positions, at most kMaxColumnLines, and the width is a
  // multiple of the register's. By size of the dtype: packing moves bits.
  PackKernel pack[kDTypeCount];
};

// C (+)= A B over one block of depth.
struct GemmBlock {
  int64_t rows, cols, depth;
  // Element (i, k) of a panel of A is at i * a_line + k * a_step. A panel has GemmTile::rows rows;
  // a_panel elements lie between one and the next, or all rows are one panel (0).
  const void* a;
  int64_t a_line, a_step, a_panel;
  // Element (k, j) of a panel of B is at k * b_step + j, or where b_offset is not null at
  // b_offset[k] + j; a panel has GemmTile::cols columns.
  const void* b;
  int64_t b_step, b_panel;
  const int64_t* b_offset = nullptr;
  void* c;           // element (0, 0) of the whole C
  int64_t row, col;  // where the block starts in C
  // Element (i, j) of C is c[i * c_row + (j / run) * c_run + j % run]; those of a run from `used`
  // on are left alone.
  int64_t c_row, run, c_run;
  int64_t used = INT64_MAX;
  bool accumulate;
  // Null, or what is added to the finished sums: element (i, j) is add[i * add_row + j * add_col],
  // add_col being 0 or 1.
  const void* add;
  int64_t add_row, add_col;
};

inline constexpr int64_t kMaxTileLines = 32;  // of a GemmTile on any level
struct GemmTile {
  int64_t rows, cols;
  int64_t step;  // B is read where it is if it has a multiple of so many columns
};

// The products of a vector x with `cols` lines of up to kRowBlock elements, in the order of a
// reduction of a row: one chain of fma per lane, then the tree over the lanes.
struct DotBlock {
  int64_t depth, cols;
  const void* x;
  const void* b;
  int64_t stride;  // of b, in elements: from one line to the next, or from one k to the next
  void* sums;      // one for each line
};

// C = A B for each of `count` products; element (i, j) of C is one chain of fma over k, as in a
// GemmBlock. B holds at most kSmallB bytes, and k is not 0.
struct SmallProducts {
  int64_t count, m, n, k;
  StridedLines a, b;       // rows of the first A, columns of the first B
  int64_t a_next, b_next;  // elements from one product to the next
  void* c;                 // [count][m, n]
};
inline constexpr int64_t kSmallB = 8192;

// Float32, Float64 and Int64 (which wraps). Tiles and blocks also of Int32: there an element of A
// or B is a pair of int16, whose products add up to int32 (which wraps).
struct GemmTable {
  GemmTile tile[kDTypeCount];
  // Each element of C is one chain of fma over k, whatever else is in the block.
  void (*block[kDTypeCount])(const GemmBlock& block);
  // Packs from StridedLines.
  PackKernel pack[kDTypeCount];
  // Lines that run along memory; lines next to each other, which are the columns of rows. By dtype
  // of the lines, also Float16 and BFloat16: x and the sums are float32 then.
  void (*dots[kDTypeCount])(const DotBlock& block);
  void (*row_sums[kDTypeCount])(const DotBlock& block);
  void (*small[kDTypeCount])(const SmallProducts& products);
};

// ---- products on AMX tiles (matmul_low_amx.simd.cpp) or AVX512-BF16 and AVX512-VNNI
// (matmul_low_bf16.simd.cpp): uint8, int8, bfloat16 and, with AMX, float16

inline constexpr int64_t kTilePanel = 32;  // lines of a panel: rows of A, columns of B

// A panel is packed step by step of its depth.
struct TileFormat {
  int64_t depth;        // of a step
  int64_t bytes;        // of a step of a panel
  int64_t block_steps;  // in a block of depth
  int64_t most_steps;   // of a depth that is one block
};

// Lines [first, first + count), count <= kTilePanel, at depth [k0, k0 + depth). `columns`: for B.
struct TilePanel {
  int64_t first, count;
  int64_t k0, depth;
  bool columns;
};

// Memory that will be read soon: runs of `lines` lines of the cache, `stride` bytes apart.
struct Coming {
  const char* at = nullptr;
  int64_t lines = 0, runs = 0, stride = 0;
};

// A block of C, from panels of A and B. One panel after the other stays in the nearest cache while
// all of the other operand's pass by: one of A, `by_rows`, or of B.
struct TileBlock {
  int64_t rows, cols, depth;
  bool by_rows;
  int64_t steps;  // in a block of depth
  const void* a;
  const void* b;
  // Bytes from one panel to the next and from one block of depth to the next.
  int64_t panel, a_block, b_block;
  // Between blocks of depth, and from before (unless `first`) and for after (unless `last`): 4
  // bytes for each element of whole panels. From one panel that stays to the next `sums_panel`
  // bytes, or 0 where the same serve all.
  void* sums;
  int64_t sums_panel;
  bool first, last;
  // Element (i, j) of C is c[i * c_row + (j / run) * c_run + j % run]; the block starts at
  // (row, col). `wide`: C is float32 or int32, else of the operands' dtype (integers wrap).
  void* c;
  int64_t row, col;
  int64_t c_row, run, c_run;
  bool wide;
  // Null, or bfloat16s for the elements of a bfloat16 C, as in GemmBlock: added to what was
  // rounded.
  const void* add;
  int64_t add_row, add_col;
  Coming coming = {};  // what the caller packs next
};

struct LowTable {
  // Around the calls of `block` by a thread.
  void (*begin)();
  void (*end)();
  TileFormat format[kDTypeCount];
  void (*pack[kDTypeCount])(const StridedLines& lines, const TilePanel& panel, void* out);
  // Each sum takes its depth step by step, whatever the blocks. Returns whether C got a NaN;
  // float16 only, whose infinities come out as NaN.
  bool (*block[kDTypeCount])(const TileBlock& block);
};

// Elements of lines `from_row` apart, `step` apart in them, to lines `to_row` apart.
struct DirectLines {
  const void* from;
  int64_t from_row, step;
  int64_t rows, n;
  void* to;
  int64_t to_row;
};

// ---- convolutions of bfloat16 on the same units (conv_low_amx.simd.cpp, conv_low_bf16.simd.cpp)

// Lines of two channels (`high` null: of one and zeros) as lines of pairs, 4 bytes a position.
struct PairLines {
  const void *low, *high;
  int64_t from_row, step;  // in elements
  int64_t rows, n;
  void* to;
  int64_t to_row;  // in pairs
};

// The outputs at the positions row * pitch + x, x < width, of some images. In a step they take the
// products of kStepPairs pairs of channels.
struct ConvTiles {
  int64_t outs, steps;
  const void* weights;  // panels of kTilePanel outputs: each step of one 64 bytes for each output
  // Bytes: for step s, its pair p meets a position at offset[s] + p * stride + 4 * position.
  const void* source;
  const int64_t* offset;
  int64_t stride;
  int64_t images, image;  // `image`: bytes of the source from one to the next
  int64_t rows, width, pitch;
  void* sums;  // 4 bytes for each element of whole panels, of outputs and of positions
  void* out;
  int64_t out_channel, out_image, out_row;  // in elements
};
inline constexpr int64_t kStepPairs = 16;

// Adds to the gradients of the weights of up to kTilePanel channels and outputs.
struct WeightTiles {
  int64_t channels, outs, taps, steps;
  // A step is 32 positions of all channels, a line each: those of the first tap are at
  // offset[step], those of tap t tap[t] further, and `stride` bytes from one channel to the next.
  const void* source;
  int64_t stride;
  const int64_t *offset, *tap;
  const void* grads;  // of outputs: `pair` bytes from two positions of all to the next two
  int64_t pair;
  void* sums;  // of tap t, channel c and output o: t * sums_tap + c * sums_row + 4 * o
  int64_t sums_tap, sums_row;
};

// `begin` and `end` of the LowTable are around multiply and weights.
struct ConvTilesTable {
  void (*pair)(const PairLines& lines);
  // Each sum takes its steps in order.
  void (*multiply)(const ConvTiles& g);
  void (*copy)(const DirectLines& lines);  // of 16-bit elements
  // Position i of `count` <= 16 lines to out + i / 2 * row, where they lie side by side in pairs;
  // zeros beyond both. `line` is in bytes, and positions come in whole steps of 32.
  void (*turn)(const void* lines, int64_t line, int64_t count, int64_t n, void* out, int64_t row);
  void (*weights)(const WeightTiles& g);
  // Whether float32's Winograd form takes less time for gradients of weights where it serves: at
  // twice float32's rate a quarter of its products does.
  bool winograd_weights;
};

// Sums over a sparse matrix's rows. Float32, Float64 and Int64 (which wraps). Each sum starts with
// its first product and takes the others in order.
struct ResampleTable {
  // out[i] = sum over r of weight[r] * row[r][i], for i < n; count > 0. `out` may be
  // one of two rows.
  void (*combine[kDTypeCount])(const void* const* rows, const void* weight, int64_t count,
                               int64_t n, void* out);
  // out[i] = sum over k of weight[k * n + i] * in[index[k * n + i]], for i < n; taps > 0.
  void (*gather[kDTypeCount])(const void* in, const int32_t* index, const void* weight,
                              int64_t taps, int64_t n, void* out);
};

// Taps that lie one below the other in lines: the first one reads from `offset`.
struct DirectColumn {
  int64_t offset, tap, count;
};

// Rows of the output of one plane, from lines in memory.
struct DirectRows {
  const void* in;
  int64_t pitch;  // elements from one line to the next
  const DirectColumn* column;
  int64_t columns, step;  // and taps from one line to the next
  const void* weight;     // by tap
  void* out;
  int64_t rows, n, out_row;
};

// Lines at given offsets from one place. Float32, Float64 and Int64 (which wraps).
struct DirectTable {
  // out[i] = sum over t of weight[t] * in[offset[t] + i], a chain of fma, for i < n.
  void (*correlate[kDTypeCount])(const void* in, const int64_t* offset, const void* weight,
                                 int64_t taps, int64_t n, void* out);
  // The same for rows: a chain of fma over the columns, and down each. Reads up to kMaxLanes
  // elements beyond a line.
  void (*rows[kDTypeCount])(const DirectRows& rows);
  // out[t] += sum over i < n of a[i] * b[offset[t] + i]: element i in lane i % lanes of a register.
  void (*dots[kDTypeCount])(const void* a, const void* b, const int64_t* offset, int64_t taps,
                            int64_t n, void* out);
  void (*copy[kDTypeCount])(const DirectLines& lines);
};

// A transposing copy: item j of line i goes to item i of line j. Steps are in bytes; an item is as
// large as the kernel says.
struct Transposition {
  const char* from;
  int64_t from_step;
  char* to;
  int64_t to_step;
  int64_t lines, items;  // of the source
  bool stream;           // past the caches, where the target's lines begin with cache lines
};

// Rows of contiguous bytes, which do not overlap.
struct RowCopy {
  const char* from;
  int64_t from_step;
  char* to;
  int64_t to_step;
  int64_t rows, bytes;
};

// `count` items from `from` bytes after the beginning of a source's row on.
struct RowBorder {
  int64_t from, count;
};
inline constexpr size_t kAnyItem = 4;  // an item's size is none of the powers of two below it

// Of a mask, at most so many at once.
inline constexpr int64_t kMaskItems = 512;

// Adds row r to the one at index r, for all rows in turn.
using AddRows = void (*)(const RowCopy& copy, const char* index, int64_t index_step);

// The arrays are by the logarithm of an item's size: 1, 2, 4, 8 bytes.
struct CopyTable {
  void (*transpose[4])(const Transposition& t);
  void (*rows)(const RowCopy& copy);
  // Rows between items of `item` bytes each, which lie `step` bytes apart in the source.
  void (*bordered[kAnyItem + 1])(const RowCopy& copy, int64_t item, int64_t step,
                                 const RowBorder& before, const RowBorder& after);
  // Row r is the one at index r (int64, index_step bytes apart).
  void (*gather_rows)(const RowCopy& copy, const char* index, int64_t index_step);
  AddRows add_rows[kDTypeCount];  // Float32, Float64 and Int64
  // to[i] = from[i col + index[i] step]: dense int64 indices, dense target, steps in bytes.
  void (*gather[4])(const char* from, int64_t col, int64_t step, const char* index, char* to,
                    int64_t n);
  // Items `step` bytes apart to a dense target.
  void (*pick[4])(const char* from, int64_t step, char* to, int64_t n);
  // The places of the ones among n bytes of 0 or 1, counted from `first`; how many.
  int64_t (*find)(const uint8_t* set, int64_t n, int64_t first, int64_t* found);
  // The items of a dense source whose byte is 1, to a dense target; how many.
  int64_t (*compress[4])(const char* from, const uint8_t* set, int64_t n, char* to);
  // Whether all indices are in [0, size).
  bool (*within)(const int64_t* index, int64_t n, int64_t size);
  // sum = sum size + index, or the index alone, negative ones counted from the end; whether all
  // were in [-size, size).
  bool (*add_index)(const int64_t* index, int64_t n, int64_t size, bool first, int64_t* sum);
  // A contiguous copy past the caches.
  void (*stream)(const void* from, void* to, int64_t bytes);
  // What was streamed is seen by other threads from here on.
  void (*fence)();
};

// Lines of a source with zeros around it: of `lines` those in [first, last) are there, and of the
// elements of each those in [begin, end).
struct DealtLines {
  const float* from;
  int64_t at, width;  // of element 0 of line 0, and from one line to the next
  int64_t lines, first, last;
  int64_t begin, end;
  int64_t groups;  // of four elements
  float* to;
  int64_t plane;
};

// The transforms of Winograd's F(4x4, 3x3) (winograd.cpp), `lanes` tiles side by side. Element
// (i, j) of a 6x6 tile goes to or comes from step * (6 * i + j).
struct WinogradTable {
  int64_t lanes;
  // to[(4 * i + j) * plane + g] = element 4 * g + j of line i, for g < groups; anything up to a
  // multiple of `lanes`.
  void (*deal)(const DealtLines& lines);
  // Tile k has its element (i, j) in planes[(4 * i + j % 4) * plane + j / 4 + index[k]];
  // index[k] < 2 * lanes.
  void (*input)(const float* planes, int64_t plane, const int32_t* index, float* out, int64_t step);
  // The same for a 4x4 tile of the output's gradient.
  void (*gradient)(const float* planes, int64_t plane, const int32_t* index, float* out,
                   int64_t step);
  // out[r + ...] from the 3x3 weights at w + r * row, for r < rows.
  void (*weights)(const float* w, int64_t row, bool flipped, int64_t rows, float* out,
                  int64_t step);
  // The 4x4 results, out[(i * lanes + k) * 4 + j] of tile k; false where one is not finite.
  bool (*output)(const float* products, int64_t step, float* out);
  // The gradients of n 3x3 weights, one after another; false where one is not finite.
  bool (*weight_gradients)(const float* products, int64_t step, int64_t n, float* out);
};
inline constexpr int64_t kMaxLanes = 16;

// Windows next to each other, each with the same taps, of which there is at least one.
struct PoolRow {
  const void* in;  // a plane
  int64_t start;   // of the first window, in the plane
  int64_t step;    // from one window to the next
  int64_t taps[3], tap_step[3];
  int64_t n;
  void* value;     // for each window, the largest element
  int64_t* index;  // and its position in the plane
};

// Float32, Float64 and Int64.
struct PoolTable {
  void (*row[kDTypeCount])(const PoolRow& row);
};

struct Kernels {
  std::string_view level;
  const ElementwiseTable* elementwise;
  const CopyTable* copy;
  const ReduceTable* reduce;
  const PairTable* pairs;
  const ScanTable* scan;
  const SortTable* sort;
  const SelectTable* select;
  const SoftmaxTable* softmax;
  const NormTable* norm;
  const BatchNormTable* batch_norm;
  const OptimTable* optim;
  const AttentionTable* attention;
  const RandomTable* random;
  const GemmTable* gemm;
  const ResampleTable* resample;
  const DirectTable* direct;
  const ColumnsTable* columns;
  const WinogradTable* winograd;
  const PoolTable* pool;
  const LowTable* low = nullptr;
  const ConvTilesTable* conv_tiles = nullptr;
};

// The level in use: the best the machine has, or the lower one named by TINYT_ISA.
const Kernels& kernels();
// Names of the levels compiled in, best last, and whether this machine can run each.
struct LevelInfo {
  std::string_view name;
  bool supported;
};
std::span<const LevelInfo> levels();

}  // namespace tinyt::cpu
