#include "core/ops/fallback.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <string>

#include "core/base/error.h"
#include "core/device/runtime.h"
#include "core/ops/kernels.h"
#include "core/ops/to_device.h"

namespace tinyt {

namespace {

std::atomic<Decompose> g_decompose{nullptr};
std::atomic<void (*)(const std::string&)> g_warn{nullptr};

bool may_use_host() {
  static const bool asked = [] {
    const char* value = std::getenv("TINYT_HOST_FALLBACK");
    return value && std::string_view(value) == "1";
  }();
  return asked;
}

// What a device lacks: of a row that it has, the dtype.
std::string lack_of(std::string_view op, Device device, std::string_view dtype = "") {
  std::string text(op);
  text += ": no kernel";
  if (!dtype.empty()) text += " for " + std::string(dtype);
  return text + " on " + std::string(name_of(device));
}

// Whether a device computes on the real and imaginary parts of complex numbers.
bool takes_parts(DType compute, Device device) {
  return kernels_of(device).takes(OpId::add, real_of(compute));
}

bool is_of_parts(OpId op, DType compute) {
  return is_complex(compute) && has_flag(op, op_flags::complex);
}

// Before a call runs on the CPU instead: NotImplementedError where that is not wanted, or there are
// no elements to take there.
void leave_device(const std::string& lack, Device device, std::atomic<bool>& warned) {
  require(may_use_host() && runtime_of(device).has_memory(), ErrorKind::NotImplemented, lack,
          " (TINYT_HOST_FALLBACK=1 runs it on the CPU)");
  if (warned.exchange(true)) return;
  if (auto* warn = g_warn.load())
    warn(lack + ": it runs on the CPU, with copies there and back (TINYT_HOST_FALLBACK=1)");
}

std::array<std::atomic<bool>, kOpCount> g_warned{};
std::atomic<bool> g_copy_warned{false}, g_count_warned{false};

// The piece of memory that a tensor sees, as a tensor of one dimension.
Tensor piece_of(const Tensor& t) {
  const auto [first, end] = element_range(t);
  return t.view(Dims{end - first}, Dims{1}, first);
}

// A tensor of the same geometry over a copy of a piece.
Tensor seen_in(const Tensor& piece, const Tensor& like) {
  return piece.view(like.shape(), like.strides(), like.offset() - element_range(like).first);
}

Tensor copied(const Tensor& dense, Device device) {
  const Tensor out = Tensor::empty(dense.shape(), dense.dtype(), device);
  copy_between(dense, out);
  return out;
}

// With the same strides.
Tensor on_host(const Tensor& t) {
  if (t.device() == Device{}) return t;
  if (t.numel() == 0) return Tensor::empty(t.shape(), t.dtype());
  return seen_in(copied(piece_of(t), {}), t);
}

Outputs run_on_host(OpId op, std::span<const Tensor> inputs, const Inferred& inferred,
                    Device device) {
  std::vector<Tensor> operands, results;
  for (const Tensor& t : inputs)
    operands.push_back(op == OpId::cat ? cast(on_host(t), inferred.compute) : on_host(t));
  Dims first = inferred.shape[0];
  if (has_flag(op, op_flags::dynamic_shape)) first[0] = count_nonzero(op, operands.back());
  const int count = info(op).outputs;
  for (int i = 0; i < count; ++i)
    results.push_back(Tensor::empty(i == 0 ? first : inferred.shape[i], inferred.dtype[i]));
  kernels_of({}).row(op)({op, operands, results, inferred.attrs, inferred.compute});
  Outputs out(count);
  for (int i = 0; i < count; ++i) out[i] = copied(results[static_cast<size_t>(i)], device);
  return out;
}

bool shares_memory(const Tensor& t, std::span<const Tensor> with) {
  return std::ranges::any_of(with, [&](const Tensor& x) { return &x.storage() == &t.storage(); });
}

Outputs run_decomposed(Decompose decompose, OpId op, std::span<const Tensor> inputs,
                       const Inferred& inferred, Device device) {
  const std::vector<Tensor> results = decompose(op, inputs, inferred.attrs, device);
  const int count = info(op).outputs;
  require(std::ssize(results) == count, ErrorKind::Runtime, name_of(op),
          ": its decomposition gives ", results.size(), " results, not ", count);
  Outputs out(count);
  for (int i = 0; i < count; ++i) {
    const Tensor& t = results[static_cast<size_t>(i)];
    require(t.shape() == inferred.shape[i] && t.dtype() == inferred.dtype[i], ErrorKind::Runtime,
            name_of(op), ": result ", i, " of its decomposition is ", name_of(t.dtype()), t.shape(),
            ", not ", name_of(inferred.dtype[i]), inferred.shape[i]);
    const bool fresh = t.is_contiguous() && !shares_memory(t, inputs) &&
                       !shares_memory(t, std::span(results).first(static_cast<size_t>(i)));
    out[i] = to_device(fresh ? t : dispatch(OpId::copy, {&t, 1}).first, device);
  }
  return out;
}

}  // namespace

void register_decompose(Decompose decompose) { g_decompose = decompose; }
void register_warning(void (*warn)(const std::string&)) { g_warn = warn; }

Outputs run_without_kernel(OpId op, std::span<const Tensor> inputs, const Inferred& inferred,
                           Device device) {
  Decompose decompose = g_decompose;
  if (has_flag(op, op_flags::fused) && decompose)
    return run_decomposed(decompose, op, inputs, inferred, device);
  const DType compute = inferred.compute;
  const bool of_parts = is_of_parts(op, compute);
  if (of_parts && decompose && takes_parts(compute, device)) try {
      return run_decomposed(decompose, op, inputs, inferred, device);
    } catch (const Error& error) {  // names the operation on parts, which the user has not called
      if (error.kind() != ErrorKind::NotImplemented) throw;
      fail(error.kind(), name_of(op), " of ", name_of(compute), " by its parts: ", error.what());
    }
  const bool has_row = kernels_of(device).row(op) != nullptr;
  std::string lack = lack_of(name_of(op), device, has_row ? name_of(compute) : "");
  if (has_row && of_parts) lack += ", nor for " + std::string(name_of(real_of(compute)));
  leave_device(lack, device, g_warned[static_cast<size_t>(op)]);
  return run_on_host(op, inputs, inferred, device);
}

bool binds_too_many(OpId op, size_t inputs, Device device) {
  if (device == Device{} || (op != OpId::cat && op != OpId::sum_squares)) return false;
  const size_t most = runtime_of(device).most_buffers();
  return most > 0 && inputs + 1 > most;
}

Outputs run_in_parts(OpId op, std::span<const Tensor> inputs, const Attrs& attrs, Device device) {
  const size_t at_once = std::max<size_t>(2, runtime_of(device).most_buffers() - 1);
  std::vector<Tensor> parts;
  for (; !inputs.empty(); inputs = inputs.subspan(std::min(at_once, inputs.size())))
    parts.push_back(dispatch(op, inputs.first(std::min(at_once, inputs.size())), attrs).first);
  return dispatch(OpId::cat, parts, op == OpId::cat ? attrs : Attrs().add(0));
}

namespace {

void run_fallback(const KernelCall& call) {
  const Device device = call.outputs[0].device();
  Inferred inferred;
  infer(call.op, call.inputs, call.attrs, inferred);
  Outputs out = binds_too_many(call.op, call.inputs.size(), device)
                    ? run_in_parts(call.op, call.inputs, call.attrs, device)
                    : run_without_kernel(call.op, call.inputs, inferred, device);
  for (size_t i = 0; i < call.outputs.size(); ++i)
    copy_between(out[static_cast<int>(i)], call.outputs[i]);
}

}  // namespace

Kernel kernel_of(OpId op, DType compute, size_t inputs, Device device) {
  const Kernels& kernels = kernels_of(device);
  const bool runs = kernels.takes(op, compute) && !binds_too_many(op, inputs, device);
  return runs ? kernels.row(op) : run_fallback;
}

void copy_into(std::string_view op, const Tensor& from, const Tensor& to) {
  const Device device = to.device();
  if (const Kernels& kernels = eager_kernels_of(device); kernels.copy_into) [[likely]]
    return kernels.copy_into(from, to);
  if (to.numel() == 0) return;
  leave_device(lack_of(op, device), device, g_copy_warned);
  const Tensor piece = piece_of(to), copy = copied(piece, {});
  kernels_of({}).copy_into(on_host(from), seen_in(copy, to));
  copy_between(copy, piece);
}

int64_t count_nonzero(OpId op, const Tensor& x) {
  const Device device = x.device();
  if (const Kernels& kernels = kernels_of(device); kernels.count_nonzero) [[likely]]
    return kernels.count_nonzero(x);
  leave_device(lack_of(name_of(op), device), device, g_count_warned);
  return kernels_of({}).count_nonzero(on_host(x));
}

}  // namespace tinyt
