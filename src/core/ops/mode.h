// Modes of a thread: what the front end's calls do beside computing.
#pragma once

#include <array>

#include "core/base/dtype.h"
#include "core/device/device.h"
#include "core/memory/thread_pointer.h"

namespace tinyt {

// Casts of operands inside `autocast`.
struct Autocast {
  bool active = false;
  bool cache = true;  // one copy of a parameter for all its uses
  DType dtype = DType::BFloat16;
};

struct Modes {
  bool grad = true;          // operations are recorded on the tape
  bool saved_hooks = false;  // saved tensors go through Python hooks
  Autocast autocast;
  Device device;  // where tensors are made of nothing
  // Of each kind the device that is meant where it is named without a number.
  std::array<uint8_t, kMaxDeviceKinds> indices{};
  uint8_t indices_mark = 0;  // another one for others, in seven bits
};

extern TINYT_THREAD_POINTER Modes t_modes;

// Where this thread makes tensors of nothing while this lives; at first where it did.
class CreationDevice {
 public:
  CreationDevice() = default;
  ~CreationDevice() { t_modes.device = before_; }
  CreationDevice(const CreationDevice&) = delete;
  CreationDevice& operator=(const CreationDevice&) = delete;
  void enter(Device device) { t_modes.device = device; }
  Device before() const { return before_; }

 private:
  const Device before_ = t_modes.device;
};

}  // namespace tinyt
