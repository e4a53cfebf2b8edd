#include "meta/register.h"

#include <mutex>

#include "core/base/error.h"
#include "core/base/fork.h"
#include "core/device/runtime.h"
#include "core/ops/kernels.h"

namespace tinyt::meta {

namespace {

// Its buffers have a size and no elements.
class MetaRuntime final : public Runtime {
 public:
  int device_count() const override { return 1; }
  bool has_numbers() const override { return false; }
  DeviceProperties properties(int) const override { return {"shapes alone", 0, 64}; }

  bool has_memory() const override { return false; }
  Buffer allocate(size_t, int) override { return {}; }
  void free(const Buffer&) noexcept override {}

  void copy(const Buffer& to, size_t, const Buffer& from, size_t, size_t) override {
    require(
        to.device == from.device || to.device != Device{}, ErrorKind::NotImplemented,
        "to_device: a tensor on meta has a shape and a dtype, and no elements to copy; "
        "empty_like(x, device=...) makes one of its shape, Module.to_empty(device=...) all of a "
        "module's");
  }
  void fill(const Buffer&, size_t, size_t, uint8_t) override {}
  void synchronise(int) override {}
};

// All that an operation does to results without elements, once they are made.
void nothing(const KernelCall&) {}

Kernels make_kernels() {
  Kernels kernels;
  kernels.rows.fill(nothing);
  kernels.copy_into = [](const Tensor&, const Tensor&) {};
  return kernels;  // no count_nonzero: sizes that elements decide are not known
}

}  // namespace

void register_meta() {
  static ForkSafeMutex& mutex = *new ForkSafeMutex;
  const std::lock_guard<ForkSafeMutex> lock(mutex);
  if (find_device_kind("meta")) return;
  static MetaRuntime& runtime = *new MetaRuntime;
  static const Kernels& kernels = *new Kernels(make_kernels());
  register_kernels(register_device("meta", runtime), kernels);
}

}  // namespace tinyt::meta
