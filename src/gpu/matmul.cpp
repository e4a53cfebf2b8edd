// Products of matrices: panels of the right operand, blocks of sums that a thread keeps in
// registers.
#include "gpu/matmul.h"

#include <algorithm>
#include <array>

#include "core/base/error.h"
#include "gpu/kernels.h"
#include "gpu/launch.h"
#include "gpu/map_kernel.h"
#include "gpu/narrow_matmul.h"
#include "gpu/scalar_source.h"
#include "gpu/tiled_matmul.h"

namespace tinyt::gpu {

namespace {

// Of a block, in rows and in vectors: sums, and what is loaded for them, fill sixteen registers.
// Where compilers make no vectors of a thread's own, loads cost most, and more sums share them.
struct BlockShape {
  int rows, vectors;
};
BlockShape block_shape(const Dialect& dialect) {
  return dialect.vectors ? BlockShape{6, 2} : BlockShape{8, 8};
}

class MatmulPrinter {
 public:
  MatmulPrinter(MapKernel& kernel, const Product& p, const Tensor& panels, const Tensor& out,
                int columns)
      : kernel_(kernel),
        write_(kernel.write()),
        type_(held_type(out.dtype())),
        lanes_(lanes_of(kernel.dialect(), out.dtype())),
        columns_(columns),
        block_rows_(block_shape(kernel.dialect()).rows),
        a_(kernel.reads(p.a)),
        b_(kernel.reads(panels)),
        y_(kernel.writes(out)),
        m_(kernel.word(p.m)),
        n_(kernel.word(p.n)),
        k_(kernel.word(p.k)),
        blocks_(kernel.word(ceil_div(p.m, block_shape(kernel.dialect()).rows))),
        panels_(kernel.word(ceil_div(p.n, columns))),
        row_step_(kernel.word(p.a_row)),
        sum_step_(kernel.word(p.a_sum)) {
    const Dims steps[] = {p.a_batch, p.b_batch};
    places_ = kernel.places("batch", p.batch, steps);
  }

  // Floats that one variable holds.
  static int lanes_of(const Dialect& dialect, DType dtype) {
    return is_float(held_type(dtype)) ? dialect.lanes : 1;
  }

  void print() const {
    const ScalarType index = kernel_.dialect().index;
    write_.constant(index, "block", "i % " + blocks_);
    write_.constant(index, "panel", "i / " + blocks_ + " % " + panels_);
    write_.constant(index, "batch", "i / " + blocks_ + " / " + panels_);
    write_.constant(index, "first_row", "block * " + std::to_string(block_rows_));
    for (int r = 0; r < block_rows_; ++r) {
      write_.limit(index, row(r), "first_row + " + std::to_string(r), m_ + " - 1");
      write_.constant(index, numbered("from", r),
                      a_.first + " + " + places_[0] + " + " + row(r) + " * " + row_step_);
    }
    const std::string columns = std::to_string(columns_);
    write_.constant(index, "panel_place",
                    b_.first + " + (" + places_[1] + " + panel) * " + k_ + " * " + columns);
    for_each([&](int r, int v) { declare(sum(r, v), zero()); });
    write_.open_count(index, "k", "0", k_);
    for (int v = 0; v < columns_ / lanes_; ++v)
      declare(numbered("b", v) + "v",
              loaded(b_.name, "panel_place + k * " + columns + " + " + std::to_string(v * lanes_)));
    for (int r = 0; r < block_rows_; ++r) {
      write_.constant(type_, numbered("x", r),
                      item_of(a_, numbered("from", r) + " + k * " + sum_step_));
      for (int v = 0; v < columns_ / lanes_; ++v)
        write_.assign(sum(r, v), multiply_add(numbered("x", r), numbered("b", v) + "v", sum(r, v)));
    }
    write_.close();
    write_.constant(index, "first_column", "panel * " + columns);
    write_.limit(index, "width", n_ + " - first_column", columns);
    for (int r = 0; r < block_rows_; ++r) print_store(r);
  }

 private:
  static std::string row(int r) { return numbered("row", r); }
  static std::string sum(int r, int v) { return numbered("sum", r) + numbered("_", v); }
  bool has_vectors() const { return lanes_ > 1; }
  template <class F>
  void for_each(const F& body) const {
    for (int r = 0; r < block_rows_; ++r)
      for (int v = 0; v < columns_ / lanes_; ++v) body(r, v);
  }
  std::string vector_type() const {
    return has_vectors() ? filled(kernel_.dialect().vector, {{'T', write_.type(type_)}})
                         : write_.type(type_);
  }
  void declare(const std::string& name, const std::string& value) const {
    write_.line(
        filled(kernel_.dialect().variable, {{'T', vector_type()}, {'N', name}, {'E', value}}));
  }
  std::string zero() const { return splat(literal(type_, 0, kernel_.dialect())); }
  std::string splat(const std::string& x) const {
    if (!has_vectors()) return x;
    return filled(kernel_.dialect().splat, {{'T', write_.type(type_)}, {'E', x}});
  }
  // At a place from the start of the memory.
  std::string item_of(const MapKernel::View& view, const std::string& place) const {
    return kernel_.unpacked(view.dtype, write_.element(view.dtype, view.name, place));
  }
  std::string loaded(const std::string& name, const std::string& place) const {
    if (!has_vectors()) return item_of(b_, place);
    return filled(kernel_.dialect().vector_load, {{'N', name}, {'E', place}});
  }
  std::string multiply_add(const std::string& a, const std::string& b, const std::string& c) const {
    if (has_vectors())
      return filled(kernel_.dialect().vector_fma, {{'A', splat(a)}, {'B', b}, {'C', c}});
    return kernel_.product_added(y_.dtype, a, b, c);
  }

  void print_store(int r) const {
    write_.open_if("first_row + " + std::to_string(r) + " < " + m_);
    write_.constant(
        kernel_.dialect().index, "to",
        y_.first + " + (batch * " + m_ + " + " + row(r) + ") * " + n_ + " + first_column");
    write_.open_if("width == " + std::to_string(columns_));
    for (int v = 0; v < columns_ / lanes_; ++v) store(y_.name, "to + ", r, v);
    write_.close();
    write_.open_if("width < " + std::to_string(columns_));
    write_.array(type_, "rest", columns_);
    for (int v = 0; v < columns_ / lanes_; ++v) store("rest", "", r, v);
    write_.open_count(ScalarType::I32, "j", "0", "width");
    write_.set_element(y_.dtype, y_.name, "to + j", kernel_.packed(y_.dtype, "rest[j]"));
    write_.close();
    write_.close();
    write_.close();
  }
  void store(const std::string& name, const std::string& place, int r, int v) const {
    const std::string at = place + std::to_string(v * lanes_);
    if (!has_vectors())
      return name == y_.name
                 ? write_.set_element(y_.dtype, name, at, kernel_.packed(y_.dtype, sum(r, v)))
                 : write_.assign(name + "[" + at + "]", sum(r, v));
    write_.line(filled(kernel_.dialect().vector_store, {{'N', name}, {'E', at}, {'C', sum(r, v)}}));
  }

  MapKernel& kernel_;
  SourceWriter& write_;
  ScalarType type_;
  int lanes_, columns_, block_rows_;
  MapKernel::View a_, b_, y_;
  std::string m_, n_, k_, blocks_, panels_, row_step_, sum_step_;
  std::vector<std::string> places_;
};

// [batch, panel, sum, column]: what a block loads lies side by side; zeros beyond the last column.
Tensor panels_of(const Product& p, int64_t columns) {
  const int64_t whole = p.n / columns, rest = p.n % columns, count = ceil_div(p.n, columns);
  int64_t batches = 1;
  for (size_t d = 0; d < p.batch.size(); ++d) batches *= p.b_batch[d] == 0 ? 1 : p.batch[d];
  const Tensor panels =
      Tensor::empty(Dims{batches, count, p.k, columns}, p.b.dtype(), p.b.device());
  if (rest > 0) copy_into(Tensor::scalar(0.0), panels);
  const auto copy = [&](int64_t first, int64_t number, int64_t width) {
    if (number == 0 || width == 0) return;
    Dims shape, from, to;
    int64_t step = count * p.k * columns;
    for (size_t d = p.batch.size(); d-- > 0;) {
      if (p.b_batch[d] == 0) continue;
      shape.insert(0, p.batch[d]);
      from.insert(0, p.b_batch[d]);
      to.insert(0, step);
      step *= p.batch[d];
    }
    for (const auto& [size, there, here] :
         {std::array{number, columns * p.b_column, p.k * columns},
          std::array{p.k, p.b_sum, columns}, std::array{width, p.b_column, int64_t{1}}}) {
      shape.push_back(size);
      from.push_back(there);
      to.push_back(here);
    }
    copy_into(p.b.view(shape, from, p.b.offset() + first * columns * p.b_column),
              panels.view(shape, to, panels.offset() + first * p.k * columns));
  };
  copy(0, whole, columns);
  copy(whole, 1, rest);
  return panels;
}

}  // namespace

namespace {

// With sums that one launch takes.
void multiply_some(const Product& given, const Tensor& out) {
  Product p = given;
  const Device device = out.device();
  const Dialect& dialect = dialect_on(device);
  const BlockShape shape = block_shape(dialect);
  const int columns = shape.vectors * MatmulPrinter::lanes_of(dialect, out.dtype());
  const Tensor panels = panels_of(p, columns);
  int64_t step = ceil_div(p.n, columns);  // of batches of panels, in these
  for (size_t d = p.batch.size(); d-- > 0;) {
    if (p.b_batch[d] == 0) continue;
    p.b_batch[d] = step;
    step *= p.batch[d];
  }
  MapKernel kernel(device, "matmul");
  const MatmulPrinter printer(kernel, p, panels, out, columns);
  kernel.run(
      numel_of(p.batch) * ceil_div(p.n, columns) * ceil_div(p.m, shape.rows),
      [&] { printer.print(); }, 1);
}

void multiply_by_groups(const Product& p, const Tensor& out);

// The sums of one part behind those of another, a product each; these are added up.
void multiply_in_parts(const Product& p, int64_t sums, const Tensor& out) {
  const int64_t whole = p.k / sums, rest = p.k % sums, parts = ceil_div(p.k, sums);
  const int64_t results = out.numel();
  const Tensor made = Tensor::empty(Dims{parts, results}, out.dtype(), out.device());
  Product part = p;
  part.k = sums;
  part.batch.insert(0, whole);
  part.a_batch.insert(0, sums * p.a_sum);
  part.b_batch.insert(0, sums * p.b_sum);
  multiply_by_groups(part, made.view(Dims{whole, results}, Dims{results, 1}, made.offset()));
  if (rest > 0) {
    const Product last = p.from(whole * sums, rest);
    multiply_by_groups(last, made.view(out.shape(), contiguous_strides(out.shape()),
                                       made.offset() + whole * results));
  }
  add_parts(made, out);
}

// With parts of the sums side by side where there are too few results for the device's threads.
void multiply_by_groups(const Product& p, const Tensor& out) {
  constexpr int64_t kLeastSums = 256, kMostParts = 32, kWholeSums = 16;
  const bool narrow = is_narrow(p);
  const Device device = out.device();
  const int64_t busy = driver_of(device).launch_model(device.index).threads;
  const int64_t parts = std::min(
      {kMostParts, p.k / kLeastSums, busy / (narrow ? narrow_threads(p) : tile_threads(p))});
  const int64_t sums =
      ceil_div(ceil_div(p.k, std::max<int64_t>(1, parts)), kWholeSums) * kWholeSums;
  if (parts > 1) return multiply_in_parts(p, sums, out);
  narrow ? multiply_narrow(p, out) : multiply_by_tiles(p, out);
}

}  // namespace

void add_parts(const Tensor& made, const Tensor& out) {
  const int64_t parts = made.size(0), results = made.size(1);
  const Tensor lines = made.view(Dims{results, parts}, Dims{1, results}, made.offset());
  const DType dtype = is_integral(made.dtype()) ? DType::Int64 : made.dtype();
  const Tensor sum = dtype == out.dtype() ? out : Tensor::empty(out.shape(), dtype, out.device());
  const Tensor flat = sum.view(Dims{results}, Dims{1}, sum.offset());
  run_fused(single_op(OpId::sum, dtype, {&lines, 1}, dtype, lines.shape(), 1), {&lines, 1},
            {&flat, 1});
  if (dtype != out.dtype()) copy_into(sum, out);
}

void multiply(const Product& p, const Tensor& out) {
  if (out.numel() == 0) return;
  if (p.k == 0) return copy_into(Tensor::scalar(0.0), out);
  for_pieces(p.k, out.device(), [&](int64_t first, int64_t count) {
    const Product piece = p.from(first, count);
    const Device device = out.device();
    const bool has_groups = driver_of(device).launch_model(device.index).shares_memory;
    const auto multiply = has_groups ? multiply_by_groups : multiply_some;
    if (first == 0) return multiply(piece, out);
    const Tensor more = Tensor::empty(out.shape(), out.dtype(), out.device());
    multiply(piece, more);
    add_into(out, more);
  });
}

Product product_of(const Tensor& a, const Tensor& b) {
  const auto ra = static_cast<size_t>(a.rank()), rb = static_cast<size_t>(b.rank());
  Product p{.a = a, .b = b};
  p.m = ra > 1 ? a.size(ra - 2) : 1;
  p.k = a.size(ra - 1);
  p.n = rb > 1 ? b.size(rb - 1) : 1;
  p.a_row = ra > 1 ? a.stride(ra - 2) : 0;
  p.a_sum = a.stride(ra - 1);
  p.b_sum = b.stride(rb > 1 ? rb - 2 : 0);
  p.b_column = rb > 1 ? b.stride(rb - 1) : 0;
  const auto batch = [](const Dims& d) {
    return std::span<const int64_t>(d).first(d.size() > 2 ? d.size() - 2 : 0);
  };
  p.batch = broadcast("matmul", batch(a.shape()), batch(b.shape()));
  p.a_batch = broadcast_strides(batch(a.shape()), batch(a.strides()), p.batch);
  p.b_batch = broadcast_strides(batch(b.shape()), batch(b.strides()), p.batch);
  for (size_t d = 0; d < p.batch.size(); ++d)
    if (p.batch[d] == 1) p.b_batch[d] = 0;
  return p;
}

void multiply_tensors(const Tensor& a, const Tensor& b, const Tensor& out) {
  const Device device = out.device();
  const bool takes_halves = driver_of(device).launch_model(device.index).shares_memory;
  const auto operand = [&](const Tensor& x) {
    return takes_halves && is_half(x.dtype()) ? x : converted(x, out.dtype());
  };
  multiply(product_of(operand(a), operand(b)), out);
}

void run_matmul(const KernelCall& call) {
  const Tensor& out = call.outputs[0];
  const DType dtype = info(out.dtype()).compute;  // of sums
  const Tensor result =
      out.dtype() == dtype ? out : Tensor::empty(out.shape(), dtype, out.device());
  multiply_tensors(call.inputs[0], call.inputs[1], result);
  if (result.dtype() != out.dtype()) copy_into(result, out);
}

}  // namespace tinyt::gpu
