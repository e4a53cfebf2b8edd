#include "gpu/shared_library.h"

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

}  // namespace tinyt::gpu
