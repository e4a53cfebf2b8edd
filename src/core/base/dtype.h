// Dtypes: the enum, facts and promotion, all derived from dtype.def.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tinyt {

// Storage types with no arithmetic: kernels convert tiles of them (cpu/simd/convert.h).
struct Half {
  uint16_t bits;
};
struct BFloat16 {
  uint16_t bits;
};
struct ComplexFloat {
  float re, im;
};
struct ComplexDouble {
  double re, im;
};

enum class DType : uint8_t {
#define TINYT_DTYPE(id, ...) id,
#include "core/base/dtype.def"
#undef TINYT_DTYPE
};

// Promotion never goes down this order.
enum class Category : uint8_t { Bool, Integer, Float, Complex };

struct DTypeInfo {
  std::string_view name;
  std::string_view alias;
  size_t size;
  Category category;
  DType compute;
};

inline constexpr DTypeInfo kDTypes[] = {
#define TINYT_DTYPE(id, name, alias, type, category, compute) \
  {name, alias, sizeof(type), Category::category, DType::compute},
#include "core/base/dtype.def"
#undef TINYT_DTYPE
};
inline constexpr int kDTypeCount = sizeof(kDTypes) / sizeof(kDTypes[0]);

constexpr const DTypeInfo& info(DType t) { return kDTypes[static_cast<int>(t)]; }
constexpr size_t size_of(DType t) { return info(t).size; }
constexpr std::string_view name_of(DType t) { return info(t).name; }
constexpr bool is_bool(DType t) { return t == DType::Bool; }
constexpr bool is_integer(DType t) { return info(t).category == Category::Integer; }
constexpr bool is_integral(DType t) { return info(t).category <= Category::Integer; }
constexpr bool is_float(DType t) { return info(t).category == Category::Float; }
constexpr bool is_half(DType t) { return t == DType::Float16 || t == DType::BFloat16; }
constexpr bool is_complex(DType t) { return info(t).category == Category::Complex; }
// The dtype of a complex number's parts, and the one whose parts are of dtype t; t where none is.
constexpr DType real_of(DType t) {
  if (!is_complex(t)) return t;
  return t == DType::Complex128 ? DType::Float64 : DType::Float32;
}
constexpr DType complex_of(DType t) {
  if (t == DType::Float32) return DType::Complex64;
  return t == DType::Float64 ? DType::Complex128 : t;
}
constexpr bool is_differentiable(DType t) { return info(t).category >= Category::Float; }

// The dtype both operands convert to (PyTorch's table, computed in dtype.cpp).
DType promote(DType a, DType b);

// Whether a value of `from` may be written to a tensor of `to`: the category may not go down.
constexpr bool can_cast(DType from, DType to) {
  return info(from).category <= info(to).category ||
         (info(from).category == Category::Integer && info(to).category == Category::Integer);
}

DType default_dtype();
void set_default_dtype(DType t);

// Maps C++ storage types to dtypes, for typed code.
template <class T>
struct DTypeOf;
#define TINYT_MAP(type, id)                   \
  template <>                                 \
  struct DTypeOf<type> {                      \
    static constexpr DType value = DType::id; \
  };
TINYT_MAP(uint8_t, UInt8)
TINYT_MAP(int8_t, Int8)
TINYT_MAP(int16_t, Int16)
TINYT_MAP(int32_t, Int32)
TINYT_MAP(int64_t, Int64)
TINYT_MAP(Half, Float16)
TINYT_MAP(BFloat16, BFloat16)
TINYT_MAP(float, Float32)
TINYT_MAP(double, Float64)
TINYT_MAP(ComplexFloat, Complex64)
TINYT_MAP(ComplexDouble, Complex128)
#undef TINYT_MAP

}  // namespace tinyt
