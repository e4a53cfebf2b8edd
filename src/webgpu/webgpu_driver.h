// WebGPU devices: adapters of wgpu-native, each with a queue on which everything runs in order.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "gpu/driver.h"
#include "webgpu/api.h"
#include "webgpu/bindings.h"

namespace tinyt::webgpu {

// A kernel's source, and what it is compiled to for each way in which its arguments share buffers.
struct WebGpuKernel final : gpu::BuiltKernel {
  struct Form {
    BindGroupLayout layout = nullptr;
    Pipeline pipeline = nullptr;
    uint64_t used = 0;  // the device's count of launches then
  };
  std::string source, name;
  std::vector<Access> accesses;
  std::map<std::vector<uint8_t>, Form> forms;  // by the binding of each argument
};

class WebGpuDriver final : public gpu::Driver {
 public:
  // DeviceError where the library has no adapter that runs kernels.
  explicit WebGpuDriver(const Api& api);

  int device_count() const override { return static_cast<int>(devices_.size()); }
  DeviceProperties properties(int index) const override;
  void check_usable(int index) override;
  size_t most_buffers() const override;
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
  // What was encoded waits in `encoder`, whose words in `words`, until it is submitted.
  struct WebGpuDevice {
    int index = 0;
    Adapter adapter = nullptr;
    std::string name;
    Limits limits{};
    bool has_int64 = false, has_float64 = false, shares_memory = false;

    std::mutex mutex{};  // of all that follows
    DeviceHandle handle = nullptr;
    Queue queue = nullptr;
    const gpu::Dialect* dialect = nullptr;
    int64_t most_turns = 0;  // once `dialect` is known
    BindGroupLayout words_layout = nullptr;
    BindGroup words_group = nullptr;
    BufferHandle words_buffer = nullptr, read_buffer = nullptr;
    BufferHandle no_elements = nullptr;  // bound for a tensor that has none
    Encoder encoder = nullptr;
    Pass pass = nullptr;
    std::vector<int32_t> words{};
    std::deque<WebGpuKernel> kernels{};
    WebGpuKernel* move = nullptr;         // that copies bytes
    size_t forms = 0, most_forms = 1000;  // of all kernels; one takes a megabyte in Mesa
    uint64_t launches = 0;
    // What callbacks have said.
    std::optional<ErrorKind> failed{};  // of `error`, since it was looked at
    std::string error{}, lost{};
    uint32_t mapped = 0;  // the status of the last map, 0 as long as it is not known
  };
  using Lock = std::lock_guard<std::mutex>;

  WebGpuDevice& opened(int index);
  static size_t most_bytes(const WebGpuDevice& on);
  // The functions that follow are called with the device's lock held.
  void open(WebGpuDevice& on);
  void request_device(WebGpuDevice& on);
  void make_words_buffer(WebGpuDevice& on);
  void check(WebGpuDevice& on, std::string_view what) const;
  template <class F>
  void retry_when_short(WebGpuDevice& on, std::string_view what, const F& call);
  BufferHandle new_buffer(WebGpuDevice& on, size_t bytes, Bits usage) const;
  WebGpuKernel& new_kernel(WebGpuDevice& on, const std::string& source, std::string_view name);
  WebGpuKernel::Form& form_of(WebGpuDevice& on, WebGpuKernel& kernel,
                              const std::vector<uint8_t>& bindings);
  void forget_old_forms(WebGpuDevice& on) const;
  void encode(WebGpuDevice& on, WebGpuKernel& kernel, std::span<const BufferHandle> memory,
              std::span<const int64_t> words, int64_t threads);
  void begin(WebGpuDevice& on, bool with_pass);
  void submit(WebGpuDevice& on);
  void write(WebGpuDevice& on, BufferHandle to, size_t place, const void* from, size_t bytes);
  void read(WebGpuDevice& on, void* to, BufferHandle from, size_t place, size_t bytes);
  void move(WebGpuDevice& on, BufferHandle to, size_t to_place, BufferHandle from,
            size_t from_place, size_t bytes);
  struct Probe {
    bool fuses;
    int32_t turns;
  };
  Probe probe(WebGpuDevice& on);

  const Api& api_;
  const uint32_t forks_;  // before this process opened it
  std::deque<WebGpuDevice> devices_;
};

}  // namespace tinyt::webgpu
