// What a tape node keeps: C++ handles with versions, never Python tensors.
#pragma once

#include <vector>

#include "core/ops/mode.h"
#include "core/ops/ops.h"
#include "core/tensor/tensor.h"

namespace tinyt {

struct SavedTensor {
  Tensor tensor;
  uint64_t version = 0;
};

struct InputMeta {
  Dims shape;
  DType dtype = DType::Float32;
  Device device;
  int output = 0;       // which output of the node that its gradient goes to
  int64_t traced = -1;  // which tensor of a trace it was
};

// A vector whose first N elements lie in the object itself: most calls have few operands.
template <class T, size_t N>
class Few {
 public:
  size_t size() const { return size_; }
  T& operator[](size_t i) { return i < N ? first_[i] : rest_[i - N]; }
  void resize(size_t n) {
    if (n > N) rest_.resize(n - N);
    size_ = n;
  }
  void clear() {
    for (size_t i = 0; i < std::min(size_, N); ++i) first_[i] = T{};
    rest_.clear();
    size_ = 0;
  }

 private:
  T first_[N];
  std::vector<T> rest_;
  size_t size_ = 0;
};

struct NodeData {
  Attrs attrs;
  Few<InputMeta, 3> inputs;
  Few<SavedTensor, 6> saved;  // inputs first, then the outputs; empty where not needed
  Dims out_shape;
  DType out_dtype = DType::Float32;
  int64_t out_traced = -1;
};

// Positions that a gradient rule reads, as bits: the first inputs, and from the top the outputs, of
// which -1 is the first.
inline constexpr int kReadableInputs = 64 - kMostOutputs;
inline uint64_t reads_bit(int position) {
  return uint64_t{1} << (position < 0 ? 64 + position : position);
}

inline bool grad_mode() { return t_modes.grad; }
inline void set_grad_mode(bool on) { t_modes.grad = on; }
inline bool saved_hooks_active() { return t_modes.saved_hooks; }
inline void set_saved_hooks_active(bool on) { t_modes.saved_hooks = on; }

}  // namespace tinyt
