// DLPack exchange of tensors of the CPU and of CUDA devices. The structures are the ABI of DLPack
// 0.8 and 1.0 (dmlc/dlpack).
#pragma once

#include <Python.h>

#include <cstring>
#include <memory>

#include "call.h"
#include "cuda/interop.h"
#include "devices.h"
#include "foreign_memory.h"

namespace tinyt {

namespace dlpack {

struct Device {
  int32_t type;  // kCpu and so on
  int32_t id;
};
struct DataType {
  uint8_t code;  // 0 int, 1 uint, 2 float, 4 bfloat, 5 complex, 6 bool
  uint8_t bits;
  uint16_t lanes;
};
struct Array {
  void* data;
  Device device;
  int32_t ndim;
  DataType dtype;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
};
struct Managed {
  Array array;
  void* context;
  void (*deleter)(Managed*);
};
struct ManagedVersioned {
  uint32_t major, minor;
  void* context;
  void (*deleter)(ManagedVersioned*);
  uint64_t flags;  // 1: read-only, 2: copied
  Array array;
};

inline constexpr int32_t kCpu = 1, kCuda = 2, kCudaHost = 3, kRocm = 10, kRocmHost = 11,
                         kCudaManaged = 13;
inline constexpr uint64_t kReadOnly = 1;

inline DataType type_of(DType t) {
  const auto bits = static_cast<uint8_t>(size_of(t) * 8);
  if (is_bool(t)) return {6, 8, 1};
  if (t == DType::UInt8) return {1, 8, 1};
  if (is_integral(t)) return {0, bits, 1};
  if (t == DType::BFloat16) return {4, 16, 1};
  return {static_cast<uint8_t>(is_complex(t) ? 5 : 2), bits, 1};
}

inline DType dtype_of(DataType t) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const DataType known = type_of(static_cast<DType>(i));
    if (known.code == t.code && known.bits == t.bits && t.lanes == 1) return static_cast<DType>(i);
  }
  fail(ErrorKind::Type, "from_dlpack: dtype code ", int{t.code}, " with ", int{t.bits},
       " bits is not supported");
}

// What an exported tensor keeps alive.
struct Lent {
  Tensor tensor;
  bool by_legacy_stream;  // whether it is used in CUDA's legacy default stream
  Lent(const Tensor& t, bool legacy) : tensor(t), by_legacy_stream(legacy) { lend(t); }
  ~Lent() {
    if (by_legacy_stream) cuda::wait_for_legacy_stream(tensor.device());
    take_back(tensor);
  }
  Lent(const Lent&) = delete;
  Lent& operator=(const Lent&) = delete;
};
template <class M>
struct Export {
  Lent lent;
  Dims shape, strides;
  M managed;
};

template <class M>
M* export_tensor(const Tensor& t, bool by_legacy_stream) {
  auto* e = new Export<M>{Lent(t, by_legacy_stream), t.shape(), t.strides(), {}};
  e->managed.context = e;
  e->managed.deleter = [](M* m) { delete static_cast<Export<M>*>(m->context); };
  const bool on_cuda = cuda::is_cuda(t.device());
  e->managed.array = {on_cuda ? reinterpret_cast<void*>(cuda::address_of(t)) : t.host_data(),
                      {dlpack_device_type(t), on_cuda ? t.device().index : 0},
                      static_cast<int32_t>(t.rank()),
                      type_of(t.dtype()),
                      e->shape.data(),
                      e->strides.data(),
                      0};
  return &e->managed;
}

// A capsule nobody consumed still owns its tensor.
template <class M>
void drop_capsule(PyObject* capsule, const char* name) {
  if (!PyCapsule_IsValid(capsule, name)) return;
  auto* m = static_cast<M*>(PyCapsule_GetPointer(capsule, name));
  if (m->deleter) m->deleter(m);
}

// Memory of the host, or of a CUDA device.
inline bool is_of_host(Device device) {
  return device.type == kCpu || device.type == kCudaHost || device.type == kRocmHost;
}
inline bool is_of_cuda(Device device) {
  return device.type == kCuda || device.type == kCudaManaged || device.type == kRocm;
}

template <class M>
void release_managed(void* owner) {
  auto* managed = static_cast<M*>(owner);
  if (!managed->deleter) return;
  const PythonLocked lock;
  managed->deleter(managed);
}

// The memory of an array, which takes over what is to be released.
template <class M>
Ref<Storage> imported_storage(std::unique_ptr<M, void (*)(M*)> owned, size_t bytes, size_t boundary,
                              DType dtype) {
  const Array& a = owned->array;
  char* data = static_cast<char*>(a.data) + a.byte_offset;
  const auto address = reinterpret_cast<uintptr_t>(data);
  const bool on_host = is_of_host(a.device);
  if (!on_host) boundary = size_of(dtype);
  require(bytes == 0 || (a.data && address % boundary == 0), ErrorKind::Value,
          "from_dlpack: the memory must be aligned to ", boundary, " bytes for elements of ",
          name_of(dtype), "; copy the array first");
  if (on_host) {
    Ref<Storage> storage = Storage::foreign(data, bytes, release_managed<M>, owned.get());
    (void)owned.release();
    return storage;
  }
  const tinyt::Device device = cuda::cuda_device(a.device.id);
  if (bytes > 0 && a.device.type != kCudaManaged) {
    const auto found = cuda::device_of_memory(address);
    require(found == device, ErrorKind::Device, "from_dlpack: the array says that it is on ",
            name_of(device), ", and its memory is ",
            found ? "on " + name_of(*found) : "none of this process's CUDA devices",
            "; copy it to the CPU first");
  }
  Ref<Storage> storage =
      cuda::foreign_memory(device, address, bytes, release_managed<M>, owned.get());
  (void)owned.release();
  return storage;
}

template <class M>
Tensor import_tensor(M* m) {
  const Array& a = m->array;
  std::unique_ptr<M, void (*)(M*)> owned(m, [](M* managed) { release_managed<M>(managed); });
  require(
      is_of_host(a.device) || is_of_cuda(a.device), ErrorKind::Device,
      "from_dlpack: only CPU tensors, and those of CUDA devices, are supported, got device type ",
      a.device.type, "; copy it to the CPU first");
  require(a.ndim >= 0 && (a.ndim == 0 || a.shape), ErrorKind::Value, "from_dlpack: an array of ",
          a.ndim, " dimensions must say its sizes");
  const DType dtype = dtype_of(a.dtype);
  const Dims shape(std::span<const int64_t>(a.shape, static_cast<size_t>(a.ndim)));
  Dims strides = contiguous_strides(shape);
  if (a.strides) strides = Dims(std::span<const int64_t>(a.strides, shape.size()));
  const size_t bytes = foreign_bytes("from_dlpack", shape, strides, dtype);
  const size_t boundary = size_of(dtype) / (is_complex(dtype) ? 2 : 1);
  Ref<Storage> storage = imported_storage<M>(std::move(owned), bytes, boundary, dtype);
  return Tensor::from_storage(std::move(storage), shape, strides, 0, dtype);
}

}  // namespace dlpack

// Of CUDA, `by_legacy_stream`: its memory is used again when the legacy default stream has done
// with it.
inline PyObject* to_dlpack_capsule(const Tensor& t, bool versioned, bool by_legacy_stream) {
  require_readable("__dlpack__", t);
  if (!versioned) {
    require(!t.storage().read_only, ErrorKind::Runtime,
            "__dlpack__: read-only memory needs max_version >= (1, 0)");
    return PyCapsule_New(dlpack::export_tensor<dlpack::Managed>(t, by_legacy_stream), "dltensor",
                         [](PyObject* c) { dlpack::drop_capsule<dlpack::Managed>(c, "dltensor"); });
  }
  auto* m = dlpack::export_tensor<dlpack::ManagedVersioned>(t, by_legacy_stream);
  m->major = 1;
  m->minor = 0;
  m->flags = t.storage().read_only ? dlpack::kReadOnly : 0;
  return PyCapsule_New(m, "dltensor_versioned", [](PyObject* c) {
    dlpack::drop_capsule<dlpack::ManagedVersioned>(c, "dltensor_versioned");
  });
}

// Takes the tensor out of a capsule and marks it as used.
inline Tensor from_dlpack_capsule(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
    auto* m =
        static_cast<dlpack::ManagedVersioned*>(PyCapsule_GetPointer(capsule, "dltensor_versioned"));
    require(m->major == 1, ErrorKind::Runtime, "from_dlpack: version ", m->major,
            " of the protocol is not supported");
    PyCapsule_SetName(capsule, "used_dltensor_versioned");
    Tensor t = dlpack::import_tensor(m);
    t.storage().read_only = (m->flags & dlpack::kReadOnly) != 0;
    return t;
  }
  if (!PyCapsule_IsValid(capsule, "dltensor"))
    fail(ErrorKind::Type, "from_dlpack: expected an unused 'dltensor' capsule");
  auto* m = static_cast<dlpack::Managed*>(PyCapsule_GetPointer(capsule, "dltensor"));
  PyCapsule_SetName(capsule, "used_dltensor");
  return dlpack::import_tensor(m);
}

}  // namespace tinyt
