#include "cpu/attention/attention.h"

#include <limits>

#include "cpu/attention/attention_block.h"
#include "cpu/attention/attention_products.h"
#include "cpu/copy/copy.h"
#include "cpu/schedule/workspace.h"

namespace tinyt::cpu {
namespace {

constexpr int64_t kKeys = 256;           // of a block, at most: its scores stay in L1
constexpr int64_t kMaskedKeys = 128;     // beside their masks
constexpr int64_t kQueriesOfTask = 512;  // queries, of all heads that share their keys
constexpr int64_t kLeastRows = 128;
constexpr int64_t kTasks = 32;      // worth having, where there is work for them
constexpr int64_t kFewQueries = 8;  // do not pay for packing queries
constexpr int64_t kPackedMasks = kL3Bytes;

// Many queries, blocked. Queries are the lanes of all blocks: scores lie as [keys][lanes], outputs
// as [out_width][lanes], so that softmax runs along lanes and its weights are ready for the
// second product.
template <class Products>
class BlockedAttention {
  using T = typename Products::Value;
  using Lines = typename Products::Lines;

 public:
  BlockedAttention(const AttentionShape& shape, const AttentionOperands& operands)
      : s_(shape), in_(operands), lanes_(products_.lanes()) {
    const int64_t wanted = s_.queries * s_.batch * s_.groups / kTasks;
    const int64_t most = std::max(kQueriesOfTask / s_.shared, lanes_);
    const int64_t least = std::min(std::max(kLeastRows / s_.shared, lanes_), most);
    const int64_t rows = std::clamp(wanted, least, most);
    rows_ = ceil_div(std::clamp<int64_t>(s_.queries, 1, rows), lanes_) * lanes_;
    parts_ = ceil_div(s_.queries, rows_);
    const int64_t panels = rows_ / lanes_ * s_.shared;
    const int64_t keys = block_ = equal_block(s_.keys, in_.mask ? kMaskedKeys : kKeys, kTilePanel);
    count_masks();
    query_size_ = ceil_div(products_.query_size(s_.width), kAligned) * kAligned;
    query_ = at_.add(panels * query_size_);
    result_ = at_.add(panels * s_.out_width * lanes_);
    top_ = at_.add(panels * lanes_);
    sum_ = at_.add(panels * lanes_);
    keys_ = at_.add(products_.key_size(keys, s_.width));
    values_ = at_.add(products_.value_size(keys, s_.out_width));
    scores_ = at_.add(keys * lanes_);
    mask_ = at_.add(in_.mask && masks_ == 0 ? keys * lanes_ : 0);
    factor_ = at_.add(lanes_);
    work_ = at_.add(std::max(
        {products_.work_size(keys, s_.width, s_.out_width), keys * lanes_, s_.out_width * lanes_}));
  }

  int64_t workspace() const { return mask_bytes() + slot_bytes() * threads(); }

  void run() {
    const int64_t all = s_.batch * s_.groups, tasks = this->tasks();
    const int64_t work = rows_ * s_.shared * s_.keys * (s_.width + s_.out_width);
    const int64_t grain = tasks_at_once(all, work);
    const int64_t threads = this->threads();
    const Workspace packed(mask_bytes()), scratch(slot_bytes() * threads);
    Slots slots(scratch.data(), slot_bytes(), threads);
    if (masks_ > 0) pack_masks(reinterpret_cast<T*>(packed.data()), slots);
    // What this thread probably gets next.
    const int64_t step = grain == 1 ? threads : 1;
    parallel_ranges(tasks, grain, [&](int64_t begin, int64_t end) {
      slots.with_one([&](char* memory) {
        products_.begin();
        for (int64_t i = begin; i < end; ++i) {
          run_task(task(i), task(std::min(i + step, tasks - 1)), reinterpret_cast<T*>(memory));
        }
        products_.end();
      });
    });
  }

 private:
  int64_t tasks() const { return parts_ * s_.batch * s_.groups; }
  int64_t threads() const { return std::min<int64_t>(num_threads(), std::max(tasks(), masks_)); }
  int64_t mask_bytes() const { return masks_ * mask_size() * static_cast<int64_t>(sizeof(T)); }
  int64_t slot_bytes() const { return at_.elements() * static_cast<int64_t>(sizeof(T)); }

  // Queries [first, last) of all heads that share one of keys, each in some panels.
  struct Task {
    int64_t b, g, first, last, panels;
  };
  // The last queries first: with a causal mask they have the most keys.
  Task task(int64_t i) const {
    const int64_t all = s_.batch * s_.groups, first = (parts_ - 1 - i / all) * rows_;
    const int64_t last = std::min(s_.queries, first + rows_);
    return {i % all / s_.groups, i % s_.groups, first, last, ceil_div(last - first, lanes_)};
  }

  // Queries [first, first + count) of one head.
  struct Panel {
    int64_t b, head, first, count;
    int64_t cols;  // lanes in use, in whole registers
    T *query, *result, *top, *sum;

    HeadRows rows(const Tensor& x) const { return {x, b, head, first, count}; }
  };
  // Panel `number` of the queries of one of the heads.
  Panel panel(const Task& t, int64_t head, int64_t number, T* memory) const {
    const int64_t at = t.first + number * lanes_, count = std::min(lanes_, t.last - at);
    const int64_t i = head * t.panels + number;
    return {.b = t.b,
            .head = t.g * s_.shared + head,
            .first = at,
            .count = count,
            .cols = count <= lanes_ / 2 ? lanes_ / 2 : lanes_,
            .query = memory + query_ + i * query_size_,
            .result = memory + result_ + i * s_.out_width * lanes_,
            .top = memory + top_ + i * lanes_,
            .sum = memory + sum_ + i * lanes_};
  }

  // Of the block of keys [first, first + count) a panel sees the first `seen`.
  struct Keys {
    int64_t first, count, seen;
  };

  void run_task(const Task& t, const Task& next, T* memory) const {
    const int64_t keys = s_.keys_before(t.last);
    for (int64_t j = 0; j < keys; j += block_) {
      const int64_t n = std::min(block_, keys - j);
      const Lines k = products_.keys({in_.k, t.b, t.g, j, n}, memory + keys_);
      const Lines v = products_.values({in_.v, t.b, t.g, j, n}, memory + values_);
      const bool ends = j + n == keys;
      const Task& after = ends ? next : t;  // and its keys [from, from + more)
      const int64_t from = ends ? 0 : j + n;
      const int64_t more = std::min(block_, s_.keys_before(after.last) - from);
      // Panels that see none of these keys come first.
      const int64_t skipped = s_.causal ? std::max<int64_t>(0, j - t.first) / lanes_ : 0;
      const int64_t seeing = t.panels - skipped, count = seeing * s_.shared;
      for (int64_t i = 0; i < count; ++i) {
        const Panel p = panel(t, i / seeing, skipped + i % seeing, memory);
        const int64_t end = s_.keys_before(p.first + p.count);
        FetchAhead ahead(products_.fetches(std::min(n, end - j), s_.out_width));
        const int64_t done = more * i / count, to = more * (i + 1) / count;
        ahead.add({in_.k, after.b, after.g, from + done, to - done});
        ahead.add({in_.v, after.b, after.g, from + done, to - done});
        if (j == 0) {
          const bool more_panels = i + 1 < count;
          const int64_t at = more_panels ? i + 1 : 0;
          ahead.add(panel(more_panels ? t : next, at / seeing, at % seeing, memory).rows(in_.q));
          start(p, memory);
        }
        if (end <= j + n) ahead.add(p.rows(in_.out));
        attend(p, k, v, {j, n, std::min(n, end - j)}, memory, ahead);
        if (end <= j + n) store(p, memory);
      }
    }
  }

  void start(const Panel& p, T* memory) const {
    products_.pack_query(p.rows(in_.q), s_.scale, p.query, memory + work_);
    std::fill_n(p.top, lanes_, -std::numeric_limits<T>::infinity());
    std::fill_n(p.sum, lanes_, T{0});
  }

  void attend(const Panel& p, const Lines& k, const Lines& v, const Keys& keys, T* memory,
              FetchAhead& ahead) const {
    T *scores = memory + scores_, *factor = memory + factor_, *work = memory + work_;
    products_.score(keys.seen, p.cols, s_.width, k, p.query, scores, work, ahead);
    gemm_.table.weigh[gemm_.kIndex]({.keys = keys.seen,
                                     .lanes = lanes_,
                                     .used = p.cols,
                                     .scores = scores,
                                     .scale = Products::kScalesQueries ? 1 : s_.scale,
                                     .kind = in_.mask.kind,
                                     .mask = mask_of(p, keys.first, keys.seen, memory),
                                     .diagonal = s_.diagonal(p.first, keys.first),
                                     .top = p.top,
                                     .sum = p.sum,
                                     .factor = factor});
    products_.add(keys.seen, keys.count, p.cols, s_.out_width, v, scores,
                  keys.first > 0 ? factor : nullptr, p.result, work, ahead);
  }

  // ---- masks, in the layout of the scores

  // Masks that heads share are packed once for all of them, where that is not too much memory:
  // for each panel of queries, all keys.
  void count_masks() {
    if (!in_.mask || s_.heads == 1 || in_.mask.stride(1) != 0 || in_.mask.stride(2) == 0) return;
    masks_ = (in_.mask.stride(0) == 0 ? 1 : s_.batch) * panels_of_head();
    if (mask_bytes() > kPackedMasks) masks_ = 0;
  }
  int64_t panels_of_head() const { return ceil_div(s_.queries, lanes_); }
  int64_t mask_size() const { return s_.keys * lanes_; }

  void pack_masks(T* packed, Slots& slots) {
    packed_masks_ = packed;
    const int64_t panels = panels_of_head();
    parallel_ranges(masks_, ceil_div(kChunkElements, mask_size()), [&](int64_t begin, int64_t end) {
      slots.with_one([&](char* memory) {
        T* const work = reinterpret_cast<T*>(memory) + work_;
        for (int64_t i = begin; i < end; ++i) {
          const int64_t first = i % panels * lanes_, count = std::min(lanes_, s_.queries - first);
          for (int64_t j = 0; j < s_.keys; j += block_) {
            pack_mask(in_.mask.at(i / panels, 0, first, j), count, std::min(block_, s_.keys - j),
                      packed + i * mask_size() + j * lanes_, work);
          }
        }
      });
    });
  }

  const T* mask_of(const Panel& p, int64_t key, int64_t n, T* memory) const {
    if (!in_.mask) return nullptr;
    if (masks_ > 0) {
      const int64_t b = in_.mask.stride(0) == 0 ? 0 : p.b;
      const int64_t panel = b * panels_of_head() + p.first / lanes_;
      return packed_masks_ + panel * mask_size() + key * lanes_;
    }
    pack_mask(in_.mask.at(p.b, p.head, p.first, key), p.count, n, memory + mask_, memory + work_);
    return memory + mask_;
  }

  void pack_mask(const Block& from, int64_t count, int64_t n, T* to, T* buffer) const {
    const DType dtype = in_.mask.mask.dtype();
    constexpr auto kItem = static_cast<int64_t>(sizeof(T));
    if (from.row == 0) {
      load_block({from.data, 0, from.col}, dtype, 1, n, gemm_.kDType,
                 reinterpret_cast<char*>(buffer));
      for (int64_t k = 0; k < n; ++k) std::fill_n(to + k * lanes_, lanes_, buffer[k]);
    } else if (dtype == gemm_.kDType) {
      pack_panel({from.data, from.row / kItem, from.col / kItem}, count, n, to);
    } else {
      load_block(from, dtype, count, n, gemm_.kDType, reinterpret_cast<char*>(buffer));
      pack_panel({buffer, n, 1}, count, n, to);
    }
  }
  void pack_panel(const StridedLines& lines, int64_t count, int64_t depth, T* out) const {
    gemm_.pack_panel(&lines, {0, count, 0, depth, lanes_}, out);
  }

  void store(const Panel& p, T* memory) const {
    T* log_sum = memory + factor_;
    gemm_.table.finish[gemm_.kIndex](lanes_, p.top, p.sum, log_sum);
    const int64_t row = s_.row_of(p.b, p.head, p.first);
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
                  in_.out.host_data() + row * s_.out_width * item, in_.out.dtype(),
                  p.count * s_.out_width);
  }

  static constexpr int64_t kAligned = 16;  // elements of a line of cache

  const AttentionShape& s_;
  const AttentionOperands& in_;
  const Products products_;
  const AttentionGemm<T> gemm_;
  const int64_t lanes_;
  int64_t rows_, parts_;  // queries of one head in a task, and tasks of one
  int64_t block_;         // keys of a block
  int64_t query_size_;
  int64_t masks_ = 0;  // packed panels of masks
  const T* packed_masks_ = nullptr;
  WorkspaceLayout at_;
  int64_t query_, result_, top_, sum_, keys_, values_, scores_, mask_, factor_, work_;
};

enum class AttentionWay : uint8_t { None, Few, Tiles, Vectors };
AttentionWay way_of(const AttentionShape& shape, const Tensor& q) {
  if (shape.keys == 0) return AttentionWay::None;
  if (shape.shared * shape.queries <= kFewQueries) return AttentionWay::Few;
  return on_tiles(q) ? AttentionWay::Tiles : AttentionWay::Vectors;
}

template <class T>
void attention(const KernelCall& call) {
  const auto in = call.inputs;
  const AttentionShape shape(in[0], in[1], in[2], call.attrs);
  const AttentionOperands operands{in[0],           in[1],          in[2], AttentionMask(in[3]),
                                   call.outputs[0], call.outputs[1]};
  if (operands.log_sum.numel() == 0) return;
  switch (way_of(shape, in[0])) {
    case AttentionWay::None:
      std::fill_n(operands.log_sum.ptr<T>(), operands.log_sum.numel(),
                  -std::numeric_limits<T>::infinity());
      return copy_into(Tensor::scalar(0.0), operands.out);
    case AttentionWay::Few:
      return attend_few(shape, operands);
    case AttentionWay::Tiles:
      return BlockedAttention<TileProducts>(shape, operands).run();
    case AttentionWay::Vectors:
      BlockedAttention<VectorProducts<T>>(shape, operands).run();
  }
}

template <class T>
int64_t attention_workspace(const KernelCall& call) {
  const auto in = call.inputs;
  const AttentionShape shape(in[0], in[1], in[2], call.attrs);
  const AttentionOperands operands{in[0],           in[1],          in[2], AttentionMask(in[3]),
                                   call.outputs[0], call.outputs[1]};
  if (operands.log_sum.numel() == 0) return 0;
  switch (way_of(shape, in[0])) {
    case AttentionWay::None:
      return 0;
    case AttentionWay::Few:
      return few_workspace(shape, operands);
    case AttentionWay::Tiles:
      return BlockedAttention<TileProducts>(shape, operands).workspace();
    default:
      return BlockedAttention<VectorProducts<T>>(shape, operands).workspace();
  }
}

}  // namespace

void kernel_attention(const KernelCall& call) {
  info(call.outputs[0].dtype()).compute == DType::Float64 ? attention<double>(call)
                                                          : attention<float>(call);
}

int64_t workspace_attention(const KernelCall& call) {
  return info(call.outputs[0].dtype()).compute == DType::Float64 ? attention_workspace<double>(call)
                                                                 : attention_workspace<float>(call);
}

}  // namespace tinyt::cpu
