// Sparse matrices along spatial dimensions, one dimension after another.
#include <numeric>
#include <vector>

#include "core/ops/to_device.h"
#include "gpu/kernels.h"
#include "gpu/map_kernel.h"
#include "gpu/scalar_source.h"

namespace tinyt::gpu {

namespace {

// A matrix as its rows: of row i entries first[i] up to first[i + 1], each a column and where its
// weight is.
struct SparseRows {
  std::vector<int64_t> first{0}, column, weight;
};

SparseRows rows_of(std::span<const int64_t> taps, std::span<const int64_t> index, int64_t weight) {
  SparseRows m;
  for (const int64_t n : taps) m.first.push_back(m.first.back() + n);
  m.column.assign(index.begin(), index.end());
  m.weight.resize(index.size());
  std::iota(m.weight.begin(), m.weight.end(), weight);
  return m;
}

// The entries of a column, in the order of the rows, become a row.
SparseRows transposed_rows(const SparseRows& m, int64_t columns) {
  SparseRows t;
  t.first.assign(static_cast<size_t>(columns) + 1, 0);
  for (const int64_t c : m.column) ++t.first[static_cast<size_t>(c) + 1];
  std::partial_sum(t.first.begin(), t.first.end(), t.first.begin());
  t.column.resize(m.column.size());
  t.weight.resize(m.column.size());
  std::vector<int64_t> next(t.first);
  for (size_t row = 0; row + 1 < m.first.size(); ++row)
    for (auto e = static_cast<size_t>(m.first[row]); e < static_cast<size_t>(m.first[row + 1]);
         ++e) {
      const auto to = static_cast<size_t>(next[static_cast<size_t>(m.column[e])]++);
      t.column[to] = static_cast<int64_t>(row);
      t.weight[to] = m.weight[e];
    }
  return t;
}

Tensor on_device(std::vector<int64_t>& values, Device device) {
  const Tensor out = Tensor::empty(Dims{static_cast<int64_t>(values.size())}, DType::Int64, device);
  const size_t bytes = values.size() * sizeof(int64_t);
  copy_bytes(memory_of(out), {.host = values.data(), .bytes = bytes}, bytes);
  return out;
}

// Dense tensors of one dtype: each element a sum of those that its row names along a dimension.
void apply(SparseRows& m, const Tensor& weight, const Tensor& x, const Tensor& out, size_t dim) {
  const Device device = out.device();
  const Tensor first = on_device(m.first, device), column = on_device(m.column, device),
               entry = on_device(m.weight, device);
  const DType dtype = out.dtype();
  MapKernel kernel(device, "resample");
  const auto from = kernel.reads(x), weights = kernel.reads(weight), begins = kernel.reads(first),
             columns = kernel.reads(column), entries = kernel.reads(entry), to = kernel.writes(out);
  const std::string below = kernel.word(numel_of(std::span(out.shape()).subspan(dim + 1))),
                    rows = kernel.word(out.size(dim)), length = kernel.word(x.size(dim));
  kernel.run(out.numel(), [&] {
    SourceWriter& write = kernel.write();
    const ScalarType index = kernel.dialect().index, type = held_type(dtype);
    write.constant(index, "row", "i / " + below + " % " + rows);
    write.constant(
        index, "start",
        "i / " + below + " / " + rows + " * " + length + " * " + below + " + i % " + below);
    write.variable(type, "sum", literal(type, 0, kernel.dialect()));
    const auto place = [&](const MapKernel::View& places, const std::string& at) {
      return kernel.place_of(kernel.value(places, at));
    };
    write.constant(index, "end", place(begins, "row + 1"));
    write.open_count(index, "e", place(begins, "row"), "end");
    const std::string item = kernel.value(from, "start + " + place(columns, "e") + " * " + below);
    const std::string factor = kernel.value(weights, place(entries, "e"));
    const std::string product = kernel.call_op(OpId::mul, dtype, factor + ", " + item);
    write.assign("sum", kernel.call_op(OpId::add, dtype, "sum, " + product));
    write.close();
    kernel.set(to, "i", "sum");
  });
}

}  // namespace

void run_resample(const KernelCall& call) {
  const Tensor& out = call.outputs[0];
  if (out.numel() == 0) return;
  const DType work = is_integral(call.compute) ? DType::Int64 : info(call.compute).compute;
  Tensor x = contiguous_in(call.inputs[0], work);
  const Tensor weight = contiguous_in(call.inputs[1], work);
  AttrReader read(call.attrs);
  const Dims size(read.list());
  std::span<const int64_t> taps = read.list(), index = read.list();
  const bool transposed = read.flag();
  int64_t used = 0;
  for (size_t d = 2; d < out.shape().size(); ++d) {
    const auto count = static_cast<size_t>(transposed ? x.size(d) : out.size(d));
    const auto mine = taps.first(count);
    const int64_t entries = std::accumulate(mine.begin(), mine.end(), int64_t{0});
    SparseRows m = rows_of(mine, index.first(static_cast<size_t>(entries)), used);
    if (transposed) m = transposed_rows(m, out.size(d));
    for (size_t row = 1; row < m.first.size(); ++row)
      need_turns(call.op, out.device(), m.first[row] - m.first[row - 1]);
    taps = taps.subspan(count);
    index = index.subspan(static_cast<size_t>(entries));
    used += entries;
    Dims shape(x.shape());
    shape[d] = out.size(d);
    const bool last = d + 1 == out.shape().size() && out.dtype() == work;
    const Tensor y = last ? out : Tensor::empty(shape, work, out.device());
    apply(m, weight, x, y, d);
    x = y;
  }
  if (out.dtype() != work) copy_into(x, out);
}

}  // namespace tinyt::gpu
