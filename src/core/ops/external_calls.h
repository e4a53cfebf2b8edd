// Calls through the C interface of backend_api.h: statuses and exceptions, tensors out and back.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.h"
#include "core/ops/backend_api.h"
#include "core/tensor/tensor.h"

namespace tinyt::external {

// The text of this thread's next status that is not TINYT_OK.
void set_error(std::string text);
std::string take_error();
// The exception for a status; nothing for TINYT_OK.
void check(int status, std::string_view device, std::string_view what);
// What a C function returns for an exception.
int status_of_error(const std::exception& error) noexcept;

// What a C function returns for what `body` throws.
template <class F>
int status_of(F&& body) noexcept {
  try {
    body();
    return TINYT_OK;
  } catch (const std::exception& error) {
    return status_of_error(error);
  }
}

TinytMemory memory_of(const Buffer& buffer);
TinytPlace place_in(const Buffer& buffer, size_t byte);
TinytTensor tensor_of(const Tensor& t);
std::vector<TinytTensor> tensors_of(std::span<const Tensor> tensors);
bool is_dtype(int32_t dtype);
// ValueError or DeviceError where one is none of the host's.
std::vector<Tensor> host_tensors(const TinytTensor* tensors, int32_t count);

}  // namespace tinyt::external
