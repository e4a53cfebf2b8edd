#include "core/base/build_info.h"

namespace tinyt {

BuildInfo core_build_info() { return {TINYT_BUILD_INFO, TINYT_SANITIZERS}; }

}  // namespace tinyt
