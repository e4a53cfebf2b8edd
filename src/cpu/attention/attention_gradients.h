// How the gradients of attention are cut and summed up. `Blocks` computes them, block by block.
#pragma once

#include "cpu/attention/attention_block.h"
#include "cpu/copy/copy.h"
#include "cpu/schedule/workspace.h"

namespace tinyt::cpu {

struct GradientOperands {
  const Tensor &grad, &q, &k, &v;
  AttentionMask mask;
  const Tensor &out, &log_sum;
  const Tensor &of_q, &of_k, &of_v;
};

// Queries [first, first + count) of one head.
struct QueryRows {
  int64_t b, head, first, count;

  HeadRows of(const Tensor& x) const { return {x, b, head, first, count}; }
};
// Of a pass: keys [first, first + count) of one head.
struct KeyRows {
  int64_t b, g, first, count;

  HeadRows of(const Tensor& x) const { return {x, b, g, first, count}; }
};

// Rows of a workspace, `step` elements apart, to dense ones of a tensor, from element `at` on.
inline void store_rows(const void* rows, DType dtype, int64_t count, int64_t step, int64_t width,
                       const Tensor& out, int64_t at) {
  if (step == width) {
    width *= count;
    count = 1;
  }
  const auto from = static_cast<int64_t>(size_of(dtype)), to = static_cast<int64_t>(out.itemsize());
  for (int64_t i = 0; i < count; ++i) {
    cast_elements(static_cast<const char*>(rows) + i * step * from, dtype,
                  out.host_data() + (at + i * width) * to, out.dtype(), width);
  }
}

// Elements of T, which is Blocks::Value. Blocks has
//   plan(pass, workspace): takes its part of a workspace, for passes of so many keys;
//   queries(), width(): of a block, and elements from one of its rows of gradients to the next;
//   fetches(n): how often a block fetches ahead, with n keys;
//   begin(), end(): around a thread's blocks;
//   load_keys(rows, memory): a pass, whose gradients are 0 so far; returns Lines;
//   add_queries(rows, pass, lines, seen, to, ahead, memory): what a block takes part in with the
//     first `seen` > 0 keys of the pass. Its own gradients, not scaled, go `to` zeros;
//   store_keys(rows, memory): the gradients of a pass.
template <class Blocks>
class Gradients {
  using T = typename Blocks::Value;
  using Lines = typename Blocks::Lines;

 public:
  Gradients(const AttentionShape& shape, const GradientOperands& operands)
      : s_(shape), in_(operands), blocks_(shape, operands) {
    constexpr int64_t kKeys = Blocks::kKeys;
    const int64_t all = s_.batch * s_.groups;
    parts_ = std::clamp(ceil_div(kTasks, std::max<int64_t>(1, all)), int64_t{1},
                        std::max<int64_t>(1, s_.keys / (4 * kKeys)));
    part_keys_ = ceil_div(ceil_div(s_.keys, parts_), kKeys) * kKeys;
    parts_ = ceil_div(s_.keys, part_keys_);
    pass_ = equal_block(part_keys_, kKeysOfPass, kKeys);
    blocks_.plan(pass_, at_);
    queries_ = blocks_.queries();
    of_query_ = at_.add(queries_ * blocks_.width());
    direct_ = parts_ == 1 && in_.of_q.dtype() == kDType;
    at_once_ = parts_ == 1 && pass_ >= s_.keys && !direct_;
  }

  int64_t workspace() const { return sum_bytes() + slot_bytes() * threads(); }

  void run() {
    const int64_t all = s_.batch * s_.groups, threads = this->threads();
    const int64_t elements = in_.of_q.numel();
    const Workspace sums(sum_bytes()), scratch(slot_bytes() * threads);
    T* const of_queries = direct_ ? in_.of_q.ptr<T>() : reinterpret_cast<T*>(sums.data());
    Slots slots(scratch.data(), slot_bytes(), threads);
    const int64_t work = s_.shared * s_.queries * part_keys_ * (s_.width + s_.out_width);
    const int64_t grain = tasks_at_once(all, work);
    const int64_t tasks = all * parts_;
    // What this thread probably gets next.
    const int64_t step = grain == 1 ? threads : 1;
    parallel_ranges(tasks, grain, [&](int64_t begin, int64_t end) {
      slots.with_one([&](char* memory) {
        blocks_.begin();
        for (int64_t i = begin; i < end; ++i) {
          run_task(task(i), task(std::min(i + step, tasks - 1)), of_queries + i / all * elements,
                   reinterpret_cast<T*>(memory));
        }
        blocks_.end();
      });
    });
    if (!direct_ && !at_once_) add_parts(of_queries, elements);
  }

 private:
  static constexpr DType kDType = AttentionGemm<T>::kDType;
  static constexpr int64_t kKeysOfPass = 1152;  // whose gradients a task sums up at a time
  static constexpr int64_t kTasks = 16;         // worth having, where there is work for them

  static constexpr auto kItem = static_cast<int64_t>(sizeof(T));
  int64_t threads() const {
    return std::min<int64_t>(num_threads(), s_.batch * s_.groups * parts_);
  }
  int64_t sum_bytes() const { return direct_ || at_once_ ? 0 : parts_ * in_.of_q.numel() * kItem; }
  int64_t slot_bytes() const { return at_.elements() * kItem; }

  // A part of the keys that some heads share: [begin, end).
  struct Task {
    int64_t b, g, begin, end;
  };
  Task task(int64_t i) const {
    const int64_t all = s_.batch * s_.groups, begin = i / all * part_keys_;
    return {i % all / s_.groups, i % s_.groups, begin, std::min(s_.keys, begin + part_keys_)};
  }

  // The gradients of these keys, and what they add to those of their queries.
  void run_task(const Task& t, const Task& next, T* of_queries, T* memory) const {
    const int64_t blocks = ceil_div(s_.queries, queries_) * s_.shared;
    for (int64_t j = t.begin; j < t.end; j += pass_) {
      const KeyRows pass = {t.b, t.g, j, std::min(pass_, t.end - j)};
      const Lines lines = blocks_.load_keys(pass, memory);
      const bool ends = j + pass.count == t.end;
      const Task& after = ends ? next : t;  // and its keys [from, from + more)
      const int64_t from = ends ? next.begin : j + pass.count;
      const int64_t more = std::min(pass_, after.end - from);
      for (int64_t i = 0; i < blocks; ++i) {
        FetchAhead ahead(blocks_.fetches(pass.count));
        const int64_t done = more * i / blocks, to = more * (i + 1) / blocks;
        ahead.add({in_.k, after.b, after.g, from + done, to - done});
        ahead.add({in_.v, after.b, after.g, from + done, to - done});
        const QueryRows coming = i + 1 < blocks ? rows(t, i + 1) : rows(after, 0);
        for (const Tensor* x : {&in_.q, &in_.grad, &in_.out}) ahead.add(coming.of(*x));
        query_block(rows(t, i), pass, lines, j == t.begin, of_queries, ahead, memory);
      }
      blocks_.store_keys(pass, memory);
    }
  }

  // Block number i of the queries of a task, head after head.
  QueryRows rows(const Task& t, int64_t i) const {
    const int64_t down = ceil_div(s_.queries, queries_), first = i % down * queries_;
    return {t.b, t.g * s_.shared + i / down, first, std::min(queries_, s_.queries - first)};
  }

  // What a block of queries takes part in with the keys of a pass.
  void query_block(const QueryRows& r, const KeyRows& pass, const Lines& lines, bool first,
                   T* of_queries, FetchAhead& ahead, T* memory) const {
    const int64_t seen = std::min(pass.count, s_.keys_before(r.first + r.count) - pass.first);
    if (seen <= 0 && !first) return;
    T* sums = memory + of_query_;
    std::fill_n(sums, r.count * blocks_.width(), T{0});
    if (seen > 0) blocks_.add_queries(r, pass, lines, seen, sums, ahead, memory);
    if (at_once_) return store_queries(r, sums);
    const T scale = static_cast<T>(s_.scale);
    T* to = of_queries + s_.row_of(r.b, r.head, r.first) * s_.width;
    for (int64_t i = 0; i < r.count; ++i, to += s_.width, sums += blocks_.width()) {
      if (first) {
        for (int64_t e = 0; e < s_.width; ++e) to[e] = sums[e] * scale;
      } else {
        for (int64_t e = 0; e < s_.width; ++e) to[e] += sums[e] * scale;
      }
    }
  }

  // Finished sums of other dtypes.
  void store_queries(const QueryRows& r, T* sums) const {
    constexpr int64_t kLanes = 16;  // of whole registers
    T factor[kLanes];
    std::fill_n(factor, kLanes, static_cast<T>(s_.scale));
    const int64_t step = blocks_.width();
    kernels().attention->scale_rows[static_cast<int>(kDType)](
        sums, ceil_div(r.count * step, kLanes), kLanes, factor);
    store_rows(sums, kDType, r.count, step, s_.width, in_.of_q,
               s_.row_of(r.b, r.head, r.first) * s_.width);
  }

  // The queries' gradients from those of the parts, in order.
  void add_parts(T* sums, int64_t elements) const {
    const auto item = static_cast<int64_t>(in_.of_q.itemsize());
    parallel_ranges(elements, kChunkElements, [&](int64_t begin, int64_t end) {
      for (int64_t part = 1; part < parts_; ++part) {
        const T* from = sums + part * elements;
        for (int64_t i = begin; i < end; ++i) sums[i] += from[i];
      }
      cast_elements(reinterpret_cast<const char*>(sums + begin), kDType,
                    in_.of_q.host_data() + begin * item, in_.of_q.dtype(), end - begin);
    });
  }

  const AttentionShape& s_;
  const GradientOperands& in_;
  Blocks blocks_;
  int64_t parts_, part_keys_, pass_;  // keys of a task, and of a pass over its queries
  int64_t queries_;                   // of a block
  bool direct_;                       // the queries' gradients are summed up where they will lie
  bool at_once_;                      // one pass sums up all: its gradients of queries are rounded
  WorkspaceLayout at_;
  int64_t of_query_;
};

// The masks of `count` keys: where they are, if whole registers of them lie there side by side.
template <class T>
void set_mask(AttentionSlopes& block, DType dtype, const Block& from, int64_t count, T* buffer) {
  constexpr auto kItem = static_cast<int64_t>(sizeof(T));
  constexpr DType kDType = AttentionGemm<T>::kDType;
  if (dtype == kDType && from.col == kItem && count == block.used) {
    block.mask = from.data;
    block.mask_row = from.row / kItem;
    return;
  }
  const int64_t rows = from.row == 0 ? 1 : block.queries;
  block.mask = buffer;
  block.mask_row = from.row == 0 ? 0 : block.used;
  if (count == block.used) {
    return load_block(from, dtype, rows, count, kDType, reinterpret_cast<char*>(buffer));
  }
  for (int64_t i = 0; i < rows; ++i, buffer += block.used) {
    std::fill_n(buffer + count, block.used - count, T{0});
    load_block({from.data + i * from.row, from.row, from.col}, dtype, 1, count, kDType,
               reinterpret_cast<char*>(buffer));
  }
}

// What the block's scores are of: these queries, and `count` keys from `key` on.
template <class T>
void set_operands(AttentionSlopes& block, const AttentionShape& shape, const GradientOperands& in,
                  const QueryRows& r, int64_t key, int64_t count, T* buffer) {
  block.log_sum = in.log_sum.ptr<T>() + shape.row_of(r.b, r.head, r.first);
  block.diagonal = shape.diagonal(r.first, key);
  block.kind = in.mask.kind;
  if (in.mask)
    set_mask(block, in.mask.mask.dtype(), in.mask.at(r.b, r.head, r.first, key), count, buffer);
}

// Of bfloat16 on units of its own (attention_backward_lowp.cpp).
void gradients_on_tiles(const AttentionShape& shape, const GradientOperands& operands);
int64_t tile_gradients_workspace(const AttentionShape& shape, const GradientOperands& operands);

}  // namespace tinyt::cpu
