// The device "meta": tensors of shapes and dtypes alone.
#pragma once

namespace tinyt::meta {

// Registers it, once: a process that never asks for it has one device less to look out for.
void register_meta();

}  // namespace tinyt::meta
