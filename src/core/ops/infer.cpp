#include "core/ops/infer_rules.h"

namespace tinyt {

DType apply_rule(DTypeRule rule, DType compute) {
  switch (rule) {
    case DTypeRule::Float:
      return is_integral(compute) ? default_dtype() : compute;
    case DTypeRule::Bool:
      return DType::Bool;
    case DTypeRule::Sum:
      return is_integral(compute) ? DType::Int64 : compute;
    case DTypeRule::Index:
      return DType::Int64;
    default:
      return compute;
  }
}

namespace {

// PyTorch's combination of two priority classes: the lower one only lifts the category.
DType combine(std::optional<DType> high, std::optional<DType> low) {
  if (!high) return *low;
  if (!low) return *high;
  if (info(*high).category >= info(*low).category) return *high;
  if (is_complex(*low) && is_float(*high)) return promote(*high, DType::Complex64);
  return promote(*high, *low);
}

// A Python float stands for the default dtype, a Python complex for that of its parts.
DType dtype_of_operand(const Tensor& t) {
  if (!t.impl()->is_scalar) return t.dtype();
  if (t.dtype() == DType::Float64) return default_dtype();
  return is_complex(t.dtype()) ? promote(default_dtype(), DType::Complex64) : t.dtype();
}

void check_dtype(OpId op, DType compute) {
  const OpInfo& row = info(op);
  if (row.kind == OpKind::Struct && row.dtype_rule == DTypeRule::First) return;
  const bool wrong = (is_complex(compute) && !(row.flags & op_flags::complex)) ||
                     (is_bool(compute) && (row.flags & op_flags::no_bool)) ||
                     (!is_integral(compute) && (row.flags & op_flags::integral)) ||
                     (is_integral(compute) && (row.flags & op_flags::floating));
  if (wrong) fail(ErrorKind::DType, row.name, ": not defined for dtype ", name_of(compute));
}

void infer_scalar(OpId op, std::span<const Tensor> inputs, const Attrs& attrs, Inferred& out) {
  const OpInfo& row = info(op);
  const bool conditional = (row.flags & op_flags::predicate_first) != 0;
  if (conditional && !is_bool(inputs[0].dtype()))
    fail(ErrorKind::DType, row.name, ": the condition must be bool, got ",
         name_of(inputs[0].dtype()));
  // As in PyTorch, subtraction refuses bool beside any dtype: what it would mean is unclear.
  if (op == OpId::sub && (is_bool(inputs[0].dtype()) || is_bool(inputs[1].dtype())))
    fail(ErrorKind::DType, "sub: not defined for bool tensors, got ", name_of(inputs[0].dtype()),
         " - ", name_of(inputs[1].dtype()), "; use ^ or logical_xor");
  DType compute = result_dtype(conditional ? inputs.subspan(1) : inputs);
  check_dtype(op, compute);
  if (op == OpId::square && is_bool(compute)) compute = DType::Int64;  // as x ** 2
  // The parameters of an activation lift no integers.
  if (row.flags & op_flags::fused) check_dtype(op, inputs[0].dtype());
  if (row.dtype_rule == DTypeRule::Float) compute = apply_rule(DTypeRule::Float, compute);
  out.compute = compute;
  out.dtype[0] = apply_rule(row.dtype_rule, compute);
  if (row.flags & op_flags::real_result) out.dtype[0] = real_of(out.dtype[0]);
  out.shape[0] = inputs[0].shape();
  for (size_t i = 1; i < inputs.size(); ++i)
    if (!(inputs[i].shape() == out.shape[0]))
      out.shape[0] = broadcast(row.name, out.shape[0], inputs[i].shape());
  out.attrs = attrs;
}

void infer_reduce(OpId op, std::span<const Tensor> inputs, const Attrs& attrs, Inferred& out) {
  const Tensor& x = inputs[0];
  AttrReader read(attrs);
  check_dtype(op, x.dtype());
  out.compute = x.dtype();
  out.dtype[0] = apply_rule(info(op).dtype_rule, x.dtype());
  const bool needs_element = op == OpId::amax || op == OpId::amin;
  reduce_dims(op, x, read, needs_element, out);
}

constexpr InferRule kRules[kCallableCount] = {
#define SCALAR_OP(...) infer_scalar,
#define STRUCT_OP(name, ...) infer_##name,
#define REDUCE_OP(...) infer_reduce,
#include "core/ops/ops.def"
#undef SCALAR_OP
#undef STRUCT_OP
#undef REDUCE_OP
};

}  // namespace

void reduce_dims(OpId op, const Tensor& x, AttrReader& read, bool needs_element, Inferred& out) {
  const Dims dims = wrap_dims(name_of(op), read.list(), x.rank(), true);
  const bool keepdim = read.flag();
  int64_t reduced = 1;
  size_t next = 0;
  for (int64_t d = 0; d < x.rank(); ++d) {
    const bool hit = next < dims.size() && dims[next] == d;
    if (hit) {
      reduced *= x.size(d);
      ++next;
    }
    if (!hit || keepdim) out.shape[0].push_back(hit ? 1 : x.size(d));
  }
  if (needs_element && reduced == 0)
    fail(ErrorKind::Dim, name_of(op), ": cannot reduce over zero elements, got shape ", x.shape(),
         " over dims ", dims);
  out.attrs.add(std::span<const int64_t>(dims)).add(keepdim);
}

DType result_dtype(std::span<const Tensor> inputs) {
  if (inputs.size() == 1) return dtype_of_operand(inputs[0]);
  const DType first = inputs[0].dtype();
  bool uniform = true;
  for (const Tensor& t : inputs) uniform &= t.dtype() == first && !t.impl()->is_scalar;
  if (uniform) return first;
  std::optional<DType> dim, zero, weak;
  for (const Tensor& t : inputs) {
    const bool is_weak = t.impl()->is_scalar;
    auto& slot = is_weak ? weak : t.rank() == 0 ? zero : dim;
    const DType dtype = dtype_of_operand(t);
    slot = slot ? promote(*slot, dtype) : dtype;
  }
  if (!dim && !zero) return *weak;
  if (!weak && !zero) return *dim;
  if (!dim) return combine(zero, weak);
  return combine(combine(dim, zero), weak);
}

InferRule rule_for(OpId op) { return kRules[static_cast<int>(op)]; }

void infer(OpId op, std::span<const Tensor> inputs, const Attrs& attrs, Inferred& out) {
  kRules[static_cast<int>(op)](op, inputs, attrs, out);
}

}  // namespace tinyt
