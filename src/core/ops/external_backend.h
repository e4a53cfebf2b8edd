// Devices from shared libraries, through the C interface of backend_api.h.
#pragma once

#include <string>

#include "core/device/device.h"

namespace tinyt {

// Loads a library, whose code runs, and registers the device that it brings. RuntimeError where it
// cannot be loaded, has no entry, is of another version or incomplete; ValueError for a name that
// is taken.
DeviceKind load_backend(const std::string& path);

}  // namespace tinyt
