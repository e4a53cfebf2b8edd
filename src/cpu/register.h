#pragma once

namespace tinyt::cpu {

// Registers the CPU; called once by the bindings.
void register_cpu();

}  // namespace tinyt::cpu
