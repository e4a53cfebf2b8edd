#include "core/ops/seam.h"

namespace tinyt {

PythonSeam& python_seam() {
  static PythonSeam seam;
  return seam;
}

}  // namespace tinyt
