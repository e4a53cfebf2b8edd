// Devices, and the kinds of them: known by name, numbered as they are registered.
#pragma once

#include <atomic>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tinyt {

class Runtime;

// Further ones come at run time.
enum class DeviceKind : uint8_t { CPU };
inline constexpr size_t kMaxDeviceKinds = 32;

struct Device {
  DeviceKind kind = DeviceKind::CPU;
  uint8_t index = 0;
  auto operator<=>(const Device&) const = default;
};

// As an attribute of an op; 0 is the CPU.
constexpr int64_t code_of(Device device) {
  return static_cast<int64_t>(device.kind) << 8 | device.index;
}
constexpr Device device_of(int64_t code) {
  return {static_cast<DeviceKind>(code >> 8), static_cast<uint8_t>(code & 255)};
}
inline constexpr int64_t kDeviceCodes = static_cast<int64_t>(kMaxDeviceKinds) << 8;

// A kind under a name, and others that mean the same ("mps", "metal"): its number is free from then
// on to whoever brings kernels. The runtime must live as long as the process. ValueError for a name
// that is taken, or none: letters, digits, "_". "cpu" is DeviceKind::CPU, whenever it comes.
DeviceKind register_device(std::string_view name, Runtime& runtime,
                           const std::vector<std::string>& aliases = {});
std::optional<DeviceKind> find_device_kind(std::string_view name);
// Whether there is one beside the CPU.
extern std::atomic<bool> g_other_devices;
inline bool has_other_devices() { return g_other_devices.load(std::memory_order_relaxed); }
// In the order of their numbers, those that are registered.
std::vector<DeviceKind> device_kinds();

// "cpu", "cuda:1".
std::string_view name_of(DeviceKind kind);
std::string name_of(Device device);

}  // namespace tinyt
