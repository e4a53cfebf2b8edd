#include "cuda/facts.h"

#include "core/base/error.h"
#include "cuda/library.h"
#include "cuda/register.h"

namespace tinyt::cuda {

namespace {

struct Attribute {
  std::string_view name;
  int number;  // CUdevice_attribute
};
constexpr Attribute kAttributes[] = {
    {"max_threads_per_block", 1},
    {"shared_memory_per_block", 8},
    {"warp_size", 10},
    {"regs_per_block", 12},
    {"clock_rate", 13},
    {"multi_processor_count", kProcessors},
    {"is_integrated", 18},
    {"pci_bus_id", 33},
    {"pci_device_id", 34},
    {"memory_clock_rate", 36},
    {"memory_bus_width", 37},
    {"L2_cache_size", 38},
    {"max_threads_per_multi_processor", 39},
    {"pci_domain_id", 50},
    {"major", kMajor},
    {"minor", kMinor},
    {"shared_memory_per_multiprocessor", 81},
    {"regs_per_multiprocessor", 82},
    {"is_multi_gpu_board", 84},
    {"shared_memory_per_block_optin", kSharedOptIn},
};

DeviceId device_id(int index) {
  require(index >= 0 && index < find_cuda().device_count(), ErrorKind::Device,
          "device: there is no cuda:", index, ", of ", find_cuda().device_count());
  const Api& api = libraries().driver;
  DeviceId id = 0;
  check(api, api.cuDeviceGet(&id, index), "cuDeviceGet");
  return id;
}

}  // namespace

std::vector<std::pair<std::string_view, int64_t>> device_attributes(int index) {
  constexpr Status kUnknown = 1;  // CUDA_ERROR_INVALID_VALUE: of a later driver
  const DeviceId id = device_id(index);
  const Api& api = libraries().driver;
  std::vector<std::pair<std::string_view, int64_t>> found;
  for (const Attribute& attribute : kAttributes) {
    int value = 0;
    const Status status = api.cuDeviceGetAttribute(&value, attribute.number, id);
    if (status == kUnknown) continue;
    check(api, status, "cuDeviceGetAttribute");
    found.emplace_back(attribute.name, value);
  }
  return found;
}

std::string device_uuid(int index) {
  const DeviceId id = device_id(index);
  const Api& api = libraries().driver;
  Uuid uuid{};
  check(api, api.cuDeviceGetUuid(&uuid, id), "cuDeviceGetUuid");
  return {uuid.bytes, sizeof uuid.bytes};
}

bool can_access_peer(int index, int peer) {
  const DeviceId id = device_id(index), other = device_id(peer);
  const Api& api = libraries().driver;
  int can = 0;
  check(api, api.cuDeviceCanAccessPeer(&can, id, other), "cuDeviceCanAccessPeer");
  return can != 0;
}

std::vector<int> compiled_architectures() { return libraries().architectures; }

}  // namespace tinyt::cuda
