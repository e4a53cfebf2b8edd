// Events and queues of devices, and what CUDA's driver says of them, for Python.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <pybind11/typing.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/device/runtime.h"
#include "cuda/facts.h"
#include "python_lock.h"
#include "submodules.h"

namespace py = pybind11;

namespace tinyt {

namespace {

void* queue_at(size_t handle) { return reinterpret_cast<void*>(handle); }

// All but waiting holds Python's lock: calls of one event come one at a time.
class PythonEvent {
 public:
  PythonEvent(int64_t code, bool has_times)
      : device_(device_of(code)), event_(runtime_of(device_).new_event(device_.index, has_times)) {}
  void record(size_t queue) { event_->record(queue_at(queue)); }
  bool is_past() { return event_->is_past(); }
  void synchronise() {
    const PythonUnlocked unlocked;
    event_->synchronise();
  }
  void hold(int64_t code, size_t queue) {
    const Device device = device_of(code);
    require(device.kind == device_.kind, ErrorKind::Value, "Event: ", name_of(device),
            " cannot wait for an event of ", name_of(device_));
    event_->hold(device.index, queue_at(queue));
  }
  double milliseconds_to(PythonEvent& later) {
    require(later.device_.kind == device_.kind, ErrorKind::Value,
            "elapsed_time: both events must be of one device");
    return event_->milliseconds_to(*later.event_);
  }
  size_t handle() { return reinterpret_cast<size_t>(event_->handle()); }

 private:
  const Device device_;
  const std::unique_ptr<DeviceEvent> event_;
};

py::typing::Dict<py::str, int64_t> cuda_attributes(int index) {
  py::typing::Dict<py::str, int64_t> found;
  for (const auto& [name, value] : cuda::device_attributes(index)) found[py::str(name)] = value;
  return found;
}

}  // namespace

void bind_events(py::module_& m) {
  py::class_<PythonEvent> event(m, "DeviceEvent", "A moment in a device's queue.");
  forbid_bare_new(event);
  event.def(py::init<int64_t, bool>(), py::arg("device"), py::arg("has_times"))
      .def("record", &PythonEvent::record, py::arg("queue"))
      .def("is_past", &PythonEvent::is_past)
      .def("synchronise", &PythonEvent::synchronise)
      .def("hold", &PythonEvent::hold, py::arg("device"), py::arg("queue"))
      .def("milliseconds_to", &PythonEvent::milliseconds_to, py::arg("later"))
      .def_property_readonly("handle", &PythonEvent::handle);
  m.def(
      "queue_handle",
      [](int64_t code) {
        const Device device = device_of(code);
        return reinterpret_cast<size_t>(runtime_of(device).queue_handle(device.index));
      },
      py::arg("device"), "The driver's handle of a device's queue.");
  m.def(
      "memory_info",
      [](int64_t code) {
        const Device device = device_of(code);
        const MemoryInfo info = runtime_of(device).memory_info(device.index);
        return std::pair(info.free_bytes, info.bytes);
      },
      py::arg("device"), "(free, all) bytes of a device, as its driver says.");
  m.def("cuda_attributes", cuda_attributes, py::arg("index"),
        "Numbers of a CUDA device by PyTorch's names.");
  m.def(
      "cuda_uuid", [](int index) { return py::bytes(cuda::device_uuid(index)); }, py::arg("index"));
  m.def("cuda_can_access_peer", cuda::can_access_peer, py::arg("index"), py::arg("peer"));
  m.def("cuda_architectures", cuda::compiled_architectures,
        "Compute capabilities that NVRTC makes code for: 90 for 9.0.");
}

}  // namespace tinyt
