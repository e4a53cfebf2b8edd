// SHA-256 (FIPS 180-4).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace tinyt::gpu {

using Digest = std::array<uint8_t, 32>;

class Sha256 {
 public:
  Sha256& add(std::string_view bytes);
  // Of all that was added; nothing is added after it.
  Digest finish();

 private:
  void add_block(const uint8_t* block);

  std::array<uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<uint8_t, 64> rest_{};  // the bytes beyond the last whole block
  uint64_t bytes_ = 0;
};

// In hexadecimal.
std::string to_hex(const Digest& digest);

}  // namespace tinyt::gpu
