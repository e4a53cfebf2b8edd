#include "core/ops/dispatch.h"

#include <algorithm>
#include <vector>

#include "core/base/backend_error.h"
#include "core/graph/capture_log.h"
#include "core/graph/graph.h"
#include "core/graph/lazy.h"
#include "core/ops/fallback.h"
#include "core/ops/infer.h"
#include "core/ops/kernels.h"

namespace tinyt {

namespace {

// Such tensors of the CPU may stand beside others in elementwise operations and copies.
bool is_number(const Tensor& t) { return t.rank() == 0 && t.device() == Device{}; }

[[gnu::noinline]] Device device_beside_numbers(OpId op, std::span<const Tensor> inputs) {
  const bool is_scalar_op = info(op).kind == OpKind::Scalar;
  const Device device = std::ranges::find_if_not(inputs, is_number)->device();
  for (const Tensor& t : inputs)
    if (t.device() != device && !(is_scalar_op && is_number(t)))
      fail(ErrorKind::Device, name_of(op), ": all operands must be on one device, got ",
           name_of(device), " and ", name_of(t.device()));
  return device;
}

}  // namespace

Device device_of_call(OpId op, std::span<const Tensor> inputs, const Attrs& attrs) {
  if (has_flag(op, op_flags::on_device)) return device_in(op, attrs);
  const Device device = inputs[0].device();
  for (const Tensor& t : inputs)
    if (t.device() != device) [[unlikely]]
      return device_beside_numbers(op, inputs);
  return device;
}

namespace {

void run_kernel(OpId op, Device device, std::span<const Tensor> inputs,
                std::span<const Tensor> outputs, const Inferred& inferred) {
  eager_kernels_of(device).row(op)({op, inputs, outputs, inferred.attrs, inferred.compute});
}

bool have_dtype(std::span<const Tensor> inputs, DType dtype) {
  return std::all_of(inputs.begin(), inputs.end(),
                     [dtype](const Tensor& t) { return t.dtype() == dtype; });
}

Outputs execute_several(OpId op, Device device, std::span<const Tensor> inputs,
                        const Inferred& inferred, const Tensor* into) {
  const int count = info(op).outputs;
  Tensor all[kMostOutputs];  // in one row, as kernels take them
  for (int i = 0; i < count; ++i)
    all[i] = i == 0 && into ? *into : Tensor::empty(inferred.shape[i], inferred.dtype[i], device);
  run_kernel(op, device, inputs, {all, static_cast<size_t>(count)}, inferred);
  Outputs out(count);
  for (int i = 0; i < count; ++i) out[i] = std::move(all[i]);
  return out;
}

// The first output is written into `into` where that is given.
Outputs execute(OpId op, std::span<const Tensor> inputs, Inferred& inferred,
                const Tensor* into = nullptr) {
  if (inferred.is_view)
    return inputs[0].view_as(inferred.dtype[0], inferred.shape[0], inferred.strides,
                             inferred.offset);
  const Device device = device_of_call(op, inputs, inferred.attrs);
  const bool has_kernel = eager_kernels_of(device).takes(op, inferred.compute);
  if (!has_kernel || (info(op).inputs < 0 && binds_too_many(op, inputs.size(), device)))
      [[unlikely]] {
    Outputs out = has_kernel ? run_in_parts(op, inputs, inferred.attrs, device)
                             : run_without_kernel(op, inputs, inferred, device);
    if (into) copy_into(name_of(op), out.first, *into);
    return out;
  }
  if (has_flag(op, op_flags::dynamic_shape))
    inferred.shape[0][0] = count_nonzero(op, inputs.back());
  if (info(op).outputs > 1) return execute_several(op, device, inputs, inferred, into);
  Tensor out = into ? *into : Tensor::empty(inferred.shape[0], inferred.dtype[0], device);
  const std::span<const Tensor> outputs{&out, 1};
  if (op != OpId::cat || have_dtype(inputs, inferred.compute)) {
    run_kernel(op, device, inputs, outputs, inferred);
  } else {
    // The one structural op whose operands promote: bring them to one dtype first.
    std::vector<Tensor> same(inputs.begin(), inputs.end());
    for (Tensor& t : same) t = cast(t, inferred.compute);
    run_kernel(op, device, same, outputs, inferred);
  }
  return out;
}

// Of what a function that could not be recorded has left behind.
constexpr const char* kLeft =
    ": it was recorded, and what recorded it has left it in an object or list; set that anew, and "
    "keep tensors outside of the recorded function";

// Before the memory of operands is read.
void check_recorded(OpId op, std::span<const Tensor> inputs) {
  for (const Tensor& t : inputs) {
    if (t.is_recorded())
      fail(ErrorKind::Capture, name_of(op), ": a recorded tensor was used after its recording",
           kLeft);
    materialize(t);
  }
}

// An output that shares memory with an input is fine only as exactly that input.
void check_overlap(OpId op, std::span<const Tensor> inputs, const Tensor& out) {
  for (const Tensor& t : inputs)
    if (ranges_overlap(t, out) && !same_view(t, out))
      fail(ErrorKind::Runtime, name_of(op), ": out overlaps an input in memory (shape ",
           out.shape(), " and ", t.shape(), "); clone one of them first");
}

// A scatter into its own first input writes only what it changes, when it reads nothing else there.
bool writes_over_input(OpId op, std::span<const Tensor> inputs, const Tensor& out) {
  if (!has_flag(op, op_flags::inplace_first) || !same_view(inputs[0], out)) return false;
  for (const Tensor& t : inputs.subspan(1))
    if (ranges_overlap(t, out)) return false;
  return true;
}

// Kernels write contiguous memory of the result's dtype that no input lies in.
bool takes_result(OpId op, std::span<const Tensor> inputs, const Inferred& inferred,
                  const Tensor& out) {
  if (inferred.is_view || has_flag(op, op_flags::dynamic_shape) || !out.is_contiguous() ||
      out.dtype() != inferred.dtype[0])
    return false;
  for (const Tensor& t : inputs)
    if (ranges_overlap(t, out) || t.device() != out.device()) return false;
  return true;
}

void check_out(OpId op, const Inferred& inferred, const Tensor& out) {
  if (!can_cast(inferred.dtype[0], out.dtype()))
    fail(ErrorKind::DType, name_of(op), ": result type ", name_of(inferred.dtype[0]),
         " cannot be cast to out's ", name_of(out.dtype()));
  if (!(inferred.shape[0] == out.shape()))
    fail(ErrorKind::Shape, name_of(op), ": the result has shape ", inferred.shape[0], ", out has ",
         out.shape());
}

Outputs record(Graph& graph, OpId op, std::span<const Tensor> inputs, const Attrs& attrs,
               Attrs* normalised) {
  CaptureLog::Scope scope(&graph);
  Inferred inferred;
  infer(op, inputs, attrs, inferred);
  inferred.attrs.formulas.clear();
  if (normalised) *normalised = inferred.attrs;
  Outputs out = graph.record(op, inputs, inferred);
  if (CaptureLog* log = scope.done()) log->call(op, inputs, attrs, out, normalised);
  return out;
}

}  // namespace

Outputs dispatch(OpId op, std::span<const Tensor> inputs, const Attrs& attrs,
                 Attrs* normalised) try {
  if (Graph* graph = recording()) [[unlikely]]
    return record(*graph, op, inputs, attrs, normalised);
  Inferred inferred;
  infer(op, inputs, attrs, inferred);
  if (normalised) *normalised = inferred.attrs;
  if (Lazy* lazy = lazily()) [[unlikely]] {
    if (Outputs out; lazy->record(op, inputs, attrs, inferred, out)) return out;
    const PausedRecording paused;  // it runs as elsewhere
    return dispatch(op, inputs, attrs);
  }
  if (!inferred.is_view || inputs[0].is_recorded()) check_recorded(op, inputs);
  return execute(op, inputs, inferred);
} catch (BackendError& error) {
  error.name_op(name_of(op));
  throw;
}

void dispatch_into(OpId op, std::span<const Tensor> inputs, const Attrs& attrs,
                   const Tensor& out) try {
  CaptureLog::Scope scope(recording());
  Inferred inferred;
  infer(op, inputs, attrs, inferred);
  check_out(op, inferred, out);
  require_writable(name_of(op), out);
  check_overlap(op, inputs, out);
  if (Graph* graph = recording()) [[unlikely]] {
    inferred.attrs.formulas.clear();
    graph->write(out, graph->record(op, inputs, inferred).first);
    if (CaptureLog* log = scope.done()) log->into(op, inputs, attrs, out);
    return;
  }
  if (Lazy* lazy = lazily()) [[unlikely]] {
    if (lazy->record_into(op, inputs, attrs, out)) return;
    const PausedRecording paused;
    return dispatch_into(op, inputs, attrs, out);
  }
  check_recorded(op, inputs);
  settle_for_write(out);
  const Device device = device_of_call(op, inputs, inferred.attrs);
  if (device != out.device()) [[unlikely]]
    fail(ErrorKind::Device, name_of(op), ": out is on ", name_of(out.device()),
         ", the operands on ", name_of(device));
  const bool in_place = info(op).kind == OpKind::Scalar || writes_over_input(op, inputs, out);
  if (in_place && eager_kernels_of(device).takes(op, inferred.compute)) [[likely]] {
    run_kernel(op, device, inputs, {&out, 1}, inferred);
  } else if (takes_result(op, inputs, inferred, out)) {
    execute(op, inputs, inferred, &out);
  } else {
    const Tensor result = execute(op, inputs, inferred).first;
    copy_into(name_of(op), result, out);
  }
  out.count_write();
} catch (BackendError& error) {
  error.name_op(name_of(op));
  throw;
}

void dispatch_out(OpId op, std::span<const Tensor> inputs, const Attrs& attrs, Tensor& out) {
  if (out.numel() == 0 && !recording() && !has_flag(op, op_flags::dynamic_shape)) {
    Inferred inferred;
    infer(op, inputs, attrs, inferred);
    if (!(inferred.shape[0] == out.shape()) && can_cast(inferred.dtype[0], out.dtype()))
      out = Tensor::empty(inferred.shape[0], out.dtype(), out.device());
  }
  dispatch_into(op, inputs, attrs, out);
}

void assign(const Tensor& to, const Tensor& from) try {
  CaptureLog::Scope scope(recording());
  const Dims shape = broadcast("copy_", to.shape(), from.shape());
  if (!(shape == to.shape()))
    fail(ErrorKind::Shape, "copy_: shape ", from.shape(), " does not broadcast to ", to.shape());
  require_writable("copy_", to);
  if (Graph* graph = recording()) [[unlikely]] {
    graph->write(to, from);
    if (CaptureLog* log = scope.done()) log->assign(to, from);
    return;
  }
  if (Lazy* lazy = lazily()) [[unlikely]] {
    if (lazy->record_assign(to, from)) return;
    const PausedRecording paused;
    return assign(to, from);
  }
  check_recorded(OpId::copy, {&from, 1});
  settle_for_write(to);
  if (!same_view(to, from)) {
    const bool overlap = ranges_overlap(to, from);
    Tensor source = overlap ? dispatch(OpId::copy, {&from, 1}).first : from;
    if (from.device() != to.device() && !is_number(from)) [[unlikely]]
      source = to_device(from, to.device());
    copy_into("copy_", source, to);
  }
  to.count_write();
} catch (BackendError& error) {
  error.name_op("copy_");
  throw;
}

Tensor contiguous(const Tensor& x) {
  return x.is_contiguous() ? x : dispatch(OpId::copy, {&x, 1}).first;
}

Tensor cast(const Tensor& x, DType dtype) {
  if (x.dtype() == dtype) return x;
  Attrs attrs;
  attrs.add(dtype);
  return dispatch(OpId::cast, {&x, 1}, attrs).first;
}

Tensor to_device(const Tensor& x, Device device) {
  if (x.device() == device) return x;
  Attrs attrs;
  attrs.add(code_of(device));
  return dispatch(OpId::to_device, {&x, 1}, attrs).first;
}

void require_readable(std::string_view op, const Tensor& x) {
  materialize(x.observe_shape());
  const Graph* graph = recording();
  if (!graph && x.is_recorded()) fail(ErrorKind::Capture, op, ": the tensor has no value", kLeft);
  if (x.is_recorded() || (graph && graph->has_written(x)))
    fail(ErrorKind::Capture, op, ": the value is not known while recording; return it from the ",
         "recorded function and look at it outside");
}

void require_writable(std::string_view op, const Tensor& x) {
  if (x.storage().read_only)
    fail(ErrorKind::Runtime, op, ": the memory is read-only (it belongs to a read-only array)");
  if (may_self_overlap(x.shape(), x.strides()))
    fail(ErrorKind::Runtime, op, ": cannot write to an expanded tensor, shape ", x.shape(),
         " with strides ", x.strides(), " has several indices on one element; clone it first");
}

}  // namespace tinyt
