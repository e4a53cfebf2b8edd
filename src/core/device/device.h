// Devices, and the kinds of them: known by name, numbered as they are registered.
#pragma once

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

// A kind under a name, and others that mean the same ("mps", "metal"): its number is free from then
// on to whoever brings kernels. The runtime must live as long as the process. ValueError for a name
// that is taken, or none: letters, digits, "_". "cpu" is DeviceKind::CPU, whenever it comes.
DeviceKind register_device(std::string_view name, Runtime& runtime,
                           const std::vector<std::string>& aliases = {});
std::optional<DeviceKind> find_device_kind(std::string_view name);
// In the order of their numbers, those that are registered.
std::vector<DeviceKind> device_kinds();

// "cpu", "cuda:1".
std::string_view name_of(DeviceKind kind);
std::string name_of(Device device);

}  // namespace tinyt
