// The gradients of attention by blocks, from the scores' sums that the forward pass has kept: those
// of queries over the keys, those of keys and values over the queries, each score made anew (Dao et
// al., "FlashAttention", 2022). No two groups write to one place: the order of sums is fixed.
#include <string>
#include <string_view>

#include "gpu/attention_blocks.h"
#include "gpu/kernels.h"
#include "gpu/launch.h"

namespace tinyt::gpu {

namespace {

// Whose gradient a kernel makes.
enum class Of : uint8_t { Query, Key, Value };
constexpr std::string_view kGradientKernels[] = {"attention_query", "attention_key",
                                                 "attention_value"};

class GradientPrinter : AttentionBlocks {
 public:
  // inputs: gradient, query, key, value and mask; the sums of the scores, and the products of
  // gradient and output, of each query.
  GradientPrinter(MapKernel& kernel, const KernelCall& call, const Tensor& sums, const Tensor& dots,
                  Of of, const Tensor& out)
      : AttentionBlocks(kernel, call.attrs, call.inputs[1], call.inputs[2], call.inputs[4],
                        out.size(3), of != Of::Query),
        of_(of),
        gradient_(operand("gradient", call.inputs[0], false)),
        query_(operand("query", call.inputs[1], false)),
        key_(operand("key", call.inputs[2], true)),
        value_(operand("value", call.inputs[3], true)),
        sums_(kernel.reads(sums)),
        dots_(kernel.reads(dots)),
        out_(kernel.writes(out)) {
    query_.is_scaled = true;
  }

  void print() {
    const Operand* operands[] = {&gradient_, &query_, &key_, &value_};
    open_group(operands);
    declare_results();
    open_columns(operands);
    multiply("s", by_keys_ ? key_ : query_, by_keys_ ? query_ : key_);
    mask_scores();
    if (of_ != Of::Value)
      multiply("g", by_keys_ ? value_ : gradient_, by_keys_ ? gradient_ : value_);
    find_weights();
    add_weighted(of_ == Of::Query ? key_ : of_ == Of::Key ? query_ : gradient_);
    close_columns();
    store();
  }

 private:
  // exp(score - sum): the weight of a key for a query; or the gradient of their score. A key that
  // a query may not see has none, whatever its value is, unless all that the query gets is NaN.
  void find_weights() {
    const std::string query = by_keys_ ? "column" : "row";
    for_scores([&](int r, int c) {
      const std::string s = pair("s", r, c);
      write_.open("");
      write_.constant(index(), query,
                      by_keys_ ? "first_column + " + column(c) : "first_row + " + row(r));
      write_.variable(type_, "weight", zero());
      const auto of_query = [&](const MapKernel::View& view) {
        return item(view, view.first + " + " + query_place(query));
      };
      write_.open_if(is_there(r, c));
      write_.constant(type_, "all", of_query(sums_));
      write_.open_if("!(" + write_.equal(type_, s, lowest()) + ") || " +
                     kernel_.is_nan(type_, "all"));
      // Not above the sum but for the rounding of both, which is large where scores are.
      write_.assign("weight", call(OpId::minimum, call(OpId::sub, s + ", all") + ", " + zero()));
      write_.assign("weight", call(OpId::exp, "weight"));
      if (of_ != Of::Value)
        write_.assign("weight",
                      call(OpId::mul,
                           "weight, " + call(OpId::sub, pair("g", r, c) + ", " + of_query(dots_))));
      write_.close();
      write_.close();
      write_.assign(s, "weight");
      write_.close();
    });
  }

  void store() {
    for (int r = 0; r < kOwn; ++r) {
      write_.open("");
      write_.constant(index(), "row", "first_row + " + row(r));
      write_.open_if("row < end_row");
      write_.constant(index(), "to", row_place());
      for_results(r, [&](const std::string& at, const std::string& out) {
        set(out_, "to * " + width_ + " + " + at,
            of_ == Of::Query ? call(OpId::mul, out + ", " + scale_) : out);
      });
      write_.close();
      write_.close();
    }
  }

  const Of of_;
  Operand gradient_, query_, key_, value_;
  const MapKernel::View sums_, dots_, out_;
};

}  // namespace

Tensor attention_dots(const Tensor& gradient, const Tensor& output) {
  const DType dtype = info(gradient.dtype()).compute;
  const bool is_half = gradient.dtype() != dtype;
  FusedKernel kernel;
  kernel.shape = Dims(gradient.shape());
  kernel.reduced = 1;
  kernel.loads = 2;
  kernel.values = {{gradient.dtype(), false}, {output.dtype(), false}};
  const auto add = [&](OpId op, DType compute, DType result, bool per_row, auto... in) {
    kernel.ops.push_back({op, compute, {{in, false}...}});
    kernel.values.push_back({result, per_row});
    return static_cast<int>(kernel.values.size()) - 1;
  };
  int a = 0, b = 1;
  if (is_half) {
    a = add(OpId::cast, gradient.dtype(), dtype, false, a);
    b = add(OpId::cast, output.dtype(), dtype, false, b);
  }
  const int product = add(OpId::mul, dtype, dtype, false, a, b);
  kernel.stores = {add(OpId::sum, dtype, dtype, true, product)};
  const Dims shape(std::span(gradient.shape()).first(3));
  const Tensor dots = Tensor::empty(shape, dtype, gradient.device());
  const Tensor operands[] = {gradient, output};
  run_fused(kernel, operands, {&dots, 1});
  return dots;
}

void run_attention_backward(const KernelCall& call) {
  const Tensor dots = attention_dots(call.inputs[0], call.inputs[5]),
               sums = contiguous_in(call.inputs[6], call.inputs[6].dtype());
  for (const Of of : {Of::Query, Of::Key, Of::Value}) {
    const Tensor& out = call.outputs[static_cast<size_t>(of)];
    if (out.numel() == 0) continue;
    MapKernel kernel(out.device(),
                     AttentionBlocks::key_of(kGradientKernels[static_cast<size_t>(of)], call.attrs,
                                             call.inputs[4], out.dtype(), out.size(3)));
    GradientPrinter printer(kernel, call, sums, dots, of, out);
    kernel.run_groups(AttentionBlocks::groups_of(out, out.size(3)), [&] { printer.print(); });
  }
}

}  // namespace tinyt::gpu
