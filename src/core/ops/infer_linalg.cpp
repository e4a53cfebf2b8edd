// Shape rules of factors of matrices.
#include "core/ops/infer_rules.h"

namespace tinyt {

namespace {

// Float32 or float64 matrices [..., n, n].
void need_square(OpId op, const Tensor& x) {
  require(x.dtype() == DType::Float32 || x.dtype() == DType::Float64, ErrorKind::DType, name_of(op),
          ": needs float32 or float64, got ", name_of(x.dtype()));
  require(x.rank() >= 2 && x.size(x.rank() - 1) == x.size(x.rank() - 2), ErrorKind::Shape,
          name_of(op), ": needs square matrices [..., n, n], got ", x.shape());
}

}  // namespace

void infer_cholesky(OpId op, std::span<const Tensor> in, const Attrs&, Inferred& out) {
  need_square(op, in[0]);
  first_shape(in[0], out);
  out.dtype[1] = DType::Int32;
  out.shape[1] = in[0].shape();
  out.shape[1].resize(out.shape[1].size() - 2);
}

void infer_solve_triangular(OpId op, std::span<const Tensor> in, const Attrs& attrs,
                            Inferred& out) {
  const Tensor &a = in[0], &b = in[1];
  need_square(op, a);
  require(b.dtype() == a.dtype(), ErrorKind::DType, name_of(op),
          ": both operands must have one dtype, got ", name_of(a.dtype()), " and ",
          name_of(b.dtype()));
  bool fits = a.rank() == b.rank();
  for (int64_t d = 0; fits && d + 1 < a.rank(); ++d) fits = a.size(d) == b.size(d);
  require(fits, ErrorKind::Shape, name_of(op), ": needs A [..., n, n] and B [..., n, k], got ",
          a.shape(), " and ", b.shape());
  first_shape(b, out);
  out.attrs = attrs;
}

}  // namespace tinyt
