// Libraries of drivers and compilers, opened when a device is asked for.
#pragma once

#include <string>

namespace tinyt::gpu {

// One of that path, or of that name where the system looks for libraries; null, and why, where
// there is none.
void* open_library(const std::string& name, std::string& why);
// Null where it has none of that name.
void* find_function(void* library, const char* name);
void close_library(void* library);

}  // namespace tinyt::gpu
