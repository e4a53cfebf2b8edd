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

// Inputs are those of its product, then those of its tiles but the product's result.
void Plan::run_region(Region& region, std::span<const Tensor> inputs,
                      std::span<const Tensor> outputs) const {
  const auto& product = region.product;
  size_t next = product ? product->inputs : 0;
  for (size_t i = 0; i < region.operands.size(); ++i) {
    const bool is_made = product && product->operand == static_cast<int>(i);
    region.operands[i].data = (is_made ? product->result : inputs[next++]).data();
  }
  for (size_t i = 0; i < region.outputs.size(); ++i) region.outputs[i] = outputs[i].data();
  if (!product)
    return fusion_target_of({}).run_tiles(region.tiles, region.operands, region.space,
                                          region.outputs);
  fusion_target_of({}).run_product(product->kernel,
                                   {product->op,
                                    inputs.first(product->inputs),
                                    {&product->result, 1},
                                    attrs[product->attrs],
                                    product->compute},
                                   region.tiles, region.operands, region.space, region.outputs);
}

}  // namespace tinyt
