// Shape rules: conversion, movement, creation.
#include <cmath>
#include <limits>

#include "core/base/checked.h"
#include "core/ops/infer_rules.h"

namespace tinyt {

namespace {

void same_as_input(const Tensor& x, Inferred& out) {
  out.compute = out.dtype[0] = x.dtype();
  out.shape[0] = x.shape();
}

void view_of(const Tensor& x, const Dims& shape, const Dims& strides, int64_t offset,
             Inferred& out) {
  out.compute = out.dtype[0] = x.dtype();
  out.shape[0] = shape;
  out.is_view = true;
  out.strides = strides;
  out.offset = offset;
}

void check_sizes(std::string_view op, std::span<const int64_t> size) {
  for (int64_t n : size)
    require(n >= 0, ErrorKind::Shape, op, ": sizes must not be negative, got ", size);
  numel_of(size);
}

// A view given by size, stride and offset must stay within `limit` elements.
void check_geometry(std::string_view op, std::span<const int64_t> size,
                    std::span<const int64_t> stride, int64_t offset, int64_t limit) {
  require(size.size() == stride.size(), ErrorKind::Shape, op,
          ": size and stride must have the same length, got ", size, " and ", stride);
  check_sizes(op, size);
  require(offset >= 0, ErrorKind::Value, op, ": offset must not be negative, got ", offset);
  for (const int64_t step : stride)
    require(step >= 0, ErrorKind::Value, op, ": strides must not be negative, got ", stride);
  __int128 last = offset;
  bool empty = false;
  for (size_t d = 0; d < size.size(); ++d) {
    if (size[d] == 0) empty = true;
    last += static_cast<__int128>(size[d] - 1) * stride[d];
  }
  if (!empty && last >= limit)
    fail(ErrorKind::Shape, op, ": size ", size, ", stride ", stride, " and offset ", offset,
         " reach beyond the storage's ", limit, " elements");
  check_reach(op, size, stride, offset);
}

int64_t storage_elements(const Tensor& x) {
  return static_cast<int64_t>(x.storage().buffer.bytes / x.itemsize());
}

}  // namespace

void infer_cast(OpId, std::span<const Tensor> inputs, const Attrs& attrs, Inferred& out) {
  same_as_input(inputs[0], out);
  out.dtype[0] = AttrReader(attrs).dtype();
  out.attrs = attrs;
}

void infer_copy(OpId, std::span<const Tensor> inputs, const Attrs&, Inferred& out) {
  same_as_input(inputs[0], out);
}

void infer_to_device(OpId, std::span<const Tensor> inputs, const Attrs& attrs, Inferred& out) {
  same_as_input(inputs[0], out);
  out.attrs = attrs;
}

void infer_as_strided(OpId op, std::span<const Tensor> inputs, const Attrs& attrs, Inferred& out) {
  const Tensor& x = inputs[0];
  AttrReader read(attrs);
  const Dims size(read.list());
  Dims stride(read.list());
  const int64_t offset = read.integer();
  // One element takes no step: of steps that no memory is long enough for, the stride is 1.
  constexpr int64_t kLongest = int64_t{1} << 40;
  for (size_t d = 0; d < std::min(size.size(), stride.size()); ++d)
    if (size[d] <= 1 && stride[d] > kLongest) stride[d] = 1;
  check_geometry(name_of(op), size, stride, offset, storage_elements(x));
  view_of(x, size, stride, offset, out);
  out.attrs = attrs;
}

void infer_reshape(OpId op, std::span<const Tensor> inputs, const Attrs& attrs, Inferred& out) {
  const Tensor& x = inputs[0];
  const Dims shape = resolve_reshape(name_of(op), AttrReader(attrs).list(), x.numel());
  out.attrs.add(std::span<const int64_t>(shape));
  if (auto strides = view_strides(x.shape(), x.strides(), shape)) {
    view_of(x, shape, *strides, x.offset(), out);
  } else {
    same_as_input(x, out);
    out.shape[0] = shape;
  }
}

void infer_permute(OpId op, std::span<const Tensor> inputs, const Attrs& attrs, Inferred& out) {
  const Tensor& x = inputs[0];
  const std::span<const int64_t> dims = AttrReader(attrs).list();
  require(static_cast<int64_t>(dims.size()) == x.rank(), ErrorKind::Shape, name_of(op),
          ": needs one entry for each of the ", x.rank(), " dimensions, got ", dims);
  Dims order, shape, strides;
  SmallVec<bool, 8> seen(dims.size(), false);
  for (int64_t d : dims) {
    const int64_t w = wrap_dim(name_of(op), d, x.rank());
    require(!seen[w], ErrorKind::Shape, name_of(op), ": dimension ", d, " repeats in ", dims);
    seen[w] = true;
    order.push_back(w);
    shape.push_back(x.size(w));
    strides.push_back(x.stride(w));
  }
  view_of(x, shape, strides, x.offset(), out);
  out.attrs.add(std::span<const int64_t>(order));
}

void infer_expand(OpId op, std::span<const Tensor> inputs, const Attrs& attrs, Inferred& out) {
  const Tensor& x = inputs[0];
  Dims size(AttrReader(attrs).list());
  const int64_t added = static_cast<int64_t>(size.size()) - x.rank();
  require(added >= 0, ErrorKind::Shape, name_of(op), ": ", size, " has fewer dimensions than ",
          x.shape());
  for (int64_t d = 0; d < static_cast<int64_t>(size.size()); ++d) {
    const int64_t old = d < added ? 1 : x.size(d - added);
    if (size[d] == -1 && d >= added) size[d] = old;
    require(size[d] == old || (old == 1 && size[d] >= 0), ErrorKind::Shape, name_of(op),
            ": cannot expand ", x.shape(), " to ", size, " at dimension ", d);
  }
  numel_of(size);
  view_of(x, size, broadcast_strides(x.shape(), x.strides(), size), x.offset(), out);
  out.attrs.add(std::span<const int64_t>(size));
}

void infer_view_as_real(OpId op, std::span<const Tensor> inputs, const Attrs&, Inferred& out) {
  const Tensor& x = inputs[0];
  require(is_complex(x.dtype()), ErrorKind::DType, name_of(op), ": needs a complex tensor, got ",
          name_of(x.dtype()));
  Dims shape(x.shape()), strides;
  for (int64_t step : x.strides()) strides.push_back(2 * step);
  shape.push_back(2);
  strides.push_back(1);
  view_of(x, shape, strides, 2 * x.offset(), out);
  out.compute = out.dtype[0] = real_of(x.dtype());
}

void infer_view_as_complex(OpId op, std::span<const Tensor> inputs, const Attrs&, Inferred& out) {
  const Tensor& x = inputs[0];
  const DType dtype = complex_of(x.dtype());
  require(dtype != x.dtype(), ErrorKind::DType, name_of(op), ": needs float32 or float64, got ",
          name_of(x.dtype()));
  const int64_t last = x.rank() - 1;
  require(last >= 0 && x.size(last) == 2, ErrorKind::Shape, name_of(op),
          ": the last dimension must have size 2, got ", x.shape());
  require(x.stride(last) == 1, ErrorKind::Shape, name_of(op),
          ": the last dimension must have stride 1, got ", x.strides());
  require(x.offset() % 2 == 0, ErrorKind::Shape, name_of(op),
          ": the storage offset must be even, got ", x.offset());
  Dims shape, strides;
  for (int64_t d = 0; d < last; ++d) {
    require(x.stride(d) % 2 == 0, ErrorKind::Shape, name_of(op), ": strides must be even, got ",
            x.strides());
    shape.push_back(x.size(d));
    strides.push_back(x.stride(d) / 2);
  }
  view_of(x, shape, strides, x.offset() / 2, out);
  out.compute = out.dtype[0] = dtype;
}

void infer_slice(OpId op, std::span<const Tensor> inputs, const Attrs& attrs, Inferred& out) {
  const Tensor& x = inputs[0];
  AttrReader read(attrs);
  require(x.rank() > 0, ErrorKind::Dim, name_of(op), ": cannot slice a 0-d tensor");
  const int64_t dim = wrap_dim(name_of(op), read.integer(), x.rank());
  const int64_t n = x.size(dim);
  int64_t start = read.integer(), end = read.integer();
  const int64_t step = read.integer();
  require(step > 0, ErrorKind::Value, name_of(op), ": step must be positive, got ", step);
  auto clamp = [n](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + n : at, 0, n); };
  start = clamp(start);
  end = std::max(start, clamp(end));
  Dims shape = x.shape(), strides = x.strides();
  shape[dim] = (end - start) / step + ((end - start) % step != 0);
  // A slice of at most one element never uses its stride: keep the product from overflowing.
  const int64_t offset = shape[dim] == 0 ? x.offset() : x.offset() + start * strides[dim];
  if (shape[dim] > 1) strides[dim] *= step;
  view_of(x, shape, strides, offset, out);
  out.attrs.add(dim).add(start).add(end).add(step);
}

void infer_pad(OpId op, std::span<const Tensor> inputs, const Attrs& attrs, Inferred& out) {
  const Tensor& x = inputs[0];
  const std::span<const int64_t> pad = AttrReader(attrs).list();
  require(static_cast<int64_t>(pad.size()) == 2 * x.rank(), ErrorKind::Shape, name_of(op),
          ": needs (before, after) for each of the ", x.rank(), " dimensions, got ", pad);
  same_as_input(x, out);
  for (int64_t d = 0; d < x.rank(); ++d) {
    const int64_t before = pad[2 * d], after = pad[2 * d + 1];
    int64_t kept = x.size(d) + std::min<int64_t>(before, 0);
    if (kept >= 0) kept += std::min<int64_t>(after, 0);
    require(kept >= 0, ErrorKind::Shape, name_of(op), ": padding ", pad,
            " removes more than dimension ", d, " of ", x.shape(), " holds");
    for (const int64_t n : {before, after})
      kept = checked_add(name_of(op), "the padded size", kept, std::max<int64_t>(n, 0));
    out.shape[0][d] = kept;
  }
  numel_of(out.shape[0]);
  out.attrs = attrs;
}

void infer_pad_border(OpId op, std::span<const Tensor> inputs, const Attrs& attrs, Inferred& out) {
  constexpr int64_t kReflect = 0, kCircular = 2;
  const Tensor& x = inputs[0];
  AttrReader read(attrs);
  const std::span<const int64_t> pad = read.list();
  const int64_t mode = read.integer();
  require(mode >= kReflect && mode <= kCircular, ErrorKind::Value, name_of(op),
          ": mode must be 0, 1 or 2, got ", mode);
  require(static_cast<int64_t>(pad.size()) == 2 * x.rank(), ErrorKind::Shape, name_of(op),
          ": needs (before, after) for each of the ", x.rank(), " dimensions, got ", pad);
  same_as_input(x, out);
  for (int64_t d = 0; d < x.rank(); ++d) {
    const int64_t before = pad[2 * d], after = pad[2 * d + 1], n = x.size(d);
    // What is repeated, however often, needs one element.
    const int64_t repeats = n > 0 ? std::numeric_limits<int64_t>::max() : 0;
    const int64_t most = mode == kReflect    ? std::max<int64_t>(n - 1, 0)
                         : mode == kCircular ? n
                                             : repeats;
    require(std::min(before, after) >= 0 && std::max(before, after) <= most, ErrorKind::Shape,
            name_of(op), ": mode ", mode, " cannot pad dimension ", d, " of ", x.shape(), " by (",
            before, ", ", after, ")");
    int64_t& padded = out.shape[0][d];
    padded = checked_add(name_of(op), "the padded size", padded, before);
    padded = checked_add(name_of(op), "the padded size", padded, after);
  }
  numel_of(out.shape[0]);
  out.attrs = attrs;
}

void infer_flip(OpId op, std::span<const Tensor> inputs, const Attrs& attrs, Inferred& out) {
  const Tensor& x = inputs[0];
  same_as_input(x, out);
  const Dims dims = wrap_dims(name_of(op), AttrReader(attrs).list(), x.rank(), false);
  out.attrs.add(std::span<const int64_t>(dims));
}

void infer_cat(OpId op, std::span<const Tensor> inputs, const Attrs& attrs, Inferred& out) {
  require(!inputs.empty(), ErrorKind::Value, name_of(op), ": needs at least one tensor");
  // PyTorch's legacy rule: empty 1-d tensors fit anything.
  auto skipped = [](const Tensor& t) { return t.rank() == 1 && t.size(0) == 0; };
  const Tensor* first = &inputs[0];
  for (const Tensor& t : inputs)
    if (!skipped(t)) {
      first = &t;
      break;
    }
  require(first->rank() > 0, ErrorKind::Shape, name_of(op), ": 0-d tensors cannot be joined");
  const int64_t dim = wrap_dim(name_of(op), AttrReader(attrs).integer(), first->rank());
  out.compute = out.dtype[0] = result_dtype(inputs);
  out.shape[0] = first->shape();
  out.shape[0][dim] = 0;
  for (const Tensor& t : inputs) {
    if (skipped(t) && first->rank() != 1) continue;
    bool fits = t.rank() == first->rank();
    for (int64_t d = 0; fits && d < t.rank(); ++d) fits = d == dim || t.size(d) == first->size(d);
    require(fits, ErrorKind::Shape, name_of(op), ": sizes must agree except in dimension ", dim,
            ", got ", first->shape(), " and ", t.shape());
    out.shape[0][dim] = checked_add(name_of(op), "the joined size", out.shape[0][dim], t.size(dim));
  }
  numel_of(out.shape[0]);
  out.attrs.add(dim);
}

void infer_update(OpId op, std::span<const Tensor> inputs, const Attrs& attrs, Inferred& out) {
  const Tensor &base = inputs[0], &value = inputs[1];
  AttrReader read(attrs);
  const Dims size(read.list()), stride(read.list());
  check_geometry(name_of(op), size, stride, read.integer(), base.numel());
  require(value.shape() == size, ErrorKind::Shape, name_of(op), ": the value has shape ",
          value.shape(), ", the view ", size);
  require(value.dtype() == base.dtype(), ErrorKind::DType, name_of(op), ": the value is ",
          name_of(value.dtype()), ", the base ", name_of(base.dtype()));
  same_as_input(base, out);
  out.attrs = attrs;
}

void infer_fill(OpId op, std::span<const Tensor>, const Attrs& attrs, Inferred& out) {
  AttrReader read(attrs);
  out.shape[0] = read.list();
  check_sizes(name_of(op), out.shape[0]);
  out.compute = out.dtype[0] = read.dtype();
  out.attrs = attrs;
}

void infer_iota(OpId op, std::span<const Tensor>, const Attrs& attrs, Inferred& out) {
  AttrReader read(attrs);
  out.shape[0].push_back(read.integer());
  check_sizes(name_of(op), out.shape[0]);
  out.compute = out.dtype[0] = read.dtype();
  require(!is_bool(out.dtype[0]) && !is_complex(out.dtype[0]), ErrorKind::DType, name_of(op),
          ": not defined for dtype ", name_of(out.dtype[0]));
  out.attrs = attrs;
}

void infer_random_bits(OpId op, std::span<const Tensor>, const Attrs& attrs, Inferred& out) {
  out.shape[0] = AttrReader(attrs).list();
  check_sizes(name_of(op), out.shape[0]);
  out.compute = out.dtype[0] = DType::Int64;
  out.attrs = attrs;
}

void infer_uniform(OpId op, std::span<const Tensor> inputs, const Attrs& attrs, Inferred& out) {
  infer_fill(op, inputs, attrs, out);
  require(is_float(out.dtype[0]), ErrorKind::DType, name_of(op), ": needs a float dtype, got ",
          name_of(out.dtype[0]));
}

void infer_normal(OpId op, std::span<const Tensor> inputs, const Attrs& attrs, Inferred& out) {
  infer_uniform(op, inputs, attrs, out);
}

// RngOffsets with a parameter an element: floats.
void infer_standard_gamma(OpId op, std::span<const Tensor> in, const Attrs& attrs, Inferred& out) {
  first_shape(in[0], out);
  require(is_float(out.dtype[0]), ErrorKind::DType, name_of(op), ": needs a float dtype, got ",
          name_of(out.dtype[0]));
  out.attrs = attrs;
}

void infer_dirichlet(OpId op, std::span<const Tensor> in, const Attrs& attrs, Inferred& out) {
  infer_standard_gamma(op, in, attrs, out);
  require(in[0].rank() > 0, ErrorKind::Shape, name_of(op), ": needs at least one dimension");
}

void infer_poisson(OpId op, std::span<const Tensor> in, const Attrs& attrs, Inferred& out) {
  infer_standard_gamma(op, in, attrs, out);
}

void infer_binomial(OpId op, std::span<const Tensor> in, const Attrs& attrs, Inferred& out) {
  infer_standard_gamma(op, in, attrs, out);
  require(in[0].dtype() == in[1].dtype() && in[0].shape() == in[1].shape(), ErrorKind::Shape,
          name_of(op), ": count and probability must have one dtype and shape, got ",
          name_of(in[0].dtype()), " ", in[0].shape(), " and ", name_of(in[1].dtype()), " ",
          in[1].shape());
}

void infer_von_mises(OpId op, std::span<const Tensor> in, const Attrs& attrs, Inferred& out) {
  infer_standard_gamma(op, in, attrs, out);
}

}  // namespace tinyt
