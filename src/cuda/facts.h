// What CUDA's driver and compiler say of devices, none of which is opened for it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tinyt::cuda {

// Numbers of a device by PyTorch's names of them; those that the driver does not know are left out.
std::vector<std::pair<std::string_view, int64_t>> device_attributes(int index);
// Its 16 bytes.
std::string device_uuid(int index);
bool can_access_peer(int index, int peer);
// That the compiler makes code for: 90 for 9.0.
std::vector<int> compiled_architectures();

}  // namespace tinyt::cuda
