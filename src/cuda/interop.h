// What CUDA devices share with other libraries of the process: streams, memory of the device, and
// pinned memory of the host.
#pragma once

#include <cstdint>
#include <optional>

#include "core/tensor/tensor.h"
#include "cuda/api.h"

namespace tinyt::cuda {

// Whether it is a CUDA device. False before there is one.
bool is_cuda(Device device);
// The device of a number, opened; DeviceError where there is none.
Device cuda_device(int index);

// Whether a CUDA device is one of AMD's, by HIP.
bool is_of_hip(Device device);

// Of a tensor's first element on a CUDA device.
Address address_of(const Tensor& t);

// Streams of other libraries are numbers: 1 is the legacy default stream, 2 that of the thread,
// others are handles (the Python array API standard, `__dlpack__`). Below: the device's stream is
// the one that its work goes to.

// The handle of the device's stream.
int64_t stream_handle(Device device);
// What the other stream is asked for next waits for what the device was asked for.
void let_stream_wait(Device device, int64_t other);
// What the device is asked for next waits for what the other stream was asked for.
void wait_for_stream(Device device, int64_t other);
// For what goes: other libraries that wrote by the legacy default stream, or streams that it waits
// for, are done before the memory is used again. Errors are left to the next call.
void wait_for_legacy_stream(Device device) noexcept;

// The device whose memory an address is of; none where the driver does not know it.
std::optional<Device> device_of_memory(Address address);
// Memory of another library on a device, from its first byte on; `release(owner)` is called once,
// when the device has done what was asked of it.
Ref<Storage> foreign_memory(Device device, Address address, size_t bytes, void (*release)(void*),
                            void* owner);

// The allocator of pinned memory; null where no CUDA device opens, which is tried once, and in a
// child of a fork.
memory::Allocator* pinned_memory();
bool is_pinned(const Tensor& t);

}  // namespace tinyt::cuda
