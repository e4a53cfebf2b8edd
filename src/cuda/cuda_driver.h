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

#include "core/base/fork.h"
#include "cuda/build.h"
#include "cuda/device_work.h"
#include "cuda/launch_log.h"
#include "cuda/library.h"
#include "cuda/pinned.h"
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
  void copy_later(const Buffer& to, size_t to_place, const Buffer& from, size_t from_place,
                  size_t bytes) override;

  std::unique_ptr<DeviceEvent> new_event(int index, bool has_times) override;
  std::unique_ptr<DeviceGraph> new_graph(int index) override;
  bool is_capturing(int index) override;
  // Of its stream, after what runs of programs have kept for it so far.
  void* queue_handle(int index) override;
  MemoryInfo memory_info(int index) override;

  const gpu::Dialect& dialect(int) override { return is_hip() ? gpu::kHip : gpu::kCuda; }
  gpu::LaunchModel launch_model(int index) override;
  size_t most_argument_bytes(int) override { return kMostArgumentBytes; }
  gpu::BuiltKernel& build(const std::string& source, std::string_view name, int index) override;
  void launch(gpu::BuiltKernel& kernel, int index, std::span<const Buffer* const> memory,
              std::span<const int64_t> words, int64_t threads) override;
  std::vector<gpu::OwnKernel> own_kernels() const override;

  // Whether its devices are AMD's.
  bool is_hip() const { return libraries_.platform == Platform::Hip; }
  // Whether this process may call the driver: no child of a fork.
  bool is_own_process() const { return fork_count() == forks_; }
  // Ten times the compute capability of all devices, at least; processors of one.
  int capability() const;
  int64_t processors(int index) const { return devices_[static_cast<size_t>(index)].processors; }
  // After all that was asked of the device before: with memory, and a structure by value.
  void launch_blocks(gpu::BuiltKernel& kernel, int index, const Blocks& blocks,
                     std::span<const Buffer* const> memory, const void* structure, size_t bytes);
  template <class T>
  void launch_blocks(gpu::BuiltKernel& kernel, int index, const Blocks& blocks,
                     std::span<const Buffer* const> memory, const T* structure) {
    launch_blocks(kernel, index, blocks, memory, structure, sizeof(T));
  }
  // Its launches, copies and fills as graphs, unless TINYT_CUDA_GRAPHS is 0.
  std::unique_ptr<ProgramRuns> program_runs(int index) override;

  // ---- what other libraries of the process share (interop.cpp); a stream of theirs is 1 for the
  // legacy default stream, 2 for that of the thread, else its handle

  // What the other stream is asked for next waits for all that the device was asked for.
  void let_stream_wait(int index, int64_t other);
  // The other way round.
  void wait_for_stream(int index, int64_t other);
  // The number of the device that memory is of; -1 where the driver does not know it.
  int device_of_memory(Address address);
  // Waits until what the device was asked for is done, whether it failed or not.
  void finish(int index) noexcept;

  // ---- pinned memory of the host (pinned.cpp)

  PinnedCache& pinned() { return pinned_; }
  // Null where the driver has none.
  void* allocate_host(size_t bytes);
  void free_host(const PinnedBlock& block) noexcept;
  bool has_happened(int index, Event event) noexcept;

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
    std::unique_ptr<LaunchLog> launches = std::make_unique<LaunchLog>();
    std::unique_ptr<DeviceWork> work;
  };
  class Current;
  class Runs;
  class QueueEvent;
  class CapturedGraph;

  void add_device(int number);
  void require_own_process() const;
  CudaDevice& device(int index);
  template <class F>
  void enqueue(int index, const char* name, const F& call);
  bool write_staged(const Buffer& to, size_t place, const char* from, size_t bytes);
  void wait_for(CudaDevice& waiting, CudaDevice& other);
  // In the device's stream, whose context is the thread's: an event at its end, and a wait for one.
  void record_event(const CudaDevice& on, Event event);
  void wait_for_event(const CudaDevice& on, Event event);
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
  const bool waits_for_launches_;  // so that an error names its operation
  PinnedCache pinned_{*this};
};

}  // namespace tinyt::cuda
