#include "core/base/dtype.h"

#include <atomic>

namespace tinyt {

namespace {

std::atomic<DType> g_default{DType::Float32};

}  // namespace

DType promote(DType a, DType b) {
  if (a == b) return a;
  if (info(a).category > info(b).category) std::swap(a, b);  // b has the higher category
  const Category ca = info(a).category, cb = info(b).category;
  if (cb == Category::Complex) {
    const bool wide = a == DType::Float64 || a == DType::Complex128 || b == DType::Complex128;
    return wide ? DType::Complex128 : DType::Complex64;
  }
  if (ca < cb) return b;
  if (cb == Category::Float) {
    if (is_half(a) && is_half(b)) return DType::Float32;
    return a > b ? a : b;
  }
  // Integers: uint8 with a signed type needs a signed type that holds both.
  if (a > b) std::swap(a, b);
  if (a == DType::UInt8) return b == DType::Int8 ? DType::Int16 : b;
  return b;
}

DType default_dtype() { return g_default.load(std::memory_order_relaxed); }
void set_default_dtype(DType t) { g_default.store(t, std::memory_order_relaxed); }

}  // namespace tinyt
