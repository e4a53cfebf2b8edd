// Devices whose kernels are compiled at run time: what they have built, what they can, for Python.
#include <pybind11/pybind11.h>
#include <pybind11/typing.h>

#include <string>

#include "core/base/error.h"
#include "core/device/runtime.h"
#include "gpu/driver.h"
#include "gpu/launch.h"
#include "gpu/probe.h"
#include "submodules.h"

namespace py = pybind11;

namespace tinyt {

namespace {

// DeviceError where no kernels are built for a device of that name.
Device gpu_of(const std::string& name) {
  for (const DeviceKind kind : device_kinds())
    for (int i = 0; gpu::has_driver(kind) && i < find_runtime(kind)->device_count(); ++i)
      if (const Device device{kind, static_cast<uint8_t>(i)}; name_of(device) == name)
        return device;
  fail(ErrorKind::Device, "no kernels are built for ", name);
}

py::typing::Dict<py::str, int64_t> limits_of(const std::string& name) {
  const Device device = gpu_of(name);
  gpu::Driver& driver = gpu::driver_of(device);
  const gpu::LaunchModel model = driver.launch_model(device.index);
  py::dict out;
  out["bytes"] = driver.properties(device.index).most_bytes;
  out["buffers"] = driver.most_buffers();
  out["argument_bytes"] = driver.most_argument_bytes(device.index);
  out["turns"] = model.most_turns == gpu::kManyTurns ? 0 : model.most_turns;
  out["shares_memory"] = int{model.shares_memory};
  out["index_bits"] = driver.dialect(device.index).has_wide_words() ? 64 : 32;
  return out;
}

py::typing::Dict<py::str, bool> arithmetic_of(const std::string& name, int dtype) {
  const gpu::Arithmetic found = gpu::probe_arithmetic(gpu_of(name), static_cast<DType>(dtype));
  py::dict out;
  out["fma"] = found.fma;
  out["division"] = found.division;
  out["square root"] = found.root;
  out["product"] = found.product;
  out["order"] = found.order;
  out["subnormals"] = found.subnormals;
  out["infinity"] = found.infinity;
  out["NaN"] = found.nan;
  return out;
}

}  // namespace

void bind_gpu(py::module_& m) {
  m.def(
      "gpu_kernels", [](const std::string& name) { return gpu::built_count(gpu_of(name)); },
      py::arg("device"), "How many kernels have been built for a device.");
  m.def(
      "gpu_dialect", [](const std::string& name) { return gpu::dialect_on(gpu_of(name)).name; },
      py::arg("device"), "The language that a device's kernels are printed in.");
  m.def("gpu_limits", limits_of, py::arg("device"),
        "Of a tensor's bytes, and of a kernel; 0: none is known.");
  m.def("gpu_arithmetic", arithmetic_of, py::arg("device"), py::arg("dtype"),
        "Whether each kind of arithmetic in float32 or float64 has the bits of IEEE 754 there.");
}

}  // namespace tinyt
