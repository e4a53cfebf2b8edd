#include "attention.h"

#include <limits>

#include "attention_block.h"
#include "attention_products.h"
#include "copy.h"
#include "scratch.h"

namespace tinyt::cpu {
namespace {

constexpr int64_t kKeys = 192;        // of a block
constexpr int64_t kRowsOfTask = 512;  // queries, of all heads that share their keys
constexpr int64_t kLeastRows = 128;
constexpr int64_t kTasks = 32;                   // worth having, where there is work for them
constexpr int64_t kTaskWork = int64_t{1} << 18;  // multiplications worth a task
constexpr int64_t kFewRows = 8;                  // do not pay for packing keys and values

// Many queries, blocked. Queries are the lanes of all blocks: scores lie as [keys][lanes], outputs
// as [out_width][lanes], so that softmax runs along lanes and its weights are ready for the
// second product.
template <class Products>
class BlockedAttention {
  using T = typename Products::Value;

 public:
  BlockedAttention(const AttentionShape& shape, const AttentionOperands& operands)
      : s_(shape), in_(operands), lanes_(products_.lanes()) {
    const int64_t wanted = s_.queries * s_.batch * s_.groups / kTasks;
    const int64_t most = std::max(kRowsOfTask / s_.shared, lanes_);
    const int64_t least = std::min(std::max(kLeastRows / s_.shared, lanes_), most);
    const int64_t rows = std::clamp(wanted, least, most);
    rows_ = ceil_div(std::clamp<int64_t>(s_.queries, 1, rows), lanes_) * lanes_;
    const int64_t panels = rows_ / lanes_ * s_.shared, keys = std::min(kKeys, s_.keys);
    query_size_ = ceil_div(products_.query_size(s_.width), kAligned) * kAligned;
    query_ = at_.add(panels * query_size_);
    result_ = at_.add(panels * s_.out_width * lanes_);
    top_ = at_.add(panels * lanes_);
    sum_ = at_.add(panels * lanes_);
    keys_ = at_.add(products_.key_size(keys, s_.width));
    values_ = at_.add(products_.value_size(keys, s_.out_width));
    scores_ = at_.add(keys * lanes_);
    mask_ = at_.add(in_.mask ? keys * lanes_ : 0);
    factor_ = at_.add(lanes_);
    work_ = at_.add(std::max(
        {products_.work_size(keys, s_.width, s_.out_width), keys * lanes_, s_.out_width * lanes_}));
  }

  void run() {
    const int64_t parts = ceil_div(s_.queries, rows_), all = s_.batch * s_.groups;
    const int64_t work = rows_ * s_.shared * s_.keys * (s_.width + s_.out_width);
    const int64_t grain = std::clamp<int64_t>(kTaskWork / std::max<int64_t>(1, work), 1, all);
    const int64_t threads = num_threads();
    const Scratch scratch(at_.elements() * static_cast<int64_t>(sizeof(T)) * threads);
    Slots slots(scratch.data(), at_.elements() * static_cast<int64_t>(sizeof(T)), threads);
    parallel_ranges(parts * all, grain, [&](int64_t begin, int64_t end) {
      slots.with_one([&](char* memory) {
        products_.begin();
        // The last queries first: with a causal mask they have the most keys.
        for (int64_t i = begin; i < end; ++i) {
          task(i % all, (parts - 1 - i / all) * rows_, reinterpret_cast<T*>(memory));
        }
        products_.end();
      });
    });
  }

 private:
  // Queries [first, first + count) of one head.
  struct Panel {
    int64_t b, head, first, count;
    int64_t cols;  // lanes in use, in whole registers
    T *query, *result, *top, *sum;
  };

  void task(int64_t group, int64_t first, T* memory) const {
    const int64_t b = group / s_.groups, g = group % s_.groups;
    const int64_t last = std::min(s_.queries, first + rows_);
    const int64_t panels = ceil_div(last - first, lanes_);
    const auto panel = [&](int64_t i) {
      const int64_t at = first + i % panels * lanes_, count = std::min(lanes_, last - at);
      return Panel{.b = b,
                   .head = g * s_.shared + i / panels,
                   .first = at,
                   .count = count,
                   .cols = count <= lanes_ / 2 ? lanes_ / 2 : lanes_,
                   .query = memory + query_ + i * query_size_,
                   .result = memory + result_ + i * s_.out_width * lanes_,
                   .top = memory + top_ + i * lanes_,
                   .sum = memory + sum_ + i * lanes_};
    };
    for (int64_t i = 0; i < panels * s_.shared; ++i) start(panel(i), memory);
    const int64_t keys = s_.keys_before(last);
    for (int64_t j = 0; j < keys; j += kKeys) {
      const int64_t n = std::min(kKeys, keys - j);
      products_.pack_keys({in_.k, b, g, j, n}, memory + keys_, memory + work_);
      products_.pack_values({in_.v, b, g, j, n}, memory + values_, memory + work_);
      for (int64_t i = 0; i < panels * s_.shared; ++i) {
        const Panel p = panel(i);
        const int64_t seen = std::min(n, s_.keys_before(p.first + p.count) - j);
        if (seen > 0) attend(p, j, n, seen, memory);
      }
    }
    for (int64_t i = 0; i < panels * s_.shared; ++i) store(panel(i), memory);
  }

  void start(const Panel& p, T* memory) const {
    products_.pack_query({in_.q, p.b, p.head, p.first, p.count}, p.query, memory + work_);
    std::fill_n(p.top, lanes_, -std::numeric_limits<T>::infinity());
    std::fill_n(p.sum, lanes_, T{0});
  }

  // One panel of queries and the first `seen` of the n packed keys from j on.
  void attend(const Panel& p, int64_t j, int64_t n, int64_t seen, T* memory) const {
    T *scores = memory + scores_, *factor = memory + factor_, *work = memory + work_;
    products_.score(seen, p.cols, s_.width, memory + keys_, p.query, scores, work);
    if (in_.mask) load_mask(p, j, seen, memory);
    gemm_.table.weigh[gemm_.kIndex]({.keys = seen,
                                     .lanes = lanes_,
                                     .used = p.cols,
                                     .scores = scores,
                                     .scale = s_.scale,
                                     .kind = in_.mask.kind,
                                     .mask = memory + mask_,
                                     .diagonal = s_.diagonal(p.first, j),
                                     .top = p.top,
                                     .sum = p.sum,
                                     .factor = factor});
    products_.add(seen, n, p.cols, s_.out_width, memory + values_, scores, j > 0 ? factor : nullptr,
                  p.result, work);
  }

  // The masks of a block of scores, in their layout.
  void load_mask(const Panel& p, int64_t j, int64_t n, T* memory) const {
    const Block from = in_.mask.at(p.b, p.head, p.first, j);
    const DType dtype = in_.mask.mask.dtype();
    T *to = memory + mask_, *buffer = memory + work_;
    constexpr auto kItem = static_cast<int64_t>(sizeof(T));
    if (from.row == 0) {
      load_block({from.data, 0, from.col}, dtype, 1, n, gemm_.kDType,
                 reinterpret_cast<char*>(buffer));
      for (int64_t k = 0; k < n; ++k) std::fill_n(to + k * lanes_, lanes_, buffer[k]);
    } else if (dtype == gemm_.kDType) {
      gemm_.pack({from.data, from.row / kItem, from.col / kItem}, p.count, n, lanes_, to);
    } else {
      load_block(from, dtype, p.count, n, gemm_.kDType, reinterpret_cast<char*>(buffer));
      gemm_.pack({buffer, n, 1}, p.count, n, lanes_, to);
    }
  }

  void store(const Panel& p, T* memory) const {
    T* log_sum = memory + factor_;
    gemm_.table.finish[gemm_.kIndex](lanes_, p.top, p.sum, log_sum);
    const int64_t row = (p.b * s_.heads + p.head) * s_.queries + p.first;
    std::copy_n(log_sum, p.count, in_.log_sum.ptr<T>() + row);
    gemm_.table.scale_rows[gemm_.kIndex](p.result, s_.out_width, lanes_, p.sum);
    if (in_.out.dtype() == gemm_.kDType) {
      T* out = in_.out.ptr<T>() + row * s_.out_width;
      gemm_.transpose(p.result, lanes_, p.count, s_.out_width, out);
      return;
    }
    T* buffer = memory + work_;
    gemm_.transpose(p.result, lanes_, p.count, s_.out_width, buffer);
    const auto item = static_cast<int64_t>(in_.out.itemsize());
    cast_elements(reinterpret_cast<const char*>(buffer), gemm_.kDType,
                  in_.out.data() + row * s_.out_width * item, in_.out.dtype(),
                  p.count * s_.out_width);
  }

  static constexpr int64_t kAligned = 16;  // elements of a line of cache

  const AttentionShape& s_;
  const AttentionOperands& in_;
  const Products products_;
  const AttentionGemm<T> gemm_;
  const int64_t lanes_;
  int64_t rows_;  // queries of one head in a task
  int64_t query_size_;
  Workspace at_;
  int64_t query_, result_, top_, sum_, keys_, values_, scores_, mask_, factor_, work_;
};

// Whether AMX tiles take the operands' dtype.
bool on_tiles(const Tensor& q) { return kernels().amx && q.dtype() == DType::BFloat16; }

template <class T>
void attention(const KernelCall& call) {
  const auto in = call.inputs;
  const AttentionShape shape(in[0], in[1], in[2], call.attrs);
  const AttentionOperands operands{in[0],           in[1],          in[2], AttentionMask(in[3]),
                                   call.outputs[0], call.outputs[1]};
  if (operands.log_sum.numel() == 0) return;
  if (shape.keys == 0) {
    std::fill_n(operands.log_sum.ptr<T>(), operands.log_sum.numel(),
                -std::numeric_limits<T>::infinity());
    copy_into(Tensor::scalar(0.0), operands.out);
  } else if (shape.shared * shape.queries <= kFewRows) {
    attend_few(shape, operands);
  } else if (on_tiles(in[0])) {
    BlockedAttention<TileProducts>(shape, operands).run();
  } else {
    BlockedAttention<VectorProducts<T>>(shape, operands).run();
  }
}

}  // namespace

void kernel_attention(const KernelCall& call) {
  info(call.outputs[0].dtype()).compute == DType::Float64 ? attention<double>(call)
                                                          : attention<float>(call);
}

}  // namespace tinyt::cpu
