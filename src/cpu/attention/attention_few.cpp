#include "cpu/attention/attention.h"
#include "cpu/attention/attention_block.h"
#include "cpu/schedule/workspace.h"

namespace tinyt::cpu {
namespace {

constexpr int64_t kKeysOfSplit = 1024;
constexpr int64_t kSplits = 16;
constexpr int64_t kConverted = 64;  // keys converted at a time

// Few queries, as when tokens are generated one by one: keys and values are read once, where they
// lie, in ranges that are combined in order.
template <class T>
class FewQueries {
 public:
  FewQueries(const AttentionShape& shape, const AttentionOperands& operands)
      : s_(shape), in_(operands), rows_(shape.shared * shape.queries) {
    const int64_t all = s_.batch * s_.groups;
    splits_ = std::clamp(ceil_div(kSplits, all), int64_t{1}, ceil_div(s_.keys, kKeysOfSplit));
    keys_ = ceil_div(ceil_div(s_.keys, splits_), kConverted) * kConverted;
    splits_ = ceil_div(s_.keys, keys_);
    query_ = task_.add(rows_ * s_.width);
    scores_ = task_.add(rows_ * keys_);
    buffer_ = task_.add(std::max(kConverted * std::max(s_.width, s_.out_width), keys_));
    results_ = partial_.add(all * splits_ * rows_ * s_.out_width);
    tops_ = partial_.add(all * splits_ * rows_);
    sums_ = partial_.add(all * splits_ * rows_);
  }

  int64_t workspace() const { return (partial_.elements() + task_.elements() * threads()) * kItem; }

  void run() {
    const int64_t all = s_.batch * s_.groups, threads = this->threads();
    const Workspace scratch(workspace());
    T* const partial = reinterpret_cast<T*>(scratch.data());
    Slots slots(scratch.data() + partial_.elements() * kItem, task_.elements() * kItem, threads);
    const int64_t work = rows_ * keys_ * (s_.width + s_.out_width);
    const int64_t grain = tasks_at_once(all * splits_, work);
    parallel_ranges(all * splits_, grain, [&](int64_t begin, int64_t end) {
      slots.with_one([&](char* memory) {
        for (int64_t i = begin; i < end; ++i) task(i, reinterpret_cast<T*>(memory), partial);
      });
    });
    for (int64_t i = 0; i < all; ++i) {
      for (int64_t r = 0; r < rows_; ++r) combine(i, r, partial);
    }
  }

 private:
  static constexpr auto kItem = static_cast<int64_t>(sizeof(T));
  int64_t threads() const {
    return std::min<int64_t>(num_threads(), s_.batch * s_.groups * splits_);
  }
  int64_t head_of(int64_t g, int64_t row) const { return g * s_.shared + row / s_.queries; }

  // Partial results lie as [B x groups][rows][splits].
  int64_t place(int64_t group, int64_t row, int64_t split) const {
    return (group * rows_ + row) * splits_ + split;
  }

  void task(int64_t index, T* memory, T* partial) const {
    const int64_t group = index / splits_, split = index % splits_;
    const int64_t b = group / s_.groups, g = group % s_.groups, first = split * keys_;
    T *query = memory + query_, *scores = memory + scores_, *buffer = memory + buffer_;
    const auto seen = [&](int64_t row) {
      return std::clamp<int64_t>(s_.keys_before(row % s_.queries + 1) - first, 0, keys_);
    };
    for (int64_t r = 0; r < rows_; ++r) {
      const Block from = block_of(in_.q, b, head_of(g, r), r % s_.queries);
      T* q = query + r * s_.width;
      load_block(from, in_.q.dtype(), 1, s_.width, gemm_.kDType, reinterpret_cast<char*>(q));
      for (int64_t i = 0; i < s_.width; ++i) q[i] *= static_cast<T>(s_.scale);
    }
    const int64_t most = std::min(keys_, s_.keys_before(s_.queries) - first);
    for (int64_t j = 0; j < most; j += kConverted) {
      const int64_t n = std::min(kConverted, most - j);
      const StridedLines k =
          dense_rows({in_.k, b, g, first + j, n}, gemm_.kDType, s_.width, buffer);
      for (int64_t r = 0; r < rows_; ++r) {
        gemm_.table.dots[gemm_.kIndex](query + r * s_.width, k.data, k.line, n, s_.width,
                                       scores + r * keys_ + j);
      }
    }
    for (int64_t r = 0; r < rows_; ++r) {
      if (in_.mask) {
        load_block(in_.mask.at(b, head_of(g, r), r % s_.queries, first), in_.mask.mask.dtype(), 1,
                   seen(r), gemm_.kDType, reinterpret_cast<char*>(buffer));
      }
      const int64_t at = place(group, r, split);
      gemm_.table.weigh_row[gemm_.kIndex](in_.mask.kind, scores + r * keys_, buffer, seen(r),
                                          partial + tops_ + at, partial + sums_ + at);
      std::fill_n(partial + results_ + at * s_.out_width, s_.out_width, T{0});
    }
    for (int64_t j = 0; j < most; j += kConverted) {
      const StridedLines v = dense_rows({in_.v, b, g, first + j, std::min(kConverted, most - j)},
                                        gemm_.kDType, s_.out_width, buffer);
      for (int64_t r = 0; r < rows_; ++r) {
        const int64_t n = std::clamp<int64_t>(seen(r) - j, 0, kConverted);
        gemm_.table.add_lines[gemm_.kIndex](
            scores + r * keys_ + j, v.data, v.line, n, s_.out_width,
            partial + results_ + place(group, r, split) * s_.out_width);
      }
    }
  }

  // The ranges of one row, weighed by the largest score of each.
  void combine(int64_t group, int64_t row, T* partial) const {
    T* factors = partial + tops_ + place(group, row, 0);
    const T* sums = partial + sums_ + place(group, row, 0);
    alignas(memory::kAlignment) T top[16] = {}, sum[16] = {}, log_sum[16] = {};
    gemm_.table.weigh_row[gemm_.kIndex](MaskKind::None, factors, nullptr, splits_, top, sum);
    sum[0] = 0;
    for (int64_t i = 0; i < splits_; ++i) sum[0] += factors[i] * sums[i];
    gemm_.table.finish[gemm_.kIndex](1, top, sum, log_sum);
    for (int64_t i = 0; i < splits_; ++i) factors[i] *= sum[0];
    T* result = partial + results_ + place(group, row, 0) * s_.out_width;
    for (int64_t i = 0; i < s_.out_width; ++i) result[i] *= factors[0];
    gemm_.table.add_lines[gemm_.kIndex](factors + 1, result + s_.out_width, s_.out_width,
                                        splits_ - 1, s_.out_width, result);
    const int64_t b = group / s_.groups, head = head_of(group % s_.groups, row);
    const int64_t at = (b * s_.heads + head) * s_.queries + row % s_.queries;
    in_.log_sum.ptr<T>()[at] = log_sum[0];
    const auto item = static_cast<int64_t>(in_.out.itemsize());
    cast_elements(reinterpret_cast<const char*>(result), gemm_.kDType,
                  in_.out.host_data() + at * s_.out_width * item, in_.out.dtype(), s_.out_width);
  }

  const AttentionShape& s_;
  const AttentionOperands& in_;
  const AttentionGemm<T> gemm_;
  const int64_t rows_;     // of queries that share keys
  int64_t splits_, keys_;  // ranges of keys, and the length of one
  WorkspaceLayout task_, partial_;
  int64_t query_, scores_, buffer_, results_, tops_, sums_;
};

}  // namespace

void attend_few(const AttentionShape& shape, const AttentionOperands& operands) {
  if (info(operands.out.dtype()).compute == DType::Float64) {
    FewQueries<double>(shape, operands).run();
  } else {
    FewQueries<float>(shape, operands).run();
  }
}

int64_t few_workspace(const AttentionShape& shape, const AttentionOperands& operands) {
  return info(operands.out.dtype()).compute == DType::Float64
             ? FewQueries<double>(shape, operands).workspace()
             : FewQueries<float>(shape, operands).workspace();
}

}  // namespace tinyt::cpu
