// Reductions in the CPU's order: results of blocks first, which then combine in a pairwise tree.
#include <algorithm>
#include <vector>

#include "core/ops/row_order.h"
#include "gpu/column_source.h"
#include "gpu/kernels.h"
#include "gpu/launch.h"
#include "gpu/map_kernel.h"
#include "gpu/space.h"

namespace tinyt::gpu {

namespace {

// Dimensions of one tensor.
struct Axes : Space {
  Axes() : Space{{}, {Dims{}}} {}
  void add(int64_t size, int64_t stride) {
    shape.push_back(size);
    strides[0].push_back(stride);
  }
  void collapse() { Space::collapse(0, shape.size()); }
  int64_t count() const { return numel_of(shape); }
  void append_to(Dims& sizes, Dims& steps) const {
    for (size_t d = 0; d < shape.size(); ++d) {
      sizes.push_back(shape[d]);
      steps.push_back(strides[0][d]);
    }
  }
};

// Of the tree that a thread combines; results that a core's thread takes at least.
constexpr int64_t kTreeBlocks = 16, kTreeElements = 64;

bool is_extreme(OpId op) { return op == OpId::amax || op == OpId::amin; }

class ReduceJob {
 public:
  explicit ReduceJob(const KernelCall& call)
      : op_(call.op),
        x_(is_extreme(call.op) ? as_bytes(call.inputs[0]) : call.inputs[0]),
        out_(is_extreme(call.op) ? as_bytes(call.outputs[0]) : call.outputs[0]),
        partial_(is_half(out_.dtype()) ? DType::Float32 : out_.dtype()) {
    SmallVec<bool, 8> is_reduced(static_cast<size_t>(x_.rank()), false);
    for (const int64_t d : AttrReader(call.attrs).list())
      if (d < x_.rank()) is_reduced[static_cast<size_t>(d)] = true;
    size_t inner = is_reduced.size();
    while (inner > 0 && (!is_reduced[inner - 1] || x_.size(inner - 1) == 1)) --inner;
    for (size_t d = 0; d < is_reduced.size(); ++d)
      (is_reduced[d] ? reduced_ : d < inner ? outer_ : columns_).add(x_.size(d), x_.stride(d));
    for (Axes* axes : {&outer_, &reduced_, &columns_}) axes->collapse();
  }

  void run() {
    if (out_.numel() == 0) return;
    if (reduced_.count() == 0) return copy_into(Tensor::scalar(info(op_).identity), out_);
    if (columns_.count() > 1) return reduce_columns();
    if (reduced_.shape.empty()) reduced_.insert_one(0);
    const int64_t block = row_block(), blocks = ceil_div(reduced_.count(), block);
    const LaunchModel model = driver_of(out_.device()).launch_model(out_.device().index);
    const int64_t threads = outer_.count() * model.row_threads(reduced_.count());
    if (blocks == 1 || threads >= 4 * model.threads) return reduce_rows(x_, out_);
    reduce_long_rows(blocks, block);
  }

 private:
  int64_t row_block() const {
    return kReduceLanes * (op_ == OpId::prod ? kProductBlock : kColumnBlock);
  }

  // A result for each of the first dimensions of a view whose last ones are reduced.
  void reduce(const Tensor& view, size_t reduced, const Tensor& out) const {
    FusedKernel kernel =
        single_op(op_, view.dtype(), {&view, 1}, out.dtype(), view.shape(), reduced);
    if (is_half(view.dtype()) && out.dtype() == DType::Float32) {  // not rounded yet
      kernel.values.insert(kernel.values.begin() + 1, {DType::Float32, false});
      kernel.ops.insert(kernel.ops.begin(), {OpId::cast, view.dtype(), {{0, false}}});
      kernel.ops[1].compute = DType::Float32;
      kernel.ops[1].in[0].value = 1;
      kernel.stores[0] = 2;
    }
    run_fused(kernel, {&view, 1}, {&out, 1});
  }
  void reduce_rows(const Tensor& x, const Tensor& out) const {
    Dims shape, strides;
    outer_.append_to(shape, strides);
    reduced_.append_to(shape, strides);
    reduce(x.view(shape, strides, x.offset()), reduced_.shape.size(), out);
  }

  // Every block of a row by itself: [block][row].
  void reduce_long_rows(int64_t blocks, int64_t block) {
    Tensor x = x_;
    if (reduced_.shape.size() > 1) gather_rows(x);
    const Tensor parts = Tensor::empty(Dims{blocks, outer_.count()}, partial_, out_.device());
    const int64_t full = reduced_.count() / block, rest = reduced_.count() % block;
    const int64_t step = reduced_.strides[0][0];
    const auto some = [&](int64_t first, int64_t count, int64_t elements) {
      if (count == 0 || elements == 0) return;
      Dims shape{count}, strides{block * step};
      outer_.append_to(shape, strides);
      shape.push_back(elements);
      strides.push_back(step);
      reduce(x.view(shape, strides, x.offset() + first * block * step), 1,
             parts.view(Dims{count, outer_.count()}, Dims{outer_.count(), 1},
                        parts.offset() + first * outer_.count()));
    };
    some(0, full, block);
    some(full, 1, rest);
    finish(parts, blocks);
  }
  // A dense copy whose rows are one run each.
  void gather_rows(Tensor& x) {
    Dims shape, strides;
    outer_.append_to(shape, strides);
    reduced_.append_to(shape, strides);
    const Tensor dense = Tensor::empty(shape, x.dtype(), x.device());
    copy_into(x.view(shape, strides, x.offset()), dense);
    const int64_t rows = outer_.count(), elements = reduced_.count();
    x = dense;
    outer_ = {};
    reduced_ = {};
    outer_.add(rows, elements);
    reduced_.add(elements, 1);
  }

  void reduce_columns() {
    const int64_t block = row_block() / kReduceLanes, blocks = ceil_div(reduced_.count(), block);
    if (blocks == 1) return reduce_blocks(blocks, out_);
    const Tensor parts = Tensor::empty(Dims{blocks, out_.numel()}, partial_, out_.device());
    reduce_blocks(blocks, parts);
    finish(parts, blocks);
  }
  void reduce_blocks(int64_t blocks, const Tensor& to) const {
    Dims shape, strides;
    outer_.append_to(shape, strides);
    columns_.append_to(shape, strides);
    const size_t kept = shape.size();
    reduced_.append_to(shape, strides);
    const Device device = to.device();
    Driver& driver = driver_of(device);
    const Dialect& dialect = driver.dialect(device.index);
    const bool dense = strides[kept - 1] == 1;
    const size_t reduced = shape.size() - kept;
    std::string key = "columns";
    for (const int part :
         {static_cast<int>(op_), static_cast<int>(x_.dtype()), static_cast<int>(to.dtype()),
          static_cast<int>(kept), static_cast<int>(reduced), static_cast<int>(dense)})
      key += " " + std::to_string(part);
    const ColumnWords layout(kept, reduced);
    BuiltKernel& built = built_kernel(device, key, {2, layout.count()}, [&] {
      const FusedKernel kernel = single_op(op_, x_.dtype(), {&x_, 1}, to.dtype(), shape, reduced);
      return whole_source(column_source(kernel, dense, kKernelName, dialect), dialect);
    });
    SmallVec<int64_t, 48> words(layout.count());
    for (size_t d = 0; d < shape.size(); ++d) words[d] = shape[d];
    words[layout.first()] = first_element(x_);
    for (size_t d = 0; d < strides.size(); ++d) words[layout.stride(d)] = strides[d];
    words[layout.store()] = first_element(to);
    words[layout.blocks()] = blocks;
    const int64_t columns = shape[kept - 1];
    const int64_t rows = numel_of(std::span(shape).first(kept)) / columns;
    const Buffer* memory[] = {&x_.storage().buffer, &to.storage().buffer};
    driver.launch(built, device.index, memory, {words.data(), words.size()},
                  blocks * rows * ceil_div(columns, column_width(dialect)));
  }

  // The tree over blocks: `kTreeBlocks` neighbours become one at a time.
  void finish(Tensor parts, int64_t blocks) const {
    while (blocks > 1) {
      const int64_t fewer = ceil_div(blocks, kTreeBlocks);
      const Tensor to =
          fewer == 1 ? out_ : Tensor::empty(Dims{fewer, out_.numel()}, partial_, out_.device());
      combine(parts, blocks, to);
      parts = to;
      blocks = fewer;
    }
  }
  // Each thread those of a result, into the last ones or parts. All are read before some are
  // joined: that takes long.
  void combine(const Tensor& parts, int64_t blocks, const Tensor& to) const {
    const int64_t results = out_.numel();
    MapKernel kernel(out_.device(), joined_words("tree", name_of(op_)));
    SourceWriter& write = kernel.write();
    const MapKernel::View from = kernel.reads(parts), into = kernel.writes(to);
    const std::string count = kernel.word(blocks), width = kernel.word(results);
    const auto part = [](int64_t k) { return numbered("v", k); };
    const auto body = [&] {
      const ScalarType index = kernel.dialect().index, type = kernel.accumulator(partial_);
      const DType compute = info(partial_).compute;
      write.constant(index, "first", "i / " + width + " * " + std::to_string(kTreeBlocks));
      write.limit(index, "some", count + " - first", std::to_string(kTreeBlocks));
      for (int64_t k = 0; k < kTreeBlocks; ++k) {
        write.limit(index, numbered("at", k), std::to_string(k), "some - 1");
        const std::string place = "(first + " + numbered("at", k) + ") * " + width;
        const std::string value = kernel.value(from, place + " + i % " + width);
        write.variable(type, part(k), kernel.call_cast(value, partial_, compute));
      }
      for (int64_t step = 1; step < kTreeBlocks; step *= 2)
        for (int64_t k = 0; k + step < kTreeBlocks; k += 2 * step) {
          write.open_if(std::to_string(k + step) + " < some");
          write.assign(part(k), kernel.joined(op_, partial_, part(k), part(k + step)));
          write.close();
        }
      kernel.set(into, "i", kernel.call_cast(part(0), compute, to.dtype()));
    };
    kernel.run(ceil_div(blocks, kTreeBlocks) * results, body, kTreeElements);
  }

  const OpId op_;
  const Tensor x_;
  const Tensor out_;
  const DType partial_;
  Axes outer_, reduced_, columns_;
};

}  // namespace

void run_reduction(const KernelCall& call) { ReduceJob(call).run(); }

}  // namespace tinyt::gpu
