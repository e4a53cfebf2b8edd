// Elements by index: gather, scatter, indices of several dimensions as one, borders.
#include <algorithm>

#include "core/base/error.h"
#include "gpu/kernels.h"
#include "gpu/launch.h"
#include "gpu/map_kernel.h"

namespace tinyt::gpu {

Tensor at_least_1d(const Tensor& x) {
  return x.rank() > 0 ? x : x.view(Dims{1}, Dims{1}, x.offset());
}

Tensor as_bytes(const Tensor& x) {
  if (x.dtype() != DType::Bool) return x;
  return x.view_as(DType::UInt8, x.shape(), x.strides(), x.offset());
}

namespace {

// With nothing along a dimension.
Dims without(Dims strides, size_t dim) {
  strides[dim] = 0;
  return strides;
}

// Itself; a zero in the place of elements that are not there, of which every index is a fault.
Tensor with_elements(const Tensor& x) {
  if (x.numel() > 0) return x;
  const Tensor zero = Tensor::empty(Dims{}, x.dtype(), x.device());
  driver_of(x.device()).fill(zero.storage().buffer, 0, x.itemsize(), 0);
  return zero.view(x.shape(), Dims(x.rank(), 0), zero.offset());
}

// Its elements by their bits alone.
Tensor bits_of_tensor(const Tensor& x) {
  return x.view_as(MapKernel::bits_type(x.dtype()), x.shape(), x.strides(), x.offset());
}

}  // namespace

void run_gather(const KernelCall& call) {
  const Tensor x = with_elements(at_least_1d(call.inputs[0]));
  const Tensor index = at_least_1d(call.inputs[1]);
  const Tensor& out = call.outputs[0];
  const auto dim = static_cast<size_t>(AttrReader(call.attrs).integer());
  if (x.dtype() == DType::Complex128) {
    for (const int64_t part : {0, 1}) {
      const Tensor from[] = {part_of(x, DType::Int64, part), index};
      const Tensor half = Tensor::empty(out.shape(), DType::Int64, out.device());
      run_gather({call.op, from, {&half, 1}, call.attrs, DType::Int64});
      copy_into(half, part_of(out, DType::Int64, part));
    }
    return;
  }
  MapKernel kernel(out.device(), "gather");
  const auto from = kernel.reads_bits(x), at = kernel.reads(index), to = kernel.writes_bits(out);
  const Dims lines[] = {without(x.strides(), dim), index.strides()};
  const auto places = kernel.places("i", index.shape(), lines);
  const std::string step = kernel.word(x.stride(dim));
  const auto fault = kernel.fault(call.op, static_cast<int64_t>(dim), x.size(dim));
  kernel.run(out.numel(), [&] {
    kernel.write().variable(ScalarType::I64, "k", kernel.value(at, places[1]));
    kernel.check_index(fault, "k");
    kernel.set(to, "i",
               kernel.value(from, places[0] + " + " + kernel.place_of("k") + " * " + step));
  });
}

namespace {

// As `scatter`, of a part of the index.
void scatter_some(OpId op, OpId combine, const Tensor& out, const Tensor& index, const Tensor& src,
                  size_t dim) {
  const bool moves = combine == OpId::kCount;
  MapKernel kernel(out.device(), "scatter " + std::to_string(static_cast<int>(combine)));
  const auto from = moves ? kernel.reads_bits(src) : kernel.reads(src), at = kernel.reads(index),
             to = moves ? kernel.writes_bits(out) : kernel.writes(out);
  Dims shape(index.shape());
  const int64_t count = shape[dim];
  shape[dim] = 1;
  const Dims lines[] = {src.strides(), index.strides(), without(out.strides(), dim)};
  const auto places = kernel.places("i", shape, lines);
  const std::string n = kernel.word(count), from_step = kernel.word(src.stride(dim)),
                    at_step = kernel.word(index.stride(dim)),
                    to_step = kernel.word(out.stride(dim));
  const auto fault = kernel.fault(op, static_cast<int64_t>(dim), out.size(dim));
  kernel.run(numel_of(shape), [&] {
    SourceWriter& write = kernel.write();
    write.open_count(kernel.dialect().index, "j", "0", n);
    write.variable(ScalarType::I64, "k", kernel.value(at, places[1] + " + j * " + at_step));
    write.open_if(write.less_equal(ScalarType::I64, kernel.whole(0), "k") + " && " +
                  write.less(ScalarType::I64, "k", kernel.held_place(fault.size)));
    const std::string target = places[2] + " + " + kernel.place_of("k") + " * " + to_step;
    const std::string value = kernel.value(from, places[0] + " + j * " + from_step);
    const DType wide = info(out.dtype()).compute;  // whole numbers wrap where they are stored
    kernel.set(
        to, target,
        moves ? value : kernel.call_op(combine, wide, kernel.value(to, target) + ", " + value));
    write.close();
    kernel.check_index(fault, "k");
    write.close();
  });
}

// Elements of `out` at an index along a dimension become what they and those of `src` make, in the
// order of the index: a thread takes a whole line.
void scatter(OpId op, OpId combine, const Tensor& out, const Tensor& index, const Tensor& src,
             size_t dim) {
  for_pieces(index.size(dim), out.device(), [&](int64_t first, int64_t count) {
    Dims shape(index.shape());
    shape[dim] = count;
    const auto part = [&](const Tensor& x) {
      return x.view(shape, x.strides(), x.offset() + first * x.stride(dim));
    };
    scatter_some(op, combine, out, part(index), part(src), dim);
  });
}

void scatter_combined(const KernelCall& call, OpId combine) {
  const Tensor out = at_least_1d(call.outputs[0]), in = at_least_1d(call.inputs[0]);
  const Tensor index = at_least_1d(call.inputs[1]);
  Tensor src = at_least_1d(call.inputs[2]);
  const auto dim = static_cast<size_t>(AttrReader(call.attrs).integer());
  const DType wide = info(out.dtype()).compute;
  if (wide == out.dtype() || is_integral(wide)) {
    if (!same_view(in, out)) copy_into(in, out);
    return scatter(call.op, combine, out, index, src, dim);
  }
  // Rounded at the end.
  const Tensor result = Tensor::empty(out.shape(), wide, out.device());
  const Tensor values = Tensor::empty(index.shape(), wide, out.device());
  copy_into(in, result);
  copy_into(src.view(index.shape(), src.strides(), src.offset()), values);
  scatter(call.op, combine, result, index, values, dim);
  copy_into(result, out);
}

}  // namespace

void run_scatter(const KernelCall& call) {
  const Tensor out = at_least_1d(call.outputs[0]), in = at_least_1d(call.inputs[0]);
  if (!same_view(in, out)) copy_into(in, out);
  const auto dim = static_cast<size_t>(AttrReader(call.attrs).integer());
  const Tensor index = at_least_1d(call.inputs[1]), src = at_least_1d(call.inputs[2]);
  if (out.dtype() != DType::Complex128) return scatter(call.op, OpId::kCount, out, index, src, dim);
  for (const int64_t part : {0, 1})
    scatter(call.op, OpId::kCount, part_of(out, DType::Int64, part), index,
            part_of(src, DType::Int64, part), dim);
}

void run_scatter_add(const KernelCall& call) { scatter_combined(call, OpId::add); }

void run_scatter_reduce(const KernelCall& call) {
  AttrReader read(call.attrs);
  read.integer();
  constexpr OpId kOps[] = {OpId::mul, OpId::maximum, OpId::minimum};
  scatter_combined(call, kOps[read.integer()]);
}

void run_linear_index(const KernelCall& call) {
  const Tensor& out = call.outputs[0];
  AttrReader read(call.attrs);
  const std::span<const int64_t> sizes = read.list(), dims = read.list(), shape = read.list();
  for (size_t k = 0; k < call.inputs.size(); ++k) {
    const Tensor& index = call.inputs[k];
    MapKernel kernel(out.device(), k == 0 ? "first index" : "next index");
    const auto at = kernel.reads(index), to = kernel.writes(out);
    const std::string place =
        kernel.place("i", shape, broadcast_strides(index.shape(), index.strides(), shape));
    const auto fault = kernel.fault(call.op, dims[k], sizes[k]);
    kernel.run(out.numel(), [&] {
      SourceWriter& write = kernel.write();
      const ScalarType type = ScalarType::I64;
      const std::string zero = kernel.whole(0);
      const auto add = [&](const std::string& b) {
        return write.operation(MachineOp::add, type, type, {"k", b});
      };
      write.variable(type, "k", kernel.value(at, place));
      write.constant(type, "size", kernel.held_place(fault.size));
      write.constant(type, "from_end", add("size"));
      write.open_if(write.less(type, "k", zero) + " && " +
                    write.less_equal(type, zero, "from_end"));
      write.assign("k", "from_end");
      write.close();
      kernel.check_index(fault, "k", -1);  // nothing is written there
      if (k > 0) {
        write.constant(type, "outer", kernel.value(to, "i"));
        write.open_if(write.less(type, "outer", zero));
        write.assign("k", kernel.whole(-1));
        write.close();
        write.open_if(write.less_equal(type, zero, "k"));
        write.constant(type, "before",
                       write.operation(MachineOp::mul, type, type, {"outer", "size"}));
        write.assign("k", add("before"));
        write.close();
      }
      kernel.set(to, "i", "k");
    });
  }
}

namespace {

// `out` is dense but for `step` elements from one to the next.
void pad_border(const Tensor& x, const Tensor& out, int64_t step, const Attrs& attrs) {
  AttrReader read(attrs);
  const std::span<const int64_t> pad = read.list();
  const int64_t mode = read.integer();  // 0 reflect, 1 replicate, 2 circular
  const size_t rank = x.shape().size();
  MapKernel kernel(out.device(), "border " + std::to_string(mode) + " " + std::to_string(rank));
  const auto from = kernel.reads(x), to = kernel.writes(out);
  const std::string apart = kernel.word(step);
  std::vector<std::string> sizes, outs, steps, before;
  for (size_t d = 0; d < rank; ++d) {
    sizes.push_back(kernel.word(x.size(d)));
    outs.push_back(kernel.word(out.size(d)));
    steps.push_back(kernel.word(x.stride(d)));
    before.push_back(kernel.word(pad[2 * d]));
  }
  kernel.run(out.numel(), [&] {
    SourceWriter& write = kernel.write();
    const ScalarType index = kernel.dialect().index;
    write.variable(index, "rest", "i");
    write.variable(index, "place", "0");
    for (size_t d = rank; d-- > 0;) {
      const std::string k = numbered("k", static_cast<int64_t>(d));
      write.variable(index, k, "rest % " + outs[d] + " - " + before[d]);
      write.assign("rest", "rest / " + outs[d]);
      const std::string last = "(" + sizes[d] + " - 1)";
      write.open_if(k + " < 0");
      write.assign(k, mode == 0 ? "-" + k : mode == 1 ? "0" : k + " + " + sizes[d]);
      write.close();
      write.open_if(k + " > " + last);
      write.assign(k, mode == 0   ? "2 * " + last + " - " + k
                      : mode == 1 ? last
                                  : k + " - " + sizes[d]);
      write.close();
      write.line("place += " + k + " * " + steps[d] + ";");
    }
    kernel.set(to, "i * " + apart, kernel.value(from, "place"));
  });
}

}  // namespace

void run_pad_border(const KernelCall& call) {
  if (call.inputs[0].dtype() != DType::Complex128)
    return pad_border(bits_of_tensor(call.inputs[0]), bits_of_tensor(call.outputs[0]), 1,
                      call.attrs);
  for (const int64_t part : {0, 1})
    pad_border(part_of(call.inputs[0], DType::Int64, part),
               part_of(call.outputs[0], DType::Int64, part), 2, call.attrs);
}

}  // namespace tinyt::gpu
