// Devices of CUDA: the primary context of each, which other libraries of the process share, and a
// stream in it, in which everything runs in order.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cuda/build.h"
#include "cuda/library.h"
#include "cuda/staging.h"
#include "gpu/driver.h"

namespace tinyt::cuda {

struct CudaKernel final : gpu::BuiltKernel {
  Function function = nullptr;
  std::atomic<size_t> shared_bytes{48 << 10};  // that the driver lets a block have
};

// How a kernel by hand is launched: blocks of so many threads, and bytes that the threads of each
// share.
struct Blocks {
  int64_t count;
  int threads;
  size_t shared_bytes;
};

class CudaDriver final : public gpu::Driver {
 public:
  // DeviceError where there is no device.
  explicit CudaDriver(const Libraries& libraries);

  int device_count() const override { return static_cast<int>(devices_.size()); }
  DeviceProperties properties(int index) const override;
  void check_usable(int index) override;
  Buffer allocate(size_t bytes, int index) override;
  void free(const Buffer& buffer) noexcept override;
  void fill(const Buffer& to, size_t place, size_t bytes, uint8_t value) override;

  std::unique_ptr<DeviceEvent> new_event(int index, bool has_times) override;
  void* queue_handle(int index) override { return device(index).stream; }
  MemoryInfo memory_info(int index) override;

  const gpu::Dialect& dialect(int) override { return gpu::kCuda; }
  gpu::LaunchModel launch_model(int index) override;
  size_t most_argument_bytes(int) override { return kMostArgumentBytes; }
  gpu::BuiltKernel& build(const std::string& source, std::string_view name, int index) override;
  void launch(gpu::BuiltKernel& kernel, int index, std::span<const Buffer* const> memory,
              std::span<const int64_t> words, int64_t threads) override;
  std::vector<gpu::OwnKernel> own_kernels() const override;

  // What is called in the context of a device, made where it is not there yet.
  Context context(int index) { return device(index).context; }
  const Api& api() const { return api_; }
  // Whether this process may call the driver: no child of a fork.
  bool is_own_process() const;
  // Ten times the compute capability of all devices, at least; processors of one.
  int capability() const;
  int64_t processors(int index) const { return devices_[static_cast<size_t>(index)].processors; }
  // After all that was asked of the device before: with memory, and a structure by value.
  void launch_blocks(gpu::BuiltKernel& kernel, int index, const Blocks& blocks,
                     std::span<const Buffer* const> memory, const void* structure);

 protected:
  void copy_bytes(const Buffer& to, size_t to_place, const Buffer& from, size_t from_place,
                  size_t bytes) override;
  void copy_to_peer(const Buffer& to, size_t to_place, const Buffer& from, size_t from_place,
                    size_t bytes) override;
  void wait(int index) override;

 private:
  // "CUDA C++ Programming Guide", on parameters of kernels: of every device and driver.
  static constexpr size_t kMostArgumentBytes = 4096;

  struct CudaDevice {
    DeviceId id = 0;
    BuildTarget target;
    size_t bytes = 0;
    int64_t processors = 1;
    Context context = nullptr;
    Stream stream = nullptr;
    Event turn = nullptr;  // what another device's stream waits for
    // Devices of which elements came here since this one was waited for, through others, too, and
    // the number of the last copy.
    std::map<int, uint64_t> sources;
    std::unique_ptr<Staging> staging = std::make_unique<Staging>();
  };
  class Current;

  void add_device(int number);
  void require_own_process() const;
  CudaDevice& device(int index);
  template <class F>
  void enqueue(int index, const char* name, const F& call);
  bool write_staged(const Buffer& to, size_t place, const char* from, size_t bytes);
  void wait_for(CudaDevice& waiting, CudaDevice& other);
  void note_source(int to, int from);
  void check_source(int index, int number, uint64_t copy);

  const Libraries& libraries_;
  const Api& api_;
  const uint32_t forks_;  // before this process opened it
  std::vector<CudaDevice> devices_;
  std::mutex mutex_;  // of what devices get when they are used first, and of what follows
  std::deque<CudaKernel> kernels_;
  std::mutex turns_;  // of the devices' events and sources
  uint64_t peer_copies_ = 0;
};

}  // namespace tinyt::cuda
