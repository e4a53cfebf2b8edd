#include "cpu/attention/attention.h"
#include "cpu/attention/attention_gradients.h"

namespace tinyt::cpu {
namespace {

constexpr int64_t kQueries = 128;  // of a block, at most
constexpr int64_t kKeyStrip = 48;  // queries at a time where the diagonal crosses a block

// Keys are the lanes of the scores, [queries][keys]. All operands and gradients are read and summed
// up as they lie; only keys and values are also packed, as columns of the scores.
template <class T>
class VectorBlocks {
 public:
  using Value = T;
  using Lines = StridedLines;            // the keys
  static constexpr int64_t kKeys = 128;  // of a block, at most: a multiple of every GemmTile::cols

  VectorBlocks(const AttentionShape& shape, const GradientOperands& operands)
      : s_(shape),
        in_(operands),
        lanes_(gemm_.lanes()),
        width_(gemm_.padded(shape.width)),
        out_width_(gemm_.padded(shape.out_width)) {}

  void plan(int64_t pass, WorkspaceLayout& at) {
    queries_ = equal_block(s_.queries, kQueries, 1);
    keys_ = equal_block(std::min(s_.keys, pass), kKeys, lanes_);
    key_cols_ = at.add(pass * s_.width);
    value_cols_ = at.add(pass * s_.out_width);
    key_ = at.add(pass * width_);
    of_key_ = at.add(pass * width_);
    of_value_ = at.add(pass * out_width_);
    query_ = at.add(queries_ * width_);
    grad_ = at.add(queries_ * out_width_);
    out_ = at.add(queries_ * out_width_);
    delta_ = at.add(queries_);
    scores_ = at.add(queries_ * kRow);
    slopes_ = at.add(queries_ * kRow);
    mask_ = at.add(in_.mask ? queries_ * kKeys : 0);
  }
  int64_t queries() const { return queries_; }
  int64_t width() const { return width_; }
  int64_t fetches(int64_t n) const {
    return (3 * gemm_.fetches(queries_) + 2 * gemm_.fetches(keys_)) * ceil_div(n, keys_);
  }
  void begin() const {}
  void end() const {}

  StridedLines load_keys(const KeyRows& r, T* memory) const {
    const StridedLines keys = dense_rows(r.of(in_.k), gemm_.kDType, width_, memory + key_);
    gemm_.pack(keys, r.count, s_.width, memory + key_cols_);
    // The values' columns are needed only: their rows may lie where gradients will be.
    const StridedLines values =
        dense_rows(r.of(in_.v), gemm_.kDType, out_width_, memory + of_value_);
    gemm_.pack(values, r.count, s_.out_width, memory + value_cols_);
    std::fill_n(memory + of_key_, r.count * width_, T{0});
    std::fill_n(memory + of_value_, r.count * out_width_, T{0});
    return keys;
  }

  void add_queries(const QueryRows& r, const KeyRows& pass, const StridedLines& lines, int64_t seen,
                   T* to, FetchAhead& ahead, T* memory) const {
    const Values values = load_queries(r, to, memory);
    for (int64_t at = 0; at < seen; at += keys_) {
      const Keys keys = {pass.first + at, at, std::min(keys_, seen - at), rows_from(lines, at)};
      key_block(r, values, keys, ahead, memory);
    }
  }

  void store_keys(const KeyRows& r, T* memory) const {
    const int64_t row = (r.b * s_.groups + r.g) * s_.keys + r.first;
    const auto store = [&](const T* from, int64_t step, int64_t width, const Tensor& to) {
      store_rows(from, gemm_.kDType, r.count, step, width, to, row * width);
    };
    store(memory + of_key_, width_, s_.width, in_.of_k);
    store(memory + of_value_, out_width_, s_.out_width, in_.of_v);
  }

 private:
  // An odd number of lines of cache: rows of scores spread over all sets.
  static constexpr int64_t kRow = kKeys + 64 / static_cast<int64_t>(sizeof(T));

  // What belongs to some queries: rows that lie side by side, of queries scaled as in forward; the
  // sums of their gradients, and those of grad * out.
  struct Values {
    StridedLines query, grad;
    T *of_query, *delta;

    Values from(int64_t i) const {
      return {rows_from(query, i), rows_from(grad, i), of_query + i * query.line, delta + i};
    }
  };
  // Some of the keys: where they start in the sequence and in the pass.
  struct Keys {
    int64_t first, at, count;
    StridedLines rows;
  };
  static StridedLines rows_from(const StridedLines& m, int64_t i) {
    return {static_cast<const T*>(m.data) + i * m.line, m.line, 1};
  }

  Values load_queries(const QueryRows& r, T* to, T* memory) const {
    const auto dense = [&](const Tensor& x, int64_t step, int64_t buffer) {
      return dense_rows(r.of(x), gemm_.kDType, step, memory + buffer);
    };
    const StridedLines query = dense(in_.q, width_, query_);
    T* scaled = memory + query_;
    for (int64_t i = 0; i < r.count; ++i, scaled += width_) {
      const T* from = static_cast<const T*>(query.data) + i * query.line;
      for (int64_t e = 0; e < s_.width; ++e) scaled[e] = from[e] * static_cast<T>(s_.scale);
    }
    const StridedLines grad = dense(in_.grad, out_width_, grad_);
    const StridedLines out = dense(in_.out, out_width_, out_);
    for (int64_t i = 0; i < r.count; ++i) {
      gemm_.table.dots[gemm_.kIndex](rows_from(grad, i).data, rows_from(out, i).data, 0, 1,
                                     s_.out_width, memory + delta_ + i);
    }
    return {{memory + query_, width_, 1}, grad, to, memory + delta_};
  }

  // A block of keys. Where the diagonal crosses it, strips of queries with the keys that each sees.
  void key_block(const QueryRows& r, const Values& values, const Keys& keys, FetchAhead& ahead,
                 T* memory) const {
    const bool crossed = s_.keys_before(r.first + 1) < keys.first + keys.count;
    const int64_t strip = crossed ? kKeyStrip : r.count;
    for (int64_t i = 0; i < r.count; i += strip) {
      const QueryRows part = {r.b, r.head, r.first + i, std::min(strip, r.count - i)};
      Keys seen = keys;
      seen.count = std::min(keys.count, s_.keys_before(part.first + part.count) - keys.first);
      if (seen.count > 0) add_block(part, values.from(i), seen, ahead, memory);
    }
  }

  void add_block(const QueryRows& r, const Values& values, const Keys& keys, FetchAhead& ahead,
                 T* memory) const {
    T *scores = memory + scores_, *slopes = memory + slopes_;
    const int64_t cols = ceil_div(keys.count, lanes_ / 2) * (lanes_ / 2);  // whole registers
    const int64_t m = r.count, n = keys.count;
    gemm_.multiply(values.query,
                   {memory + key_cols_ + keys.at * s_.width, lanes_, s_.width * lanes_},
                   {m, cols, s_.width}, scores, kRow, false, ahead);
    gemm_.multiply(values.grad,
                   {memory + value_cols_ + keys.at * s_.out_width, lanes_, s_.out_width * lanes_},
                   {m, cols, s_.out_width}, slopes, kRow, false, ahead);
    weigh(r, values, keys, cols, memory);
    gemm_.multiply({scores, 1, kRow}, {values.grad.data, values.grad.line}, {n, out_width_, m},
                   memory + of_value_ + keys.at * out_width_, out_width_, true, ahead);
    gemm_.multiply({slopes, 1, kRow}, {values.query.data, values.query.line}, {n, width_, m},
                   memory + of_key_ + keys.at * width_, width_, true, ahead);
    gemm_.multiply({slopes, kRow, 1}, {keys.rows.data, keys.rows.line}, {m, width_, n},
                   values.of_query, width_, true, ahead);
  }

  // Weights and slopes of a block of scores.
  void weigh(const QueryRows& r, const Values& values, const Keys& keys, int64_t cols,
             T* memory) const {
    AttentionSlopes block = {.queries = r.count,
                             .lanes = kRow,
                             .used = cols,
                             .scores = memory + scores_,
                             .slopes = memory + slopes_,
                             .delta = values.delta};
    set_operands(block, s_, in_, r, keys.first, keys.count, memory + mask_);
    gemm_.table.slopes[gemm_.kIndex](block);
  }

  const AttentionShape& s_;
  const GradientOperands& in_;
  const AttentionGemm<T> gemm_;
  const int64_t lanes_;
  const int64_t width_, out_width_;  // of rows in the workspace
  int64_t queries_, keys_;           // of a block
  int64_t key_cols_, value_cols_;    // packed
  int64_t key_, of_key_, of_value_, query_, grad_, out_;
  int64_t delta_, scores_, slopes_, mask_;
};

bool is_empty(const AttentionShape& shape) {
  return shape.heads == 0 || shape.keys == 0 || shape.queries == 0 || shape.batch == 0;
}

template <class T>
int64_t gradients_workspace(const KernelCall& call) {
  const auto in = call.inputs;
  const AttentionShape shape(in[1], in[2], in[3], call.attrs);
  const GradientOperands operands{
      in[0], in[1], in[2],           in[3],           AttentionMask(in[4]),
      in[5], in[6], call.outputs[0], call.outputs[1], call.outputs[2]};
  const int64_t of_copy = dense_bytes(in[6]);
  if (is_empty(shape)) return of_copy;
  return of_copy + (on_tiles(in[1]) ? tile_gradients_workspace(shape, operands)
                                    : Gradients<VectorBlocks<T>>(shape, operands).workspace());
}

template <class T>
void gradients(const KernelCall& call) {
  const auto in = call.inputs;
  const AttentionShape shape(in[1], in[2], in[3], call.attrs);
  const Tensor log_sum = as_contiguous(in[6]);
  const GradientOperands operands{
      in[0], in[1],   in[2],           in[3],           AttentionMask(in[4]),
      in[5], log_sum, call.outputs[0], call.outputs[1], call.outputs[2]};
  if (is_empty(shape)) {
    for (const Tensor& gradient : call.outputs) copy_into(Tensor::scalar(0.0), gradient);
  } else if (on_tiles(in[1])) {
    gradients_on_tiles(shape, operands);
  } else {
    Gradients<VectorBlocks<T>>(shape, operands).run();
  }
}

}  // namespace

void kernel_attention_backward(const KernelCall& call) {
  info(call.outputs[0].dtype()).compute == DType::Float64 ? gradients<double>(call)
                                                          : gradients<float>(call);
}

int64_t workspace_attention_backward(const KernelCall& call) {
  return info(call.outputs[0].dtype()).compute == DType::Float64 ? gradients_workspace<double>(call)
                                                                 : gradients_workspace<float>(call);
}

}  // namespace tinyt::cpu
