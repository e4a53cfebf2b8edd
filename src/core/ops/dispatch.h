// The one way into an op: check, promote, broadcast, then execute it or record it.
#pragma once

#include <memory>
#include <span>
#include <utility>

#include "core/ops/ops.h"
#include "core/tensor/tensor.h"

namespace tinyt {

// What an op returns: one tensor or several (sort, max_pool, attention_backward).
struct Outputs {
  Tensor first, second, third;
  std::unique_ptr<Tensor[]> rest;

  Outputs() = default;
  Outputs(Tensor one) : first(std::move(one)) {}
  explicit Outputs(int count) {
    if (count > 3) rest = std::make_unique<Tensor[]>(static_cast<size_t>(count) - 3);
  }
  Tensor& operator[](int i) {
    return i == 0 ? first : i == 1 ? second : i == 2 ? third : rest[i - 3];
  }
  const Tensor& operator[](int i) const { return const_cast<Outputs&>(*this)[i]; }
};

// `normalised`, where given, receives the attributes as the kernel saw them (dims wrapped, -1
// resolved).
Outputs dispatch(OpId op, std::span<const Tensor> inputs, const Attrs& attrs = {},
                 Attrs* normalised = nullptr);

// The same with the first output written into `out` (out=, in-place). Its shape must be the
// result's and its dtype one the result may be cast to; it may be exactly an input, but may not
// overlap one partly. Counts as one write.
void dispatch_into(OpId op, std::span<const Tensor> inputs, const Attrs& attrs, const Tensor& out);

// The same for out= alone: an empty tensor becomes one of the result's shape.
void dispatch_out(OpId op, std::span<const Tensor> inputs, const Attrs& attrs, Tensor& out);

// to[...] = from: broadcast and converted; overlapping memory is handled.
void assign(const Tensor& to, const Tensor& from);

// Where a call that makes no view computes. DeviceError for operands on several devices: 0-d
// tensors of the CPU alone may stand beside others, in elementwise operations.
Device device_of_call(OpId op, std::span<const Tensor> inputs, const Attrs& attrs);

// Shorthands for core code.
Tensor contiguous(const Tensor& x);
Tensor cast(const Tensor& x, DType dtype);
Tensor to_device(const Tensor& x, Device device);

// Checks before the data of a tensor is looked at: CaptureError for recorded values.
void require_readable(std::string_view op, const Tensor& x);
// Checks before a tensor is written to: no read-only memory, no two indices on one element.
void require_writable(std::string_view op, const Tensor& x);

}  // namespace tinyt
