#include "attention.h"
#include "attention_block.h"
#include "copy.h"
#include "scratch.h"

namespace tinyt::cpu {
namespace {

constexpr int64_t kQueries = 96;  // of a block: a multiple of every tile's rows and columns
constexpr int64_t kKeys = 96;
constexpr int64_t kKeysOfPass = 1152;            // whose gradients a task sums up at a time
constexpr int64_t kTasks = 16;                   // worth having, where there is work for them
constexpr int64_t kTaskWork = int64_t{1} << 18;  // multiplications worth a task

struct Operands {
  const Tensor &grad, &q, &k, &v;
  AttentionMask mask;
  const Tensor &out, &log_sum;
  const Tensor &of_q, &of_kv;
};

// Keys are the lanes of the scores, [queries][lanes], so that the weights are packed for the
// products with the values' and the keys' gradients as they are. Those gradients lie as
// [width][keys], the queries' as [width][queries], until they are stored.
template <class T>
class Gradients {
 public:
  Gradients(const AttentionShape& shape, const Operands& operands)
      : s_(shape), in_(operands), lanes_(gemm_.lanes()) {
    const int64_t all = s_.batch * s_.groups;
    parts_ = std::clamp(ceil_div(kTasks, std::max<int64_t>(1, all)), int64_t{1},
                        std::max<int64_t>(1, s_.keys / (4 * kKeys)));
    part_keys_ = ceil_div(ceil_div(s_.keys, parts_), kKeys) * kKeys;
    parts_ = ceil_div(s_.keys, part_keys_);
    pass_ = std::min(part_keys_, kKeysOfPass);
    const int64_t e = gemm_.padded_rows(s_.width), d = gemm_.padded_rows(s_.out_width);
    key_cols_ = at_.add(pass_ * s_.width);
    value_cols_ = at_.add(pass_ * s_.out_width);
    key_rows_ = at_.add(pass_ * e);
    of_key_ = at_.add(pass_ * s_.width);
    of_value_ = at_.add(pass_ * s_.out_width);
    query_rows_ = at_.add(kQueries * s_.width);
    grad_rows_ = at_.add(kQueries * s_.out_width);
    query_depth_ = at_.add(kQueries * e);
    grad_depth_ = at_.add(kQueries * d);
    of_query_ = at_.add(kQueries * s_.width);
    delta_ = at_.add(kQueries);
    scores_ = at_.add(kQueries * kKeys);
    slopes_ = at_.add(kQueries * kKeys);
    turned_ = at_.add(kQueries * kKeys);
    mask_ = at_.add(in_.mask ? kQueries * lanes_ : 0);
    buffer_ = at_.add(kQueries * std::max(s_.width, s_.out_width));
    second_ = at_.add(kQueries * std::max(s_.width, s_.out_width));
  }

  void run() {
    const int64_t all = s_.batch * s_.groups, threads = num_threads();
    constexpr auto kItem = static_cast<int64_t>(sizeof(T));
    const bool direct = parts_ == 1 && in_.of_q.dtype() == gemm_.kDType;
    const int64_t elements = in_.of_q.numel();
    const Scratch sums(direct ? 0 : parts_ * elements * kItem);
    T* const of_queries = direct ? in_.of_q.ptr<T>() : reinterpret_cast<T*>(sums.data());
    const Scratch scratch(at_.elements() * kItem * threads);
    Slots slots(scratch.data(), at_.elements() * kItem, threads);
    const int64_t work = s_.shared * s_.queries * part_keys_ * (s_.width + s_.out_width);
    const int64_t grain = std::clamp<int64_t>(kTaskWork / std::max<int64_t>(1, work), 1, all);
    parallel_ranges(all * parts_, grain, [&](int64_t begin, int64_t end) {
      slots.with_one([&](char* memory) {
        for (int64_t i = begin; i < end; ++i) {
          const int64_t part = i / all;
          task(i % all, part, of_queries + part * elements, reinterpret_cast<T*>(memory));
        }
      });
    });
    if (!direct) add_parts(of_queries, elements);
  }

 private:
  // Queries [first, first + count) of one head.
  struct Rows {
    int64_t b, head, first, count;
    T* of_query;
  };

  // The gradients of one part of the keys that some heads share, and what it adds to those of
  // their queries.
  void task(int64_t group, int64_t part, T* of_queries, T* memory) const {
    const int64_t b = group / s_.groups, g = group % s_.groups;
    const int64_t begin = part * part_keys_, end = std::min(s_.keys, begin + part_keys_);
    for (int64_t j = begin; j < end; j += pass_) {
      const int64_t n = std::min(pass_, end - j);
      pack_keys(b, g, j, n, memory);
      std::fill_n(memory + of_key_, pass_ * s_.width, T{0});
      std::fill_n(memory + of_value_, pass_ * s_.out_width, T{0});
      for (int64_t h = 0; h < s_.shared; ++h) {
        const int64_t head = g * s_.shared + h, row = (b * s_.heads + head) * s_.queries;
        for (int64_t i = 0; i < s_.queries; i += kQueries) {
          const Rows rows{b, head, i, std::min(kQueries, s_.queries - i),
                          of_queries + (row + i) * s_.width};
          query_block(rows, j, n, j == begin, memory);
        }
      }
      store_keys(b, g, j, n, memory);
    }
  }

  void pack_keys(int64_t b, int64_t g, int64_t j, int64_t n, T* memory) const {
    for (int64_t at = 0; at < n; at += kKeys) {
      const int64_t count = std::min(kKeys, n - at);
      const StridedLines k = rows_of(in_.k, b, g, j + at, count, gemm_.kDType, memory + buffer_);
      gemm_.pack_b(k, count, s_.width, memory + key_cols_ + at * s_.width);
      gemm_.pack_a(flipped(k), s_.width, count,
                   memory + key_rows_ + at * gemm_.padded_rows(s_.width));
      const StridedLines v = rows_of(in_.v, b, g, j + at, count, gemm_.kDType, memory + buffer_);
      gemm_.pack_b(v, count, s_.out_width, memory + value_cols_ + at * s_.out_width);
    }
  }

  // What a block of queries takes part in with the keys [j, j + n).
  void query_block(const Rows& rows, int64_t j, int64_t n, bool first, T* memory) const {
    const int64_t seen = std::min(n, s_.keys_before(rows.first + rows.count) - j);
    if (seen <= 0 && !first) return;
    std::fill_n(memory + of_query_, kQueries * s_.width, T{0});
    if (seen > 0) {
      pack_queries(rows, memory);
      for (int64_t at = 0; at < seen; at += kKeys) {
        key_block(rows, j, at, std::min(kKeys, n - at), std::min(kKeys, seen - at), memory);
      }
    }
    T* turned = memory + buffer_;
    const int64_t total = rows.count * s_.width;
    for (int64_t i = 0; i < rows.count; i += lanes_) {
      gemm_.transpose(memory + of_query_ + i * s_.width, lanes_, std::min(lanes_, rows.count - i),
                      s_.width, turned + i * s_.width);
    }
    const T scale = static_cast<T>(s_.scale);
    if (first) {
      for (int64_t i = 0; i < total; ++i) rows.of_query[i] = turned[i] * scale;
    } else {
      for (int64_t i = 0; i < total; ++i) rows.of_query[i] += turned[i] * scale;
    }
  }

  void pack_queries(const Rows& r, T* memory) const {
    T *grad = memory + buffer_, *out = memory + second_, *query = memory + second_;
    const auto load = [&](const Tensor& x, T* to) {
      load_block(block_of(x, r.b, r.head, r.first), x.dtype(), r.count, x.size(3), gemm_.kDType,
                 reinterpret_cast<char*>(to));
      return StridedLines{to, x.size(3), 1};
    };
    const StridedLines g = load(in_.grad, grad);
    load(in_.out, out);
    for (int64_t i = 0; i < r.count; ++i) {
      gemm_.table.dots[gemm_.kIndex](grad + i * s_.out_width, out + i * s_.out_width, 0, 1,
                                     s_.out_width, memory + delta_ + i);
    }
    gemm_.pack_a(g, r.count, s_.out_width, memory + grad_rows_);
    gemm_.pack_a(flipped(g), s_.out_width, r.count, memory + grad_depth_);
    const StridedLines q = load(in_.q, query);
    for (int64_t i = 0; i < r.count * s_.width; ++i) query[i] *= static_cast<T>(s_.scale);
    gemm_.pack_a(q, r.count, s_.width, memory + query_rows_);
    gemm_.pack_a(flipped(q), s_.width, r.count, memory + query_depth_);
  }

  // A block of queries against the packed keys [at, at + packed), of which `seen` are seen.
  void key_block(const Rows& r, int64_t j, int64_t at, int64_t packed, int64_t seen,
                 T* memory) const {
    T *scores = memory + scores_, *slopes = memory + slopes_;
    const int64_t panel = kQueries * lanes_, cols = gemm_.padded_cols(seen);
    PanelProduct product{.rows = r.count,
                         .cols = cols,
                         .depth = s_.width,
                         .a = memory + query_rows_,
                         .b = memory + key_cols_ + at * s_.width,
                         .b_panel = s_.width * lanes_,
                         .b_step = lanes_,
                         .c = scores,
                         .row = 0,
                         .col = 0,
                         .c_row = lanes_,
                         .run = lanes_,
                         .c_run = panel,
                         .accumulate = false};
    gemm_.multiply(product);
    product.depth = s_.out_width;
    product.a = memory + grad_rows_;
    product.b = memory + value_cols_ + at * s_.out_width;
    product.b_panel = s_.out_width * lanes_;
    product.c = slopes;
    gemm_.multiply(product);
    for (int64_t k = 0; k < seen; k += lanes_) {
      weigh_panel(r, j + at + k, std::min(lanes_, seen - k), scores + k * kQueries,
                  slopes + k * kQueries, memory);
      turn(slopes + k * kQueries, r.count, std::min(lanes_, seen - k), k, memory);
    }
    product = {.rows = s_.out_width,
               .cols = cols,
               .depth = r.count,
               .a = memory + grad_depth_,
               .b = scores,
               .b_panel = panel,
               .b_step = lanes_,
               .c = memory + of_value_,
               .row = 0,
               .col = at,
               .c_row = pass_,
               .run = pass_,
               .c_run = 0,
               .accumulate = true};
    gemm_.multiply(product);
    product.rows = s_.width;
    product.a = memory + query_depth_;
    product.b = slopes;
    product.c = memory + of_key_;
    gemm_.multiply(product);
    product = {.rows = 0,
               .cols = gemm_.padded_cols(r.count),
               .depth = seen,
               .a = nullptr,
               .b = memory + turned_,
               .b_panel = kKeys * lanes_,
               .b_step = lanes_,
               .c = memory + of_query_,
               .row = 0,
               .col = 0,
               .c_row = lanes_,
               .run = lanes_,
               .c_run = s_.width * lanes_,
               .accumulate = true};
    const T* rows = memory + key_rows_ + at * gemm_.padded_rows(s_.width);
    for (int64_t e = 0; e < s_.width; e += gemm_.tile.rows) {
      product.rows = std::min(gemm_.tile.rows, s_.width - e);
      product.row = e;
      product.a = rows + e * packed;
      gemm_.multiply(product);
    }
  }

  // Weights and slopes of the scores of one panel of keys.
  void weigh_panel(const Rows& r, int64_t key, int64_t count, T* scores, T* slopes,
                   T* memory) const {
    int64_t mask_row = 0;
    if (in_.mask) {
      const Block from = in_.mask.at(r.b, r.head, r.first, key);
      mask_row = from.row == 0 ? 0 : lanes_;
      load_panel(from, from.row == 0 ? 1 : r.count, count, memory + mask_);
    }
    const int64_t row = (r.b * s_.heads + r.head) * s_.queries + r.first;
    gemm_.table.slopes[gemm_.kIndex]({.queries = r.count,
                                      .lanes = lanes_,
                                      .scores = scores,
                                      .slopes = slopes,
                                      .kind = in_.mask.kind,
                                      .mask = memory + mask_,
                                      .mask_row = mask_row,
                                      .diagonal = s_.diagonal(r.first, key),
                                      .log_sum = in_.log_sum.ptr<T>() + row,
                                      .delta = memory + delta_});
  }

  // Masks of rows x count scores, a panel wide.
  void load_panel(const Block& from, int64_t rows, int64_t count, T* to) const {
    const DType dtype = in_.mask.mask.dtype();
    if (count == lanes_) {
      return load_block(from, dtype, rows, count, gemm_.kDType, reinterpret_cast<char*>(to));
    }
    for (int64_t i = 0; i < rows; ++i) {
      std::fill_n(to + i * lanes_, lanes_, T{0});
      load_block({from.data + i * from.row, from.row, from.col}, dtype, 1, count, gemm_.kDType,
                 reinterpret_cast<char*>(to + i * lanes_));
    }
  }

  // Slopes of a panel of keys, [queries][lanes], as lines of queries: [panels][keys][lanes].
  void turn(const T* slopes, int64_t queries, int64_t keys, int64_t first, T* memory) const {
    for (int64_t i = 0; i < queries; i += lanes_) {
      const StridedLines lines = {slopes + i * lanes_, lanes_, 1};
      gemm_.pack_b(lines, std::min(lanes_, queries - i), keys,
                   memory + turned_ + (i * kKeys) + first * lanes_);
    }
  }

  void store_keys(int64_t b, int64_t g, int64_t j, int64_t n, T* memory) const {
    const auto item = static_cast<int64_t>(in_.of_kv.itemsize());
    const int64_t row = (b * s_.groups + g) * s_.keys + j;
    char* of_keys = in_.of_kv.data();
    char* of_values = of_keys + s_.batch * s_.groups * s_.keys * s_.width * item;
    const auto store = [&](const T* from, int64_t width, char* to) {
      if (in_.of_kv.dtype() == gemm_.kDType) {
        return gemm_.transpose(from, pass_, n, width, reinterpret_cast<T*>(to) + row * width);
      }
      T* buffer = memory + buffer_;
      for (int64_t i = 0; i < n; i += kQueries) {
        const int64_t count = std::min(kQueries, n - i);
        gemm_.transpose(from + i, pass_, count, width, buffer);
        cast_elements(reinterpret_cast<const char*>(buffer), gemm_.kDType,
                      to + (row + i) * width * item, in_.of_kv.dtype(), count * width);
      }
    };
    store(memory + of_key_, s_.width, of_keys);
    store(memory + of_value_, s_.out_width, of_values);
  }

  // The queries' gradients from those of the parts, in order.
  void add_parts(T* sums, int64_t elements) const {
    const auto item = static_cast<int64_t>(in_.of_q.itemsize());
    parallel_ranges(elements, kChunkElements, [&](int64_t begin, int64_t end) {
      for (int64_t part = 1; part < parts_; ++part) {
        const T* from = sums + part * elements;
        for (int64_t i = begin; i < end; ++i) sums[i] += from[i];
      }
      cast_elements(reinterpret_cast<const char*>(sums + begin), gemm_.kDType,
                    in_.of_q.data() + begin * item, in_.of_q.dtype(), end - begin);
    });
  }

  const AttentionShape& s_;
  const Operands& in_;
  const AttentionGemm<T> gemm_;
  const int64_t lanes_;
  int64_t parts_, part_keys_, pass_;  // keys of a task, and of a pass over its queries
  Workspace at_;
  int64_t key_cols_, value_cols_, key_rows_;  // packed: lines of B, lines of B, depth of A
  int64_t of_key_, of_value_;
  int64_t query_rows_, grad_rows_, query_depth_, grad_depth_;  // packed: lines and depth of A
  int64_t of_query_, delta_, scores_, slopes_, turned_, mask_, buffer_, second_;
};

template <class T>
void gradients(const KernelCall& call) {
  const auto in = call.inputs;
  const AttentionShape shape(in[1], in[2], in[3], call.attrs);
  const Tensor log_sum = as_contiguous(in[6]);
  const Operands operands{in[0], in[1],   in[2],           in[3],          AttentionMask(in[4]),
                          in[5], log_sum, call.outputs[0], call.outputs[1]};
  if (shape.heads == 0 || shape.keys == 0 || shape.queries == 0 || shape.batch == 0) {
    for (const Tensor& gradient : call.outputs) copy_into(Tensor::scalar(0.0), gradient);
    return;
  }
  Gradients<T>(shape, operands).run();
}

}  // namespace

void kernel_attention_backward(const KernelCall& call) {
  info(call.outputs[0].dtype()).compute == DType::Float64 ? gradients<double>(call)
                                                          : gradients<float>(call);
}

}  // namespace tinyt::cpu
