// What CUDA devices share with other libraries, and pinned memory, for Python.
#include "cuda/interop.h"

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <vector>

#include "casters.h"
#include "core/memory/allocator.h"
#include "core/ops/to_device.h"
#include "foreign_memory.h"
#include "python_lock.h"
#include "submodules.h"

namespace py = pybind11;

namespace tinyt {

namespace {

Device cuda_device_of(int64_t code) {
  const Device device = device_of(code);
  require(cuda::is_cuda(device), ErrorKind::Device, "cuda: no CUDA device has the number ", code);
  return device;
}

// A tensor over memory of a CUDA device, which Python's object `owner` keeps. Strides count bytes.
Tensor cuda_array(const py::object& owner, uint64_t address, const std::vector<int64_t>& sizes,
                  const std::optional<std::vector<int64_t>>& steps, int dtype_number,
                  bool is_read_only, std::optional<int64_t> stream) {
  constexpr const char* kOp = "__cuda_array_interface__";
  const auto dtype = static_cast<DType>(dtype_number);
  const auto itemsize = static_cast<int64_t>(size_of(dtype));
  const Dims shape{std::span<const int64_t>(sizes)};
  for (const int64_t size : shape)
    require(size >= 0, ErrorKind::Value, kOp, ": sizes must not be negative, got ", shape);
  Dims strides = contiguous_strides(shape);
  if (steps) {
    require(steps->size() == shape.size(), ErrorKind::Value, kOp, ": ", shape.size(), " sizes and ",
            steps->size(), " strides");
    for (size_t d = 0; d < shape.size(); ++d) {
      const int64_t step = (*steps)[d];
      require(step % itemsize == 0, ErrorKind::Value, kOp, ": strides must be multiples of the ",
              "element size, got ", step, " bytes in dimension ", d, "; copy the array first");
      strides[d] = step / itemsize;
    }
  }
  const size_t bytes = foreign_bytes(kOp, shape, strides, dtype);
  require(bytes == 0 || (address != 0 && address % size_of(dtype) == 0), ErrorKind::Value, kOp,
          ": the memory must be aligned to ", size_of(dtype), " bytes for elements of ",
          name_of(dtype), "; copy the array first");
  const std::optional<Device> device =
      bytes == 0 ? cuda::cuda_device(0) : cuda::device_of_memory(address);
  require(device.has_value(), ErrorKind::Device, kOp,
          ": the memory is none of this process's CUDA devices; copy the array to the CPU first");
  if (stream) cuda::wait_for_stream(*device, *stream);
  const auto release = [](void* object) {
    const PythonLocked lock;
    Py_DECREF(static_cast<PyObject*>(object));
  };
  Ref<Storage> storage =
      cuda::foreign_memory(*device, address, bytes, release, py::object(owner).release().ptr());
  storage->read_only = is_read_only;
  return Tensor::from_storage(std::move(storage), shape, strides, 0, dtype);
}

// A block of Python's in which copies between the host and devices need not be done when they
// return; with `pinned` what is made on the CPU is in pinned memory.
class CopyScope {
 public:
  CopyScope(bool pinned, bool later) : pinned_(pinned), later_(later) {}
  void enter() {
    if (memory::Allocator* from = pinned_ ? cuda::pinned_memory() : nullptr)
      substitute_ = std::make_unique<memory::Substitute>(from);
    if (later_) copies_ = std::make_unique<LaterCopies>();
  }
  void exit() {
    copies_.reset();
    substitute_.reset();
  }

 private:
  const bool pinned_, later_;
  std::unique_ptr<memory::Substitute> substitute_;
  std::unique_ptr<LaterCopies> copies_;
};

}  // namespace

void bind_cuda_interop(py::module_& m) {
  m.def(
      "cuda_stream", [](int index) { return cuda::stream_handle(cuda::cuda_device(index)); },
      py::arg("index"), "The handle of the stream that a CUDA device's work goes to.");
  m.def(
      "cuda_let_stream_wait",
      [](int64_t device, int64_t stream) { cuda::let_stream_wait(cuda_device_of(device), stream); },
      py::arg("device"), py::arg("stream"),
      "Another library's stream waits for what the device was asked for.");
  m.def("cuda_array", cuda_array, py::arg("owner"), py::arg("address"), py::arg("shape"),
        py::arg("strides").none(true), py::arg("dtype"), py::arg("read_only"),
        py::arg("stream").none(true),
        "A tensor over memory of a CUDA device that an object keeps; strides count bytes.");
  m.def(
      "has_pinned_memory",
      [] {
        const py::gil_scoped_release unlocked;
        return cuda::pinned_memory() != nullptr;
      },
      "Whether there is a CUDA device, which is opened.");
  m.def("is_pinned", cuda::is_pinned, py::arg("x"), "Whether devices copy from its memory.");
  py::class_<CopyScope> scope(m, "CopyScope", "Copies that need not be done when they return.");
  forbid_bare_new(scope);
  scope.def(py::init<bool, bool>(), py::arg("pinned"), py::arg("later"))
      .def("__enter__", &CopyScope::enter)
      .def("__exit__", [](CopyScope& self, const py::args&) { self.exit(); });
}

}  // namespace tinyt
