// What this library was built with.
#pragma once

#include <string_view>

namespace tinyt {

struct BuildInfo {
  std::string_view compiler;    // name, version, flags
  std::string_view sanitizers;  // empty in a normal build
};
BuildInfo core_build_info();

}  // namespace tinyt
