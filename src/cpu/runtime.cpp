#include "cpu/runtime.h"

#include <cstring>

#include "core/base/error.h"
#include "core/memory/allocator.h"
#include "core/memory/pages.h"

namespace tinyt::cpu {

namespace {

// What is asked of it is done when the call returns.
class HostRuntime final : public Runtime {
 public:
  int device_count() const override { return 1; }
  bool has_numbers() const override { return false; }
  DeviceProperties properties(int) const override {
    return {"host", memory::physical_memory(), memory::kAlignment};
  }

  Buffer allocate(size_t bytes, int) override {
    try {
      return memory::caching().allocate(bytes);
    } catch (const Error&) {
      return {};
    }
  }
  void free(const Buffer& buffer) noexcept override { buffer.from->release(buffer); }

  void copy(const Buffer& to, size_t to_place, const Buffer& from, size_t from_place,
            size_t bytes) override {
    if (bytes > 0)
      std::memcpy(static_cast<char*>(to.host) + to_place,
                  static_cast<const char*>(from.host) + from_place, bytes);
  }
  void fill(const Buffer& to, size_t place, size_t bytes, uint8_t value) override {
    if (bytes > 0) std::memset(static_cast<char*>(to.host) + place, value, bytes);
  }
  void synchronise(int) override {}
};

}  // namespace

Runtime& runtime() {
  static HostRuntime& host = *new HostRuntime;
  return host;
}

}  // namespace tinyt::cpu
