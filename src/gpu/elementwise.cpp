// Elementwise operations and copies: fused kernels of one operation.
#include <algorithm>
#include <vector>

#include "core/base/error.h"
#include "core/graph/graph.h"
#include "core/ops/dispatch.h"
#include "core/ops/kernels.h"
#include "core/ops/to_device.h"
#include "gpu/kernels.h"
#include "gpu/launch.h"
#include "gpu/map_kernel.h"
#include "gpu/space.h"
#include "gpu/transpose_source.h"

namespace tinyt::gpu {

namespace {

// A number in the dtype that the operation computes in: converted once, whole numbers by way of the
// call's dtype, beyond which they wrap.
Tensor operand_number(const Tensor& number, OpId op, DType compute, bool first) {
  if (first && has_flag(op, op_flags::predicate_first)) return number_as(number, DType::Bool);
  return number_as(number, is_integral(compute) ? compute : info(compute).compute);
}

// Integers are divided by a zero.
bool divides_by_zero(const KernelCall& call) {
  const bool divides =
      call.op == OpId::floor_divide || call.op == OpId::remainder || call.op == OpId::fmod;
  if (!divides || !is_integral(call.compute) || call.outputs[0].numel() == 0) return false;
  const PausedRecording at_once;
  const Tensor& given = call.inputs[1];
  Tensor divisor = given.numel() == 1 ? cast(to_device(given, {}), call.compute) : given;
  divisor = cast(divisor, DType::Bool);
  Attrs every;
  every.add(Dims{}).add(int64_t{0});
  return *to_device(dispatch(OpId::amin, {&divisor, 1}, every).first, {}).ptr<uint8_t>() == 0;
}

// ---- copies

// A copy by squares, where elements lie along two dimensions on the two sides; whether it is one.
bool transpose(const Tensor& from, const Tensor& to) {
  const Device device = to.device();
  Driver& driver = driver_of(device);
  const Dialect& dialect = driver.dialect(device.index);
  if (!dialect.vectors) return false;  // neighbouring threads would write far apart
  Space space{to.shape(),
              {broadcast_strides(from.shape(), from.strides(), to.shape()), to.strides()}};
  space.sort_by(1);
  const size_t rank = space.collapse(0, space.shape.size());
  if (rank < 2 || space.strides[1][rank - 1] != 1 || space.strides[0][rank - 1] == 1) return false;
  size_t line = rank - 1;
  while (line > 0 && space.strides[0][line] != 1) --line;
  if (space.strides[0][line] != 1 || std::min(space.shape[line], space.shape[rank - 1]) < 4)
    return false;
  for (; line < rank - 2; ++line) space.swap(line, line + 1);

  const TransposeWords layout(rank);
  const bool streams = to.itemsize() == 4 && goes_past(to, driver.launch_model(device.index));
  const std::string key = "transpose " + std::to_string(size_of(to.dtype())) + " " +
                          std::to_string(rank) + (streams ? " past" : "");
  BuiltKernel& built = built_kernel(device, key, {2, layout.count()}, [&] {
    return whole_source(transpose_source(to.dtype(), rank, streams, kKernelName, dialect), dialect);
  });
  SmallVec<int64_t, 48> words(layout.count());
  const Tensor* sides[] = {&from, &to};
  for (size_t d = 0; d < rank; ++d) words[layout.size(d)] = space.shape[d];
  for (const size_t side : {size_t{0}, size_t{1}}) {
    words[layout.first(side)] = first_element(*sides[side]);
    for (size_t d = 0; d < rank; ++d) words[layout.stride(side, d)] = space.strides[side][d];
  }
  int64_t threads = 1;
  for (size_t d = 0; d < rank; ++d)
    threads *= d + 2 < rank ? space.shape[d] : ceil_div(space.shape[d], kSquare);
  const Buffer* memory[] = {&from.storage().buffer, &to.storage().buffer};
  driver.launch(built, device.index, memory, {words.data(), words.size()}, threads);
  return true;
}

// Whether the driver copies it best: on a CPU it does so in one thread.
bool is_one_piece(const Tensor& from, const Tensor& to) {
  constexpr int64_t kMostBytes = 1 << 17;
  const Device device = to.device();
  if (from.device() != device || from.shape() != to.shape() || !from.is_contiguous() ||
      !to.is_contiguous())
    return false;
  return to.numel() * static_cast<int64_t>(to.itemsize()) <= kMostBytes ||
         driver_of(device).launch_model(device.index).by_element();
}

// To memory of the same dtype.
void copy_bits(const Tensor& from, const Tensor& to) {
  if (is_one_piece(from, to)) return copy_between(from, to);
  const DType bits = MapKernel::bits_type(to.dtype());
  if (to.dtype() == DType::Complex128) {
    for (const int64_t part : {0, 1}) copy_bits(part_of(from, bits, part), part_of(to, bits, part));
    return;
  }
  const Tensor source = from.view_as(bits, from.shape(), from.strides(), from.offset());
  const Tensor target = to.view_as(bits, to.shape(), to.strides(), to.offset());
  if (!is_number(source) && transpose(source, target)) return;
  run_fused(single_op(OpId::copy, bits, {&source, 1}, bits, to.shape()), {&source, 1},
            {&target, 1});
}

// Where the language lacks one of the two dtypes.
void convert_by_host(const Tensor& from, const Tensor& to) {
  const Tensor dense = contiguous_in(from, from.dtype());
  const Tensor host = Tensor::empty(from.shape(), from.dtype()),
               made = Tensor::empty(from.shape(), to.dtype()),
               there = Tensor::empty(from.shape(), to.dtype(), to.device());
  copy_between(dense, host);
  kernels_of({}).copy_into(host, made);
  copy_between(made, there);
  copy_into(there, to);
}

// Whether either part of each number is not 0.
void test_parts(const Tensor& from, const Tensor& to) {
  Tensor are[2];
  for (const int64_t part : {0, 1})
    are[part] = converted(part_of(from, real_of(from.dtype()), part), DType::Bool);
  run_fused(single_op(OpId::logical_or, DType::Bool, are, DType::Bool, to.shape()), are, {&to, 1});
}

void convert_into(const Tensor& from, const Tensor& to) {
  const Dialect& dialect = dialect_on(to.device());
  if (!dialect.holds(from.dtype()) || !dialect.holds(to.dtype())) return convert_by_host(from, to);
  if (!is_complex(from.dtype()) && !is_complex(to.dtype()))
    return run_fused(single_op(OpId::cast, from.dtype(), {&from, 1}, to.dtype(), to.shape()),
                     {&from, 1}, {&to, 1});
  if (is_bool(to.dtype())) return test_parts(from, to);
  const DType have = real_of(from.dtype()), want = real_of(to.dtype());
  for (const int64_t part : {0, 1}) {
    if (part == 1 && !is_complex(to.dtype())) return;
    const Tensor target = is_complex(to.dtype()) ? part_of(to, want, part) : to;
    if (!is_complex(from.dtype())) {
      copy_into(part == 0 ? from : Tensor::scalar(0.0), target);
    } else {
      copy_into(part_of(from, have, part), target);
    }
  }
}

}  // namespace

Tensor part_of(const Tensor& x, DType dtype, int64_t part) {
  Dims strides(x.strides());
  for (int64_t& s : strides) s *= 2;
  return x.view_as(dtype, x.shape(), strides, 2 * x.offset() + part);
}

void run_elementwise(const KernelCall& call) {
  require(!divides_by_zero(call), ErrorKind::Runtime, name_of(call.op), ": division by zero");
  std::vector<Tensor> operands(call.inputs.begin(), call.inputs.end());
  const Tensor& out = call.outputs[0];
  for (size_t i = 0; i < operands.size(); ++i)
    if (is_number(operands[i]))
      operands[i] = operand_number(operands[i], call.op, call.compute, i == 0);
    else if (operands[i].dtype() != call.compute &&
             !dialect_on(out.device()).holds(operands[i].dtype()))  // one element, of less weight
      operands[i] = converted(operands[i], call.compute);
  run_fused(single_op(call.op, call.compute, operands, out.dtype(), out.shape()), operands,
            call.outputs);
}

void copy_into(const Tensor& from, const Tensor& to) {
  if (to.numel() == 0) return;
  const Tensor source = is_number(from) ? number_as(from, to.dtype()) : from;
  source.dtype() == to.dtype() ? copy_bits(source, to) : convert_into(source, to);
}

Tensor converted(const Tensor& x, DType dtype) {
  if (x.dtype() == dtype) return x;
  const Tensor out = Tensor::empty(x.shape(), dtype, x.device());
  copy_into(x, out);
  return out;
}

Tensor contiguous_in(const Tensor& x, DType dtype) {
  if (x.dtype() != dtype || x.is_contiguous()) return converted(x, dtype);
  const Tensor out = Tensor::empty(x.shape(), dtype, x.device());
  copy_into(x, out);
  return out;
}

void run_copy(const KernelCall& call) { copy_into(call.inputs[0], call.outputs[0]); }

void run_reshape(const KernelCall& call) {
  const Tensor &x = call.inputs[0], &out = call.outputs[0];
  copy_into(x, out.view(x.shape(), contiguous_strides(x.shape()), out.offset()));
}

void run_fill(const KernelCall& call) {
  AttrReader read(call.attrs);
  read.list();
  const DType dtype = read.dtype();
  const double real = read.real();
  const int64_t whole = read.integer();
  if (is_complex(dtype)) {
    const DType part = real_of(dtype);
    copy_into(Tensor::scalar(real), part_of(call.outputs[0], part, 0));
    return copy_into(Tensor::scalar(read.real()), part_of(call.outputs[0], part, 1));
  }
  copy_into(is_integral(dtype) ? Tensor::scalar(whole) : Tensor::scalar(real), call.outputs[0]);
}

// ---- movement

namespace {

// From `begin` up to `end` in each dimension.
Tensor window(const Tensor& x, const Dims& begin, const Dims& end) {
  Dims shape(x.shape());
  int64_t offset = x.offset();
  for (size_t d = 0; d < shape.size(); ++d) {
    shape[d] = end[d] - begin[d];
    offset += begin[d] * x.stride(d);
  }
  return x.view(shape, x.strides(), offset);
}

}  // namespace

void run_flip(const KernelCall& call) {
  const Tensor& x = call.inputs[0];
  Dims strides(x.strides());
  int64_t offset = x.offset();
  for (const int64_t dim : AttrReader(call.attrs).list()) {
    const auto d = static_cast<size_t>(dim);
    offset += std::max<int64_t>(0, x.size(d) - 1) * strides[d];
    strides[d] = -strides[d];
  }
  copy_into(x.view(x.shape(), strides, offset), call.outputs[0]);
}

void run_cat(const KernelCall& call) {
  const auto d = static_cast<size_t>(AttrReader(call.attrs).integer());
  const Tensor& out = call.outputs[0];
  Dims begin(out.shape().size()), end(out.shape());
  for (const Tensor& x : call.inputs) {
    if (x.numel() == 0) continue;
    end[d] = begin[d] + x.size(d);
    copy_into(x, window(out, begin, end));
    begin[d] = end[d];
  }
}

void run_update(const KernelCall& call) {
  const Tensor& out = call.outputs[0];
  AttrReader read(call.attrs);
  const std::span<const int64_t> size = read.list(), stride = read.list();
  copy_into(call.inputs[0], out);
  copy_into(call.inputs[1], out.view(size, stride, out.offset() + read.integer()));
}

void run_pad(const KernelCall& call) {
  const Tensor &x = call.inputs[0], &out = call.outputs[0];
  AttrReader read(call.attrs);
  const std::span<const int64_t> pad = read.list();
  copy_into(Tensor::scalar(read.real()), out);
  Dims from(x.shape().size()), to(x.shape()), begin(out.shape().size()), end(out.shape());
  for (size_t d = 0; d < begin.size(); ++d) {
    const int64_t before = pad[2 * d], after = pad[2 * d + 1];
    from[d] = std::max<int64_t>(0, -before);
    to[d] = x.size(d) - std::max<int64_t>(0, -after);
    begin[d] = std::max<int64_t>(0, before);
    end[d] = out.size(d) - std::max<int64_t>(0, after);
    if (to[d] <= from[d]) return;
  }
  copy_into(window(x, from, to), window(out, begin, end));
}

}  // namespace tinyt::gpu
