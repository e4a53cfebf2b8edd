// Attention by blocks, without the scores in memory: what a group of threads has of its queries it
// scales when a larger score comes (Milakov and Gimelshein, "Online normalizer calculation for
// softmax", 2018; Dao et al., "FlashAttention", 2022).
#include <string>

#include "gpu/attention_blocks.h"
#include "gpu/kernels.h"
#include "gpu/launch.h"
#include "gpu/scalar_source.h"

namespace tinyt::gpu {

namespace {

class AttentionPrinter : AttentionBlocks {
 public:
  AttentionPrinter(MapKernel& kernel, const KernelCall& call)
      : AttentionBlocks(kernel, call.attrs, call.inputs[0], call.inputs[1], call.inputs[3],
                        call.inputs[2].size(3), false),
        query_(operand("query", call.inputs[0], false)),
        key_(operand("key", call.inputs[1], true)),
        value_(operand("value", call.inputs[2], true)),
        out_(kernel.writes(call.outputs[0])),
        sums_(kernel.writes(call.outputs[1])) {
    query_.is_scaled = true;
    kernel.share(type_, "parts", kBlock * kSide);
  }

  void print() {
    const Operand* operands[] = {&query_, &key_, &value_};
    open_group(operands);
    declare_results();
    for (int r = 0; r < kOwn; ++r) {
      write_.variable(type_, name("top", r), lowest());
      write_.variable(type_, name("sum", r), zero());
    }
    open_columns(operands);
    multiply("s", query_, key_);
    mask_scores();
    find_top();
    find_weights();
    add_weighted(value_);
    close_columns();
    store();
  }

 private:
  std::string larger(const std::string& a, const std::string& b) {
    return kernel_.joined(OpId::amax, dtype_, a, b);
  }
  // What a thread has of a row, for the others of that.
  static std::string part(int r, const std::string& across) {
    return "parts[(" + row(r) + ") * " + text_of(kSide) + " + " + across + "]";
  }

  // The largest score of each query so far.
  void find_top() {
    for (int r = 0; r < kOwn; ++r) {
      std::string most = pair("s", r, 0);
      for (int c = 1; c < kOwn; ++c) most = larger(most, pair("s", r, c));
      write_.assign(part(r, "across"), most);
    }
    write_.barrier();
    for (int r = 0; r < kOwn; ++r) {
      write_.variable(type_, name("most", r), name("top", r));
      write_.open_count(index(), "i", "0", text_of(kSide));
      write_.assign(name("most", r), larger(name("most", r), part(r, "i")));
      write_.close();
    }
  }

  // exp(score - largest), and what is there already scaled by as much.
  void find_weights() {
    for (int r = 0; r < kOwn; ++r) {
      const std::string base = name("base", r), fade = name("fade", r);
      write_.variable(type_, base, name("most", r));
      write_.open_if(write_.equal(type_, base, lowest()));
      write_.assign(base, zero());  // it has seen no key so far
      write_.close();
      write_.constant(type_, fade, exp_from(name("top", r), base));
      write_.assign(name("top", r), name("most", r));
      write_.assign(name("sum", r), call(OpId::mul, name("sum", r) + ", " + fade));
      for (int c = 0; c < own_; ++c)
        write_.assign(pair("out", r, c), call(OpId::mul, pair("out", r, c) + ", " + fade));
      for (int c = 0; c < kOwn; ++c) {
        write_.assign(pair("s", r, c), exp_from(pair("s", r, c), base));
        write_.assign(name("sum", r), call(OpId::add, name("sum", r) + ", " + pair("s", r, c)));
      }
    }
  }
  std::string exp_from(const std::string& x, const std::string& base) {
    return call(OpId::exp, call(OpId::sub, x + ", " + base));
  }

  // What a query that sees no key gets is zero.
  void store() {
    for (int r = 0; r < kOwn; ++r) write_.assign(part(r, "across"), name("sum", r));
    write_.barrier();
    for (int r = 0; r < kOwn; ++r) {
      write_.open("");
      write_.constant(index(), "row", "first_row + " + row(r));
      write_.variable(type_, "total", zero());
      write_.open_count(index(), "i", "0", text_of(kSide));
      write_.assign("total", call(OpId::add, "total, " + part(r, "i")));
      write_.close();
      write_.open_if("row < end_row");
      write_.constant(index(), "to", row_place());
      write_.open_if("part == 0 && across == 0");
      set(sums_, "to", call(OpId::add, name("top", r) + ", " + call(OpId::log, "total")));
      write_.close();
      write_.open_if(write_.equal(type_, "total", zero()));
      write_.assign("total", literal(type_, bits_of(type_, 1.0), kernel_.dialect()));
      write_.close();
      for_results(r, [&](const std::string& at, const std::string& out) {
        set(out_, "to * " + width_ + " + " + at, call(OpId::div, out + ", total"));
      });
      write_.close();
      write_.close();
    }
  }

  Operand query_, key_, value_;
  const MapKernel::View out_, sums_;
};

}  // namespace

void run_attention(const KernelCall& call) {
  const Tensor &q = call.inputs[0], &v = call.inputs[2];
  if (call.outputs[0].numel() == 0 && call.outputs[1].numel() == 0) return;
  MapKernel kernel(q.device(), AttentionBlocks::key_of("attention", call.attrs, call.inputs[3],
                                                       q.dtype(), v.size(3)));
  AttentionPrinter printer(kernel, call);
  kernel.run_groups(AttentionBlocks::groups_of(q, v.size(3)), [&] { printer.print(); });
}

}  // namespace tinyt::gpu
