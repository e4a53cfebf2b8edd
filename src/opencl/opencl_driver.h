// Devices of OpenCL: a context and a queue each, on which everything runs in order.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "gpu/driver.h"
#include "opencl/api.h"
#include "opencl/staging.h"

namespace tinyt::opencl {

// A kernel and its lock: its arguments are set one by one before it starts.
struct OpenClKernel final : gpu::BuiltKernel {
  Kernel kernel = nullptr;
  std::mutex mutex;
};

class OpenClDriver final : public gpu::Driver {
 public:
  // DeviceError where the library has no device that compiles kernels.
  explicit OpenClDriver(const Api& api);

  int device_count() const override { return static_cast<int>(devices_.size()); }
  DeviceProperties properties(int index) const override;
  void check_usable(int index) override;
  Buffer allocate(size_t bytes, int index) override;
  void free(const Buffer& buffer) noexcept override;
  void fill(const Buffer& to, size_t place, size_t bytes, uint8_t value) override;

  const gpu::Dialect& dialect(int index) override;
  gpu::LaunchModel launch_model(int index) override;
  size_t most_argument_bytes(int index) override;
  gpu::BuiltKernel& build(const std::string& source, std::string_view name, int index) override;
  void launch(gpu::BuiltKernel& kernel, int index, std::span<const Buffer* const> memory,
              std::span<const int64_t> words, int64_t threads) override;

 protected:
  void copy_bytes(const Buffer& to, size_t to_place, const Buffer& from, size_t from_place,
                  size_t bytes) override;
  void wait(int index) override;

 private:
  struct OpenClDevice {
    DeviceId id = nullptr;
    Context context = nullptr;
    Queue queue = nullptr, maps = nullptr;  // the latter never waits for kernels
    std::string name, identity;             // the latter with its platform and driver
    size_t bytes = 0, most_allocation = 0, most_group = 1, most_arguments = 0;
    int64_t units = 1;
    bool is_cpu = false;
    std::unique_ptr<Staging> staging = std::make_unique<Staging>();
  };

  void add_platforms(std::string& why);
  void add_devices(Platform platform, std::string& why);
  void add_device(DeviceId id, const std::string& platform);
  OpenClDevice& device(int index);
  const OpenClDevice& device(int index) const { return devices_[static_cast<size_t>(index)]; }
  template <class T>
  T info(DeviceId id, UInt what) const;
  std::string text(DeviceId id, UInt what) const;
  std::string text(Platform platform, UInt what) const;
  template <class F>
  void enqueue(int index, const char* name, const F& call);
  bool write_staged(const Buffer& to, size_t place, const char* from, size_t bytes);

  const Api& api_;
  const uint32_t forks_;  // before this process opened it
  std::vector<OpenClDevice> devices_;
  std::mutex mutex_;  // of those that follow
  std::deque<OpenClKernel> kernels_;
};

}  // namespace tinyt::opencl
