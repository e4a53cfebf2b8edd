// Shape rules: indexing, contraction, pooling.
#include <algorithm>
#include <limits>

#include "core/base/checked.h"
#include "core/ops/infer_rules.h"

namespace tinyt {

namespace {

// Of convolutions and pools: sizes are computed from products of steps, which must not overflow.
constexpr int64_t kLargestStep = std::numeric_limits<int32_t>::max();

// The attributes of a convolution, one entry per spatial dimension.
struct ConvAttrs {
  Dims stride, padding, dilation;
  int64_t groups;
};

ConvAttrs read_conv(OpId op, AttrReader& read, int64_t spatial, Inferred& out) {
  ConvAttrs a{Dims(read.list()), Dims(read.list()), Dims(read.list()), 0};
  a.groups = read.integer();
  const auto n = static_cast<size_t>(spatial);
  require(a.stride.size() == n && a.padding.size() == n && a.dilation.size() == n, ErrorKind::Shape,
          name_of(op), ": stride ", a.stride, ", padding ", a.padding, " and dilation ", a.dilation,
          " need ", spatial, " entries");
  for (size_t i = 0; i < n; ++i)
    require(a.stride[i] > 0 && a.padding[i] >= 0 && a.dilation[i] > 0, ErrorKind::Runtime,
            name_of(op), ": stride and dilation must be positive and padding not negative, got ",
            a.stride, ", ", a.dilation, ", ", a.padding);
  for (size_t i = 0; i < n; ++i)
    require(std::max({a.stride[i], a.padding[i], a.dilation[i]}) <= kLargestStep,
            ErrorKind::Runtime, name_of(op), ": stride, padding and dilation must be at most ",
            kLargestStep, ", got ", a.stride, ", ", a.padding, ", ", a.dilation);
  require(a.groups > 0, ErrorKind::Runtime, name_of(op), ": groups must be positive, got ",
          a.groups);
  out.attrs.add(std::span<const int64_t>(a.stride))
      .add(std::span<const int64_t>(a.padding))
      .add(std::span<const int64_t>(a.dilation))
      .add(a.groups);
  return a;
}

// The output shape of a convolution of x with w, with every check on the way.
Dims conv_shape(OpId op, const Dims& x, const Dims& w, const ConvAttrs& a) {
  require(x.size() == w.size(), ErrorKind::Shape, name_of(op),
          ": input and weight must have the same rank, got ", x, " and ", w);
  require(a.groups <= std::max<int64_t>(w[0], 1) && x[1] == w[1] * a.groups && w[0] % a.groups == 0,
          ErrorKind::Shape, name_of(op), ": input ", x, " with ", a.groups,
          " groups does not fit weight ", w);
  Dims shape{x[0], w[0]};
  for (size_t i = 2; i < x.size(); ++i) {
    require(w[i] <= kLargestStep, ErrorKind::Shape, name_of(op), ": the kernel ", w,
            " is larger than ", kLargestStep);
    const int64_t window = a.dilation[i - 2] * (w[i] - 1) + 1;
    const int64_t padded = checked_add(name_of(op), "the padded input", x[i], 2 * a.padding[i - 2]);
    const int64_t room = padded - window;
    require(w[i] > 0 && room >= 0, ErrorKind::Shape, name_of(op), ": the kernel ", w,
            " is larger than the padded input ", x);
    shape.push_back(room / a.stride[i - 2] + 1);
  }
  return shape;
}

void check_conv_rank(OpId op, const Dims& shape) {
  require(shape.size() >= 3 && shape.size() <= 5, ErrorKind::Shape, name_of(op),
          ": needs a batch, channels and 1 to 3 spatial dimensions, got ", shape);
}

DType conv_dtype(OpId op, std::span<const Tensor> in) {
  require(in[0].dtype() == in[1].dtype(), ErrorKind::DType, name_of(op),
          ": both operands must have one dtype, got ", name_of(in[0].dtype()), " and ",
          name_of(in[1].dtype()));
  no_complex(op, in[0].dtype());
  refuse_bool(op, in[0].dtype());
  return in[0].dtype();
}

// Both backward forms: `size` is the result's shape; the forward pass must give grad's shape.
void infer_conv_backward(OpId op, std::span<const Tensor> in, const Attrs& attrs, bool input,
                         Inferred& out) {
  AttrReader read(attrs);
  const Dims size(read.list());
  check_conv_rank(op, size);
  out.attrs.add(std::span<const int64_t>(size));
  const ConvAttrs a = read_conv(op, read, static_cast<int64_t>(size.size()) - 2, out);
  const Dims& other = in[1].shape();
  const Dims want = input ? conv_shape(op, size, other, a) : conv_shape(op, other, size, a);
  require(want == in[0].shape(), ErrorKind::Shape, name_of(op), ": the gradient has shape ",
          in[0].shape(), ", the forward output ", want);
  out.compute = out.dtype[0] = conv_dtype(op, in);
  out.shape[0] = size;
}

// The output's shape, for `size` along the spatial dimensions.
Dims check_spatial(OpId op, const Tensor& x, const Dims& size) {
  check_conv_rank(op, x.shape());
  no_complex(op, x.dtype());
  require(static_cast<int64_t>(size.size()) == x.rank() - 2, ErrorKind::Shape, name_of(op),
          ": size ", size, " needs ", x.rank() - 2, " entries");
  Dims shape{x.size(0), x.size(1)};
  for (const int64_t n : size) {
    require(n >= 0, ErrorKind::Shape, name_of(op), ": size must not be negative, got ", size);
    shape.push_back(n);
  }
  return shape;
}

int64_t total(std::span<const int64_t> list) {
  int64_t sum = 0;
  for (const int64_t n : list) sum = checked_add("pool", "the number of windows", sum, n);
  return sum;
}

// Shared by gather and the scatters: ranks agree (0-d counts as 1-d), index is int64.
int64_t check_index(OpId op, const Tensor& x, const Tensor& index, int64_t dim) {
  require(index.dtype() == DType::Int64, ErrorKind::DType, name_of(op),
          ": the index must be int64, got ", name_of(index.dtype()));
  require(x.rank() == index.rank(), ErrorKind::Shape, name_of(op),
          ": index and input must have the same rank, got ", index.shape(), " and ", x.shape());
  const int64_t d = wrap_dim(name_of(op), dim, x.rank());
  for (int64_t i = 0; i < x.rank(); ++i)
    require(i == d || index.size(i) <= x.size(i), ErrorKind::Shape, name_of(op), ": index ",
            index.shape(), " is larger than input ", x.shape(), " at dimension ", i);
  return d;
}

void infer_any_scatter(OpId op, std::span<const Tensor> in, const Attrs& attrs, Inferred& out) {
  const int64_t dim = check_index(op, in[0], in[1], AttrReader(attrs).integer());
  require(in[2].rank() == in[1].rank(), ErrorKind::Shape, name_of(op),
          ": index and source must have the same rank, got ", in[1].shape(), " and ",
          in[2].shape());
  for (int64_t i = 0; i < in[1].rank(); ++i)
    require(in[1].size(i) <= in[2].size(i), ErrorKind::Shape, name_of(op), ": index ",
            in[1].shape(), " is larger than source ", in[2].shape(), " at dimension ", i);
  require(in[2].dtype() == in[0].dtype(), ErrorKind::DType, name_of(op), ": the source is ",
          name_of(in[2].dtype()), ", the input ", name_of(in[0].dtype()));
  first_shape(in[0], out);
  out.attrs.add(dim);
}

}  // namespace

// The row count comes from the data: dispatch fills shape[0][0].
void infer_nonzero(OpId, std::span<const Tensor> in, const Attrs&, Inferred& out) {
  out.compute = in[0].dtype();
  out.dtype[0] = DType::Int64;
  out.shape[0] = {0, in[0].rank()};
}

void infer_masked_select(OpId op, std::span<const Tensor> in, const Attrs&, Inferred& out) {
  const Dims &x = in[0].shape(), &mask = in[1].shape();
  require(in[1].dtype() == DType::Bool, ErrorKind::DType, name_of(op),
          ": the mask must be bool, got ", name_of(in[1].dtype()));
  require(
      !mask.empty() && mask.size() <= x.size() && std::equal(mask.begin(), mask.end(), x.begin()),
      ErrorKind::Shape, name_of(op), ": the mask ", mask, " must have leading dimensions of ", x);
  out.compute = out.dtype[0] = in[0].dtype();
  out.shape[0] = {0};
  for (size_t d = mask.size(); d < x.size(); ++d) out.shape[0].push_back(x[d]);
}

void infer_gather(OpId op, std::span<const Tensor> in, const Attrs& attrs, Inferred& out) {
  const int64_t dim = check_index(op, in[0], in[1], AttrReader(attrs).integer());
  out.compute = out.dtype[0] = in[0].dtype();
  out.shape[0] = in[1].shape();
  out.attrs.add(dim);
}

void infer_scatter(OpId op, std::span<const Tensor> in, const Attrs& attrs, Inferred& out) {
  infer_any_scatter(op, in, attrs, out);
}
void infer_scatter_add(OpId op, std::span<const Tensor> in, const Attrs& attrs, Inferred& out) {
  infer_any_scatter(op, in, attrs, out);
}

void infer_scatter_reduce(OpId op, std::span<const Tensor> in, const Attrs& attrs, Inferred& out) {
  no_complex(op, in[0].dtype());
  infer_any_scatter(op, in, attrs, out);
  AttrReader read(attrs);
  read.integer();
  const int64_t reduce = read.integer();
  require(reduce >= 0 && reduce <= 2, ErrorKind::Value, name_of(op),
          ": reduce must be 0 (prod), 1 (amax) or 2 (amin), got ", reduce);
  out.attrs.add(reduce);
}

void infer_linear_index(OpId op, std::span<const Tensor> in, const Attrs& attrs, Inferred& out) {
  AttrReader read(attrs);
  const std::span<const int64_t> sizes = read.list(), dims = read.list();
  require(!in.empty() && sizes.size() == in.size() && dims.size() == in.size(), ErrorKind::Value,
          name_of(op), ": needs one size and dimension for each of the ", in.size(), " indices");
  Dims shape;
  for (const Tensor& t : in) {
    require(is_integral(t.dtype()) && !is_bool(t.dtype()), ErrorKind::DType, name_of(op),
            ": the indices must be integers, got ", name_of(t.dtype()));
    shape = broadcast("index", shape, t.shape());
  }
  out.compute = out.dtype[0] = DType::Int64;
  out.shape[0] = {numel_of(shape)};
  out.attrs.add(sizes).add(dims).add(std::span<const int64_t>(shape));
}

void infer_sum_squares(OpId op, std::span<const Tensor> in, const Attrs&, Inferred& out) {
  require(!in.empty(), ErrorKind::Value, name_of(op), ": needs at least one tensor");
  const DType dtype = in[0].dtype();
  require(dtype == DType::Float32 || dtype == DType::Float64, ErrorKind::DType, name_of(op),
          ": takes float32 or float64, got ", name_of(dtype));
  for (const Tensor& t : in)
    require(t.dtype() == dtype, ErrorKind::DType, name_of(op),
            ": all tensors must have one dtype, ", "got ", name_of(dtype), " and ",
            name_of(t.dtype()));
  out.compute = out.dtype[0] = dtype;
  out.shape[0] = {static_cast<int64_t>(in.size())};
}

void infer_matmul(OpId op, std::span<const Tensor> in, const Attrs&, Inferred& out) {
  const Tensor &a = in[0], &b = in[1];
  require(a.rank() > 0 && b.rank() > 0, ErrorKind::Shape, name_of(op),
          ": operands must have at least one dimension, got ", a.shape(), " @ ", b.shape());
  require(a.dtype() == b.dtype(), ErrorKind::DType, name_of(op),
          ": both operands must have one dtype, got ", name_of(a.dtype()), " @ ",
          name_of(b.dtype()));
  require(!is_bool(a.dtype()), ErrorKind::DType, name_of(op), ": not defined for dtype bool");
  const int64_t k = a.size(a.rank() - 1);
  const int64_t kb = b.size(b.rank() == 1 ? 0 : b.rank() - 2);
  require(k == kb, ErrorKind::Shape, name_of(op), ": inner dimensions must agree, got ", a.shape(),
          " @ ", b.shape());
  const int64_t batch_a = std::max<int64_t>(a.rank() - 2, 0);
  const int64_t batch_b = std::max<int64_t>(b.rank() - 2, 0);
  out.shape[0] = broadcast(name_of(op), std::span(a.shape()).first(batch_a),
                           std::span(b.shape()).first(batch_b));
  if (a.rank() > 1) out.shape[0].push_back(a.size(a.rank() - 2));
  if (b.rank() > 1) out.shape[0].push_back(b.size(b.rank() - 1));
  numel_of(out.shape[0]);
  out.compute = out.dtype[0] = a.dtype();
}

void infer_matmul_add(OpId op, std::span<const Tensor> in, const Attrs& attrs, Inferred& out) {
  infer_matmul(op, in.first(2), attrs, out);
  require(in[2].dtype() == out.dtype[0], ErrorKind::DType, name_of(op),
          ": all operands must have one dtype, got ", name_of(out.dtype[0]), " + ",
          name_of(in[2].dtype()));
  const Dims &have = in[2].shape(), &want = out.shape[0];
  bool fits = have.size() <= want.size();
  for (size_t d = 1; fits && d <= have.size(); ++d) {
    const int64_t n = have[have.size() - d];
    fits = n == 1 || n == want[want.size() - d];
  }
  require(fits, ErrorKind::Shape, name_of(op), ": the addend ", have,
          " does not broadcast to the product's shape ", want);
}

void infer_int_mm(OpId op, std::span<const Tensor> in, const Attrs& attrs, Inferred& out) {
  for (const Tensor& t : in) {
    require(t.dtype() == DType::Int8, ErrorKind::DType, name_of(op), ": takes int8, got ",
            name_of(t.dtype()));
    require(t.rank() == 2, ErrorKind::Shape, name_of(op), ": operands must be 2-d, got ",
            in[0].shape(), " @ ", in[1].shape());
  }
  infer_matmul(op, in, attrs, out);
  out.dtype[0] = DType::Int32;
}

void infer_linear(OpId op, std::span<const Tensor> in, const Attrs&, Inferred& out) {
  const Tensor &x = in[0], &weight = in[1], &bias = in[2];
  const int64_t last = x.rank() - 1;
  require(last >= 0 && weight.rank() == 2 && x.size(last) == weight.size(1), ErrorKind::Shape,
          name_of(op), ": needs input [..., in] and weight [out, in], got ", x.shape(), " and ",
          weight.shape());
  require(x.dtype() == weight.dtype(), ErrorKind::DType, name_of(op),
          ": input and weight must have one dtype, got ", name_of(x.dtype()), " and ",
          name_of(weight.dtype()));
  require(!is_bool(x.dtype()), ErrorKind::DType, name_of(op), ": not defined for dtype bool");
  if (bias.rank() != 0) {
    require(bias.shape() == Dims{weight.size(0)}, ErrorKind::Shape, name_of(op), ": a weight ",
            weight.shape(), " needs a bias of shape (", weight.size(0), ",), got ", bias.shape());
    require(bias.dtype() == x.dtype(), ErrorKind::DType, name_of(op),
            ": input and bias must have one dtype, got ", name_of(x.dtype()), " and ",
            name_of(bias.dtype()));
  }
  first_shape(x, out);
  out.shape[0][last] = weight.size(0);
  numel_of(out.shape[0]);
}

void infer_conv(OpId op, std::span<const Tensor> in, const Attrs& attrs, Inferred& out) {
  check_conv_rank(op, in[0].shape());
  AttrReader read(attrs);
  const ConvAttrs a = read_conv(op, read, in[0].rank() - 2, out);
  out.shape[0] = conv_shape(op, in[0].shape(), in[1].shape(), a);
  numel_of(out.shape[0]);
  out.compute = out.dtype[0] = conv_dtype(op, in);
}

void infer_conv_backward_input(OpId op, std::span<const Tensor> in, const Attrs& attrs,
                               Inferred& out) {
  infer_conv_backward(op, in, attrs, true, out);
}
void infer_conv_backward_weight(OpId op, std::span<const Tensor> in, const Attrs& attrs,
                                Inferred& out) {
  infer_conv_backward(op, in, attrs, false, out);
}

void infer_max_pool(OpId op, std::span<const Tensor> in, const Attrs& attrs, Inferred& out) {
  const Tensor& x = in[0];
  AttrReader read(attrs);
  const Dims size(read.list());
  const auto begin = read.list(), end = read.list(), step = read.list();
  out.shape[0] = check_spatial(op, x, size);
  const auto windows = static_cast<size_t>(total(size));
  require(begin.size() == windows && end.size() == windows && step.size() == size.size(),
          ErrorKind::Shape, name_of(op), ": size ", size, " needs ", windows, " windows, got ",
          begin.size(), " and ", end.size());
  size_t at = 0;
  for (size_t d = 0; d < size.size(); ++d) {
    require(step[d] > 0, ErrorKind::Shape, name_of(op), ": step must be positive, got ", step[d]);
    require(step[d] <= kLargestStep, ErrorKind::Runtime, name_of(op), ": step must be at most ",
            kLargestStep, ", got ", step[d]);
    for (int64_t i = 0; i < size[d]; ++i, ++at)
      require(begin[at] >= 0 && end[at] <= x.size(d + 2) && x.size(d + 2) > 0, ErrorKind::Shape,
              name_of(op), ": the window from ", begin[at], " to ", end[at],
              " is not inside the input ", x.shape());
  }
  out.shape[1] = out.shape[0];
  out.compute = out.dtype[0] = x.dtype();
  out.dtype[1] = DType::Int64;
  out.attrs = attrs;
}

void infer_resample(OpId op, std::span<const Tensor> in, const Attrs& attrs, Inferred& out) {
  const Tensor &x = in[0], &weight = in[1];
  AttrReader read(attrs);
  const Dims size(read.list());
  const auto taps = read.list(), index = read.list();
  const bool transposed = read.flag();
  out.shape[0] = check_spatial(op, x, size);
  const auto inner = std::span<const int64_t>(x.shape()).subspan(2);
  const std::span<const int64_t> rows = transposed ? inner : std::span<const int64_t>(size);
  const std::span<const int64_t> columns = transposed ? std::span<const int64_t>(size) : inner;
  require(static_cast<int64_t>(taps.size()) == total(rows) &&
              static_cast<int64_t>(index.size()) == total(taps) &&
              weight.shape() == Dims{static_cast<int64_t>(index.size())},
          ErrorKind::Shape, name_of(op), ": ", taps.size(), " rows with ", index.size(),
          " indices and weights ", weight.shape(), " do not fit ", x.shape(), " and ", size);
  size_t row = 0, at = 0;
  for (size_t d = 0; d < rows.size(); ++d) {
    require(columns[d] <= std::numeric_limits<int32_t>::max(), ErrorKind::Shape, name_of(op),
            ": at most 2147483647 elements along a dimension, got ", columns[d]);
    for (int64_t i = 0; i < rows[d]; ++i) {
      require(taps[row] >= 0, ErrorKind::Shape, name_of(op), ": taps must not be negative");
      for (int64_t k = taps[row++]; k > 0; --k, ++at)
        require(index[at] >= 0 && index[at] < columns[d], ErrorKind::Index, name_of(op), ": index ",
                index[at], " is out of range for size ", columns[d]);
    }
  }
  out.compute = out.dtype[0] = x.dtype();
  out.attrs = attrs;
}

}  // namespace tinyt
