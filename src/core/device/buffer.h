// A piece of a device's memory.
#pragma once

#include <cstddef>

#include "core/device/device.h"

namespace tinyt {

namespace memory {
class Allocator;
}

// Memory that the host reads and writes has a `host` address. What the device's own code knows it
// by is its `handle`, null on the CPU. Of a recorded value, which has no memory, both are null.
struct Buffer {
  void* host = nullptr;
  size_t bytes = 0;                   // as asked for
  memory::Allocator* from = nullptr;  // whom it goes back to
  void* context = nullptr;            // what that one keeps with it
  void* handle = nullptr;
  Device device{};
  size_t offset = 0;  // bytes from the start of what the handle stands for

  // Some of its bytes, which go back with all of it.
  Buffer part(size_t from_byte, size_t count) const {
    return {.host = host ? static_cast<char*>(host) + from_byte : nullptr,
            .bytes = count,
            .handle = handle,
            .device = device,
            .offset = offset + from_byte};
  }
};

}  // namespace tinyt
