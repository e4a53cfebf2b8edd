#include "core/ops/seam.h"

namespace tinyt {

constinit PythonSeam g_python_seam;

}  // namespace tinyt
