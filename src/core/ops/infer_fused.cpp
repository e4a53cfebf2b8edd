// Shape rules of the fused rows: reductions, softmax, cross-entropy, normalisation, attention,
// long short-term memory.
#include <cmath>

#include "core/base/checked.h"
#include "core/ops/infer_rules.h"

namespace tinyt {

// ---- reductions

namespace {

void infer_float_reduction(OpId op, const Tensor& x, AttrReader& read, Inferred& out,
                           bool needs_element = false) {
  require(is_float(x.dtype()), ErrorKind::DType, name_of(op), ": not defined for dtype ",
          name_of(x.dtype()));
  out.compute = out.dtype[0] = x.dtype();
  reduce_dims(op, x, read, needs_element, out);
}

}  // namespace

void infer_nansum(OpId op, std::span<const Tensor> in, const Attrs& attrs, Inferred& out) {
  AttrReader read(attrs);
  infer_float_reduction(op, in[0], read, out);
}
void infer_norm(OpId op, std::span<const Tensor> in, const Attrs& attrs, Inferred& out) {
  AttrReader read(attrs);
  const double p = read.real();
  require(p == 1 || p == 2 || std::isinf(p), ErrorKind::Value, name_of(op),
          ": p must be 1, 2, inf or -inf, got ", p);
  infer_float_reduction(op, in[0], read, out, std::isinf(p));
  out.attrs.add_float(p);
}

void infer_logsumexp(OpId op, std::span<const Tensor> in, const Attrs& attrs, Inferred& out) {
  AttrReader read(attrs);
  infer_float_reduction(op, in[0], read, out);
}
void infer_var(OpId op, std::span<const Tensor> in, const Attrs& attrs, Inferred& out) {
  AttrReader read(attrs);
  infer_float_reduction(op, in[0], read, out);
  out.attrs.add_float(read.real());
  out.attrs.add(read.flag());
}

// ---- softmax

void infer_softmax(OpId op, std::span<const Tensor> in, const Attrs& attrs, Inferred& out) {
  const int64_t dim = wrap_dim(name_of(op), AttrReader(attrs).integer(), in[0].rank());
  require(is_float(in[0].dtype()), ErrorKind::DType, name_of(op), ": not defined for dtype ",
          name_of(in[0].dtype()));
  first_shape(in[0], out);
  out.attrs.add(dim);
}
void infer_log_softmax(OpId op, std::span<const Tensor> in, const Attrs& attrs, Inferred& out) {
  infer_softmax(op, in, attrs, out);
}

void infer_softmax_backward(OpId op, std::span<const Tensor> in, const Attrs& attrs,
                            Inferred& out) {
  require(in[0].shape() == in[1].shape(), ErrorKind::Shape, name_of(op), ": gradient ",
          in[0].shape(), " does not fit output ", in[1].shape());
  infer_softmax(op, in.subspan(1), attrs, out);
}
void infer_log_softmax_backward(OpId op, std::span<const Tensor> in, const Attrs& attrs,
                                Inferred& out) {
  infer_softmax_backward(op, in, attrs, out);
}

// ---- cross_entropy and its gradient

namespace {

void check_classes(OpId op, const Tensor& x, const Tensor& target, const Tensor& weight) {
  require(is_float(x.dtype()), ErrorKind::DType, name_of(op), ": not defined for dtype ",
          name_of(x.dtype()));
  require(x.rank() > 0, ErrorKind::Shape, name_of(op), ": needs at least 1 dimension");
  require(target.dtype() == DType::Int64, ErrorKind::DType, name_of(op),
          ": class indices must be int64, got ", name_of(target.dtype()));
  const int64_t dim = x.rank() > 1 ? 1 : 0;
  Dims expected;
  for (int64_t d = 0; d < x.rank(); ++d) {
    if (d != dim) expected.push_back(x.size(d));
  }
  require(target.shape() == expected, ErrorKind::Shape, name_of(op), ": target must have shape ",
          expected, ", got ", target.shape());
  require(weight.rank() == 0 || (weight.rank() == 1 && weight.size(0) == x.size(dim)),
          ErrorKind::Shape, name_of(op), ": weight must have shape (", x.size(dim), ",), got ",
          weight.shape());
}

// Of each row the maximum and the logarithm of the sum of exponentials; the sum of the weights.
int64_t statistics_size(OpId op, const Tensor& target) {
  const int64_t rows = checked_mul(name_of(op), "the statistics' size", target.numel(), 2);
  return checked_add(name_of(op), "the statistics' size", rows, 1);
}

}  // namespace

void infer_softmax_nll(OpId op, std::span<const Tensor> in, const Attrs& attrs, Inferred& out) {
  check_classes(op, in[0], in[1], in[2]);
  AttrReader read(attrs);
  read.integer();
  first_shape(in[0], out);
  out.shape[0] = read.integer() == 0 ? in[1].shape() : Dims{};
  out.shape[1] = {statistics_size(op, in[1])};
  out.dtype[1] = info(in[0].dtype()).compute;
  out.attrs = attrs;
}

void infer_softmax_nll_input(OpId op, std::span<const Tensor> in, const Attrs& attrs,
                             Inferred& out) {
  check_classes(op, in[1], in[2], in[3]);
  AttrReader read(attrs);
  read.integer();
  const Dims expected = read.integer() == 0 ? in[2].shape() : Dims{};
  require(in[0].shape() == expected && in[4].shape() == Dims{statistics_size(op, in[2])},
          ErrorKind::Shape, name_of(op), ": the gradient has shape ", in[0].shape(),
          ", the statistics have ", in[4].shape());
  first_shape(in[1], out);
  out.attrs = attrs;
}

// ---- layer_norm and its gradients

namespace {

// The number of normalised dimensions, added to the attributes.
int64_t norm_dims(OpId op, const Tensor& x, int64_t dims, Inferred& out) {
  require(is_float(x.dtype()), ErrorKind::DType, name_of(op), ": not defined for dtype ",
          name_of(x.dtype()));
  require(dims > 0 && dims <= x.rank(), ErrorKind::Shape, name_of(op), ": cannot normalise ", dims,
          " dimensions of shape ", x.shape());
  out.attrs.add(dims);
  return dims;
}

std::span<const int64_t> last_dims(const Tensor& x, int64_t dims) {
  return std::span<const int64_t>(x.shape()).last(static_cast<size_t>(dims));
}

void check_norm_part(OpId op, const Tensor& x, const Tensor& part, int64_t dims) {
  if (part.rank() == 0) return;
  require(part.shape() == Dims(last_dims(x, dims)), ErrorKind::Shape, name_of(op),
          ": a part of shape ", part.shape(), " does not fit the last ", dims, " dimensions of ",
          x.shape());
  require(part.dtype() == x.dtype(), ErrorKind::DType, name_of(op), ": input and parameters must ",
          "have one dtype, got ", name_of(x.dtype()), " and ", name_of(part.dtype()));
}

// Each row's mean and scale.
Dims stats_shape(const Tensor& x, int64_t dims) {
  return Dims(std::span<const int64_t>(x.shape()).first(static_cast<size_t>(x.rank() - dims)));
}

void check_norm_gradient(OpId op, std::span<const Tensor> in, const Dims& stats) {
  require(in[0].shape() == in[1].shape() && in[2].shape() == stats && in[3].shape() == stats,
          ErrorKind::Shape, name_of(op), ": gradient ", in[0].shape(), " and statistics ",
          in[2].shape(), " and ", in[3].shape(), " do not fit input ", in[1].shape());
}

// `count` results behind the first, of one shape: what backward needs of the input.
void statistics(const Tensor& x, const Dims& shape, int count, Inferred& out) {
  for (int i = 1; i <= count; ++i) {
    out.shape[i] = shape;
    out.dtype[i] = info(x.dtype()).compute;
  }
}

// The first output: the gradient of x, or nothing.
void input_gradient(const Tensor& x, bool wanted, Inferred& out) {
  first_shape(x, out);
  if (!wanted) out.shape[0] = {0};
}

// The second and third: the gradients of weight and bias.
void parameter_gradients(const Tensor& x, const Dims& shape, Inferred& out) {
  out.shape[1] = out.shape[2] = shape;
  out.dtype[1] = out.dtype[2] = info(x.dtype()).compute;
}

}  // namespace

void infer_layer_norm(OpId op, std::span<const Tensor> in, const Attrs& attrs, Inferred& out) {
  AttrReader read(attrs);
  const int64_t dims = norm_dims(op, in[0], read.integer(), out);
  check_norm_part(op, in[0], in[1], dims);
  check_norm_part(op, in[0], in[2], dims);
  out.attrs.add(read.flag()).add_float(read.real());
  first_shape(in[0], out);
  statistics(in[0], stats_shape(in[0], dims), 2, out);
}

void infer_layer_norm_backward(OpId op, std::span<const Tensor> in, const Attrs& attrs,
                               Inferred& out) {
  AttrReader read(attrs);
  const int64_t dims = norm_dims(op, in[1], read.integer(), out);
  check_norm_gradient(op, in, stats_shape(in[1], dims));
  check_norm_part(op, in[1], in[4], dims);
  out.attrs.add(read.flag());
  const bool dx = read.flag(), params = read.flag();
  out.attrs.add(dx).add(params);
  input_gradient(in[1], dx, out);
  parameter_gradients(in[1], params ? Dims(last_dims(in[1], dims)) : Dims{0}, out);
}

// ---- normalisation of channels, and its gradients

namespace {

void check_channels(OpId op, const Tensor& x, std::span<const Tensor> parts) {
  require(is_float(x.dtype()), ErrorKind::DType, name_of(op), ": not defined for dtype ",
          name_of(x.dtype()));
  require(x.rank() >= 2, ErrorKind::Shape, name_of(op), ": needs at least 2 dimensions, got ",
          x.shape());
  for (const Tensor& part : parts)
    require(part.rank() == 0 || part.shape() == Dims{x.size(1)}, ErrorKind::Shape, name_of(op),
            ": input ", x.shape(), " needs one value per channel, got shape ", part.shape());
}

void check_groups(OpId op, const Tensor& x, int64_t groups) {
  require(groups > 0 && x.size(1) % groups == 0, ErrorKind::Shape, name_of(op), ": ", x.size(1),
          " channels do not make ", groups, " groups");
}

// The gradients of input, weight and bias.
void channel_gradients(const Tensor& x, bool dx, Inferred& out) {
  input_gradient(x, dx, out);
  parameter_gradients(x, {x.size(1)}, out);
}

}  // namespace

void infer_group_norm(OpId op, std::span<const Tensor> in, const Attrs& attrs, Inferred& out) {
  check_channels(op, in[0], in.subspan(1));
  const int64_t groups = AttrReader(attrs).integer();
  check_groups(op, in[0], groups);
  out.attrs = attrs;
  first_shape(in[0], out);
  statistics(in[0], {in[0].size(0), groups}, 2, out);
}

void infer_group_norm_backward(OpId op, std::span<const Tensor> in, const Attrs& attrs,
                               Inferred& out) {
  check_channels(op, in[1], in.subspan(4));
  AttrReader read(attrs);
  const int64_t groups = read.integer();
  check_groups(op, in[1], groups);
  check_norm_gradient(op, in, {in[1].size(0), groups});
  out.attrs = attrs;
  channel_gradients(in[1], read.flag(), out);
}

void infer_batch_norm(OpId op, std::span<const Tensor> in, const Attrs& attrs, Inferred& out) {
  check_channels(op, in[0], in.subspan(1));
  require(in[3].rank() == in[4].rank(), ErrorKind::Shape, name_of(op),
          ": mean and variance go together, got shapes ", in[3].shape(), " and ", in[4].shape());
  out.attrs = attrs;
  first_shape(in[0], out);
  statistics(in[0], {in[0].size(1)}, 3, out);
}

void infer_batch_norm_backward(OpId op, std::span<const Tensor> in, const Attrs& attrs,
                               Inferred& out) {
  check_channels(op, in[1], in.subspan(4));
  check_norm_gradient(op, in, {in[1].size(1)});
  AttrReader read(attrs);
  read.flag();  // training
  out.attrs = attrs;
  channel_gradients(in[1], read.flag(), out);
}

// ---- attention and its gradients

namespace {

void check_attention(OpId op, std::span<const Tensor> in) {
  const Tensor &q = in[0], &k = in[1], &v = in[2], &mask = in[3];
  require(is_float(q.dtype()) && k.dtype() == q.dtype() && v.dtype() == q.dtype(), ErrorKind::DType,
          name_of(op), ": query, key and value must have one float dtype, got ", name_of(q.dtype()),
          ", ", name_of(k.dtype()), " and ", name_of(v.dtype()));
  const bool fit = q.rank() == 4 && k.rank() == 4 && v.rank() == 4 && k.size(0) == q.size(0) &&
                   v.size(0) == q.size(0) && v.size(1) == k.size(1) && v.size(2) == k.size(2) &&
                   k.size(3) == q.size(3) &&
                   (k.size(1) == 0 ? q.size(1) == 0 : q.size(1) % k.size(1) == 0);
  require(fit, ErrorKind::Shape, name_of(op), ": query ", q.shape(), ", key ", k.shape(),
          " and value ", v.shape(),
          " must be [B, H, L, E], [B, G, S, E] and [B, G, S, D], "
          "with H a multiple of G");
  require(is_bool(mask.dtype()) || is_float(mask.dtype()), ErrorKind::DType, name_of(op),
          ": mask must be bool or a float, got ", name_of(mask.dtype()));
  const int64_t scores[] = {q.size(0), q.size(1), q.size(2), k.size(2)};
  bool broadcasts = mask.rank() == 0 || mask.rank() == 4;
  for (size_t d = 0; broadcasts && d < mask.shape().size(); ++d)
    broadcasts = mask.size(d) == 1 || mask.size(d) == scores[d];
  require(broadcasts, ErrorKind::Shape, name_of(op), ": mask ", mask.shape(),
          " does not broadcast to the scores ", Dims(scores));
}

Dims rows_of(const Tensor& q) { return {q.size(0), q.size(1), q.size(2)}; }

}  // namespace

void infer_attention(OpId op, std::span<const Tensor> in, const Attrs& attrs, Inferred& out) {
  check_attention(op, in);
  out.attrs = attrs;
  first_shape(in[0], out);
  out.shape[0] = {in[0].size(0), in[0].size(1), in[0].size(2), in[2].size(3)};
  out.shape[1] = rows_of(in[0]);
  out.dtype[1] = info(in[0].dtype()).compute;
}

void infer_attention_backward(OpId op, std::span<const Tensor> in, const Attrs& attrs,
                              Inferred& out) {
  check_attention(op, in.subspan(1));
  const Tensor &grad = in[0], &q = in[1], &k = in[2], &v = in[3];
  const Dims expected = {q.size(0), q.size(1), q.size(2), v.size(3)};
  require(grad.shape() == expected && in[5].shape() == expected && in[6].shape() == rows_of(q) &&
              grad.dtype() == q.dtype() && in[5].dtype() == q.dtype() &&
              in[6].dtype() == info(q.dtype()).compute,
          ErrorKind::Shape, name_of(op), ": gradient ", grad.shape(), ", output ", in[5].shape(),
          " and sums ", in[6].shape(), " do not fit query ", q.shape(), " and value ", v.shape());
  out.attrs = attrs;
  first_shape(q, out);
  out.shape[1] = k.shape();
  out.shape[2] = v.shape();
  out.dtype[1] = out.dtype[2] = q.dtype();
}

// ---- long short-term memory

namespace {

// The gates of every element of the state, and what backward needs of them.
constexpr int64_t kGates = 4, kSaved = 5;

int64_t times(OpId op, int64_t count, int64_t size) {
  return checked_mul(name_of(op), "the gates' size", size, count);
}

void check_lstm(OpId op, std::span<const Tensor> parts, bool fit) {
  const DType dtype = parts[0].dtype();
  bool same = is_float(dtype) && info(dtype).compute == dtype;
  for (const Tensor& part : parts) same &= part.dtype() == dtype;
  require(same, ErrorKind::DType, name_of(op), ": needs one dtype, float32 or float64, got ",
          name_of(dtype), " and ", name_of(parts[3].dtype()));
  require(fit, ErrorKind::Shape, name_of(op), ": shapes ", parts[0].shape(), ", ", parts[1].shape(),
          ", ", parts[2].shape(), " and ", parts[3].shape(), " do not fit");
}

}  // namespace

void infer_lstm(OpId op, std::span<const Tensor> in, const Attrs& attrs, Inferred& out) {
  const Tensor &gates = in[0], &state = in[1], &weight = in[3];
  const bool matrices = gates.rank() == 3 && state.rank() == 2 && weight.rank() == 2;
  check_lstm(op, in,
             matrices && in[2].shape() == state.shape() && gates.size(1) == state.size(0) &&
                 gates.size(2) == times(op, kGates, state.size(1)) &&
                 weight.size(0) == gates.size(2) && weight.size(1) == state.size(1));
  out.attrs = attrs;
  first_shape(gates, out);
  out.shape[0] = {gates.size(0), state.size(0), state.size(1)};
  out.shape[1] = state.shape();
  out.shape[2] = {gates.size(0), times(op, kSaved, state.numel())};
  out.dtype[1] = out.dtype[2] = gates.dtype();
}

void infer_lstm_backward(OpId op, std::span<const Tensor> in, const Attrs& attrs, Inferred& out) {
  const Tensor &grad = in[0], &saved = in[2], &state = in[3], &weight = in[4];
  const bool matrices =
      grad.rank() == 3 && saved.rank() == 2 && state.rank() == 2 && weight.rank() == 2;
  check_lstm(op, in,
             matrices && in[1].shape() == state.shape() && grad.size(0) == saved.size(0) &&
                 grad.size(1) == state.size(0) && grad.size(2) == state.size(1) &&
                 saved.size(1) == times(op, kSaved, state.numel()) &&
                 weight.size(0) == times(op, kGates, state.size(1)) &&
                 weight.size(1) == state.size(1));
  out.attrs = attrs;
  first_shape(grad, out);
  out.shape[0] = {saved.size(0), state.size(0), weight.size(0)};
  out.shape[1] = out.shape[2] = state.shape();
  out.dtype[1] = out.dtype[2] = grad.dtype();
}

}  // namespace tinyt
