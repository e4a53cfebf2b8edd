#include "core/ops/mode.h"

namespace tinyt {

constinit thread_local Modes t_modes;

}  // namespace tinyt
