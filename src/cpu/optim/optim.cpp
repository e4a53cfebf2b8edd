#include "cpu/optim/optim.h"

#include <algorithm>
#include <array>
#include <vector>

#include "core/base/parallel.h"
#include "core/ops/optim.h"
#include "cpu/copy/copy.h"
#include "cpu/reduce/reduce_parts.h"
#include "cpu/schedule/levels.h"
#include "cpu/schedule/tiles.h"

namespace tinyt::cpu {
namespace {

// Several tensors as one long row: where each ends.
class Joined {
 public:
  void add(int64_t n) { ends_.push_back(size() + n); }
  int64_t size() const { return ends_.empty() ? 0 : ends_.back(); }

  // Calls body(tensor, first, n) for the parts of [begin, end), in order.
  template <class F>
  void for_each_part(int64_t begin, int64_t end, F&& body) const {
    auto it = std::upper_bound(ends_.begin(), ends_.end(), begin);
    for (; begin < end; ++it) {
      const auto i = static_cast<size_t>(it - ends_.begin());
      const int64_t first = i == 0 ? 0 : ends_[i - 1], last = std::min(end, *it);
      if (begin < last) body(i, begin - first, last - begin);
      begin = last;
    }
  }

 private:
  std::vector<int64_t> ends_;
};

// The tensors of a parameter as byte pointers: itself, gradient, states.
constexpr int kRowOperands = 2 + kOptimStates;
using Pointers = std::array<char*, kRowOperands>;

struct Item {
  Pointers at{};
  DType dtype;
  OptimTerms terms;
};

Item item_of(const UpdateCall& call, size_t i) {
  Item out{.dtype = call.param(i)->dtype(), .terms = call.terms(i)};
  const auto place = [](const Tensor* t) { return t ? t->host_data() : nullptr; };
  out.at[0] = place(call.param(i));
  out.at[1] = place(call.grad(i));
  for (int s = 0; s < kOptimStates; ++s)
    out.at[2 + static_cast<size_t>(s)] = place(call.state(s, i));
  return out;
}

void run_row(OptimRule rule, const Item& item, int64_t n, const Pointers& at) {
  OptimRow row{n, item.terms, at[0], at[1], {}};
  for (size_t s = 0; s < kOptimStates; ++s) row.state[s] = at[2 + s];
  kernels().optim->update[static_cast<int>(rule)][static_cast<int>(item.dtype)](row);
}

// Narrow dtypes pass through float32 tiles; the kernel rounds to the dtype after every operation.
void run_narrow(OptimRule rule, const Item& item, int64_t n, const Pointers& from) {
  constexpr DType kWide = DType::Float32;
  const DType dtype = item.dtype;
  const auto size = static_cast<int64_t>(size_of(dtype));
  Pointers at = from;
  alignas(64) float tile[kRowOperands][kTileElements];
  for (int64_t done = 0; done < n; done += kTileElements) {
    const int64_t count = std::min(kTileElements, n - done);
    Pointers wide{};
    for (size_t k = 0; k < kRowOperands; ++k) {
      if (at[k] == nullptr) continue;
      wide[k] = reinterpret_cast<char*>(tile[k]);
      cast_elements(at[k], dtype, wide[k], kWide, count);
    }
    run_row(rule, item, count, wide);
    for (size_t k = 0; k < kRowOperands; ++k) {
      if (at[k] == nullptr) continue;
      if (k != 1) cast_elements(wide[k], kWide, at[k], dtype, count);
      at[k] += count * size;
    }
  }
}

// A tensor's blocks, each of which gives one value.
int64_t blocks_of(const Tensor& x) { return (x.numel() + kRowBlock - 1) / kRowBlock; }
Joined blocks_of(std::span<const Tensor> inputs) {
  Joined blocks;
  for (const Tensor& x : inputs) blocks.add(blocks_of(x));
  return blocks;
}

// The order of a row's reduction (row_order.h), so that each sum equals that of its tensor alone.
template <class T>
void sum_squares(std::span<const Tensor> inputs, const Tensor& out) {
  const Joined blocks = blocks_of(inputs);
  const Tensor partial = Tensor::empty(Dims{blocks.size()}, out.dtype(), out.device());
  constexpr auto kSquares = static_cast<int>(Reduction::SquareSum);
  const auto kernel = kernels().reduce->row[kSquares][static_cast<int>(out.dtype())];
  T* values = partial.ptr<T>();
  static_assert(kPassesChunk >= kRowBlock);
  parallel_ranges(blocks.size(), kPassesChunk / kRowBlock, [&](int64_t begin, int64_t end) {
    int64_t at = begin;
    blocks.for_each_part(begin, end, [&](size_t i, int64_t first, int64_t n) {
      const Tensor& x = inputs[i];
      for (int64_t b = first * kRowBlock; n > 0; --n, b += kRowBlock) {
        kernel(x.ptr<T>() + b, std::min(kRowBlock, x.numel() - b), values + at++);
      }
    });
  });
  for (size_t i = 0; i < inputs.size(); ++i) {
    const int64_t count = blocks_of(inputs[i]);
    join_pairwise(count, [&](int64_t i, int64_t k) { values[i] += values[k]; });
    out.ptr<T>()[i] = count > 0 ? values[0] : T{0};
    values += count;
  }
}

}  // namespace

void kernel_optim_step(const KernelCall& call) {
  const UpdateCall update(call);
  Joined all;
  std::vector<Item> items;
  items.reserve(update.count());
  for (size_t i = 0; i < update.count(); ++i) {
    all.add(update.param(i)->numel());
    items.push_back(item_of(update, i));
  }
  parallel_ranges(all.size(), kHeavyChunk, [&](int64_t begin, int64_t end) {
    all.for_each_part(begin, end, [&](size_t i, int64_t first, int64_t n) {
      const Item& item = items[i];
      Pointers at = item.at;
      for (char*& p : at)
        if (p) p += first * static_cast<int64_t>(size_of(item.dtype));
      const bool narrow = info(item.dtype).compute != item.dtype;
      (narrow ? run_narrow : run_row)(update.rule(), item, n, at);
    });
  });
}

void kernel_sum_squares(const KernelCall& call) {
  const Tensor& out = call.outputs[0];
  std::vector<Tensor> inputs;
  for (const Tensor& x : call.inputs) inputs.push_back(as_contiguous(x));
  out.dtype() == DType::Float32 ? sum_squares<float>(inputs, out)
                                : sum_squares<double>(inputs, out);
}

int64_t workspace_sum_squares(const KernelCall& call) {
  int64_t bytes = blocks_of(call.inputs).size() * static_cast<int64_t>(call.outputs[0].itemsize());
  for (const Tensor& x : call.inputs) bytes += dense_bytes(x);
  return bytes;
}

}  // namespace tinyt::cpu
