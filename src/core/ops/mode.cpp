#include "core/ops/mode.h"

namespace tinyt {

TINYT_THREAD_POINTER Modes t_modes;

}  // namespace tinyt
