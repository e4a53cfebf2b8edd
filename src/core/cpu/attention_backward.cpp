#include "attention.h"
#include "attention_block.h"
#include "copy.h"
#include "scratch.h"

namespace tinyt::cpu {
namespace {

constexpr int64_t kQueries = 128;      // of a block, at most
constexpr int64_t kKeys = 128;         // of a block, at most: a multiple of every GemmTile::cols
constexpr int64_t kStrip = 48;         // queries at a time where the diagonal crosses a block
constexpr int64_t kKeysOfPass = 1152;  // whose gradients a task sums up at a time: some blocks
constexpr int64_t kTasks = 16;         // worth having, where there is work for them

struct Operands {
  const Tensor &grad, &q, &k, &v;
  AttentionMask mask;
  const Tensor &out, &log_sum;
  const Tensor &of_q, &of_kv;
};

// Keys are the lanes of the scores, [queries][keys]. All operands and gradients are read and summed
// up as they lie; only keys and values are also packed, as columns of the scores.
template <class T>
class Gradients {
 public:
  Gradients(const AttentionShape& shape, const Operands& operands)
      : s_(shape),
        in_(operands),
        lanes_(gemm_.lanes()),
        width_(gemm_.padded(shape.width)),
        out_width_(gemm_.padded(shape.out_width)) {
    const int64_t all = s_.batch * s_.groups;
    parts_ = std::clamp(ceil_div(kTasks, std::max<int64_t>(1, all)), int64_t{1},
                        std::max<int64_t>(1, s_.keys / (4 * kKeys)));
    part_keys_ = ceil_div(ceil_div(s_.keys, parts_), kKeys) * kKeys;
    parts_ = ceil_div(s_.keys, part_keys_);
    pass_ = equal_block(part_keys_, kKeysOfPass, kKeys);
    queries_ = equal_block(s_.queries, kQueries, 1);
    keys_ = equal_block(std::min(s_.keys, pass_), kKeys, lanes_);
    key_cols_ = at_.add(pass_ * s_.width);
    value_cols_ = at_.add(pass_ * s_.out_width);
    key_ = at_.add(pass_ * width_);
    of_key_ = at_.add(pass_ * width_);
    of_value_ = at_.add(pass_ * out_width_);
    query_ = at_.add(queries_ * width_);
    grad_ = at_.add(queries_ * out_width_);
    out_ = at_.add(queries_ * out_width_);
    of_query_ = at_.add(queries_ * width_);
    delta_ = at_.add(queries_);
    scores_ = at_.add(queries_ * kRow);
    slopes_ = at_.add(queries_ * kRow);
    mask_ = at_.add(in_.mask ? queries_ * kKeys : 0);
  }

  void run() {
    const int64_t all = s_.batch * s_.groups;
    const int64_t threads = std::min<int64_t>(num_threads(), all * parts_);
    constexpr auto kItem = static_cast<int64_t>(sizeof(T));
    const bool direct = parts_ == 1 && in_.of_q.dtype() == gemm_.kDType;
    const int64_t elements = in_.of_q.numel();
    const Scratch sums(direct ? 0 : parts_ * elements * kItem);
    T* const of_queries = direct ? in_.of_q.ptr<T>() : reinterpret_cast<T*>(sums.data());
    const Scratch scratch(at_.elements() * kItem * threads);
    Slots slots(scratch.data(), at_.elements() * kItem, threads);
    const int64_t work = s_.shared * s_.queries * part_keys_ * (s_.width + s_.out_width);
    const int64_t grain = tasks_at_once(all, work);
    const int64_t tasks = all * parts_;
    // What this thread probably gets next.
    const int64_t step = grain == 1 ? threads : 1;
    parallel_ranges(tasks, grain, [&](int64_t begin, int64_t end) {
      slots.with_one([&](char* memory) {
        for (int64_t i = begin; i < end; ++i) {
          run_task(task(i), task(std::min(i + step, tasks - 1)), of_queries + i / all * elements,
                   reinterpret_cast<T*>(memory));
        }
      });
    });
    if (!direct) add_parts(of_queries, elements);
  }

 private:
  // An odd number of lines of cache: rows of scores spread over all sets.
  static constexpr int64_t kRow = kKeys + 64 / static_cast<int64_t>(sizeof(T));

  // A part of the keys that some heads share: [begin, end).
  struct Task {
    int64_t b, g, begin, end;
  };
  Task task(int64_t i) const {
    const int64_t all = s_.batch * s_.groups, begin = i / all * part_keys_;
    return {i % all / s_.groups, i % s_.groups, begin, std::min(s_.keys, begin + part_keys_)};
  }

  // Queries [first, first + count) of one head.
  struct Rows {
    int64_t b, head, first, count;

    HeadRows of(const Tensor& x) const { return {x, b, head, first, count}; }
  };
  // What belongs to them: rows that lie side by side, of queries scaled as in forward; the sums of
  // their gradients, and those of grad * out.
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

  // The gradients of these keys, and what they add to those of their queries.
  void run_task(const Task& t, const Task& next, T* of_queries, T* memory) const {
    const int64_t blocks = ceil_div(s_.queries, queries_) * s_.shared;
    const int64_t fetches = 3 * gemm_.fetches(queries_) + 2 * gemm_.fetches(keys_);  // of a block
    for (int64_t j = t.begin; j < t.end; j += pass_) {
      const int64_t n = std::min(pass_, t.end - j);
      const StridedLines keys =
          dense_rows({in_.k, t.b, t.g, j, n}, gemm_.kDType, width_, memory + key_);
      gemm_.pack(keys, n, s_.width, memory + key_cols_);
      // The values' columns are needed only: their rows may lie where gradients will be.
      const StridedLines values =
          dense_rows({in_.v, t.b, t.g, j, n}, gemm_.kDType, out_width_, memory + of_value_);
      gemm_.pack(values, n, s_.out_width, memory + value_cols_);
      std::fill_n(memory + of_key_, n * width_, T{0});
      std::fill_n(memory + of_value_, n * out_width_, T{0});
      const bool ends = j + n == t.end;
      const Task& after = ends ? next : t;  // and its keys [from, from + more)
      const int64_t from = ends ? next.begin : j + n, more = std::min(pass_, after.end - from);
      for (int64_t i = 0; i < blocks; ++i) {
        FetchAhead ahead(fetches * ceil_div(n, keys_));
        const int64_t done = more * i / blocks, to = more * (i + 1) / blocks;
        ahead.add({in_.k, after.b, after.g, from + done, to - done});
        ahead.add({in_.v, after.b, after.g, from + done, to - done});
        const Rows coming = i + 1 < blocks ? rows(t, i + 1) : rows(after, 0);
        for (const Tensor* x : {&in_.q, &in_.grad, &in_.out}) ahead.add(coming.of(*x));
        query_block(rows(t, i), {j, 0, n, keys}, j == t.begin, of_queries, ahead, memory);
      }
      store_keys(t.b, t.g, j, n, memory);
    }
  }

  // The first of them among those of all heads.
  int64_t row_of(const Rows& r) const { return (r.b * s_.heads + r.head) * s_.queries + r.first; }

  // Block number i of the queries of a task, head after head.
  Rows rows(const Task& t, int64_t i) const {
    const int64_t down = ceil_div(s_.queries, queries_), first = i % down * queries_;
    return {t.b, t.g * s_.shared + i / down, first, std::min(queries_, s_.queries - first)};
  }

  // What a block of queries takes part in with the keys of a pass.
  void query_block(const Rows& r, const Keys& pass, bool first, T* of_queries, FetchAhead& ahead,
                   T* memory) const {
    const int64_t seen = std::min(pass.count, s_.keys_before(r.first + r.count) - pass.first);
    if (seen <= 0 && !first) return;
    const T* sums = memory + of_query_;
    std::fill_n(memory + of_query_, r.count * width_, T{0});
    if (seen > 0) {
      const Values values = load_queries(r, memory);
      for (int64_t at = 0; at < seen; at += keys_) {
        const Keys keys = {pass.first + at, at, std::min(keys_, seen - at),
                           rows_from(pass.rows, at)};
        key_block(r, values, keys, ahead, memory);
      }
    }
    const T scale = static_cast<T>(s_.scale);
    T* to = of_queries + row_of(r) * s_.width;
    for (int64_t i = 0; i < r.count; ++i, to += s_.width, sums += width_) {
      if (first) {
        for (int64_t e = 0; e < s_.width; ++e) to[e] = sums[e] * scale;
      } else {
        for (int64_t e = 0; e < s_.width; ++e) to[e] += sums[e] * scale;
      }
    }
  }

  Values load_queries(const Rows& r, T* memory) const {
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
    return {{memory + query_, width_, 1}, grad, memory + of_query_, memory + delta_};
  }

  // A block of keys. Where the diagonal crosses it, strips of queries with the keys that each sees.
  void key_block(const Rows& r, const Values& values, const Keys& keys, FetchAhead& ahead,
                 T* memory) const {
    const bool crossed = s_.keys_before(r.first + 1) < keys.first + keys.count;
    const int64_t strip = crossed ? kStrip : r.count;
    for (int64_t i = 0; i < r.count; i += strip) {
      const Rows part = {r.b, r.head, r.first + i, std::min(strip, r.count - i)};
      Keys seen = keys;
      seen.count = std::min(keys.count, s_.keys_before(part.first + part.count) - keys.first);
      if (seen.count > 0) add_block(part, values.from(i), seen, ahead, memory);
    }
  }

  void add_block(const Rows& r, const Values& values, const Keys& keys, FetchAhead& ahead,
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
  void weigh(const Rows& r, const Values& values, const Keys& keys, int64_t cols, T* memory) const {
    AttentionSlopes block = {.queries = r.count,
                             .lanes = kRow,
                             .used = cols,
                             .scores = memory + scores_,
                             .slopes = memory + slopes_,
                             .kind = in_.mask.kind,
                             .mask = nullptr,
                             .mask_row = 0,
                             .diagonal = s_.diagonal(r.first, keys.first),
                             .log_sum = in_.log_sum.ptr<T>() + row_of(r),
                             .delta = values.delta};
    if (in_.mask) {
      set_mask(block, in_.mask.at(r.b, r.head, r.first, keys.first), keys.count, memory + mask_);
    }
    gemm_.table.slopes[gemm_.kIndex](block);
  }

  // The masks of `count` keys: where they are, if whole registers of them lie there side by side.
  void set_mask(AttentionSlopes& block, const Block& from, int64_t count, T* buffer) const {
    constexpr auto kItem = static_cast<int64_t>(sizeof(T));
    const DType dtype = in_.mask.mask.dtype();
    if (dtype == gemm_.kDType && from.col == kItem && count == block.used) {
      block.mask = from.data;
      block.mask_row = from.row / kItem;
      return;
    }
    const int64_t rows = from.row == 0 ? 1 : block.queries;
    block.mask = buffer;
    block.mask_row = from.row == 0 ? 0 : block.used;
    if (count == block.used) {
      return load_block(from, dtype, rows, count, gemm_.kDType, reinterpret_cast<char*>(buffer));
    }
    for (int64_t i = 0; i < rows; ++i, buffer += block.used) {
      std::fill_n(buffer + count, block.used - count, T{0});
      load_block({from.data + i * from.row, from.row, from.col}, dtype, 1, count, gemm_.kDType,
                 reinterpret_cast<char*>(buffer));
    }
  }

  void store_keys(int64_t b, int64_t g, int64_t j, int64_t n, T* memory) const {
    const auto item = static_cast<int64_t>(in_.of_kv.itemsize());
    const int64_t row = (b * s_.groups + g) * s_.keys + j;
    char* of_keys = in_.of_kv.data();
    char* of_values = of_keys + s_.batch * s_.groups * s_.keys * s_.width * item;
    const auto store = [&](const T* from, int64_t step, int64_t width, char* to) {
      const int64_t rows = step == width ? 1 : n, length = step == width ? n * width : width;
      for (int64_t i = 0; i < rows; ++i) {
        cast_elements(reinterpret_cast<const char*>(from + i * step), gemm_.kDType,
                      to + (row + i) * width * item, in_.of_kv.dtype(), length);
      }
    };
    store(memory + of_key_, width_, s_.width, of_keys);
    store(memory + of_value_, out_width_, s_.out_width, of_values);
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
  const int64_t width_, out_width_;   // of rows in the workspace
  int64_t parts_, part_keys_, pass_;  // keys of a task, and of a pass over its queries
  int64_t queries_, keys_;            // of a block
  Workspace at_;
  int64_t key_cols_, value_cols_;  // packed
  int64_t key_, of_key_, of_value_, query_, grad_, out_, of_query_;
  int64_t delta_, scores_, slopes_, mask_;
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
