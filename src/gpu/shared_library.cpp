#include "gpu/shared_library.h"

#include <cstdlib>

#if !defined(_WIN32)
#include <dlfcn.h>
#endif

namespace tinyt::gpu {

#if defined(_WIN32)
void* open_library(const std::string&, std::string& why) {
  why = "not on Windows yet";
  return nullptr;
}
void* find_function(void*, const char*) { return nullptr; }
void close_library(void*) {}
#else
void* open_library(const std::string& name, std::string& why) {
  if (name.empty()) {  // which would be this program
    why = "it has no name";
    return nullptr;
  }
  void* found = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (found == nullptr) why = dlerror();
  return found;
}
void* find_function(void* library, const char* name) { return dlsym(library, name); }
void close_library(void* library) { dlclose(library); }
#endif

SharedLibrary open_one(const char* variable, std::span<const std::string> names) {
  const char* const own = std::getenv(variable);
  const std::string named = own != nullptr ? own : "";
  if (own != nullptr) names = {&named, 1};
  std::string first;  // of the refusals
  for (const std::string& name : names) {
    std::string why;
    if (void* const handle = open_library(name, why)) return {handle, name, ""};
    if (first.empty()) first = why;
  }
  return {nullptr, "", first};
}

}  // namespace tinyt::gpu
