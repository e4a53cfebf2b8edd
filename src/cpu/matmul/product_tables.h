// The tables of products and convolutions; levels.h has the others, and says what a table is.
#pragma once

#include <cstdint>

#include "core/base/dtype.h"

namespace tinyt::cpu {

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

// ---- products on AMX tiles (matmul_lowp_amx.simd.cpp) or AVX512-BF16 and AVX512-VNNI
// (matmul_lowp_bf16.simd.cpp): uint8, int8, bfloat16 and, with AMX, float16

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

// Of a panel of queries: from scores and their slopes, both float32, to operands of the products
// that give the gradients (levels.h).
struct TileSlopes;

// Sums of whole panels, as `block` keeps those of one panel of columns: [rows][cols], cols at most
// kTilePanel, to lines out[col][row].
struct TileSums {
  const void* sums;
  int64_t rows, cols;
  float scale;  // of the sums
  void* out;    // bfloat16
  int64_t out_row;
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
  // Of bfloat16 only: gradients of attention.
  void (*slopes)(const TileSlopes& slopes);
  void (*turn_sums)(const TileSums& sums);
};

// Elements of lines `from_row` apart, `step` apart in them, to lines `to_row` apart.
struct DirectLines {
  const void* from;
  int64_t from_row, step;
  int64_t rows, n;
  void* to;
  int64_t to_row;
};

// ---- convolutions of bfloat16 on the same units (conv_lowp_amx.simd.cpp, conv_lowp_bf16.simd.cpp)

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

}  // namespace tinyt::cpu
