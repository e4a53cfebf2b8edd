// Products of matrices by kernels/matmul.cu: which of its variants, and what it is told.
#include "cuda/matmul.h"

#include <algorithm>
#include <array>

#include "core/base/parallel.h"
#include "core/ops/linear_as_matmul.h"
#include "cuda/hand_kernels.h"
#include "cuda/kernels/matmul_arguments.h"
#include "cuda/tiles.h"
#include "gpu/kernels.h"
#include "gpu/launch.h"
#include "gpu/narrow_matmul.h"
#include "gpu/space.h"

namespace tinyt::cuda {

namespace {

constexpr size_t kBatchDims = std::extent_v<decltype(MatmulArguments::batch)>;

// An operand of a product: lines are rows of the left one, columns of the right one.
struct Operand {
  Tensor x;
  int64_t line, sum;  // steps, in elements
  Dims batch;
  int64_t lines;
};

enum class Lie { BySums, ByLines, Strided };

// How the kernel may read it: 16 bytes at a time where each of these begins at a multiple.
Lie lie_of(const Operand& o) {
  const auto bytes = static_cast<int64_t>(o.x.itemsize());
  const auto is_whole = [&](int64_t elements) { return elements * bytes % 16 == 0; };
  const auto address = reinterpret_cast<uintptr_t>(o.x.storage().buffer.handle);
  const bool begins = address % 16 == 0 && is_whole(gpu::first_element(o.x)) &&
                      std::ranges::all_of(o.batch, is_whole);
  if (begins && o.sum == 1 && (o.lines == 1 || is_whole(o.line))) return Lie::BySums;
  if (begins && o.line == 1 && bytes == 2 && is_whole(o.sum)) return Lie::ByLines;
  return Lie::Strided;
}

// The operand's type in the kernel's text. Neighbouring threads read what lies side by side.
std::string type_of(Lie lie, const Operand& o, std::string_view side) {
  const std::string of = "<T, Products::" + std::string(side) + ", Products::kThreads";
  if (lie == Lie::BySums) return "BySums" + of + ">";
  if (lie == Lie::ByLines) return "ByLines" + of + ">";
  return "Strided" + of + (std::abs(o.line) < std::abs(o.sum) ? ", true>" : ", false>");
}

// The same elements in memory of its own, where lines, or sums of halves that lie by lines, begin
// at multiples of 16 bytes.
Operand laid_out(const Operand& o, int64_t sums, const Dims& batch) {
  const auto of_chunk = static_cast<int64_t>(16 / o.x.itemsize());
  const bool by_lines = o.x.itemsize() == 2 && std::abs(o.line) < std::abs(o.sum);
  const int64_t pitch = ceil_div(by_lines ? o.lines : sums, of_chunk) * of_chunk;
  const int64_t rows = by_lines ? sums : o.lines;
  Operand made = o;
  (by_lines ? made.line : made.sum) = 1;
  (by_lines ? made.sum : made.line) = pitch;
  int64_t step = rows * pitch;
  Dims shape, from, to;
  for (size_t d = batch.size(); d-- > 0;) {
    if (o.batch[d] == 0) continue;
    made.batch[d] = step;
    shape.insert(0, batch[d]);
    from.insert(0, o.batch[d]);
    to.insert(0, step);
    step *= batch[d];
  }
  made.x = Tensor::empty(Dims{step}, o.x.dtype(), o.x.device());
  for (const auto& [size, there, here] :
       {std::array{o.lines, o.line, made.line}, std::array{sums, o.sum, made.sum}}) {
    shape.push_back(size);
    from.push_back(there);
    to.push_back(here);
  }
  gpu::copy_into(o.x.view(shape, from, o.x.offset()), made.x.view(shape, to, made.x.offset()));
  return made;
}

// Where the product is in memory of its own, which becomes the sum.
void add_and_round(const Tensor& product, const Tensor& addend, const Tensor& out) {
  const Tensor both[] = {product, addend};
  const bool is_rounded = product.dtype() != out.dtype();
  gpu::run_fused(gpu::single_op(OpId::add, product.dtype(), both, product.dtype(), out.shape()),
                 both, {is_rounded ? &product : &out, 1});
  if (is_rounded) gpu::copy_into(product, out);
}

class Matmul {
 public:
  Matmul(const gpu::Product& product, const Tensor* addend, const Tensor& out)
      : product_(product),
        addend_(addend),
        out_(out),
        element_(element_of(product.a.dtype())),
        sums_(is_integral(product.a.dtype()) ? DType::Int32 : DType::Float32) {}

  // False where it is another kernel's.
  bool run() {
    if (element_.empty() || out_.numel() == 0 || product_.k == 0 || gpu::is_narrow(product_))
      return false;
    if (!join_batch()) return false;
    const int64_t batches = numel_of(space_.shape);
    tiling_ = Tiling::of(product_.m, product_.n, product_.k, batches, element_,
                         cuda_driver(out_.device()).processors(out_.device().index));
    Operand a{product_.a, product_.a_row, product_.a_sum, space_.strides[0], product_.m};
    Operand b{product_.b, product_.b_column, product_.b_sum, space_.strides[1], product_.n};
    // Elements one by one are for small products, and for float32, of which copies take each.
    const bool is_narrow_type = size_of(a.x.dtype()) < 4;
    for (Operand* o : {&a, &b})
      if (is_narrow_type && lie_of(*o) == Lie::Strided && !tiling_.is_small())
        *o = laid_out(*o, product_.k, space_.shape);
    if (tiling_.parts > 1) return run_in_parts(a, b, batches);
    launch(a, b, batches, out_, addend_, out_.dtype() == sums_);
    return true;
  }

 private:
  // Dimensions of the batch as those that the kernel has; false: there are more.
  bool join_batch() {
    space_ = {product_.batch, {product_.a_batch, product_.b_batch}};
    if (addend_ != nullptr) {
      const Dims strides = broadcast_strides(addend_->shape(), addend_->strides(), out_.shape());
      addend_row_ = strides.size() > 1 ? strides[strides.size() - 2] : 0;
      addend_column_ = strides.back();
      space_.strides.push_back(Dims(std::span(strides).first(strides.size() - 2)));
    }
    return space_.collapse(0, space_.shape.size()) <= kBatchDims;
  }

  // Their sums, and then all else.
  bool run_in_parts(const Operand& a, const Operand& b, int64_t batches) {
    const Tensor made = Tensor::empty(Dims{tiling_.parts, out_.numel()}, sums_, out_.device());
    launch(a, b, batches, made, nullptr, true);
    if (addend_ == nullptr) {
      gpu::add_parts(made, out_);
      return true;
    }
    const Tensor sum = Tensor::empty(out_.shape(), sums_, out_.device());
    gpu::add_parts(made, sum);
    add_and_round(sum, *addend_, out_);
    return true;
  }

  void launch(const Operand& a, const Operand& b, int64_t batches, const Tensor& to,
              const Tensor* addend, bool is_whole) const {
    const Lie lie_a = lie_of(a), lie_b = lie_of(b);
    const bool by_elements = lie_a == Lie::Strided || lie_b == Lie::Strided;
    const Tiling tiling = by_elements && size_of(a.x.dtype()) < 4 ? tiling_.small() : tiling_;
    const std::string variant =
        tiling.text(element_) + "using Result = " +
        std::string(is_whole ? whole_element_of(sums_) : element_of(to.dtype())) +
        ";\nusing A = " + type_of(lie_a, a, "kRows") +
        ";\nusing B = " + type_of(lie_b, b, "kColumns") +
        ";\nconstexpr bool kAdds = " + (addend != nullptr ? "true" : "false") + ";\n";
    MatmulArguments args{};
    args.rows = product_.m;
    args.columns = product_.n;
    args.sums = product_.k;
    args.sums_of_part = tiling.sums_of_part;
    args.down = tiling.down(product_.m);
    args.across = tiling.across(product_.n);
    args.batches = batches;
    args.a_first = gpu::first_element(a.x);
    args.a_row = a.line;
    args.a_sum = a.sum;
    args.b_first = gpu::first_element(b.x);
    args.b_sum = b.sum;
    args.b_column = b.line;
    args.out_first = gpu::first_element(to);
    if (addend != nullptr) {
      args.addend_first = gpu::first_element(*addend);
      args.addend_row = addend_row_;
      args.addend_column = addend_column_;
    }
    const size_t skipped = kBatchDims - space_.shape.size();
    for (size_t d = 0; d < kBatchDims; ++d) {
      const bool is_there = d >= skipped;
      args.batch[d] = is_there ? space_.shape[d - skipped] : 1;
      args.a_batch[d] = is_there ? a.batch[d - skipped] : 0;
      args.b_batch[d] = is_there ? b.batch[d - skipped] : 0;
      if (addend != nullptr) args.addend_batch[d] = is_there ? space_.strides[2][d - skipped] : 0;
    }
    args.packs = product_.n % 4 == 0 && args.out_first % 4 == 0;
    const Buffer* const memory[] = {&a.x.storage().buffer, &b.x.storage().buffer,
                                    &(addend != nullptr ? *addend : a.x).storage().buffer,
                                    &to.storage().buffer};
    const Device device = out_.device();
    cuda_driver(device).launch_blocks(
        hand_kernel(device, "matmul.cu", variant), device.index,
        {tiling.parts * batches * args.down * args.across, tiling.threads(), tiling.shared_bytes()},
        memory, &args);
  }

  const gpu::Product product_;
  const Tensor* const addend_;
  const Tensor& out_;
  const std::string_view element_;
  const DType sums_;
  Tiling tiling_;
  gpu::Space space_;  // of the batch: strides of both operands, and of the addend
  int64_t addend_row_ = 0, addend_column_ = 0;
};

}  // namespace

bool multiply(const gpu::Product& product, const Tensor* addend, const Tensor& out) {
  return Matmul(product, addend, out).run();
}

void run_matmul(const KernelCall& call) {
  if (!multiply(gpu::product_of(call.inputs[0], call.inputs[1]), nullptr, call.outputs[0]))
    gpu::run_matmul(call);
}

// Rounded once.
void run_matmul_add(const KernelCall& call) {
  const Tensor &a = call.inputs[0], &b = call.inputs[1], &addend = call.inputs[2];
  const Tensor& out = call.outputs[0];
  if (out.numel() == 0 || multiply(gpu::product_of(a, b), &addend, out)) return;
  const DType sums = info(out.dtype()).compute;
  const Tensor product = Tensor::empty(out.shape(), sums, out.device());
  gpu::multiply_tensors(a, b, product);
  add_and_round(product, addend, out);
}

void run_linear(const KernelCall& call) { linear_as_matmul(call, run_matmul, run_matmul_add); }

// Bytes whose sums are int32.
void run_int_mm(const KernelCall& call) {
  const Tensor &a = call.inputs[0], &b = call.inputs[1], &out = call.outputs[0];
  if (out.numel() == 0 || multiply(gpu::product_of(a, b), nullptr, out)) return;
  const Tensor sums = Tensor::empty(out.shape(), info(DType::Int32).compute, out.device());
  gpu::multiply_tensors(a, b, sums);
  gpu::copy_into(sums, out);
}

}  // namespace tinyt::cuda
