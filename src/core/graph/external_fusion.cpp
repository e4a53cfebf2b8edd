#include "core/graph/external_fusion.h"

#include <algorithm>

#include "core/graph/fusion_target.h"
#include "core/ops/external_backend.h"
#include "core/ops/external_calls.h"
#include "core/ops/fallback.h"

namespace tinyt {

namespace {

using namespace external;

// A kernel as C has it, over memory of its own.
struct Description {
  struct Inputs {
    std::vector<int32_t> values, singles;
  };
  Dims shape;
  std::vector<int32_t> loads, stores;
  std::vector<Inputs> inputs;
  std::vector<TinytFusedOp> ops;
  TinytFusedKernel c{};

  explicit Description(const FusedKernel& kernel)
      : shape(kernel.shape), stores(kernel.stores.begin(), kernel.stores.end()) {
    for (int v = 0; v < kernel.loads; ++v)
      loads.push_back(static_cast<int32_t>(kernel.values[v].dtype));
    inputs.resize(kernel.ops.size());
    for (size_t i = 0; i < kernel.ops.size(); ++i) {
      const FusedKernel::Op& op = kernel.ops[i];
      const auto& [dtype, per_row] = kernel.values[kernel.made_by(i)];
      for (const auto& [value, single] : op.in) {
        inputs[i].values.push_back(value);
        inputs[i].singles.push_back(single);
      }
      ops.push_back({name_of(op.op).data(), static_cast<int32_t>(op.compute),
                     static_cast<int32_t>(dtype), per_row, static_cast<int32_t>(op.in.size()),
                     inputs[i].values.data(), inputs[i].singles.data()});
    }
    c = {static_cast<int32_t>(shape.size()),
         static_cast<int32_t>(kernel.reduced),
         shape.data(),
         kernel.loads,
         static_cast<int32_t>(ops.size()),
         loads.data(),
         ops.data(),
         static_cast<int32_t>(stores.size()),
         stores.data()};
  }
  Description(const Description&) = delete;
  Description& operator=(const Description&) = delete;
};

DType checked_dtype(int32_t dtype) {
  require(is_dtype(dtype), ErrorKind::Value, "run_fused_on_cpu: no dtype has number ", dtype);
  return static_cast<DType>(dtype);
}

FusedKernel fused_kernel_of(const TinytFusedKernel& c) {
  require(
      c.rank >= 0 && c.reduced >= 0 && c.load_count >= 0 && c.op_count >= 0 && c.store_count >= 0,
      ErrorKind::Value, "run_fused_on_cpu: a count is negative");
  FusedKernel kernel;
  kernel.shape = Dims(std::span(c.shape, static_cast<size_t>(c.rank)));
  kernel.reduced = static_cast<size_t>(c.reduced);
  kernel.loads = c.load_count;
  for (int32_t i = 0; i < c.load_count; ++i)
    kernel.values.push_back({checked_dtype(c.loads[i]), false});
  for (const TinytFusedOp& op : std::span(c.ops, static_cast<size_t>(c.op_count))) {
    const std::optional<OpId> id = find_op(op.op);
    require(id.has_value(), ErrorKind::Value, "run_fused_on_cpu: there is no operation ", op.op);
    kernel.values.push_back({checked_dtype(op.dtype), op.per_row != 0});
    kernel.ops.push_back({*id, checked_dtype(op.compute), {}});
    for (int32_t k = 0; k < op.input_count; ++k)
      kernel.ops.back().in.push_back({op.inputs[k], op.singles[k] != 0});
  }
  kernel.stores.assign(c.stores, c.stores + c.store_count);
  verify(kernel);
  return kernel;
}

void run_fused_on_cpu(const TinytFusedKernel& c, const TinytTensor* operands,
                      const TinytTensor* stores) {
  const FusedKernel kernel = fused_kernel_of(c);
  const std::vector<Tensor> made = interpret(kernel, host_tensors(operands, c.load_count));
  const std::vector<Tensor> to = host_tensors(stores, c.store_count);
  for (size_t i = 0; i < made.size(); ++i)
    copy_into("run_fused_on_cpu", made[i],
              to[i].view(made[i].shape(), contiguous_strides(made[i].shape()), to[i].offset()));
}

class ExternalKernel final : public CompiledKernel {
 public:
  ExternalKernel(const TinytBackend& api, const FusedKernel& kernel)
      : api_(api), description_(kernel) {
    for (int v = 0; v < kernel.loads; ++v)
      operands_.push_back({v, kernel.values[v].dtype, kernel.values[v].dtype});
    check(api.fusion->compile(api.context, &description_.c, &compiled_), api.name, "compile");
  }
  ~ExternalKernel() override { api_.fusion->release(api_.context, compiled_); }

  void lay_out(std::span<Tensor>, FunctionRef<Tensor(const Tensor&)>) override {}
  bool may_replace(size_t, size_t) const override { return false; }
  void run(std::span<const Tensor> operands, std::span<const Tensor> stores,
           const FrontProduct*) override {
    const std::vector<TinytTensor> in = tensors_of(operands), out = tensors_of(stores);
    check(api_.fusion->run(api_.context, compiled_, in.data(), out.data()), api_.name,
          "a fused kernel");
  }

 private:
  const TinytBackend& api_;
  const Description description_;
  void* compiled_ = nullptr;
};

class ExternalTarget final : public FusionTarget {
 public:
  explicit ExternalTarget(const TinytBackend& api)
      : api_(api),
        limits_{.ops = api.fusion->ops,
                .buffers = api.most_buffers,
                .reductions = api.fusion->reductions != 0,
                .row_bytes = api.fusion->row_bytes} {}

  const FusionLimits& limits() const override { return limits_; }
  bool takes(OpId op, DType compute) const override {
    return api_.fusion->takes(api_.context, name_of(op).data(), static_cast<int32_t>(compute)) != 0;
  }
  std::shared_ptr<CompiledKernel> compile(const FusedKernel& kernel) const override {
    return std::make_shared<ExternalKernel>(api_, kernel);
  }

 private:
  const TinytBackend& api_;
  const FusionLimits limits_;
};

}  // namespace

void register_external_fusion(DeviceKind kind) {
  register_fused_on_cpu(run_fused_on_cpu);
  const TinytBackend* api = external_backend(kind);
  if (!api || !api->fusion) return;
  const TinytFusion& fusion = *api->fusion;
  require(fusion.takes && fusion.compile && fusion.run && fusion.release, ErrorKind::Runtime,
          "load_backend: ", api->name, " leaves out a function of its fusion");
  // As long as the process lives, as the library itself.
  register_fusion_target(kind, *new ExternalTarget(*api));
}

}  // namespace tinyt
