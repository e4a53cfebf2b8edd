#include "cpu/reduce/line_iterator.h"

namespace tinyt::cpu {
namespace {

constexpr int64_t kShortLine = 24;  // up to this length, lines that lie dense are turned over
constexpr int64_t kMaxRows = 16;    // moved through one tile
constexpr int64_t kMinRows = 4;     // the same, of long rows

// body(piece, first dense element) for pieces that are contiguous in a dense buffer and, if
// `convert`, no larger than a tile.
template <class F>
void for_each_piece(const Patch& p, bool convert, F&& body) {
  const int64_t height = convert ? std::max<int64_t>(1, kTileElements / p.cols) : p.rows;
  const int64_t width = convert ? std::min(p.cols, kTileElements) : p.cols;
  for (int64_t r = 0; r < p.rows; r += height) {
    for (int64_t c = 0; c < p.cols; c += width) {
      body({p.row_axes, p.row + r, std::min(height, p.rows - r), p.col_axes, p.col + c,
            std::min(width, p.cols - c)},
           r * p.cols + c);
    }
  }
}

// All dimensions but `dim`, or that one.
Axes axes_of(const Tensor& x, size_t dim, bool along) {
  Axes axes;
  for (size_t d = 0; d < x.shape().size(); ++d) {
    if ((d == dim) == along) axes.add(x.size(d), x.stride(d) * static_cast<int64_t>(x.itemsize()));
  }
  return axes;
}

}  // namespace

LineCut::LineCut(std::initializer_list<const Tensor*> tensors, size_t dim) {
  const Tensor& last = *tensors.end()[-1];
  length_ = last.rank() == 0 ? 1 : last.size(dim);
  count_ = last.numel() / std::max<int64_t>(1, length_);
  bool scattered = false, dense = true;
  for (const Tensor* x : tensors) {
    dense = axes_of(*x, dim, true).dense(x->itemsize());
    scattered |= !dense;
  }
  columns_ = count_ >= kMinColumns && (!dense || length_ <= kShortLine);
  const int64_t fits = kChunkElements / std::max<int64_t>(1, length_);
  // Neighbours of a column an odd number of cache lines apart use all sets of the cache.
  const int64_t registers = ((fits / kMinColumns - 1) | 1) * kMinColumns;
  group_ = columns_ ? std::clamp(registers, kMinColumns, kStripColumns)
                    : std::clamp(fits, scattered ? kMinRows : 1, kMaxRows);
  group_ = std::clamp<int64_t>(count_, 1, group_);
}

Lines::Lines(const Tensor& x, size_t dim, DType dtype, const LineCut& cut)
    : x_(x),
      dtype_(dtype),
      item_(static_cast<int64_t>(size_of(dtype))),
      columns_(cut.columns()),
      along_(axes_of(x, dim, true)),
      across_(axes_of(x, dim, false)) {
  dense_ =
      x.dtype() == dtype && (columns_ ? across_.stride() == item_ : along_.dense(x.itemsize()));
  const int64_t run = columns_ ? cut.group() : cut.length();
  streams_ = dense_ && tinyt::cpu::streams(x.numel() * item_, run * item_);
}

Patch Lines::patch(int64_t first, int64_t lines) const {
  return columns_ ? Patch{along_, 0, along_.size(), across_, first, lines}
                  : Patch{across_, first, lines, along_, 0, along_.size()};
}

void Lines::load(int64_t first, int64_t lines, char* tile) const {
  for_each_piece(patch(first, lines), x_.dtype() != dtype_, [&](const Patch& piece, int64_t at) {
    load_patch(x_.host_data(), x_.dtype(), piece, dtype_, tile + at * item_);
  });
}

void Lines::store(const char* tile, int64_t first, int64_t lines) const {
  for_each_piece(patch(first, lines), x_.dtype() != dtype_, [&](const Patch& piece, int64_t at) {
    store_patch(tile + at * item_, dtype_, piece, x_.host_data(), x_.dtype());
  });
}

}  // namespace tinyt::cpu
