#include "cpu/random/random.h"

#include <algorithm>

#include "core/base/parallel.h"
#include "core/base/random.h"
#include "cpu/schedule/levels.h"
#include "cpu/schedule/tiles.h"

namespace tinyt::cpu {
namespace {

static_assert(kChunkElements % philox::kWords == 0 && kTileElements % philox::kWords == 0);

struct Draw {
  const Tensor& out;
  uint64_t seed, offset;

  explicit Draw(const KernelCall& call) : out(call.outputs[0]) {
    AttrReader attrs(call.attrs);
    attrs.list();
    if (call.op != OpId::random_bits) attrs.dtype();
    attrs.integer();  // the device
    seed = static_cast<uint64_t>(attrs.integer());
    offset = static_cast<uint64_t>(attrs.integer());
  }

  template <class T>
  void fill(void (*draw)(uint64_t, uint64_t, int64_t, int64_t, T*)) const {
    parallel_ranges(out.numel(), kChunkElements, [&](int64_t begin, int64_t end) {
      draw(seed, offset, begin, end - begin, out.ptr<T>() + begin);
    });
  }

  // Half precision: float32 draws in tiles, changed by `adapt` before they are rounded.
  template <class F>
  void fill_half(void (*draw)(uint64_t, uint64_t, int64_t, int64_t, float*), F&& adapt) const {
    parallel_ranges(out.numel(), kChunkElements, [&](int64_t begin, int64_t end) {
      alignas(64) float tile[kTileElements];
      for (int64_t i = begin; i < end; i += kTileElements) {
        const int64_t n = std::min(kTileElements, end - i);
        draw(seed, offset, i, n, tile);
        for (int64_t k = 0; k < n; ++k) tile[k] = adapt(tile[k]);
        cast_elements(reinterpret_cast<const char*>(tile), DType::Float32,
                      out.host_data() + i * static_cast<int64_t>(out.itemsize()), out.dtype(), n);
      }
    });
  }
};

}  // namespace

void kernel_random_bits(const KernelCall& call) { Draw(call).fill(kernels().random->bits); }

void kernel_uniform(const KernelCall& call) {
  const Draw draw(call);
  const RandomTable& table = *kernels().random;
  switch (draw.out.dtype()) {
    case DType::Float32:
      return draw.fill(table.uniform32);
    case DType::Float64:
      return draw.fill(table.uniform64);
    default: {
      // Cut to the bits the dtype holds, because rounding could reach 1.
      const float steps = draw.out.dtype() == DType::Float16 ? 0x1p11f : 0x1p8f;
      return draw.fill_half(table.uniform32, [steps](float x) {
        return static_cast<float>(static_cast<int32_t>(x * steps)) / steps;
      });
    }
  }
}

void kernel_normal(const KernelCall& call) {
  const Draw draw(call);
  const RandomTable& table = *kernels().random;
  switch (draw.out.dtype()) {
    case DType::Float32:
      return draw.fill(table.normal32);
    case DType::Float64:
      return draw.fill(table.normal64);
    default:
      return draw.fill_half(table.normal32, [](float x) { return x; });
  }
}

}  // namespace tinyt::cpu
