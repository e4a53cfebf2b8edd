// DLPack exchange of CPU tensors. The structures are the ABI of DLPack 0.8 and 1.0 (dmlc/dlpack).
#pragma once

#include <Python.h>

#include <cstring>
#include <memory>

#include "call.h"
#include "core/base/checked.h"

namespace tinyt {

namespace dlpack {

struct Device {
  int32_t type;  // 1: CPU
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

inline constexpr int32_t kCpu = 1;
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
  explicit Lent(const Tensor& t) : tensor(t) { lend(t); }
  ~Lent() { take_back(tensor); }
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
M* export_tensor(const Tensor& t) {
  auto* e = new Export<M>{Lent(t), t.shape(), t.strides(), {}};
  e->managed.context = e;
  e->managed.deleter = [](M* m) { delete static_cast<Export<M>*>(m->context); };
  e->managed.array = {t.host_data(),
                      {kCpu, 0},
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

template <class M>
Tensor import_tensor(M* m) {
  const Array& a = m->array;
  auto release = [](void* owner) {
    auto* managed = static_cast<M*>(owner);
    if (!managed->deleter) return;
    const PythonLocked lock;
    managed->deleter(managed);
  };
  auto* data = static_cast<char*>(a.data) + a.byte_offset;
  Ref<Storage> storage = Storage::foreign(data, 0, release, m);
  require(a.device.type == kCpu, ErrorKind::Device,
          "from_dlpack: only CPU tensors are supported, got device type ", a.device.type);
  require(a.ndim >= 0 && (a.ndim == 0 || a.shape), ErrorKind::Value, "from_dlpack: an array of ",
          a.ndim, " dimensions must say its sizes");
  const DType dtype = dtype_of(a.dtype);
  const Dims shape(std::span<const int64_t>(a.shape, static_cast<size_t>(a.ndim)));
  Dims strides = contiguous_strides(shape);
  if (a.strides) strides = Dims(std::span<const int64_t>(a.strides, shape.size()));
  for (size_t d = 0; d < shape.size(); ++d) {
    require(strides[d] >= 0 || shape[d] <= 1, ErrorKind::Value,
            "from_dlpack: negative strides are not supported, got ", strides);
    require(shape[d] >= 0, ErrorKind::Value, "from_dlpack: sizes must not be negative, got ",
            shape);
  }
  const bool empty = numel_of(shape) == 0;
  check_reach("from_dlpack", shape, strides);
  int64_t last = 0;
  for (size_t d = 0; d < shape.size(); ++d) last += (shape[d] - 1) * strides[d];
  const size_t boundary = size_of(dtype) / (is_complex(dtype) ? 2 : 1);
  require(empty || (a.data && reinterpret_cast<uintptr_t>(data) % boundary == 0), ErrorKind::Value,
          "from_dlpack: the memory must be aligned to ", boundary, " bytes for elements of ",
          name_of(dtype), "; copy the array first");
  storage->buffer.bytes = empty ? 0 : static_cast<size_t>(last + 1) * size_of(dtype);
  return Tensor::from_storage(std::move(storage), shape, strides, 0, dtype);
}

}  // namespace dlpack

inline PyObject* to_dlpack_capsule(const Tensor& t, bool versioned) {
  require_readable("__dlpack__", t);
  if (!versioned) {
    require(!t.storage().read_only, ErrorKind::Runtime,
            "__dlpack__: read-only memory needs max_version >= (1, 0)");
    return PyCapsule_New(dlpack::export_tensor<dlpack::Managed>(t), "dltensor",
                         [](PyObject* c) { dlpack::drop_capsule<dlpack::Managed>(c, "dltensor"); });
  }
  auto* m = dlpack::export_tensor<dlpack::ManagedVersioned>(t);
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
