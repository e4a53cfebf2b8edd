#include "gpu/dialect.h"

#include "core/base/error.h"

namespace tinyt::gpu {

namespace {

constexpr const Dialect* kDialects[] = {&kC99,    &kCuda,      &kHip,  &kMetal,
                                        &kOpenCl, &kOpenClGpu, &kWgsl, &kWgslTwoWords};

}  // namespace

std::span<const Dialect* const> dialects() { return kDialects; }

const Dialect& dialect_of(std::string_view name) {
  for (const Dialect* dialect : kDialects)
    if (dialect->name == name) return *dialect;
  std::string known;
  for (const Dialect* dialect : kDialects)
    known += (known.empty() ? "" : ", ") + std::string(dialect->name);
  fail(ErrorKind::Value, "no dialect ", name, ", only ", known);
}

}  // namespace tinyt::gpu
