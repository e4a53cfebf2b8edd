// Writing, adding, multiplying and comparing at computed positions, always in index order.
#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "cpu/copy/copy.h"
#include "cpu/elementwise/complex.h"
#include "cpu/index/index.h"
#include "cpu/schedule/levels.h"
#include "cpu/schedule/tiles.h"
#include "cpu/simd/convert.h"

namespace tinyt::cpu {
namespace {

// Least number of lines side by side in one piece of scatter work; less where that were all.
constexpr int64_t kMinLines = 64;

// The output starts as the input; in place it is the input.
void copy_unless_same(const Tensor& from, const Tensor& to) {
  if (!same_view(from, to)) copy_into(from, to);
}

// A scatter treats every line along the dimension on its own, in index order: lines never share
// an output element, so they may run in any order. Byte steps along one line:
struct Line {
  int64_t length;
  int64_t out, index, src;
};

// Calls put(target, source) for all elements of rows x cols lines. By value: what is written may be
// anything, and would have the steps read again for every element.
template <class Put>
void scatter_elements(Line line, Block out, Block index, Block src, int64_t rows, int64_t cols,
                      Put put) {
  const auto one = [&](int64_t r, int64_t c, int64_t i) {
    const int64_t at = load_index(index.data + r * index.row + c * index.col + i * line.index);
    put(out.data + r * out.row + c * out.col + at * line.out,
        src.data + r * src.row + c * src.col + i * line.src);
  };
  // Follow the index's memory.
  const bool across = cols > 1 && std::abs(index.col) <= std::abs(line.index);
  for (int64_t r = 0; r < rows; ++r) {
    if (across) {
      for (int64_t i = 0; i < line.length; ++i) {
        for (int64_t c = 0; c < cols; ++c) one(r, c, i);
      }
    } else {
      for (int64_t c = 0; c < cols; ++c) {
        for (int64_t i = 0; i < line.length; ++i) one(r, c, i);
      }
    }
  }
}

// Calls put_row(target, source) where one index serves a whole row of lines.
template <class PutRow>
void scatter_rows(const Line& line, const Block& out, const Block& index, const Block& src,
                  int64_t rows, PutRow put_row) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t i = 0; i < line.length; ++i) {
      const int64_t at = load_index(index.data + r * index.row + i * line.index);
      put_row(out.data + r * out.row + at * line.out, src.data + r * src.row + i * line.src);
    }
  }
}

// The sums of that.
void add_row_blocks(const Line& line, const Block& out, const Block& index, const Block& src,
                    int64_t rows, int64_t bytes, AddRows add) {
  for (int64_t r = 0; r < rows; ++r) {
    add({src.data + r * src.row, line.src, out.data + r * out.row, line.out, line.length, bytes},
        index.data + r * index.row, line.index);
  }
}

// Runs body(line, out, index, src, rows, cols) over tiles of lines.
template <class Body>
void for_each_line_tile(const Tensor& out, const Tensor& index, const Tensor& src, size_t dim,
                        Body body) {
  if (index.numel() == 0) return;
  const auto item = static_cast<int64_t>(out.itemsize());
  const Line line{index.size(dim), out.stride(dim) * item,
                  index.stride(dim) * static_cast<int64_t>(sizeof(int64_t)),
                  src.stride(dim) * item};
  Dims starts(index.shape());
  starts[dim] = 1;
  const Tensor views[] = {out.view(starts, out.strides(), out.offset()),
                          index.view(starts, index.strides(), index.offset()),
                          src.view(starts, src.strides(), src.offset())};
  const Tensor* operands[] = {&views[0], &views[1], &views[2]};
  const Loops loops(operands);
  // Every piece goes through all of the index; two of whole cache lines are still worth it.
  const int64_t few = kCacheLine / item, row = loops.cols().size;
  const bool halves = loops.rows().size == 1 && row >= 2 * few;
  const int64_t least = halves ? std::min(kMinLines, round_up(row / 2, few)) : kMinLines;
  const int64_t lines = std::max(least, kChunkElements / line.length);
  const TileGrid grid(loops, lines / loops.cols().size, lines);
  for_each_tile(
      grid, 3,
      [&](const TileCursor& at) {
        body(line, loops.block(0, views[0].host_data() + at.offset(0)),
             loops.block(1, views[1].host_data() + at.offset(1)),
             loops.block(2, views[2].host_data() + at.offset(2)), at.rows(), at.cols());
      },
      line.length);
}

bool is_row(const Block& out, const Block& index, const Block& src, int64_t item) {
  return index.col == 0 && out.col == item && src.col == item;
}

// One step of a reduction, with the bits of the elementwise kernel of that name.
template <OpId op, class T>
T combine(T a, T b) {
  if constexpr (op == OpId::add) {
    return static_cast<T>(a + b);
  } else if constexpr (op == OpId::mul) {
    return static_cast<T>(a * b);
  } else {
    if constexpr (std::is_floating_point_v<T>) {  // a NaN wins, and +0 is above -0
      if (a != a) return a;
      if (b != b) return b;
      if (a == b) return std::signbit(a) == (op == OpId::maximum) ? b : a;
    }
    return (op == OpId::maximum) == (a > b) ? a : b;
  }
}

// A sum of bools and the larger one is "or", a product and the smaller one "and".
template <OpId op>
BoolByte combine(BoolByte a, BoolByte b) {
  const bool x = a.value != 0, y = b.value != 0;
  return {op == OpId::add || op == OpId::maximum ? x || y : x && y};
}

// out = op(out, src) at the index, both of the arithmetic type T.
template <OpId op, class T>
void combine_at(const Tensor& out, const Tensor& index, const Tensor& src, size_t dim) {
  constexpr auto kItem = static_cast<int64_t>(sizeof(T));
  const auto& kernel_of = kernels().elementwise->kernel[static_cast<int>(op)];
  const TileKernel kernel = kernel_of[static_cast<int>(out.dtype())];
  const AddRows add_rows =
      op == OpId::add ? kernels().copy->add_rows[static_cast<int>(out.dtype())] : nullptr;
  for_each_line_tile(out, index, src, dim,
                     [&](const Line& line, const Block& to, const Block& at, const Block& from,
                         int64_t rows, int64_t cols) {
                       if (is_row(to, at, from, kItem)) {
                         if (add_rows != nullptr)
                           return add_row_blocks(line, to, at, from, rows, cols * kItem, add_rows);
                         scatter_rows(line, to, at, from, rows, [&](char* target, char* source) {
                           char* const ptr[] = {target, target, source};
                           constexpr int64_t kNoRows[3] = {};
                           constexpr uint8_t kInner[] = {1, 1, 1};
                           kernel({ptr, 1, cols, kNoRows, kInner});
                         });
                         return;
                       }
                       scatter_elements(line, to, at, from, rows, cols,
                                        [](char* target, const char* source) {
                                          T have, value;
                                          __builtin_memcpy(&have, target, sizeof(T));
                                          __builtin_memcpy(&value, source, sizeof(T));
                                          have = combine<op>(have, value);
                                          __builtin_memcpy(target, &have, sizeof(T));
                                        });
                     });
}

template <OpId op>
void combine_at_any(const Tensor& out, const Tensor& index, const Tensor& src, size_t dim) {
  constexpr bool kWraps = op == OpId::add || op == OpId::mul;
  switch (out.dtype()) {
    case DType::Float32:
      return combine_at<op, float>(out, index, src, dim);
    case DType::Float64:
      return combine_at<op, double>(out, index, src, dim);
    case DType::Bool:
      return combine_at<op, BoolByte>(out, index, src, dim);
    default:  // unsigned, so that sums and products of int64 wrap
      return combine_at<op, std::conditional_t<kWraps, uint64_t, int64_t>>(out, index, src, dim);
  }
}

// float16 and bfloat16 accumulate in float32, narrow integers in int64; one rounding at the end.
template <OpId op>
void combine_wide(const Tensor& in, const Tensor& index, const Tensor& src, const Tensor& out,
                  size_t dim, DType wide) {
  const Tensor result = Tensor::empty(out.shape(), wide, out.device());
  const Tensor values = Tensor::empty(index.shape(), wide, out.device());
  copy_into(in, result);
  copy_into(src, values);
  combine_at_any<op>(result, index, values, dim);
  copy_into(result, out);
}

int64_t rows_at_a_time(const Tensor& out) {
  return std::max<int64_t>(1, kPartElements * out.size(0) / out.numel());
}

template <OpId op>
void scatter_combine(const KernelCall& call) {
  const Tensor in = at_least_1d(call.inputs[0]), index = at_least_1d(call.inputs[1]);
  const Tensor out = at_least_1d(call.outputs[0]);
  Tensor src = at_least_1d(call.inputs[2]);
  const auto dim = static_cast<size_t>(AttrReader(call.attrs).integer());
  check_index(call.op, index, static_cast<int64_t>(dim), out.size(dim));
  const DType wide = info(out.dtype()).compute;
  if (wide == out.dtype()) {
    copy_unless_same(in, out);
    return combine_at_any<op>(out, index, src, dim);
  }
  src = src.view(index.shape(), src.strides(), src.offset());
  if (dim == 0 || out.numel() == 0) return combine_wide<op>(in, index, src, out, dim, wide);
  // Some rows at a time: the whole would take several times the memory.
  const int64_t rows = out.size(0), some = rows_at_a_time(out);
  for (int64_t first = 0; first < rows; first += some) {
    const int64_t count = std::min(some, rows - first);
    const int64_t at = std::min(first, index.size(0)),
                  indices = std::min(count, index.size(0) - at);
    combine_wide<op>(rows_of(in, first, count), rows_of(index, at, indices),
                     rows_of(src, at, indices), rows_of(out, first, count), dim, wide);
  }
}

}  // namespace

void kernel_scatter(const KernelCall& call) {
  const Tensor index = at_least_1d(call.inputs[1]), src = at_least_1d(call.inputs[2]);
  const Tensor out = at_least_1d(call.outputs[0]);
  const int64_t dim = AttrReader(call.attrs).integer();
  check_index(call.op, index, dim, out.size(dim));
  copy_unless_same(call.inputs[0], call.outputs[0]);
  for_each_line_tile(
      out, index, src, dim,
      [&](const Line& line, const Block& to, const Block& at, const Block& from, int64_t rows,
          int64_t cols) {
        const auto item = static_cast<int64_t>(out.itemsize());
        if (is_row(to, at, from, item)) {
          scatter_rows(line, to, at, from, rows, [&](char* target, char* source) {
            copy_block({source, 0, item}, {target, 0, item}, out.itemsize(), 1, cols);
          });
          return;
        }
        with_item_size(out.itemsize(), [&]<size_t Size>() {
          scatter_elements(line, to, at, from, rows, cols, [](char* target, const char* source) {
            __builtin_memcpy(target, source, Size);
          });
        });
      });
}

// The first rows are as many as any.
int64_t workspace_scatter_combine(const KernelCall& call) {
  if (is_complex(call.compute)) return workspace_complex_scatter_add(call);
  const Tensor index = at_least_1d(call.inputs[1]), out = at_least_1d(call.outputs[0]);
  const int64_t check = check_index_bytes(index);
  const DType wide = info(out.dtype()).compute;
  if (wide == out.dtype()) return check;
  const auto item = static_cast<int64_t>(size_of(wide));
  if (AttrReader(call.attrs).integer() == 0 || out.numel() == 0)
    return std::max(check, (out.numel() + index.numel()) * item);
  const int64_t some = rows_at_a_time(out);
  const auto first = [&](const Tensor& x) { return rows_of(x, 0, std::min(some, x.size(0))); };
  return std::max(check, (first(out).numel() + first(index).numel()) * item);
}

void kernel_scatter_add(const KernelCall& call) {
  if (is_complex(call.compute)) return complex_scatter_add(call);
  scatter_combine<OpId::add>(call);
}

void kernel_scatter_reduce(const KernelCall& call) {
  AttrReader read(call.attrs);
  read.integer();
  switch (read.integer()) {
    case 0:
      return scatter_combine<OpId::mul>(call);
    case 1:
      return scatter_combine<OpId::maximum>(call);
    default:
      return scatter_combine<OpId::minimum>(call);
  }
}

}  // namespace tinyt::cpu
