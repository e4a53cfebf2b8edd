// Elements that are not zero. Each thread counts those of a block; sums of the counts say where it
// writes.
#include "core/ops/to_device.h"
#include "gpu/kernels.h"
#include "gpu/map_kernel.h"

namespace tinyt::gpu {

namespace {

constexpr int64_t kCountBlock = 256;

// What tells which elements of a tensor, in order, are not zero.
class Mask {
 public:
  explicit Mask(const Tensor& given)
      : x_(contiguous_in(given, given.dtype())),
        blocks_(ceil_div(x_.numel(), kCountBlock)),
        parts_{as_bytes(x_), x_} {
    DType part = real_of(x_.dtype());
    if (part == DType::Float64) part = DType::Int64;  // its bits: some languages lack it
    if (part == x_.dtype()) return;
    for (const int64_t k : {0, 1})
      parts_[k] = is_complex(x_.dtype()) ? part_of(x_, part, k)
                                         : x_.view_as(part, x_.shape(), x_.strides(), x_.offset());
  }
  int64_t count() const { return x_.numel(); }
  int64_t blocks() const { return blocks_; }

  MapKernel kernel(const std::string& key) const {
    return {x_.device(), key + (is_complex(x_.dtype()) ? " complex" : "") +
                             (real_of(x_.dtype()) == DType::Float64 ? " double" : "")};
  }
  // Adds its elements to what a kernel is given; `k` is done with each that is not zero, in block
  // "i".
  void add_to(MapKernel& kernel) {
    const bool complex = is_complex(x_.dtype());
    for (int k = 0; k < (complex ? 2 : 1); ++k) views_[k] = kernel.reads(parts_[k]);
    elements_ = kernel.word(count());
  }
  void print(MapKernel& kernel, FunctionRef<void()> body) const {
    SourceWriter& write = kernel.write();
    const ScalarType index = kernel.dialect().index;
    const std::string block = std::to_string(kCountBlock);
    write.limit(index, "end", "(i + 1) * " + block, elements_);
    write.open_count(index, "k", "i * " + block, "end");
    const bool complex = is_complex(x_.dtype());
    const auto is_set = [&](const MapKernel::View& view) {
      const std::string item = kernel.value(view, complex ? "2 * k" : "k");
      if (real_of(x_.dtype()) == DType::Float64) {  // all but the sign
        const ScalarType type = ScalarType::I64;
        const std::string bits =
            write.operation(MachineOp::bit_and, type, type, {item, kernel.whole(INT64_MAX)});
        return write.operation(MachineOp::not_equal, ScalarType::Bool, type,
                               {"(" + bits + ")", kernel.whole(0)});
      }
      return kernel.call_cast(item, view.dtype, DType::Bool) + " != 0";
    };
    write.open_if(is_set(views_[0]) + (complex ? " || " + is_set(views_[1]) : ""));
    body();
    write.close();
    write.close();
  }

  // How many there are in all blocks up to each.
  Tensor counts() {
    const Tensor counts = Tensor::empty(Dims{blocks_}, DType::Int64, x_.device());
    MapKernel kernel = this->kernel("count nonzero");
    add_to(kernel);
    const auto to = kernel.writes(counts);
    kernel.run(
        blocks_,
        [&] {
          SourceWriter& write = kernel.write();
          write.variable(kernel.dialect().index, "count", "0");
          print(kernel, [&] { write.line("count += 1;"); });
          kernel.set(to, "i", kernel.held_place("count"));
        },
        4);
    const Tensor sums = Tensor::empty(Dims{blocks_}, DType::Int64, x_.device());
    Attrs along;
    along.add(0);
    run_scan({OpId::cumsum, {&counts, 1}, {&sums, 1}, along, DType::Int64});
    return sums;
  }

 private:
  Tensor x_;
  int64_t blocks_;
  Tensor parts_[2];
  MapKernel::View views_[2];
  std::string elements_;
};

// Calls `body` with the number of each element that is not zero, "k", and its place among them,
// "found".
template <class F>
void for_each_set(Mask& mask, MapKernel& kernel, const MapKernel::View& sums, F body) {
  kernel.run(
      mask.blocks(),
      [&] {
        SourceWriter& write = kernel.write();
        write.variable(kernel.dialect().index, "found", "0");
        write.open_if("i > 0");
        write.assign("found", kernel.place_of(kernel.value(sums, "i - 1")));
        write.close();
        mask.print(kernel, [&] {
          body();
          write.line("found += 1;");
        });
      },
      4);
}

}  // namespace

int64_t count_nonzero(const Tensor& x) {
  if (x.numel() == 0) return 0;
  Mask mask(x);
  const Tensor sums = mask.counts();
  int64_t count = 0;
  const Tensor last = sums.view(Dims{1}, Dims{1}, sums.offset() + mask.blocks() - 1);
  copy_bytes({.host = &count, .bytes = sizeof count}, memory_of(last), sizeof count);
  return count;
}

void run_nonzero(const KernelCall& call) {
  const Tensor &x = call.inputs[0], &out = call.outputs[0];
  if (out.numel() == 0) return;
  Mask mask(x);
  const Tensor sums = mask.counts();
  const size_t rank = x.shape().size();
  MapKernel kernel = mask.kernel("nonzero " + std::to_string(rank));
  mask.add_to(kernel);
  const auto before = kernel.reads(sums), to = kernel.writes(out);
  std::vector<std::string> sizes;
  for (const int64_t size : x.shape()) sizes.push_back(kernel.word(size));
  for_each_set(mask, kernel, before, [&] {
    SourceWriter& write = kernel.write();
    write.variable(kernel.dialect().index, "rest", "k");
    for (size_t d = rank; d-- > 0;) {
      const std::string at = "found * " + std::to_string(rank) + " + " + std::to_string(d);
      kernel.set(to, at, kernel.held_place(d == 0 ? "rest" : "rest % " + sizes[d]));
      if (d > 0) write.assign("rest", "rest / " + sizes[d]);
    }
  });
}

void run_masked_select(const KernelCall& call) {
  const Tensor &x = call.inputs[0], &given = call.inputs[1], &out = call.outputs[0];
  if (out.numel() == 0) return;
  Mask mask(given);
  const Tensor sums = mask.counts();
  const int64_t length = x.numel() / mask.count();
  const Tensor rows = Tensor::empty(Dims{out.numel() / length}, DType::Int64, out.device());
  MapKernel find = mask.kernel("rows");
  mask.add_to(find);
  const auto before = find.reads(sums), found = find.writes(rows);
  for_each_set(mask, find, before, [&] { find.set(found, "found", find.held_place("k")); });

  const Tensor flat = contiguous_in(x, x.dtype());
  Attrs along;
  along.add(0);
  const Tensor from = flat.view(Dims{mask.count(), length}, Dims{length, 1}, flat.offset());
  const Tensor index = rows.view(Dims{rows.numel(), length}, Dims{1, 0}, rows.offset());
  const Tensor to = out.view(index.shape(), Dims{length, 1}, out.offset());
  const Tensor operands[] = {from, index};
  run_gather({OpId::gather, operands, {&to, 1}, along, DType::Int64});
}

}  // namespace tinyt::gpu
