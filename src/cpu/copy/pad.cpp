// Padding: the interior, and slabs around it. The slabs of dimension d span the interior of the
// dimensions before it and all of those after it, so every element is written once.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "cpu/copy/copy.h"
#include "cpu/schedule/axes.h"
#include "cpu/schedule/tiles.h"

namespace tinyt::cpu {
namespace {

// The part of `t` with [begin, end) of every dimension.
Tensor window(const Tensor& t, const Dims& begin, const Dims& end) {
  Dims shape;
  int64_t offset = t.offset();
  for (size_t d = 0; d < begin.size(); ++d) {
    shape.push_back(end[d] - begin[d]);
    offset += begin[d] * t.stride(d);
  }
  return t.view(shape, t.strides(), offset);
}

// Where a border's elements come from: mirrored at the edge elements, the edge itself, the other
// end, or one constant.
enum Border : int64_t { kReflect, kReplicate, kCircular, kConstant };

// `count` indices of dimension d from `first` on, which `source` gives in steps of 1, 0 or -1.
struct Slab {
  int64_t first, count, source, step;
};

// The slabs before and after the interior [begin, end).
std::array<Slab, 2> slabs_of(int64_t mode, int64_t begin, int64_t end, int64_t size) {
  const int64_t after = size - end, n = end - begin;
  if (mode == kReflect) return {{{0, begin, 2 * begin, -1}, {end, after, end - 2, -1}}};
  if (mode == kReplicate) return {{{0, begin, begin, 0}, {end, after, end - 1, 0}}};
  return {{{0, begin, n, 1}, {end, after, begin, 1}}};
}

// Elements of one unit of work: so few that the borders, which are made last, find the interior
// in cache.
constexpr int64_t kBorderElements = 4 * kChunkElements;

// From the last dimension to the first: what lies beside the interior is there already, and moves
// outwards along with it.
void pad_border(const Tensor& x, const Tensor& out, std::span<const int64_t> pad, int64_t mode) {
  Dims begin(x.shape().size()), end(x.shape());
  for (size_t d = 0; d < begin.size(); ++d) {
    begin[d] = pad[2 * d];
    end[d] += pad[2 * d];
  }
  copy_into(x, window(out, begin, end));
  for (size_t d = begin.size(); d-- > 0;) {
    for (const Slab& slab : slabs_of(mode, begin[d], end[d], out.size(d))) {
      Dims first(begin), last(end), strides(out.strides());
      first[d] = slab.first;
      last[d] = slab.first + slab.count;
      const Tensor to = window(out, first, last);
      strides[d] *= slab.step;
      const int64_t offset = to.offset() + (slab.source - slab.first) * out.stride(d);
      copy_into(out.view(to.shape(), strides, offset), to);
    }
    begin[d] = 0;
    end[d] = out.size(d);
  }
}

// Index i of a padded dimension, whose interior begins at `begin`, as one of the n of the source.
int64_t source_of(int64_t mode, int64_t i, int64_t begin, int64_t n) {
  i -= begin;
  if (mode == kReplicate) return std::clamp<int64_t>(i, 0, n - 1);
  if (i < 0) return mode == kReflect ? -i : i + n;
  if (i >= n) return mode == kReflect ? 2 * (n - 1) - i : i - n;
  return i;
}

constexpr int64_t kRowsTogether = kPageBytes / 4;  // bytes of short rows of a constant pad
constexpr int64_t kConstants = kPageBytes;         // bytes of a constant, copied where it is to be

// Rows, along the last dimension that is padded and those after it, made in one go.
class BorderRows {
 public:
  BorderRows(const Tensor& x, const Tensor& out, std::span<const int64_t> pad, int64_t mode,
             const char* constants = nullptr)
      : x_(x),
        out_(out),
        pad_(pad),
        mode_(mode),
        constants_(constants),
        dim_(x.shape().size() - 1) {
    while (dim_ > 0 && pad[2 * dim_] == 0 && pad[2 * dim_ + 1] == 0) unit_ *= x.size(dim_--);
    step_ = mode == kReflect ? -1 : mode == kReplicate ? 0 : 1;
  }

  // Whether the source's rows lie dense and are short enough to share out.
  bool fit() const {
    int64_t dense = 1;
    for (size_t d = x_.shape().size(); d-- > dim_; dense *= x_.size(d)) {
      if (x_.size(d) > 1 && x_.stride(d) != dense) return false;
    }
    return unit_ * out_.size(dim_) <= kChunkElements;
  }

  void run() const {
    const int64_t row = unit_ * out_.size(dim_);
    parallel_ranges(out_.numel() / row, kChunkElements / row, [&](int64_t begin, int64_t end) {
      make_rows(begin, end, row * static_cast<int64_t>(out_.itemsize()));
    });
  }

 private:
  // The source's row for row r of the result, up to the last dimension before the row; nowhere if
  // that is of the constant alone.
  const char* plane_of(int64_t r) const {
    int64_t at = 0;
    for (size_t d = dim_; d-- > 0; r /= out_.size(d)) {
      if (d + 1 == dim_) continue;
      const int64_t i = r % out_.size(d) - pad_[2 * d];
      if (mode_ == kConstant && (i < 0 || i >= x_.size(d))) return nullptr;
      at += source_of(mode_, r % out_.size(d), pad_[2 * d], x_.size(d)) * x_.stride(d);
    }
    return x_.host_data() + at * static_cast<int64_t>(x_.itemsize());
  }

  void make_rows(int64_t begin, int64_t end, int64_t row_bytes) const {
    const int64_t lines = dim_ == 0 ? 1 : out_.size(dim_ - 1);
    char* to = out_.host_data() + begin * row_bytes;
    for (int64_t r = begin; r < end;) {
      const int64_t first = r % lines, last = std::min(lines, first + end - r);
      make_lines(plane_of(r), to, row_bytes, first, last);
      to += (last - first) * row_bytes;
      r += last - first;
    }
  }

  // Rows [first, last) of a plane: before, in and after its interior.
  void make_lines(const char* plane, char* to, int64_t row_bytes, int64_t first,
                  int64_t last) const {
    if (plane == nullptr) return fill(to, (last - first) * row_bytes);
    if (dim_ == 0 && mode_ == kConstant) return make_filled(plane, 0, to, row_bytes, 1);
    if (dim_ == 0) return make_part(plane, 0, to, row_bytes, 1);
    const int64_t begin = pad_[2 * dim_ - 2], n = x_.size(dim_ - 1);
    const int64_t step = x_.stride(dim_ - 1) * static_cast<int64_t>(x_.itemsize());
    const int64_t edges[] = {0, begin, begin + n, last};
    for (int part = 0; part < 3; ++part) {
      const int64_t from = std::max(first, edges[part]), end = std::min(last, edges[part + 1]);
      if (from >= end) continue;
      if (mode_ == kConstant && part != 1) {
        fill(to + (from - first) * row_bytes, (end - from) * row_bytes);
        continue;
      }
      if (mode_ == kConstant) {
        make_filled(plane + (from - begin) * step, step, to + (from - first) * row_bytes, row_bytes,
                    end - from);
        continue;
      }
      make_part(plane + source_of(mode_, from, begin, n) * step, part == 1 ? step : step_ * step,
                to + (from - first) * row_bytes, row_bytes, end - from);
    }
  }

  void make_part(const char* from, int64_t from_step, char* to, int64_t to_step,
                 int64_t rows) const {
    const auto size = static_cast<int64_t>(out_.itemsize());
    const int64_t unit = unit_ * size, begin = pad_[2 * dim_], n = x_.size(dim_);
    const auto border = [&](int64_t first, int64_t end) {
      return RowBorder{source_of(mode_, first, begin, n) * unit, end - first};
    };
    const size_t kernel = unit_ > 1 || size > 8 ? kAnyItem : std::countr_zero(out_.itemsize());
    kernels().copy->bordered[kernel]({from, from_step, to, to_step, rows, n * unit}, unit,
                                     step_ * unit, border(0, begin),
                                     border(begin + n, out_.size(dim_)));
  }

  // Short rows together over a run of the constant, in a cache by then; of long ones the ends.
  void make_filled(const char* from, int64_t from_step, char* to, int64_t to_step,
                   int64_t rows) const {
    const int64_t unit = unit_ * static_cast<int64_t>(out_.itemsize());
    const int64_t before = pad_[2 * dim_] * unit, bytes = x_.size(dim_) * unit;
    const int64_t most = std::max<int64_t>(1, kRowsTogether / to_step);
    for (int64_t r = 0; r < rows; r += most, to += most * to_step) {
      const int64_t count = std::min(most, rows - r), all = count * to_step;
      fill(to, count > 1 ? all : before);
      if (count == 1) fill(to + before + bytes, all - before - bytes);
      kernels().copy->rows({from + r * from_step, from_step, to + before, to_step, count, bytes});
    }
  }

  void fill(char* to, int64_t bytes) const {
    for (int64_t i = 0; i < bytes; i += kConstants) {
      std::memcpy(to + i, constants_, static_cast<size_t>(std::min(kConstants, bytes - i)));
    }
  }

  const Tensor &x_, &out_;
  std::span<const int64_t> pad_;
  int64_t mode_;
  const char* constants_;  // kConstants bytes of them
  size_t dim_;             // the last that is padded
  int64_t unit_ = 1;       // elements of one index of it
  int64_t step_;           // from one index of a border to the next, in the source
};

// With a constant, whatever the pads take away; results that go past the caches are better made
// slab by slab. Whether it was done.
bool pads_by_rows(const Tensor& x, const Tensor& out, std::span<const int64_t> pad,
                  const Tensor& constant) {
  if (x.shape().empty() || out.numel() * static_cast<int64_t>(out.itemsize()) >= kStreamBytes) {
    return false;
  }
  Dims begin(x.shape().size()), end(x.shape()), added(pad);
  for (size_t d = 0; d < begin.size(); ++d) {
    begin[d] = std::max<int64_t>(0, -pad[2 * d]);
    end[d] -= std::max<int64_t>(0, -pad[2 * d + 1]);
    if (begin[d] >= end[d]) return false;
  }
  for (int64_t& n : added) n = std::max<int64_t>(0, n);
  const Tensor inside = window(x, begin, end);
  alignas(kMaxItemSize) char constants[kConstants];
  const BorderRows rows(inside, out, added, kConstant, constants);
  if (out.numel() == 0 || !rows.fit()) return false;
  const auto size = static_cast<int64_t>(x.itemsize());
  copy_block({constant.host_data(), 0, 0}, {constants, 0, size}, x.itemsize(), 1,
             kConstants / size);
  rows.run();
  return true;
}

}  // namespace

void kernel_pad(const KernelCall& call) {
  const Tensor &x = call.inputs[0], &out = call.outputs[0];
  AttrReader read(call.attrs);
  const std::span<const int64_t> pad = read.list();
  const double value = read.real();
  const Tensor constant = Tensor::empty({}, x.dtype(), x.device());
  cast_elements(reinterpret_cast<const char*>(&value), DType::Float64, constant.host_data(),
                x.dtype(), 1);
  if (pads_by_rows(x, out, pad, constant)) return;
  Dims begin(out.shape().size()), end(out.shape());
  Dims from(x.shape().size()), to(x.shape());
  for (size_t d = 0; d < begin.size(); ++d) {
    const int64_t before = pad[2 * d], after = pad[2 * d + 1];
    from[d] = std::max<int64_t>(0, -before);
    to[d] = x.size(d) - std::max<int64_t>(0, -after);
    const int64_t first = std::max<int64_t>(0, before);
    const int64_t last = out.size(d) - std::max<int64_t>(0, after);
    end[d] = first;
    copy_into(constant, window(out, begin, end));
    begin[d] = last;
    end[d] = out.size(d);
    copy_into(constant, window(out, begin, end));
    begin[d] = first;
    end[d] = last;
  }
  copy_into(window(x, from, to), window(out, begin, end));
}

// The constant.
int64_t workspace_pad(const KernelCall& call) {
  return static_cast<int64_t>(call.inputs[0].itemsize());
}

// Other sources in pieces of the dimensions in front of all that are padded.
void kernel_pad_border(const KernelCall& call) {
  const Tensor &x = call.inputs[0], &out = call.outputs[0];
  if (out.numel() == 0) return;
  AttrReader read(call.attrs);
  const std::span<const int64_t> pad = read.list();
  const int64_t mode = read.integer();
  if (!x.shape().empty()) {
    const BorderRows rows(x, out, pad, mode);
    if (rows.fit()) return rows.run();
  }
  size_t cut = 0;  // dimensions of which a piece has one index
  int64_t pieces = 1, elements = out.numel();
  while (cut < out.shape().size() && elements > kBorderElements && pad[2 * cut] == 0 &&
         pad[2 * cut + 1] == 0) {
    pieces *= out.size(cut);
    elements /= out.size(cut++);
  }
  if (cut == 0) return pad_border(x, out, pad, mode);
  const int64_t last = out.size(cut - 1);
  const int64_t together = std::clamp<int64_t>(kBorderElements / elements, 1, last);
  const int64_t runs = ceil_div(last, together);
  parallel_ranges(pieces / last * runs, 1, [&](int64_t piece, int64_t) {
    Dims from(x.shape().size()), x_end(x.shape()), out_end(out.shape());
    int64_t rest = piece / runs;
    from[cut - 1] = piece % runs * together;
    x_end[cut - 1] = out_end[cut - 1] = std::min(last, from[cut - 1] + together);
    for (size_t d = cut - 1; d-- > 0; rest /= out.size(d)) {
      from[d] = rest % out.size(d);
      x_end[d] = out_end[d] = from[d] + 1;
    }
    pad_border(window(x, from, x_end), window(out, from, out_end), pad, mode);
  });
}

}  // namespace tinyt::cpu
