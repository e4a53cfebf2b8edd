// What a tape node keeps: C++ handles with versions, never Python tensors.
#pragma once

#include <vector>

#include "ops.h"
#include "tensor.h"

namespace tinyt {

struct SavedTensor {
  Tensor tensor;
  uint64_t version = 0;
};

struct InputMeta {
  Dims shape;
  DType dtype = DType::Float32;
};

struct NodeData {
  Attrs attrs;
  std::vector<InputMeta> inputs;
  std::vector<SavedTensor> saved;  // inputs first, then the output; empty where not needed
  Dims out_shape;
  DType out_dtype = DType::Float32;
};

// Whether operations of this thread are recorded on the tape.
inline thread_local bool t_grad_mode = true;
inline bool grad_mode() { return t_grad_mode; }
inline void set_grad_mode(bool on) { t_grad_mode = on; }

// Whether tensors that this thread saves go through Python hooks.
inline thread_local bool t_saved_hooks = false;
inline bool saved_hooks_active() { return t_saved_hooks; }
inline void set_saved_hooks_active(bool on) { t_saved_hooks = on; }

}  // namespace tinyt
