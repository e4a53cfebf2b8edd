// Libraries of drivers and compilers, opened when a device is asked for.
#pragma once

#include <span>
#include <string>

namespace tinyt::gpu {

// One of that path, or of that name where the system looks for libraries; null, and why, where
// there is none.
void* open_library(const std::string& name, std::string& why);
// A library that was opened, by its name; without a handle why none was.
struct SharedLibrary {
  void* handle = nullptr;
  std::string name, why;
};
// The one that an environment variable names; where that is not set the first of `names` that there
// is.
SharedLibrary open_one(const char* variable, std::span<const std::string> names);
// Null where it has none of that name.
void* find_function(void* library, const char* name);
void close_library(void* library);

}  // namespace tinyt::gpu
