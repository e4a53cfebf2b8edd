// A GPU backend as a device: what it shares with the others, by its driver.
#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "core/base/error.h"
#include "core/graph/fusion_target.h"
#include "core/ops/kernels.h"
#include "core/ops/to_device.h"
#include "gpu/driver.h"
#include "gpu/kernels.h"
#include "gpu/launch.h"
#include "gpu/operation.h"
#include "gpu/scalar_source.h"

namespace tinyt::gpu {

namespace {

std::array<std::atomic<Driver*>, kMaxDeviceKinds> g_drivers{};

// Whether the language has an operation, computed in a dtype.
bool has_definition(const Dialect& dialect, OpId op, DType compute) {
  if (is_complex(compute)) return false;
  const ScalarDefinition* found = definition_in(dialect, op, info(compute).compute);
  return found != nullptr;
}

// Whether there is a kernel of an operation, where it has one at all, in the dtype that the call
// computes in.
bool has_kernel(const Dialect& dialect, OpId op, DType compute) {
  using enum OpId;
  constexpr OpId kCompare[] = {sort, topk, kthvalue, median, searchsorted};
  constexpr OpId kOfReals[] = {
      scatter_add,         scatter_reduce,       cumsum,     cumprod, matmul, conv,
      conv_backward_input, conv_backward_weight, matmul_add, linear};
  if (info(op).kind == OpKind::Scalar)
    return dialect.holds(compute) && has_definition(dialect, op, compute);
  const auto is_in = [op](std::span<const OpId> ops) {
    return std::ranges::find(ops, op) != ops.end();
  };
  // By their bits, or by the host where the language lacks the dtype.
  const bool moves = has_flag(op, op_flags::moves) || has_flag(op, op_flags::view);
  if ((moves && !is_in(kCompare)) || has_flag(op, op_flags::random)) return true;
  const bool of_reals = info(op).kind == OpKind::Reduce || is_in(kOfReals);
  return dialect.holds(compute) && !(of_reals && is_complex(compute));
}

// ---- names of what kernels are launched for

std::array<std::atomic<const Kernels*>, kMaxDeviceKinds> g_unnamed{};

// A row's kernel, which finds the operation's name.
void run_named(const KernelCall& call) {
  const auto is_on_device = [](const Tensor& t) { return t.device() != Device{}; };
  const auto out = std::ranges::find_if(call.outputs, is_on_device);
  const Tensor& known =
      out != call.outputs.end() ? *out : *std::ranges::find_if(call.inputs, is_on_device);
  const OperationScope named(name_of(call.op).data());
  g_unnamed[static_cast<size_t>(known.device().kind)]
      .load(std::memory_order_acquire)
      ->row(call.op)(call);
}

void copy_named(const Tensor& from, const Tensor& to) {
  const OperationScope named(t_operation != nullptr ? t_operation : "copy");
  copy_into(from, to);
}

int64_t count_named(const Tensor& x) {
  const OperationScope named("nonzero");
  return count_nonzero(x);
}

Kernels named_kernels(const Kernels& unnamed) {
  Kernels named = unnamed;
  for (Kernel& kernel : named.rows)
    if (kernel != nullptr && kernel != copy_to_device) kernel = run_named;
  named.copy_into = copy_named;
  named.count_nonzero = count_named;
  return named;
}

// "mul+add": the operations of a fused kernel, each once. Such texts are few, and stay.
const char* name_of_fused(const FusedKernel& kernel) {
  static std::mutex& mutex = *new std::mutex;
  static auto& names = *new std::set<std::string>;
  constexpr size_t kNamed = 6;
  std::vector<std::string_view> parts;
  for (const FusedKernel::Op& op : kernel.ops)
    if (std::ranges::find(parts, name_of(op.op)) == parts.end()) parts.push_back(name_of(op.op));
  std::string text;
  for (size_t i = 0; i < std::min(parts.size(), kNamed); ++i)
    text.append(i > 0 ? "+" : "").append(parts[i]);
  if (parts.size() > kNamed) text += "+...";
  const std::lock_guard<std::mutex> lock(mutex);
  return names.insert(std::move(text)).first->c_str();
}

// ---- fused kernels

class GpuKernel final : public CompiledKernel {
 public:
  explicit GpuKernel(const FusedKernel& kernel) : kernel_(kernel), name_(name_of_fused(kernel)) {
    for (int v = 0; v < kernel.loads; ++v) {
      const DType dtype = kernel.values[static_cast<size_t>(v)].dtype;
      operands_.push_back({v, dtype, dtype});
    }
  }
  void lay_out(std::span<Tensor>, FunctionRef<Tensor(const Tensor&)>) override {}
  bool may_replace(size_t, size_t) const override { return false; }
  void run(std::span<const Tensor> operands, std::span<const Tensor> stores,
           const FrontProduct*) override {
    if (are_empty(stores)) return;
    const OperationScope named(name_);
    if (!launch_) launch_.emplace(kernel_, operands, stores);  // the same geometry at each run
    launch_->run(operands, stores);
  }

 private:
  const FusedKernel kernel_;
  const char* const name_;
  std::optional<FusedLaunch> launch_;
};

class GpuTarget final : public FusionTarget {
 public:
  explicit GpuTarget(Driver& driver)
      : dialect_(driver.dialect(0)),
        limits_{.ops = 64,
                .buffers = driver.most_buffers(),
                .reductions = true,
                .row_bytes = std::min(kLongestRow, driver.launch_model(0).most_turns / kPasses)} {
    for (int i = 0; i < driver.device_count(); ++i)
      argument_bytes_ = std::min(argument_bytes_, driver.most_argument_bytes(i));
  }
  const FusionLimits& limits() const override { return limits_; }
  // As many as there is room for in a kernel's arguments.
  size_t most_buffers(size_t rank) const override {
    const size_t most = limits_.buffers == 0 ? kMostBuffers : limits_.buffers;
    const size_t dims = rank + 1;  // one of a single element is added where there are none
    size_t count = 1;
    const auto fits = [&](size_t n) {
      return ArgumentCount{n, WordLayout::most(dims, n)}.bytes() <= argument_bytes_;
    };
    while (count < most && fits(count + 1)) ++count;
    return count;
  }
  bool holds(DType dtype) const override { return dialect_.holds(dtype); }
  bool takes(OpId op, DType compute) const override {
    if (!dialect_.holds(compute)) return false;
    if (has_flag(op, op_flags::value_error) && is_integral(compute)) return false;  // it checks
    if (info(op).kind == OpKind::Scalar) return has_definition(dialect_, op, compute);
    return !is_complex(compute);
  }
  std::shared_ptr<CompiledKernel> compile(const FusedKernel& kernel) const override {
    return std::make_shared<GpuKernel>(kernel);
  }

 private:
  static constexpr int64_t kLongestRow = 1 << 20;  // bytes
  static constexpr int64_t kPasses = 8;            // over a row, by the thread that takes it
  static constexpr size_t kMostBuffers = 256;      // that operations of one kernel have

  const Dialect& dialect_;
  const FusionLimits limits_;
  size_t argument_bytes_ = SIZE_MAX;
};

// ---- kernels

// Whether threads share memory on all devices of a driver, which have one table of kernels: a CPU
// may stand beside a GPU.
bool all_share_memory(Driver& driver) {
  for (int i = 0; i < driver.device_count(); ++i)
    if (!driver.launch_model(i).shares_memory) return false;
  return true;
}

struct Tables {
  Kernels kernels;
  Kernels named;  // the same, by name
  std::array<uint32_t, kOpCount> lacks{};

  explicit Tables(Driver& driver) {
    const Dialect& dialect = driver.dialect(0);
    for (int op = 0; op < kOpCount; ++op) {
      const auto id = static_cast<OpId>(op);
      const OpKind kind = info(id).kind;
      if (kind == OpKind::Scalar) kernels.rows[static_cast<size_t>(op)] = run_elementwise;
      if (kind == OpKind::Reduce) kernels.rows[static_cast<size_t>(op)] = run_reduction;
      for (int t = 0; t < kDTypeCount; ++t)
        if (!has_kernel(dialect, id, static_cast<DType>(t)))
          lacks[static_cast<size_t>(op)] |= uint32_t{1} << t;
    }
    const auto put = [&](Kernel kernel, auto... ops) {
      ((kernels.rows[static_cast<size_t>(ops)] = kernel), ...);
    };
    using enum OpId;
    put(run_copy, cast, copy);
    put(run_reshape, reshape);
    put(run_fill, fill);
    put(run_flip, flip);
    put(run_cat, cat);
    put(run_update, update);
    put(run_pad, pad);
    put(run_pad_border, pad_border);
    put(run_iota, iota);
    put(run_draw, random_bits, uniform, normal);
    put(run_variate, standard_gamma, dirichlet, poisson, binomial, von_mises);
    put(run_gather, gather);
    put(run_scatter, scatter);
    put(run_scatter_add, scatter_add);
    put(run_scatter_reduce, scatter_reduce);
    put(run_linear_index, linear_index);
    put(run_scan, cumsum, cumprod, cummax, cummin, logcumsumexp);
    put(run_argmax, argmax, argmin);
    put(run_max_pool, max_pool);
    put(run_matmul, matmul);
    if (all_share_memory(driver)) {
      put(run_attention, attention);
      put(run_attention_backward, attention_backward);
    }
    put(run_conv, conv);
    put(run_conv_backward_input, conv_backward_input);
    put(run_conv_backward_weight, conv_backward_weight);
    put(run_sort, sort);
    put(run_topk, topk);
    put(run_kthvalue, kthvalue);
    put(run_median, median);
    put(run_searchsorted, searchsorted);
    put(run_nonzero, nonzero);
    put(run_masked_select, masked_select);
    put(run_resample, resample);
    put(run_cholesky, cholesky);
    put(run_solve_triangular, solve_triangular);
    put(copy_to_device, to_device);
    for (const OwnKernel& own : driver.own_kernels()) put(own.run, own.op);
    kernels.lacks = &lacks;
    kernels.copy_into = copy_into;
    kernels.count_nonzero = count_nonzero;
    named = named_kernels(kernels);
  }
};

}  // namespace

Driver& driver_of(Device device) {
  return *g_drivers[static_cast<size_t>(device.kind)].load(std::memory_order_acquire);
}

bool has_driver(DeviceKind kind) { return g_drivers[static_cast<size_t>(kind)] != nullptr; }

DeviceKind register_gpu(std::string_view name, Driver& driver,
                        const std::vector<std::string>& aliases) {
  auto tables = std::make_unique<Tables>(driver);
  auto target = std::make_unique<GpuTarget>(driver);
  const DeviceKind kind = register_device(name, driver, aliases);
  driver.kind_ = kind;
  g_drivers[static_cast<size_t>(kind)].store(&driver, std::memory_order_release);
  register_fusion_target(kind, *target.release());
  g_unnamed[static_cast<size_t>(kind)].store(&tables->kernels, std::memory_order_release);
  register_kernels(kind, tables.release()->named);
  return kind;
}

}  // namespace tinyt::gpu
