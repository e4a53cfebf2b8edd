#include "core/device/device.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>

#include "core/base/error.h"
#include "core/base/fork.h"
#include "core/device/runtime.h"

namespace tinyt {

std::atomic<bool> g_other_devices{false};

namespace {

struct Kind {
  std::string name;
  std::vector<std::string> aliases;
  std::atomic<Runtime*> runtime{nullptr};
};

// Never destroyed, and rows never change: names are handed out.
struct Kinds {
  std::array<Kind, kMaxDeviceKinds> rows;
  std::atomic<size_t> count{1};
  ForkSafeMutex mutex;  // of registrations

  Kinds() { rows[0].name = "cpu"; }
};

Kinds& kinds() {
  static Kinds& all = *new Kinds;
  return all;
}

bool is_name(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  });
}

void check_name(std::string_view name) {
  require(is_name(name), ErrorKind::Value, "device: '", name, "' cannot be the name of a device");
  require(!find_device_kind(name), ErrorKind::Value, "device: there is a device '", name,
          "' already");
}

}  // namespace

DeviceKind register_device(std::string_view name, Runtime& runtime,
                           const std::vector<std::string>& aliases) {
  Kinds& all = kinds();
  const std::lock_guard<ForkSafeMutex> lock(all.mutex);
  if (name == all.rows[0].name) {
    require(all.rows[0].runtime == nullptr, ErrorKind::Value,
            "device: there is a device 'cpu' already");
    all.rows[0].runtime = &runtime;
    return DeviceKind::CPU;
  }
  check_name(name);
  for (const std::string& alias : aliases) check_name(alias);
  const size_t number = all.count;
  require(number < kMaxDeviceKinds, ErrorKind::Runtime, "device: no room for more than ",
          kMaxDeviceKinds, " kinds of devices");
  Kind& row = all.rows[number];
  row.name = name;
  row.aliases = aliases;
  row.runtime = &runtime;
  all.count = number + 1;
  g_other_devices = true;
  return static_cast<DeviceKind>(number);
}

std::optional<DeviceKind> find_device_kind(std::string_view name) {
  const Kinds& all = kinds();
  for (size_t i = 0; i < all.count; ++i)
    if (all.rows[i].name == name ||
        std::ranges::find(all.rows[i].aliases, name) != all.rows[i].aliases.end())
      return static_cast<DeviceKind>(i);
  return std::nullopt;
}

std::vector<DeviceKind> device_kinds() {
  const Kinds& all = kinds();
  std::vector<DeviceKind> found;
  for (size_t i = 0; i < all.count; ++i)
    if (all.rows[i].runtime != nullptr) found.push_back(static_cast<DeviceKind>(i));
  return found;
}

std::string_view name_of(DeviceKind kind) { return kinds().rows[static_cast<size_t>(kind)].name; }

std::string name_of(Device device) {
  const std::string name(name_of(device.kind));
  const Runtime* runtime = find_runtime(device.kind);
  const bool numbered = runtime ? runtime->has_numbers() : device != Device{};
  return numbered ? name + ":" + std::to_string(device.index) : name;
}

// ---- what not every kind has

std::unique_ptr<DeviceEvent> Runtime::new_event(int, bool) {
  fail(ErrorKind::NotImplemented,
       "Event: devices of this kind have no events; synchronize() waits");
}

std::unique_ptr<DeviceGraph> Runtime::new_graph(int) {
  fail(ErrorKind::NotImplemented, "CUDAGraph: devices of this kind have no graphs");
}

void* Runtime::queue_handle(int) {
  fail(ErrorKind::NotImplemented, "Stream: queues of this kind of device have no handle");
}

MemoryInfo Runtime::memory_info(int) {
  fail(ErrorKind::NotImplemented,
       "memory: devices of this kind do not say what is free; see tinyt.memory.statistics");
}

// ---- by number

Runtime* find_runtime(DeviceKind kind) { return kinds().rows[static_cast<size_t>(kind)].runtime; }

Runtime& runtime_of(Device device) {
  Runtime* runtime = find_runtime(device.kind);
  require(runtime != nullptr && device.index < runtime->device_count(), ErrorKind::Device,
          "device: this process has no ", name_of(device));
  return *runtime;
}

}  // namespace tinyt
