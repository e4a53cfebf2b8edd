// Shape rules: scans, search, order.
#include "core/ops/infer_rules.h"

namespace tinyt {

namespace {

void infer_arg(OpId op, std::span<const Tensor> inputs, const Attrs& attrs, Inferred& out) {
  const Tensor& x = inputs[0];
  AttrReader read(attrs);
  const int64_t dim = wrap_dim(name_of(op), read.integer(), x.rank());
  const bool keepdim = read.flag();
  no_complex(op, x.dtype());
  refuse_bool(op, x.dtype());
  require(x.rank() == 0 || x.size(dim) > 0, ErrorKind::Dim, name_of(op),
          ": cannot reduce over zero elements, got shape ", x.shape(), " over dim ", dim);
  out.compute = x.dtype();
  out.dtype[0] = DType::Int64;
  out.shape[0] = x.shape();
  if (x.rank() > 0) {
    if (keepdim)
      out.shape[0][dim] = 1;
    else
      out.shape[0].erase(dim);
  }
  out.attrs.add(dim).add(keepdim);
}

// Running sums and products of integers are int64.
void infer_scan(OpId op, const Tensor& x, const Attrs& attrs, Inferred& out) {
  first_shape(x, out);
  if (is_integral(x.dtype())) out.compute = out.dtype[0] = DType::Int64;
  out.attrs.add(wrap_dim(name_of(op), AttrReader(attrs).integer(), x.rank()));
}

// Values and their positions along a dimension, which is returned.
int64_t infer_ordered(OpId op, const Tensor& x, int64_t dim, Inferred& out) {
  no_complex(op, x.dtype());
  first_shape(x, out);
  out.shape[1] = out.shape[0];
  out.dtype[1] = DType::Int64;
  const int64_t wrapped = wrap_dim(name_of(op), dim, x.rank());
  out.attrs.add(wrapped);
  return wrapped;
}

struct Rank {
  int64_t k;
  int64_t dim;
};

// The k of topk and kthvalue, in [least, size of the dimension], and that dimension.
Rank infer_rank(OpId op, const Tensor& x, AttrReader& read, int64_t least, Inferred& out) {
  const int64_t k = read.integer();
  out.attrs.add(k);
  const int64_t dim = infer_ordered(op, x, read.integer(), out);
  refuse_bool(op, x.dtype());
  const int64_t size = x.rank() == 0 ? 1 : x.size(static_cast<size_t>(dim));
  require(k >= least && k <= size, ErrorKind::Runtime, name_of(op), ": k must be in [", least, ", ",
          size, "] for dimension ", dim, ", got ", k);
  return {k, dim};
}

// One value a line: the dimension goes, or stays with size 1.
void drop_dim(int64_t dim, bool keepdim, Inferred& out) {
  for (Dims* shape : {&out.shape[0], &out.shape[1]}) {
    if (shape->empty()) continue;
    if (keepdim)
      (*shape)[static_cast<size_t>(dim)] = 1;
    else
      shape->erase(static_cast<size_t>(dim));
  }
  out.attrs.add(keepdim);
}

}  // namespace

void infer_argmax(OpId op, std::span<const Tensor> in, const Attrs& attrs, Inferred& out) {
  infer_arg(op, in, attrs, out);
}
void infer_argmin(OpId op, std::span<const Tensor> in, const Attrs& attrs, Inferred& out) {
  infer_arg(op, in, attrs, out);
}

void infer_cumsum(OpId op, std::span<const Tensor> in, const Attrs& attrs, Inferred& out) {
  infer_scan(op, in[0], attrs, out);
}
void infer_cumprod(OpId op, std::span<const Tensor> in, const Attrs& attrs, Inferred& out) {
  no_complex(op, in[0].dtype());
  infer_scan(op, in[0], attrs, out);
}
void infer_logcumsumexp(OpId op, std::span<const Tensor> in, const Attrs& attrs, Inferred& out) {
  require(is_float(in[0].dtype()), ErrorKind::DType, name_of(op), ": not defined for dtype ",
          name_of(in[0].dtype()));
  infer_scan(op, in[0], attrs, out);
}
void infer_cummax(OpId op, std::span<const Tensor> in, const Attrs& attrs, Inferred& out) {
  infer_ordered(op, in[0], AttrReader(attrs).integer(), out);
}
void infer_cummin(OpId op, std::span<const Tensor> in, const Attrs& attrs, Inferred& out) {
  infer_ordered(op, in[0], AttrReader(attrs).integer(), out);
}

void infer_sort(OpId op, std::span<const Tensor> in, const Attrs& attrs, Inferred& out) {
  AttrReader read(attrs);
  infer_ordered(op, in[0], read.integer(), out);
  out.attrs.add(read.flag());
}

void infer_topk(OpId op, std::span<const Tensor> in, const Attrs& attrs, Inferred& out) {
  AttrReader read(attrs);
  const auto [k, dim] = infer_rank(op, in[0], read, 0, out);
  for (Dims* shape : {&out.shape[0], &out.shape[1]})
    if (!shape->empty()) (*shape)[static_cast<size_t>(dim)] = k;
  out.attrs.add(read.flag());
}

void infer_kthvalue(OpId op, std::span<const Tensor> in, const Attrs& attrs, Inferred& out) {
  AttrReader read(attrs);
  const int64_t dim = infer_rank(op, in[0], read, 1, out).dim;
  drop_dim(dim, read.flag(), out);
}

void infer_median(OpId op, std::span<const Tensor> in, const Attrs& attrs, Inferred& out) {
  AttrReader read(attrs);
  const int64_t dim = infer_ordered(op, in[0], read.integer(), out);
  refuse_bool(op, in[0].dtype());
  require(in[0].rank() == 0 || in[0].size(static_cast<size_t>(dim)) > 0, ErrorKind::Dim,
          name_of(op), ": cannot reduce over zero elements, got shape ", in[0].shape(),
          " over dim ", dim);
  drop_dim(dim, read.flag(), out);
  out.attrs.add(read.flag());
}

void infer_searchsorted(OpId op, std::span<const Tensor> in, const Attrs& attrs, Inferred& out) {
  const Dims &sorted = in[0].shape(), &values = in[1].shape();
  out.compute = result_dtype(in);
  no_complex(op, out.compute);
  require(!sorted.empty(), ErrorKind::Shape, name_of(op),
          ": the sorted sequence must have at least one dimension");
  bool fits = sorted.size() == 1 || sorted.size() == values.size();
  for (size_t d = 0; fits && sorted.size() > 1 && d + 1 < sorted.size(); ++d)
    fits = sorted[d] == values[d];
  require(fits, ErrorKind::Shape, name_of(op),
          ": the sorted sequence must be 1-d or match the values in all but the last dimension, "
          "got ",
          sorted, " and ", values);
  out.dtype[0] = DType::Int64;
  out.shape[0] = values;
  out.attrs.add(AttrReader(attrs).flag());
}

}  // namespace tinyt
