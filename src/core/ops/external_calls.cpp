#include "core/ops/external_calls.h"

#include <utility>

namespace tinyt::external {

namespace {

thread_local std::string t_error;

constexpr std::pair<int, ErrorKind> kStatuses[] = {
    {TINYT_OUT_OF_MEMORY, ErrorKind::OutOfMemory},
    {TINYT_NOT_IMPLEMENTED, ErrorKind::NotImplemented},
    {TINYT_BAD_VALUE, ErrorKind::Value},
    {TINYT_BAD_INDEX, ErrorKind::Index},
    {TINYT_FAILED, ErrorKind::Runtime},
};

}  // namespace

void set_error(std::string text) { t_error = std::move(text); }
std::string take_error() { return std::exchange(t_error, {}); }

void check(int status, std::string_view device, std::string_view what) {
  if (status == TINYT_OK) [[likely]]
    return;
  ErrorKind kind = ErrorKind::Runtime;
  for (const auto& [number, its] : kStatuses)
    if (number == status) kind = its;
  const std::string text = take_error();
  fail(kind, what, ": ", text.empty() ? "it failed" : text, " (", device, ")");
}

int status_of_error(const std::exception& error) noexcept {
  set_error(error.what());
  if (const auto* own = dynamic_cast<const Error*>(&error))
    for (const auto& [number, kind] : kStatuses)
      if (kind == own->kind()) return number;
  return TINYT_FAILED;
}

// ---- tensors, out and back

// All of what the handle stands for; `bytes` are the buffer's own.
TinytMemory memory_of(const Buffer& buffer) {
  void* host = buffer.host ? static_cast<char*>(buffer.host) - buffer.offset : nullptr;
  return {buffer.handle, host, buffer.bytes, buffer.device.index};
}

TinytTensor tensor_of(const Tensor& t) {
  const Buffer& buffer = t.storage().buffer;
  require(buffer.offset % t.itemsize() == 0, ErrorKind::Runtime, "a tensor of ", name_of(t.dtype()),
          " begins at byte ", buffer.offset, ", between two elements");
  return {memory_of(buffer),
          t.offset() + static_cast<int64_t>(buffer.offset / t.itemsize()),
          static_cast<int32_t>(t.dtype()),
          static_cast<int32_t>(t.rank()),
          t.shape().data(),
          t.strides().data()};
}

// From a byte of a buffer on.
TinytPlace place_in(const Buffer& buffer, size_t byte) {
  return {memory_of(buffer), buffer.offset + byte};
}

std::vector<TinytTensor> tensors_of(std::span<const Tensor> tensors) {
  std::vector<TinytTensor> out;
  out.reserve(tensors.size());
  for (const Tensor& t : tensors) out.push_back(tensor_of(t));
  return out;
}

bool is_dtype(int32_t dtype) { return dtype >= 0 && dtype < kDTypeCount; }

std::vector<Tensor> host_tensors(const TinytTensor* tensors, int32_t count) {
  std::vector<Tensor> out;
  require(count >= 0 && (tensors != nullptr || count == 0), ErrorKind::Value,
          "run_on_cpu: operands are missing");
  for (const TinytTensor& t : std::span(tensors, static_cast<size_t>(count))) {
    const auto rank = static_cast<size_t>(t.rank);
    require(t.rank >= 0 && is_dtype(t.dtype), ErrorKind::Value, "run_on_cpu: a tensor of rank ",
            t.rank, " and dtype ", t.dtype);
    require(t.memory.host != nullptr || t.memory.bytes == 0, ErrorKind::Device,
            "run_on_cpu: memory without a host address");
    out.push_back(Tensor::from_storage(Storage::foreign(
                                           t.memory.host, t.memory.bytes, [](void*) {}, nullptr),
                                       {t.shape, rank}, {t.strides, rank}, t.offset,
                                       static_cast<DType>(t.dtype)));
  }
  return out;
}

}  // namespace tinyt::external
