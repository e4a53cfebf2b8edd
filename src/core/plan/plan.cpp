#include "core/plan/plan.h"

namespace tinyt {

std::string_view Plan::name(const Step& step) const {
  switch (step.kind) {
    case Kind::Op:
      return name_of(step.op);
    case Kind::ExternalOp:
      return names[step.index];
    default:
      return "copy";
  }
}

FrontProduct Plan::front_of(const Product& product, std::span<const Tensor> inputs) const {
  return {product.kernel,
          {product.op,
           inputs.first(product.inputs),
           {&product.result, 1},
           attrs[product.attrs],
           product.compute},
          product.operand};
}

void Plan::run_region(Region& region, std::span<const Tensor> inputs,
                      std::span<const Tensor> outputs) const {
  if (!region.product) return region.kernel->run(inputs, outputs, nullptr);
  const FrontProduct front = front_of(*region.product, inputs);
  region.kernel->run(inputs.subspan(region.product->inputs), outputs, &front);
}

size_t Plan::scratch_of(const Region& region, std::span<const Tensor> inputs,
                        std::span<const Tensor> outputs) const {
  if (!region.product) return region.kernel->workspace(inputs, outputs, nullptr);
  const FrontProduct front = front_of(*region.product, inputs);
  return region.kernel->workspace(inputs.subspan(region.product->inputs), outputs, &front);
}

}  // namespace tinyt
