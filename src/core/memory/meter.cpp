#include "core/memory/meter.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "core/base/error.h"

namespace tinyt::memory {

// The system gives pages of zeros when they are first touched.
Buffer Meter::reserve(size_t bytes) {
  if (bytes == 0) return {};
  void* base = bytes < SIZE_MAX - kAlignment ? std::calloc(1, bytes + kAlignment) : nullptr;
  require(base != nullptr, ErrorKind::OutOfMemory, "memory: no addresses for ", bytes, " bytes");
  const auto at = reinterpret_cast<uintptr_t>(base);
  void* data = reinterpret_cast<void*>((at + kAlignment - 1) / kAlignment * kAlignment);
  return {data, bytes, nullptr, base};
}

void Meter::give_back(const Buffer& block) noexcept { std::free(block.context); }

Buffer Meter::allocate(size_t bytes) {
  Buffer block = reserve(bytes);
  block.from = this;
  peak_ = std::max(peak_, live_ += bytes);
  return block;
}

void Meter::release(const Buffer& block) noexcept {
  live_ -= block.bytes;
  give_back(block);
}

}  // namespace tinyt::memory
