// The gradient of the weights: the transposed transforms, and 36 products over the tiles.
#include <algorithm>
#include <atomic>

#include "winograd.h"
#include "winograd_tiles.h"

namespace tinyt::cpu {
namespace {

using namespace winograd;

constexpr int64_t kMaxLeast = 96;  // tiles

// Each block adds to all sums: it has as many elements as there are sums, within reason.
int64_t least_block(const Direct& d) {
  const int64_t depth = d.ins * d.columns.kernel[0];
  return std::clamp(depth * d.outs / (depth + d.outs), kMinBlock, kMaxLeast);
}

// The sums over all tiles of (element of the gradient) x (element of the input), for one group.
class WeightProducts {
 public:
  WeightProducts(const Plan& p, float* memory, float* products)
      : p_(p), data_(memory), grads_(memory + p.data_size()), products_(products) {}

  void add_block(int64_t first, const float* grad, Slots& planes, Slots& panels) const {
    const int64_t count = std::min(p_.block, p_.tiles - first);
    const TilePlanes of_input(p_, input_of(p_), first, count);
    const TilePlanes of_grad(p_, gradient_of(p_, grad), first, count);
    const int64_t cols = p_.tile.cols;
    transform_block(of_input, p_.depth, planes, {data_, p_.depth * p_.block, p_.block, cols});
    transform_block(of_grad, p_.d.outs, planes, {grads_, p_.d.outs * p_.block, p_.block, cols});
    parallel_for(kElements, [&](int64_t element) {
      panels.with_one(
          [&](char* slot) { multiply(element, count, first > 0, reinterpret_cast<float*>(slot)); });
    });
  }
  // Room for the packed operands of one element.
  static int64_t panels_size(const Plan& p) { return (p.rows + p.tile.cols) * p.block; }

 private:
  void multiply(int64_t element, int64_t count, bool accumulate, float* packed) const {
    const auto type = static_cast<int>(DType::Float32);
    const PackKernel pack = kernels().gemm->pack[type];
    const StridedLines a = {grads_ + element * p_.d.outs * p_.block, p_.block, 1};
    for (int64_t i = 0; i < p_.d.outs; i += p_.tile.rows) {
      pack(&a, {i, std::min(p_.tile.rows, p_.d.outs - i), 0, count, p_.tile.rows},
           packed + i * count);
    }
    float* packed_b = packed + p_.rows * p_.block;
    const StridedLines b = {data_ + element * p_.depth * p_.block, p_.block, 1};
    for (int64_t j = 0; j < p_.depth; j += p_.tile.cols) {
      const int64_t cols = std::min(p_.tile.cols, p_.depth - j);
      pack(&b, {j, cols, 0, count, p_.tile.cols}, packed_b);
      kernels().gemm->block[type]({.rows = p_.d.outs,
                                   .cols = cols,
                                   .depth = count,
                                   .a = packed,
                                   .a_line = 1,
                                   .a_step = p_.tile.rows,
                                   .a_panel = p_.tile.rows * count,
                                   .b = packed_b,
                                   .b_step = p_.tile.cols,
                                   .b_panel = p_.tile.cols * count,
                                   .c = products_ + element * p_.d.outs * p_.depth,
                                   .row = 0,
                                   .col = j,
                                   .c_row = p_.depth,
                                   .run = p_.depth,
                                   .c_run = 0,
                                   .accumulate = accumulate,
                                   .add = nullptr,
                                   .add_row = 0,
                                   .add_col = 0});
    }
  }

  const Plan& p_;
  float *data_, *grads_, *products_;
};

bool weights_of_group(const Plan& p, const float* grad, float* dw) {
  const int64_t threads = num_threads(), planes_bytes = bytes_of_planes(p);
  const int64_t panels_bytes = bytes_of(WeightProducts::panels_size(p));
  const Scratch memory(bytes_of(p.data_size() + p.products_size()));
  const Scratch sums(bytes_of(kElements * p.d.outs * p.depth));
  const Scratch planes(planes_bytes * threads), panels(panels_bytes * threads);
  Slots plane_slots(planes.data(), planes_bytes, threads);
  Slots panel_slots(panels.data(), panels_bytes, threads);
  auto* products = reinterpret_cast<float*>(sums.data());
  const WeightProducts blocks(p, reinterpret_cast<float*>(memory.data()), products);
  for (int64_t first = 0; first < p.tiles; first += p.block) {
    blocks.add_block(first, grad, plane_slots, panel_slots);
  }
  std::atomic<bool> finite{true};
  const int64_t grain = std::max<int64_t>(1, kWeightsOfTask / p.depth);
  parallel_ranges(p.d.outs, grain, [&](int64_t begin, int64_t end) {
    for (int64_t o = begin; o < end; ++o) {
      if (!kernels().winograd->weight_gradients(products + o * p.depth, p.d.outs * p.depth, p.depth,
                                                dw + o * p.depth * 9)) {
        finite.store(false, std::memory_order_relaxed);
      }
    }
  });
  return finite.load();
}

}  // namespace

bool winograd_weights(const Direct& d, const Tensor& grad, const Tensor& dw) {
  for (int64_t g = 0; g < d.groups; ++g) {
    const Direct group = group_of(d, g);
    const Plan plan(group, least_block(group));
    const float* of_group = grad.ptr<float>() + g * d.outs * d.positions();
    if (!weights_of_group(plan, of_group, dw.ptr<float>() + g * d.outs * d.ins * d.taps())) {
      return false;
    }
  }
  return true;
}

}  // namespace tinyt::cpu
