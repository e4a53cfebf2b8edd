#include "cpu/fused/tile_kernel.h"

#include <algorithm>
#include <array>
#include <utility>

#include "cpu/fused/tile_builder.h"
#include "cpu/fused/tile_schedule.h"
#include "cpu/schedule/cost_estimate.h"

namespace tinyt::cpu {

namespace {

// Whether a region reads an operand where it lies: along the rows it is dense or one element, or
// what is gathered for a tile are whole cache lines.
bool is_readable(std::span<const int64_t> shape, const Dims& strides, size_t itemsize,
                 bool gathers) {
  constexpr int64_t kNear = 8, kLeastSide = 8;
  int64_t count = 0;  // of the last two dimensions
  std::array<size_t, 2> last{};
  for (size_t d = shape.size(); d-- > 0 && count < 2;)
    if (shape[d] > 1) last[count++] = d;
  if (count == 0) return true;
  const int64_t step = strides[last[0]];
  if (step == 0 || step == 1 || !gathers) return step == 0 || step == 1;
  if (std::abs(step) <= kNear) return true;
  return count == 2 && strides[last[1]] == 1 &&
         std::min(shape[last[0]], shape[last[1]]) >= kLeastSide &&
         numel_of(shape) * static_cast<int64_t>(itemsize) <= kGatheredBytes;
}

// A loop over dimensions of a region's shape, and the step of every operand in it, in elements.
struct TileLoop {
  int64_t size;
  Dims strides;
};

// Loops over dimensions [from, to), merged where all operands allow.
void add_loops(std::vector<TileLoop>& loops, std::span<const int64_t> shape,
               const std::vector<Dims>& strides, size_t from, size_t to) {
  const size_t others = loops.size();
  for (size_t d = from; d < to; ++d) {
    if (shape[d] == 1) continue;
    Dims steps;
    bool merges = loops.size() > others;
    for (size_t k = 0; k < strides.size(); ++k) {
      steps.push_back(strides[k][d]);
      merges = merges && loops.back().strides[k] == steps[k] * shape[d];
    }
    if (merges) {
      loops.back() = {loops.back().size * shape[d], steps};
    } else {
      loops.push_back({shape[d], steps});
    }
  }
}

// Dimensions [from, end) as one loop, along which every operand is dense or one element.
TileLoop row_loop(std::span<const int64_t> shape, const std::vector<Dims>& strides, size_t from) {
  TileLoop row{numel_of(shape.subspan(from)), {}};
  for (const Dims& s : strides) {
    int64_t step = 0;
    for (size_t d = from; d < shape.size(); ++d)
      if (shape[d] > 1) step = s[d];
    row.strides.push_back(step);
  }
  return row;
}

class TiledKernel final : public CompiledKernel {
 public:
  explicit TiledKernel(const FusedKernel& kernel) : shape_(kernel.shape), front_(kernel.front.op) {
    TileBuilder builder(kernel);
    builder.run();
    tiles_ = std::move(builder.tiles);
    operands_ = std::move(builder.operands);
    reduced_ = kernel.reduced;
    addresses_.resize(kernel.stores.size());
  }

  void lay_out(std::span<Tensor> operands, FunctionRef<Tensor(const Tensor&)> make_dense) override;
  bool may_replace(size_t operand, size_t store) const override;
  void run(std::span<const Tensor> operands, std::span<const Tensor> stores,
           const FrontProduct* product) override;
  CostEstimate cost() const override { return effort_of_tiles(tiles_, space_); }
  size_t workspace(std::span<const Tensor> operands, std::span<const Tensor> stores,
                   const FrontProduct* product) const override;

 private:
  bool has_front() const { return front_ != OpId::kCount; }
  bool fits_row(const Dims& strides, size_t dims, bool dense) const;
  size_t inner_dims(std::span<const Tensor> operands) const;
  void set_loops(const std::vector<TileLoop>& loops, const TileLoop& last,
                 std::span<const Tensor> in);

  Dims shape_;
  size_t reduced_ = 0;
  OpId front_;
  TileProgram tiles_;
  TileSpace space_;
  std::vector<TileOperand> lies_;  // strides; the addresses are those of the run
  std::vector<char*> addresses_;   // of the stores
};

// Whether the last dimensions run as one row, along which an operand is dense or one element.
bool TiledKernel::fits_row(const Dims& strides, size_t dims, bool dense) const {
  const std::span<const int64_t> shape(shape_);
  const size_t from = shape.size() - dims;
  const Dims all{numel_of(shape.subspan(from))};
  const auto step = view_strides(shape.subspan(from), {strides.data() + from, dims}, all);
  return step && ((*step)[0] == 1 || ((*step)[0] == 0 && !dense) || all[0] == 1);
}

// Dimensions of a row; 0: as they come. After a product rows are those of its result, as far as all
// operands are dense or one element along them, and nothing is gathered.
size_t TiledKernel::inner_dims(std::span<const Tensor> operands) const {
  if (!has_front()) return reduced_;
  const bool is_conv = front_ == OpId::conv || front_ == OpId::conv_backward_input;
  const size_t inner = is_conv ? shape_.size() - 2 : 1;
  const bool fits = std::ranges::all_of(operands, [&](const Tensor& t) {
    return fits_row(broadcast_strides(t.shape(), t.strides(), shape_), inner, false);
  });
  return fits ? inner : 0;
}

// Notes the loops, of which `last` runs along a row, and each operand's byte strides in them.
void TiledKernel::set_loops(const std::vector<TileLoop>& loops, const TileLoop& last,
                            std::span<const Tensor> in) {
  space_.cols = last.size;
  for (const TileLoop& loop : loops) space_.outer.push_back(loop.size);
  for (size_t k = 0; k < in.size(); ++k) {
    TileOperand operand;
    const int64_t step = last.size > 1 ? last.strides[k] : 0;
    const auto item = static_cast<int64_t>(in[k].itemsize());
    operand.inner = step == 1;
    if (step != 0 && step != 1) {
      operand.gather = step * item;
      ++space_.gathered;
      space_.turned |= !loops.empty() && loops.back().strides[k] == 1;
    }
    for (const TileLoop& loop : loops) operand.stride.push_back(loop.strides[k] * item);
    lies_.push_back(std::move(operand));
  }
}

// Finds the loops over the space. What cannot be read where it lies is made dense.
void TiledKernel::lay_out(std::span<Tensor> operands,
                          FunctionRef<Tensor(const Tensor&)> make_dense) {
  const std::span<const int64_t> shape(shape_);
  const size_t inner = inner_dims(operands), split = shape.size() - inner;
  std::vector<bool> dense(operands.size());  // as reductions take them
  for (const TileProgram::Step& step : tiles_.steps)
    if (info(step.op).kind == OpKind::Reduce && step.in[0] < tiles_.inputs)
      dense[step.in[0]] = true;
  std::vector<Dims> strides;  // in elements
  for (size_t i = 0; i < operands.size(); ++i) {
    Tensor& t = operands[i];
    strides.push_back(broadcast_strides(t.shape(), t.strides(), shape));
    const bool fits = inner > 0 ? fits_row(strides.back(), inner, dense[i])
                                : is_readable(shape, strides.back(), t.itemsize(), !has_front());
    if (fits) continue;
    t = make_dense(t.view(shape, strides.back(), t.offset()));
    strides.back() = t.strides();
  }
  std::vector<TileLoop> loops;
  add_loops(loops, shape, strides, 0, split);
  TileLoop last{1, {}};
  if (inner > 0) {
    last = row_loop(shape, strides, split);
  } else if (!loops.empty()) {
    last = loops.back();
    loops.pop_back();
  }
  set_loops(loops, last, operands);
}

// Both run through it in the same order, and no step reads the operand once the store is written.
bool TiledKernel::may_replace(size_t operand, size_t store) const {
  const int made = tiles_.outputs[store];
  int64_t step = space_.cols * static_cast<int64_t>(size_of(tiles_.registers[made].dtype));
  const TileOperand& from = lies_[operand];
  for (size_t d = from.stride.size(); d-- > 0; step *= space_.outer[d])
    if (from.stride[d] != step) return false;
  if (!from.inner && space_.cols != 1) return false;
  bool written = false;
  for (const TileProgram::Step& s : tiles_.steps) {
    const bool writes = s.out == made;
    const bool at_once = writes && info(s.op).kind == OpKind::Scalar;
    written |= writes;
    if (written && !at_once && std::count(s.in, s.in + s.inputs, static_cast<int>(operand)) != 0)
      return false;
  }
  return true;
}

void TiledKernel::run(std::span<const Tensor> operands, std::span<const Tensor> stores,
                      const FrontProduct* product) {
  size_t next = 0;
  for (size_t i = 0; i < lies_.size(); ++i) {
    const bool is_made = product && product->operand == static_cast<int>(i);
    lies_[i].data = (is_made ? product->call.outputs[0] : operands[next++]).host_data();
  }
  for (size_t i = 0; i < addresses_.size(); ++i) addresses_[i] = stores[i].host_data();
  if (!product) return run_tiles(tiles_, lies_, space_, addresses_);
  run_product(product->kernel, product->call, tiles_, lies_, space_, addresses_);
}

// Stores, a bit each, that lie where an operand does.
uint64_t replaced_stores(std::span<const Tensor> operands, std::span<const Tensor> stores,
                         const FrontProduct* product) {
  const auto lies_at = [](const Tensor& x, const Tensor& y) {
    return &x.storage() == &y.storage() &&
           x.offset() * int64_t(x.itemsize()) == y.offset() * int64_t(y.itemsize());
  };
  uint64_t found = 0;
  const auto note = [&](const Tensor& x) {
    for (size_t o = 0; o < stores.size(); ++o) found |= uint64_t{lies_at(x, stores[o])} << o;
  };
  for (const Tensor& x : operands) note(x);
  if (product) note(product->call.outputs[0]);
  return found;
}

size_t TiledKernel::workspace(std::span<const Tensor> operands, std::span<const Tensor> stores,
                              const FrontProduct* product) const {
  const uint64_t replaced = replaced_stores(operands, stores, product);
  return product ? product_workspace(product->call, tiles_, lies_, space_, replaced)
                 : tiles_workspace(tiles_, lies_, space_, replaced);
}

}  // namespace

std::shared_ptr<CompiledKernel> compile_tiles(const FusedKernel& kernel) {
  return std::make_shared<TiledKernel>(kernel);
}

}  // namespace tinyt::cpu
