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

#include "core/base/dtype.h"
#include "core/ops/ops.h"
#include "core/ops/optim_terms.h"
#include "core/ops/row_order.h"
#include "cpu/matmul/product_tables.h"
#include "cpu/schedule/machine_model.h"

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

// Fetches memory that will be read. Always inlined: GCC takes a function that only prefetches for
// one without any effect, and drops its calls.
[[gnu::always_inline]] inline void fetch_lines(const void* first, int64_t bytes) {
  const auto* at = static_cast<const char*>(first);
  for (int64_t k = 0; k < bytes; k += kCacheLine) __builtin_prefetch(at + k);
}

// rows x cols elements. Operand 0 is the output. Row strides are in bytes; the inner stride of an
// input is one element (1) or repeats the first (0). The output's inner stride is one element.
// All operands have the kernel's dtype, except: comparisons and tests write bool (one byte), a
// condition (flag `predicate_first`) is bool.
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
  // Of the halves: float32 values rounded to it, which may take each other's place; and such values
  // as halves.
  CastKernel round[kDTypeCount], narrow[kDTypeCount];
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

// Two numbers of each block of elements (moments.h). Moments: mean and sum of squared distances
// from it. Exponentials: maximum, and sum of exp(x - maximum), where that is finite, else of
// exp(x).
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
  void (*softmax_backward[kDTypeCount])(const SoftmaxRow& row);
  void (*log_softmax_backward[kDTypeCount])(const SoftmaxRow& row);
  // Two values: the maximum, and the logarithm of the sum of exp(x - maximum).
  void (*log_sum[kDTypeCount])(const SoftmaxRow& row);
  // scale * (exp(log_softmax) - [i = wanted]).
  void (*slopes[kDTypeCount])(const SoftmaxRow& row);
  // The same, with the same bits, for columns; strip_slopes leaves the wanted class to the caller.
  void (*strip_softmax[kDTypeCount])(const SoftmaxStrip& strip);
  void (*strip_log_softmax[kDTypeCount])(const SoftmaxStrip& strip);
  void (*strip_softmax_backward[kDTypeCount])(const SoftmaxStrip& strip);
  void (*strip_log_softmax_backward[kDTypeCount])(const SoftmaxStrip& strip);
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
  void *mean = nullptr, *scale = nullptr;  // scale: 1 / sqrt(var + eps)
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
  void (*moments[kDTypeCount])(const ChannelRow& row, void* moments);  // of moment_merge.h
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
  int64_t used;       // of the lanes: a multiple of a register's
  void* scores;       // in: products of scaled queries; out: weights e^(score - log_sum)
  void* slopes;       // in: slopes of the weights; out: of the scores, weight (slope - delta)
  const void* delta;  // of each query
  const void* log_sum = nullptr;  // of each query
  int64_t diagonal = 0;           // query i sees the keys of lanes up to diagonal + i
  MaskKind kind = MaskKind::None;
  const void* mask = nullptr;
  int64_t mask_row = 0;  // elements from one query's mask to the next
};

// At most kTilePanel queries on units for bfloat16: scores and slopes are read only, and what is
// written is 0 where a query sees no key. Of `block`, `used` does not matter.
struct TileSlopes {
  AttentionSlopes block;
  int64_t keys;  // at least 1
  float scale;   // of the products
  // Panels of columns, keys, one step of queries each: weights and slopes. From one to the next
  // `panel` bytes.
  void *weights, *slopes;
  int64_t panel;
  void* rows;  // slopes once more: a panel of rows, queries, deep as the keys
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

// RngOffsets by rejection. Each element has words of its own: blocks 0, 1, ... of element i are
// those of counter offset + i / 4 with word 2 = 4 * block + i % 4 and word 3 = 2. Element `begin`
// is that of out[0] and of the parameters; all compute in float64.
struct VariateTable {
  // The logarithm of a gamma-distributed value is log(value[i]) + boost[i].
  void (*gamma)(uint64_t seed, uint64_t offset, int64_t begin, int64_t n, const double* alpha,
                double* value, double* boost);
  // value[i] * exp(boost[i]).
  void (*gamma_value)(int64_t n, const double* value, const double* boost, double* out);
  // n values of one row in this form over their sum.
  void (*dirichlet_row)(int64_t n, const double* value, const double* boost, double* out);
  void (*poisson)(uint64_t seed, uint64_t offset, int64_t begin, int64_t n, const double* rate,
                  double* out);
  void (*binomial)(uint64_t seed, uint64_t offset, int64_t begin, int64_t n, const double* count,
                   const double* probability, double* out);
  void (*von_mises)(uint64_t seed, uint64_t offset, int64_t begin, int64_t n,
                    const double* concentration, double* out);
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

struct LevelTables {
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
  const VariateTable* variates;
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
const LevelTables& kernels();
// Names of the levels compiled in, best last, and whether this machine can run each.
struct LevelInfo {
  std::string_view name;
  bool supported;
};
std::span<const LevelInfo> levels();

}  // namespace tinyt::cpu
