// The arguments of a kernel in WGSL that are memory, as bindings: a buffer that is written may be
// bound once, so that arguments in the same buffer share a binding.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tinyt::webgpu {

// WritesParts: of words of 32 bits, which other threads write, too; by atomic operations.
enum class Access : uint8_t { Reads, Writes, WritesParts };

// Of each argument, in their order, as the lines say that the dialect has for them (gpu/wgsl.cpp).
std::vector<Access> accesses_of(const std::string& source);
// What the binding of argument `k` is used for by all arguments that have it: `bindings` is the
// number of the first argument in the same buffer, for each.
Access shared_access(std::span<const Access> accesses, std::span<const uint8_t> bindings, size_t k);
// The source with those bindings.
std::string with_bindings(const std::string& source, std::span<const Access> accesses,
                          std::span<const uint8_t> bindings);

}  // namespace tinyt::webgpu
