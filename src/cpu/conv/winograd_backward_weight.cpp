// The gradient of the weights: the transposed transforms, and 36 products over the tiles.
#include <algorithm>
#include <atomic>

#include "cpu/conv/conv_forms.h"
#include "cpu/conv/winograd.h"
#include "cpu/conv/winograd_tiles.h"
#include "cpu/reduce/reduce.h"

namespace tinyt::cpu {
namespace {

using namespace winograd;

constexpr int64_t kMaxLeast = 64;  // tiles
// Elements of x or grad that are converted at once, about: it decides how sums are cut into parts.
constexpr int64_t kConvertedElements = int64_t{1} << 19;
// Small sums are kept in parts, each of which one thread adds to: of at most so many elements.
constexpr int64_t kWinogradParts = 16;
constexpr int64_t kMaxPart = int64_t{1} << 16;

// Each block adds to all sums: it has as many elements as there are sums, within reason.
int64_t least_block(const ConvProblem& d) {
  const int64_t depth = d.ins * d.columns.kernel[0];
  return std::clamp(depth * d.outs / (depth + d.outs), kLeastBlock, kMaxLeast);
}

int64_t sums_of(const Plan& p) { return kElements * p.d.outs * p.depth; }

// The sums over tiles of (element of the gradient) x (element of the input), for one group.
class WeightProducts {
 public:
  WeightProducts(const Plan& p, float* memory, float* products)
      : p_(p), data_(memory), grads_(memory + p.data_size()), products_(products) {}

  // Of blocks [first, last).
  void add(int64_t first, int64_t last, bool accumulate, const float* grad, Slots& planes,
           Slots& panels) const {
    for (int64_t i = first; i < last; ++i) {
      add_block(i * p_.block, accumulate || i > first, grad, planes, panels);
    }
  }
  // Room for the packed input of one element.
  static int64_t panel_size(const Plan& p) { return p.tile.cols * p.block; }

 private:
  void add_block(int64_t first, bool accumulate, const float* grad, Slots& planes,
                 Slots& panels) const {
    const int64_t count = std::min(p_.block, p_.tiles - first);
    const TilePlanes of_input(p_, input_of(p_), first, count);
    const TilePlanes of_grad(p_, gradient_of(p_, grad), first, count);
    const int64_t cols = p_.tile.cols;
    transform_block(of_input, p_.depth, planes, {data_, p_.data_step(), p_.block, cols});
    transform_block(of_grad, p_.d.outs, planes, {grads_, p_.products_step(), p_.block, cols});
    parallel_for(kElements, [&](int64_t element) {
      panels.with_one([&](char* slot) {
        multiply(element, count, accumulate, reinterpret_cast<float*>(slot));
      });
    });
  }

  void multiply(int64_t element, int64_t count, bool accumulate, float* packed) const {
    const auto type = static_cast<int>(DType::Float32);
    const StridedLines b = {data_ + element * p_.data_step(), p_.block, 1};
    for (int64_t j = 0; j < p_.depth; j += p_.tile.cols) {
      const int64_t cols = std::min(p_.tile.cols, p_.depth - j), width = round_up(cols, p_.lanes);
      kernels().gemm->pack[type](&b, {j, cols, 0, count, width}, packed);
      kernels().gemm->block[type]({.rows = p_.d.outs,
                                   .cols = cols,
                                   .depth = count,
                                   .a = grads_ + element * p_.products_step(),
                                   .a_line = p_.block,
                                   .a_step = 1,
                                   .a_panel = 0,
                                   .b = packed,
                                   .b_step = width,
                                   .b_panel = width * count,
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

// The memory of the products of all tiles, in `parts` runs of blocks.
struct ProductsLayout {
  int64_t threads, at_once, block_bytes, planes_bytes, panel_bytes;

  ProductsLayout(const Plan& p, int64_t parts)
      : threads(num_threads()),
        at_once(std::min(threads, parts)),
        block_bytes(bytes_of(p.data_size() + p.products_size())),
        planes_bytes(bytes_of_planes(p)),
        panel_bytes(bytes_of(WeightProducts::panel_size(p))) {}
  int64_t workspace() const {
    return block_bytes * at_once + (planes_bytes + panel_bytes) * threads;
  }
};

void add_products(const Plan& p, const float* grad, int64_t parts, bool accumulate, float* sums) {
  const int64_t blocks = ceil_div(p.tiles, p.block);
  const ProductsLayout at(p, parts);
  const Workspace memory(at.block_bytes * at.at_once), planes(at.planes_bytes * at.threads);
  const Workspace panels(at.panel_bytes * at.threads);
  Slots block_slots(memory.data(), at.block_bytes, at.at_once);
  Slots plane_slots(planes.data(), at.planes_bytes, at.threads);
  Slots panel_slots(panels.data(), at.panel_bytes, at.threads);
  parallel_for(parts, [&](int64_t i) {
    block_slots.with_one([&](char* slot) {
      const WeightProducts part(p, reinterpret_cast<float*>(slot), sums + i * sums_of(p));
      part.add(i * blocks / parts, (i + 1) * blocks / parts, accumulate, grad, plane_slots,
               panel_slots);
    });
  });
}

// The weights of one group from its sums; false where one is not finite.
bool finish_weights(const Plan& p, const float* sums, float* dw) {
  std::atomic<bool> finite{true};
  const int64_t grain = std::max<int64_t>(1, kWeightsOfTask / p.depth);
  parallel_ranges(p.d.outs, grain, [&](int64_t begin, int64_t end) {
    for (int64_t o = begin; o < end; ++o) {
      if (!kernels().winograd->weight_gradients(sums + o * p.depth, p.d.outs * p.depth, p.depth,
                                                dw + o * p.depth * 9)) {
        finite.store(false, std::memory_order_relaxed);
      }
    }
  });
  return finite.load();
}

// Images that are converted at once: of small ones those of whole blocks.
int64_t images_at_once(const Plan& p, DType dtype) {
  if (dtype == DType::Float32) return p.d.images;
  const int64_t of_x = p.d.groups * p.d.ins * p.d.columns.channel_stride;
  const int64_t of_grad = p.d.groups * p.d.outs * p.d.positions();
  const int64_t some = std::max<int64_t>(1, kConvertedElements / std::max(of_x, of_grad));
  const int64_t of_block = std::max<int64_t>(1, p.block * p.d.images / p.tiles);
  return std::min(p.d.images, std::max(some / of_block, int64_t{1}) * of_block);
}

// How a gradient is summed up: the sums of all groups, in parts, from some images at a time.
struct WeightSums {
  Plan whole;
  int64_t some, parts, group_size;

  WeightSums(const ConvProblem& d, DType dtype)
      : whole(d, least_block(d)), some(images_at_once(whole, dtype)) {
    ConvProblem images = d;
    images.images = some;
    const int64_t blocks = ceil_div(Plan(images, least_block(d)).tiles, whole.block);
    const bool small = blocks >= kManyBlocks && sums_of(whole) <= kMaxPart;
    parts = small ? std::min(blocks, kWinogradParts) : 1;
    group_size = sums_of(whole) * parts;
  }
  int64_t bytes() const { return bytes_of(group_size * whole.d.groups); }
};

}  // namespace

// The first images are as many as any.
int64_t winograd_weights_workspace(const ConvProblem& d, const Tensor& grad, const Tensor& x) {
  const WeightSums plan(d, x.dtype());
  ConvProblem images = d;
  images.images = plan.some;
  const ConvProblem group = group_of(images, 0);
  return plan.bytes() + dense_bytes(rows_of(x, 0, plan.some), DType::Float32) +
         dense_bytes(rows_of(grad, 0, plan.some), DType::Float32) +
         ProductsLayout(Plan(group, least_block(d)), plan.parts).workspace();
}

bool winograd_weights(const ConvProblem& d, const Tensor& grad, const Tensor& x, const Tensor& dw) {
  const WeightSums plan(d, x.dtype());
  const Plan& whole = plan.whole;
  const int64_t some = plan.some, parts = plan.parts, group_size = plan.group_size;
  ConvProblem images = d;
  const Workspace memory(plan.bytes());
  auto* sums = reinterpret_cast<float*>(memory.data());
  for (int64_t first = 0; first < d.images; first += some) {
    images.images = std::min(some, d.images - first);
    const Tensor dense_x = dense_as(rows_of(x, first, images.images), DType::Float32);
    const Tensor dense_grad = dense_as(rows_of(grad, first, images.images), DType::Float32);
    images.columns.data = dense_x.host_data();
    for (int64_t g = 0; g < d.groups; ++g) {
      const ConvProblem group = group_of(images, g);
      const float* of_group = dense_grad.ptr<float>() + g * d.outs * d.positions();
      add_products(Plan(group, least_block(d)), of_group, parts, first > 0, sums + g * group_size);
    }
  }
  bool finite = true;
  for (int64_t g = 0; finite && g < d.groups; ++g) {
    add_parts(DType::Float32, sums + g * group_size, parts, sums_of(whole));
    finite = finish_weights(whole, sums + g * group_size,
                            dw.ptr<float>() + g * d.outs * d.ins * d.taps());
  }
  return finite;
}

}  // namespace tinyt::cpu
