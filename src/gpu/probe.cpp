#include "gpu/probe.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <type_traits>
#include <vector>

#include "core/base/error.h"
#include "core/base/random.h"
#include "core/ops/definition_builder.h"
#include "core/ops/to_device.h"
#include "gpu/map_kernel.h"

namespace tinyt::gpu {

namespace {

constexpr uint32_t kDrawn = 2048;  // triples of random bits

struct Probed {
  const char* name;
  bool Arithmetic::* found;
};
constexpr auto kProbed = std::to_array<Probed>({{"probe_fma", &Arithmetic::fma},
                                                {"probe_division", &Arithmetic::division},
                                                {"probe_root", &Arithmetic::root},
                                                {"probe_order", &Arithmetic::order},
                                                {"probe_product", &Arithmetic::product},
                                                {"probe_nan", &Arithmetic::nan}});
constexpr int64_t kResults = kProbed.size();

ScalarDefinition definition(size_t which, ScalarType type) {
  DefinitionBuilder make;
  const int a = make.input(type), b = make.input(type), c = make.input(type);
  const auto of = [&](MachineOp op, int x, int y) { return make.value(op, type, x, y); };
  switch (which) {  // as kProbed
    case 0:
      return make.finish(make.value(MachineOp::fma, type, a, b, c));
    case 1:
      return make.finish(of(MachineOp::div, a, b));
    case 2:
      return make.finish(make.value(MachineOp::sqrt, type, a));
    case 3:
      return make.finish(of(MachineOp::sub, of(MachineOp::add, a, b), a));
    case 4:
      return make.finish(of(MachineOp::mul, a, b));
    default: {
      const uint64_t one = bits_of(type, 1), none = bits_of(type, 0);
      const int differs = make.value(MachineOp::not_equal, ScalarType::Bool, a, a);
      return make.finish(make.value(MachineOp::select, type, differs, make.constant(type, one),
                                    make.constant(type, none)));
    }
  }
}

template <class T>
std::array<T, kResults> expected(T a, T b, T c) {
  const T sum = a + b;
  return {std::fma(a, b, c), a / b, std::sqrt(a), sum - a, a * b, T(a != a)};
}

// To the bit, but for the bits of NaNs.
template <class T>
bool same(T a, T b) {
  return a != a ? b != b : a == b && std::signbit(a) == std::signbit(b);
}

// Triples: all of some numbers at the ends of ranges, a sum that two roundings get wrong, and
// random bits.
template <class T>
std::vector<std::array<T, 3>> operands() {
  using Limits = std::numeric_limits<T>;
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  const T ends[] = {T(0),
                    T(-0.0),
                    T(1),
                    T(-3),
                    1 + Limits::epsilon(),
                    Limits::min(),
                    Limits::denorm_min(),
                    Limits::min() / 3,
                    Limits::max(),
                    Limits::infinity(),
                    -Limits::infinity(),
                    Limits::quiet_NaN()};
  std::vector<std::array<T, 3>> found;
  for (const T a : ends)
    for (const T b : ends)
      for (const T c : ends) found.push_back({a, b, c});
  // Below the middle of two float32, and on it where the sum is rounded to 53 bits first.
  const T step = T(0x1p-23);
  found.push_back({T(0x1p-12) * (1 + step), T(0x1p-12) * (1 - step), 1 + step});
  for (uint32_t i = 0; i < kDrawn; ++i) {
    std::array<T, 3> drawn;
    for (uint32_t k = 0; k < 3; ++k) {
      const auto words = philox::block({i, k, 0, 0}, 7);
      const auto bits = static_cast<Bits>(uint64_t{words[0]} << 32 | words[1]);
      // Every other one near 1, so that results are normal numbers.
      constexpr Bits kFraction = (Bits{1} << (Limits::digits - 1)) - 1;
      const T near = std::bit_cast<T>(static_cast<Bits>(
          (bits & kFraction) | std::bit_cast<Bits>(T(words[2] % 2 == 0 ? 1 : -4))));
      drawn[k] = i % 2 == 0 ? near : std::bit_cast<T>(bits);
    }
    found.push_back(drawn);
  }
  return found;
}

// What of it is wrong where a result of these numbers is, which are all normal or zeros for
// `other`.
template <class T>
bool& fault_of(Arithmetic& found, std::span<const T> numbers, bool& other) {
  const auto any = [&](int kind) {
    return std::ranges::any_of(numbers, [&](T x) { return std::fpclassify(x) == kind; });
  };
  if (any(FP_NAN)) return found.nan;
  if (any(FP_INFINITE)) return found.infinity;
  return any(FP_SUBNORMAL) ? found.subnormals : other;
}

template <class T>
Arithmetic probe(Device device, DType dtype) {
  const auto triples = operands<T>();
  const auto count = static_cast<int64_t>(triples.size());
  const Dims shape{count, 3}, results{kResults, count};
  const Tensor from = Tensor::empty(shape, dtype), there = Tensor::empty(shape, dtype, device),
               made = Tensor::empty(results, dtype, device), back = Tensor::empty(results, dtype);
  std::memcpy(from.host_data(), triples.data(), triples.size() * sizeof triples[0]);
  copy_between(from, there);
  MapKernel kernel(device, "probe");
  const auto read = kernel.reads(there), write = kernel.writes(made);
  const std::string elements = kernel.word(count);
  kernel.run(count, [&] {
    std::string operands;
    for (int k = 0; k < 3; ++k) {
      const std::string name = numbered("x", k);
      kernel.write().constant(held_type(dtype), name,
                              kernel.value(read, "3 * i + " + std::to_string(k)));
      operands += (k == 0 ? "" : ", ") + name;
    }
    for (size_t k = 0; k < kProbed.size(); ++k) {
      const std::string name = kernel.function(definition(k, held_type(dtype)), kProbed[k].name);
      kernel.set(write, std::to_string(k) + " * " + elements + " + i", name + "(" + operands + ")");
    }
  });
  copy_between(made, back);
  // Normal numbers first: an operation that they show to be inexact is so for others, too.
  Arithmetic found;
  for (const bool is_normal : {true, false})
    for (size_t k = 0; k < kProbed.size(); ++k) {
      bool& is_exact = found.*kProbed[k].found;
      if (!is_normal && !is_exact) continue;
      const T* got = back.ptr<const T>() + static_cast<int64_t>(k) * count;
      for (const auto& [a, b, c] : triples) {
        const T want = expected(a, b, c)[k], all[] = {a, b, c, want};
        bool& fault = fault_of<T>(found, all, is_exact);
        const bool is_right = same(*got++, want);
        if (!is_right && (&fault == &is_exact) == is_normal) fault = false;
      }
    }
  return found;
}

}  // namespace

Arithmetic probe_arithmetic(Device device, DType dtype) {
  require(dialect_on(device).holds(dtype), ErrorKind::NotImplemented, "no arithmetic of ",
          name_of(dtype), " on ", name_of(device));
  return dtype == DType::Float64 ? probe<double>(device, dtype) : probe<float>(device, dtype);
}

}  // namespace tinyt::gpu
