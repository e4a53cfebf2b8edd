// Elements from one device to another.
#pragma once

#include "core/ops/kernels.h"

namespace tinyt {

// The kernel of `to_device` on every device: the output's elements from an input anywhere.
void copy_to_device(const KernelCall& call);

// Dense tensors of one shape and dtype, on any two devices.
void copy_between(const Tensor& from, const Tensor& to);

// Of a dense tensor.
Buffer memory_of(const Tensor& x);
// Bytes of one device, or of that and the host.
void copy_bytes(const Buffer& to, const Buffer& from, size_t bytes);

// For its lifetime copies that this thread asks for may be under way when they return
// (`Runtime::copy_later`): `non_blocking=True`.
class LaterCopies {
 public:
  LaterCopies();
  ~LaterCopies();
  LaterCopies(const LaterCopies&) = delete;
  LaterCopies& operator=(const LaterCopies&) = delete;

 private:
  bool outer_;
};

}  // namespace tinyt
