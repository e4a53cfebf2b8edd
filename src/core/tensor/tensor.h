// The tensor: a counted storage seen through a shape, strides and an offset.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "core/base/dtype.h"
#include "core/base/shape.h"
#include "core/device/buffer.h"
#include "core/memory/allocator.h"

namespace tinyt {

class Lazy;

// Intrusive reference counting: T has `std::atomic<int64_t> refs` and `static void destroy(T*)`.
template <class T>
class Ref {
 public:
  Ref() = default;
  explicit Ref(T* p) : p_(p) {}  // takes over one reference
  Ref(const Ref& o) : p_(o.p_) {
    if (p_) p_->refs.fetch_add(1, std::memory_order_relaxed);
  }
  Ref(Ref&& o) noexcept : p_(std::exchange(o.p_, nullptr)) {}
  Ref& operator=(Ref o) noexcept {
    std::swap(p_, o.p_);
    return *this;
  }
  ~Ref() {
    if (p_ && p_->refs.fetch_sub(1, std::memory_order_acq_rel) == 1) T::destroy(p_);
  }
  T* get() const { return p_; }
  T* operator->() const { return p_; }
  T& operator*() const { return *p_; }
  explicit operator bool() const { return p_ != nullptr; }

 private:
  T* p_ = nullptr;
};

// Bytes shared by all views of them. While recording, `graph` is set instead of data: the storage
// is a cell whose current value is the graph's value number `value`.
struct Storage {
  std::atomic<int64_t> refs{1};
  Buffer buffer;
  // Counts writes; views share it, saved tensors compare it.
  uint64_t version = 0;
  // Of them, those through `x.data`, which autograd does not see in x (Tensor::version).
  uint64_t data_writes = 0;
  uint64_t graph = 0;  // id of the recording graph, 0: real data
  int64_t value = -1;
  // Memory of somebody else (NumPy, DLPack): called with `owner` instead of the allocator.
  void (*release_foreign)(void* owner) = nullptr;
  void* owner = nullptr;
  bool read_only = false;
  // Others that may read and write the memory now, as an array over it does.
  std::atomic<int32_t> exports{0};
  // Lazy recordings (lazy.h) that hold it, and the one that will make or write what it holds.
  std::atomic<int32_t> held{0};
  std::atomic<Lazy*> lazy{nullptr};
  std::unique_ptr<const std::string> fault;  // why it was never made
  alignas(ComplexDouble) std::array<std::byte, sizeof(ComplexDouble)> number;  // memory of one

  static Ref<Storage> allocate(size_t bytes, Device device);
  static Ref<Storage> of_number(DType dtype);
  // What is to get memory later, or stands for some.
  static Ref<Storage> without_memory(size_t bytes, Device device);
  static Ref<Storage> foreign(void* data, size_t bytes, void (*release)(void*), void* owner);
  static void destroy(Storage* s);
};

struct TensorImpl {
  std::atomic<int64_t> refs{1};
  Ref<Storage> storage;
  Dims shape;
  Dims strides;        // in elements
  int64_t offset = 0;  // in elements, from the start of the storage
  int64_t numel = 0;
  DType dtype = DType::Float32;
  bool contiguous = true;
  bool is_scalar = false;   // made from a Python number: weak in promotion
  bool data_alias = false;  // `x.data` and its views: their writes are counted apart
  // While recording: the graph's value number of this very tensor, and the storage version it is
  // for; a later write through another view makes it stale.
  int64_t value = -1;
  uint64_t value_version = 0;
  uint64_t value_graph = 0;
  // Which one a traced recording has made, or of which formula a number is (CaptureLog::number_of).
  int64_t traced = -1;

  static void destroy(TensorImpl* t);
};

// Tensors alive now, for leak checks.
int64_t live_tensors();

class Tensor;
// The front end may decide by the geometry of a recorded tensor, which a trace then holds.
void note_seen(const Tensor& x);

class Tensor {
 public:
  Tensor() = default;
  explicit Tensor(Ref<TensorImpl> impl) : impl_(std::move(impl)) {}

  // Uninitialised, contiguous.
  static Tensor empty(std::span<const int64_t> shape, DType dtype, Device device = {});
  static Tensor from_storage(Ref<Storage> storage, std::span<const int64_t> shape,
                             std::span<const int64_t> strides, int64_t offset, DType dtype);
  static Tensor number(DType dtype);  // 0-d, uninitialised, in memory of its own
  // 0-d from a Python number; weak in promotion.
  static Tensor scalar(double v);
  static Tensor scalar(int64_t v);
  static Tensor scalar(bool v);
  static Tensor scalar(ComplexDouble v);

  // The same storage seen otherwise; no checks against the storage's size.
  Tensor view(std::span<const int64_t> shape, std::span<const int64_t> strides,
              int64_t offset) const;
  // The same shape, strides and offset in other memory.
  Tensor in(Ref<Storage> storage) const;
  // The same elements with a version counter of their own.
  Tensor data_alias(bool alias = true) const;
  // The same with another element type; strides and offset count its elements.
  Tensor view_as(DType dtype, std::span<const int64_t> shape, std::span<const int64_t> strides,
                 int64_t offset) const;

  explicit operator bool() const { return static_cast<bool>(impl_); }
  TensorImpl* impl() const { return impl_.get(); }
  // The same, for code that no trace follows.
  const Tensor& observe_shape() const {
    if (impl_->traced >= 0 || is_recorded()) [[unlikely]]
      note_seen(*this);
    return *this;
  }
  const Dims& shape() const { return impl_->shape; }
  const Dims& strides() const { return impl_->strides; }
  int64_t size(size_t d) const { return impl_->shape[d]; }
  int64_t stride(size_t d) const { return impl_->strides[d]; }
  int64_t rank() const { return static_cast<int64_t>(impl_->shape.size()); }
  int64_t numel() const { return impl_->numel; }
  int64_t offset() const { return impl_->offset; }
  DType dtype() const { return impl_->dtype; }
  Device device() const { return impl_->storage->buffer.device; }
  size_t itemsize() const { return size_of(impl_->dtype); }
  bool is_contiguous() const { return impl_->contiguous; }
  bool is_recorded() const { return impl_->storage->graph != 0; }
  Storage& storage() const { return *impl_->storage; }
  // The version counter of autograd: an alias `x.data` has one of its own, as in PyTorch.
  uint64_t version() const {
    const Storage& s = *impl_->storage;
    return impl_->data_alias ? s.data_writes : s.version - s.data_writes;
  }
  void count_write() const {
    ++impl_->storage->version;
    if (impl_->data_alias) ++impl_->storage->data_writes;
  }
  // The first element's address, for code of devices whose memory the host reads: DeviceError for
  // others.
  char* host_data() const {
    const Buffer& buffer = impl_->storage->buffer;
    if (buffer.host == nullptr && buffer.handle != nullptr) [[unlikely]]
      refuse_host_address();
    return static_cast<char*>(buffer.host) + impl_->offset * static_cast<int64_t>(itemsize());
  }
  template <class T>
  T* ptr() const {
    return reinterpret_cast<T*>(host_data());
  }

 private:
  [[noreturn, gnu::noinline]] void refuse_host_address() const;

  Ref<TensorImpl> impl_;
};

// A tensor of the same geometry, on the same device, without data.
Tensor geometry_of(const Tensor& x);
// First and one-past-last byte a tensor that is not empty reaches.
std::pair<const char*, const char*> byte_range(const Tensor& t);
// The same from its storage's first byte, which need have no address; and in elements.
std::pair<int64_t, int64_t> byte_span(const Tensor& t);
std::pair<int64_t, int64_t> element_range(const Tensor& t);
// True when the byte ranges the two tensors span have a byte in common.
bool ranges_overlap(const Tensor& a, const Tensor& b);
// True when both see exactly the same elements in the same order.
bool same_view(const Tensor& a, const Tensor& b);
// True when x shows every element of its storage once, in order.
bool covers_storage(const Tensor& x);

}  // namespace tinyt
