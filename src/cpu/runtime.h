// The CPU as a device.
#pragma once

#include "core/device/runtime.h"

namespace tinyt::cpu {

Runtime& runtime();

}  // namespace tinyt::cpu
