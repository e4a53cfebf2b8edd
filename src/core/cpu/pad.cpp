// Padding: the interior, and slabs around it. The slabs of dimension d span the interior of the
// dimensions before it and all of those after it, so every element is written once.
#include <algorithm>
#include <array>

#include "axes.h"
#include "copy.h"
#include "tiles.h"

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
// end.
enum Border : int64_t { kReflect, kReplicate, kCircular };

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

}  // namespace

void kernel_pad(const KernelCall& call) {
  const Tensor &x = call.inputs[0], &out = call.outputs[0];
  AttrReader read(call.attrs);
  const std::span<const int64_t> pad = read.list();
  const double value = read.real();
  const Tensor constant = Tensor::empty({}, x.dtype(), x.device());
  cast_elements(reinterpret_cast<const char*>(&value), DType::Float64, constant.data(), x.dtype(),
                1);
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

// In pieces of the dimensions in front of all that are padded.
void kernel_pad_border(const KernelCall& call) {
  const Tensor &x = call.inputs[0], &out = call.outputs[0];
  if (out.numel() == 0) return;
  AttrReader read(call.attrs);
  const std::span<const int64_t> pad = read.list();
  const int64_t mode = read.integer();
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
