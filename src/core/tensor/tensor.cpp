#include "core/tensor/tensor.h"

#include "core/base/checked.h"
#include "core/base/error.h"

namespace tinyt {

namespace {

std::atomic<int64_t> g_live_tensors{0};

Tensor make_tensor(Ref<Storage> storage, std::span<const int64_t> shape,
                   std::span<const int64_t> strides, int64_t offset, DType dtype) {
  const int64_t numel = numel_of(shape);
  if (numel == 0 || numel > kMostElements) [[unlikely]]
    check_span(shape);
  auto* t = new TensorImpl;
  t->storage = std::move(storage);
  t->shape = shape;
  t->strides = strides;
  t->offset = offset;
  t->numel = numel;
  t->dtype = dtype;
  t->contiguous = is_contiguous(shape, strides);
  g_live_tensors.fetch_add(1, std::memory_order_relaxed);
  return Tensor(Ref<TensorImpl>(t));
}

template <class T>
Tensor scalar_of(DType dtype, T v) {
  Tensor t = Tensor::number(dtype);
  *t.ptr<T>() = v;
  t.impl()->is_scalar = true;
  return t;
}

}  // namespace

Ref<Storage> Storage::allocate(size_t bytes, Device device) {
  Ref<Storage> s(new Storage);
  s->buffer = memory::allocator_of(device).allocate(bytes);
  return s;
}

Ref<Storage> Storage::without_memory(size_t bytes, Device device) {
  Ref<Storage> s(new Storage);
  s->buffer.bytes = bytes;
  s->buffer.device = device;
  return s;
}

Ref<Storage> Storage::of_number(DType dtype) {
  Ref<Storage> s(new Storage);
  s->buffer.host = s->number.data();
  s->buffer.bytes = size_of(dtype);
  return s;
}

Ref<Storage> Storage::foreign(void* data, size_t bytes, void (*release)(void*), void* owner) {
  Ref<Storage> s(new Storage);
  s->buffer.host = data;
  s->buffer.bytes = bytes;
  s->release_foreign = release;
  s->owner = owner;
  return s;
}

void Storage::destroy(Storage* s) {
  if (s->release_foreign)
    s->release_foreign(s->owner);
  else if (s->buffer.from)
    s->buffer.from->release(s->buffer);
  delete s;
}

void TensorImpl::destroy(TensorImpl* t) {
  delete t;
  g_live_tensors.fetch_sub(1, std::memory_order_relaxed);
}

int64_t live_tensors() { return g_live_tensors.load(std::memory_order_relaxed); }

Tensor Tensor::empty(std::span<const int64_t> shape, DType dtype, Device device) {
  return make_tensor(Storage::allocate(bytes_of("empty", shape, dtype), device), shape,
                     contiguous_strides(shape), 0, dtype);
}

Tensor Tensor::number(DType dtype) {
  return make_tensor(Storage::of_number(dtype), {}, {}, 0, dtype);
}

Tensor Tensor::from_storage(Ref<Storage> storage, std::span<const int64_t> shape,
                            std::span<const int64_t> strides, int64_t offset, DType dtype) {
  return make_tensor(std::move(storage), shape, strides, offset, dtype);
}

Tensor Tensor::scalar(double v) { return scalar_of(DType::Float64, v); }
Tensor Tensor::scalar(int64_t v) { return scalar_of(DType::Int64, v); }
Tensor Tensor::scalar(bool v) { return scalar_of(DType::Bool, static_cast<uint8_t>(v)); }

Tensor Tensor::scalar(ComplexDouble v) { return scalar_of(DType::Complex128, v); }

Tensor Tensor::view(std::span<const int64_t> shape, std::span<const int64_t> strides,
                    int64_t offset) const {
  return view_as(impl_->dtype, shape, strides, offset);
}

Tensor Tensor::in(Ref<Storage> storage) const {
  auto* t = new TensorImpl;
  t->storage = std::move(storage);
  t->shape = impl_->shape;
  t->strides = impl_->strides;
  t->offset = impl_->offset;
  t->numel = impl_->numel;
  t->dtype = impl_->dtype;
  t->contiguous = impl_->contiguous;
  g_live_tensors.fetch_add(1, std::memory_order_relaxed);
  return Tensor(Ref<TensorImpl>(t));
}

Tensor Tensor::data_alias(bool alias) const {
  Tensor out = view(impl_->shape, impl_->strides, impl_->offset);
  out.impl()->data_alias = alias;
  return out;
}

Tensor Tensor::view_as(DType dtype, std::span<const int64_t> shape,
                       std::span<const int64_t> strides, int64_t offset) const {
  Tensor out = make_tensor(impl_->storage, shape, strides, offset, dtype);
  out.impl()->data_alias = impl_->data_alias;
  return out;
}

void Tensor::refuse_host_address() const {
  fail(ErrorKind::Device, "the host cannot read the memory of ", name_of(device()),
       "; copy the tensor to the CPU first");
}

Tensor geometry_of(const Tensor& x) {
  Tensor out = Tensor::from_storage(Storage::without_memory(0, x.device()), x.shape(), x.strides(),
                                    x.offset(), x.dtype());
  out.impl()->is_scalar = x.impl()->is_scalar;
  return out;
}

std::pair<int64_t, int64_t> element_range(const Tensor& t) {
  int64_t low = t.offset(), high = t.offset();
  for (size_t d = 0; d < t.shape().size(); ++d) {
    const int64_t span = (t.size(d) - 1) * t.stride(d);
    (span < 0 ? low : high) += span;
  }
  return {low, high + 1};
}

std::pair<int64_t, int64_t> byte_span(const Tensor& t) {
  const auto [first, last] = element_range(t);
  const auto item = static_cast<int64_t>(t.itemsize());
  return {first * item, last * item};
}

std::pair<const char*, const char*> byte_range(const Tensor& t) {
  const auto [first, last] = byte_span(t);
  const auto* data = static_cast<const char*>(t.storage().buffer.host);
  return {data + first, data + last};
}

bool ranges_overlap(const Tensor& a, const Tensor& b) {
  if (a.numel() == 0 || b.numel() == 0) return false;
  if (&a.storage() == &b.storage()) {  // which need have no memory
    const auto [a0, a1] = byte_span(a);
    const auto [b0, b1] = byte_span(b);
    return a0 < b1 && b0 < a1;
  }
  if (!a.storage().release_foreign && !b.storage().release_foreign) return false;
  const auto [a0, a1] = byte_range(a);
  const auto [b0, b1] = byte_range(b);
  return a0 < b1 && b0 < a1;
}

bool same_view(const Tensor& a, const Tensor& b) {
  const auto start = [](const Tensor& t) {
    return t.offset() * static_cast<int64_t>(t.itemsize());
  };
  const void *x = a.storage().buffer.host, *y = b.storage().buffer.host;
  const bool same_start = &a.storage() == &b.storage() ? start(a) == start(b)
                                                       : x && y && a.host_data() == b.host_data();
  return same_start && a.dtype() == b.dtype() && a.shape() == b.shape() &&
         a.strides() == b.strides();
}

bool covers_storage(const Tensor& x) {
  return x.is_contiguous() && x.offset() == 0 &&
         static_cast<size_t>(x.numel()) * x.itemsize() == x.storage().buffer.bytes;
}

}  // namespace tinyt
