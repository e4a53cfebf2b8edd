// How exact float32 products have to be, for the process.
#pragma once

namespace tinyt {

// Whether devices may round the operands of float32 products and convolutions to ten bits behind
// the point (TF32), where that is faster. Not unless somebody allows it.
bool may_round_products();
void allow_rounded_products(bool allowed);

}  // namespace tinyt
