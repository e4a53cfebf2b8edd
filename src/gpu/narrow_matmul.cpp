// Products with few rows or few columns: each element of the large operand is read once, for all of
// the few lines. Neighbouring threads read neighbours of it: a thread makes a line of results, or
// the lanes of a group share out its sums. Long sums are those of lanes in either case, so that how
// the operands lie changes no bit of a result.
#include "gpu/narrow_matmul.h"

#include <bit>
#include <string>
#include <utility>

#include "gpu/launch.h"
#include "gpu/map_kernel.h"
#include "gpu/scalar_source.h"

namespace tinyt::gpu {

namespace {

constexpr int64_t kFewLines = 8;
constexpr int64_t kGroupLines = kGroupThreads / kReduceLanes;  // results' lines that a group makes

// With the few lines as rows, and where results are.
struct Narrow {
  explicit Narrow(const Product& given) : product(given), row_step(given.n) {
    if (given.m <= given.n) return;
    std::swap(product.a, product.b);
    std::swap(product.m, product.n);
    std::swap(product.a_row, product.b_column);
    std::swap(product.a_sum, product.b_sum);
    std::swap(product.a_batch, product.b_batch);
    std::swap(row_step, column_step);
  }
  // Whether a result is the sum of what lanes have: of every `kReduceLanes`-th product each.
  bool has_lanes() const { return product.k >= 2 * kReduceLanes; }
  // Whether these are threads, which read the large operand along its sums.
  bool by_threads() const { return has_lanes() && product.b_sum == 1 && product.b_column != 1; }
  int64_t lines() const { return numel_of(product.batch) * product.n; }

  Product product;
  int64_t row_step, column_step = 1;
};

class NarrowPrinter {
 public:
  NarrowPrinter(MapKernel& kernel, const Narrow& narrow, const Tensor& out, int rows)
      : kernel_(kernel),
        write_(kernel.write()),
        dtype_(out.dtype()),
        type_(held_type(out.dtype())),
        rows_(rows),
        a_(kernel.reads(narrow.product.a)),
        b_(kernel.reads(narrow.product.b)),
        y_(kernel.writes(out)),
        m_(kernel.word(narrow.product.m)),
        n_(kernel.word(narrow.product.n)),
        k_(kernel.word(narrow.product.k)),
        lines_(kernel.word(narrow.lines())),
        a_row_(kernel.word(narrow.product.a_row)),
        a_sum_(kernel.word(narrow.product.a_sum)),
        b_sum_(kernel.word(narrow.product.b_sum)),
        b_column_(kernel.word(narrow.product.b_column)),
        row_step_(kernel.word(narrow.row_step)),
        column_step_(kernel.word(narrow.column_step)) {
    const Dims steps[] = {narrow.product.a_batch, narrow.product.b_batch};
    places_ = kernel.places("batch", narrow.product.batch, steps);
    if (narrow.by_threads()) kernel.share(type_, "sums", rows * kGroupThreads);
  }

  // Line "i" of results by a thread.
  void print() {
    print_places();
    print_sums("0", "1");
    for (int r = 0; r < rows_; ++r) store(r, sum(r));
  }

  // The same, lane by lane.
  void print_lanes() {
    const ScalarType index = kernel_.dialect().index;
    const std::string lanes = std::to_string(kReduceLanes);
    const auto part = [](int r, const std::string& at) {
      return numbered("part", r) + "[" + at + "]";
    };
    print_places();
    for (int r = 0; r < rows_; ++r) write_.array(type_, numbered("part", r), kReduceLanes);
    write_.open_count(index, "place", "0", lanes);
    print_sums("place", lanes);
    for (int r = 0; r < rows_; ++r) write_.assign(part(r, "place"), sum(r));
    write_.close();
    for (int width = kReduceLanes / 2; width > 0; width /= 2) {
      const std::string half = std::to_string(width);
      write_.open_count(index, "place", "0", half);
      for (int r = 0; r < rows_; ++r)
        write_.assign(part(r, "place"),
                      kernel_.call_op(OpId::add, dtype_,
                                      part(r, "place") + ", " + part(r, "place + " + half)));
      write_.close();
    }
    for (int r = 0; r < rows_; ++r) store(r, part(r, "0"));
  }

  // Some lines by a group.
  void print_together() {
    const ScalarType index = kernel_.dialect().index;
    const std::string lanes = std::to_string(kReduceLanes);
    write_.constant(index, "line", "group * " + std::to_string(kGroupLines) + " + lane / " + lanes);
    write_.constant(index, "place", "lane % " + lanes);
    write_.limit(index, "i", "line", lines_ + " - 1");
    print_places();
    print_sums("place", lanes);
    for (int r = 0; r < rows_; ++r) write_.assign(shared(r, ""), sum(r));
    write_.barrier();
    for (int width = kReduceLanes / 2; width > 0; width /= 2) {
      const std::string half = std::to_string(width);
      write_.open_if("place < " + half);
      for (int r = 0; r < rows_; ++r)
        write_.assign(shared(r, ""),
                      kernel_.call_op(OpId::add, dtype_, shared(r, "") + ", " + shared(r, half)));
      write_.close();
      write_.barrier();
    }
    write_.open_if("place == 0 && line < " + lines_);
    for (int r = 0; r < rows_; ++r) store(r, shared(r, ""));
    write_.close();
  }

 private:
  static std::string sum(int r) { return numbered("sum", r); }
  static std::string shared(int r, const std::string& behind) {
    return "sums[lane + " + std::to_string(r * kGroupThreads) +
           (behind.empty() ? "" : " + " + behind) + "]";
  }

  // Where the operands of line "i" begin.
  void print_places() {
    const ScalarType index = kernel_.dialect().index;
    write_.constant(index, "batch", "i / " + n_);
    write_.constant(index, "column", "i % " + n_);
    write_.constant(index, "large", b_.first + " + " + places_[1] + " + column * " + b_column_);
    for (int r = 0; r < rows_; ++r) {
      write_.limit(index, numbered("row", r), std::to_string(r), m_ + " - 1");
      write_.constant(index, numbered("from", r),
                      a_.first + " + " + places_[0] + " + " + numbered("row", r) + " * " + a_row_);
    }
  }
  // Of every `step`-th product from `first` on.
  void print_sums(const std::string& first, const std::string& step) {
    const ScalarType index = kernel_.dialect().index;
    for (int r = 0; r < rows_; ++r)
      write_.variable(type_, sum(r), literal(type_, 0, kernel_.dialect()));
    write_.open_for(index, "k", first, "k < " + k_, "k += " + step);
    write_.constant(type_, "x", item(b_, "large + k * " + b_sum_));
    for (int r = 0; r < rows_; ++r)
      write_.assign(
          sum(r), kernel_.product_added(dtype_, item(a_, numbered("from", r) + " + k * " + a_sum_),
                                        "x", sum(r)));
    write_.close();
  }
  std::string item(const MapKernel::View& view, const std::string& place) {
    return kernel_.unpacked(view.dtype, write_.element(view.dtype, view.name, place));
  }
  void store(int r, const std::string& value) {
    write_.open_if(std::to_string(r) + " < " + m_);
    kernel_.set(y_,
                "batch * " + m_ + " * " + n_ + " + " + std::to_string(r) + " * " + row_step_ +
                    " + column * " + column_step_,
                value);
    write_.close();
  }

  MapKernel& kernel_;
  SourceWriter& write_;
  const DType dtype_;
  const ScalarType type_;
  const int rows_;
  const MapKernel::View a_, b_, y_;
  const std::string m_, n_, k_, lines_, a_row_, a_sum_, b_sum_, b_column_, row_step_, column_step_;
  std::vector<std::string> places_;
};

}  // namespace

bool is_narrow(const Product& p) { return std::min(p.m, p.n) <= kFewLines; }

int64_t narrow_threads(const Product& p) {
  // Between a thread a line and one a lane: which it is must not change the parts that sums have.
  constexpr int64_t kThreadsOfLine = 8;
  const Narrow narrow(p);
  return narrow.lines() * (narrow.has_lanes() ? kThreadsOfLine : 1);
}

void multiply_narrow(const Product& p, const Tensor& out) {
  const Narrow narrow(p);
  const auto rows = static_cast<int>(std::bit_ceil(static_cast<uint64_t>(narrow.product.m)));
  const std::string form = narrow.by_threads() ? "threads" : narrow.has_lanes() ? "lanes" : "short";
  MapKernel kernel(out.device(), "narrow " + std::to_string(rows) + " " + form);
  NarrowPrinter printer(kernel, narrow, out, rows);
  if (narrow.by_threads())
    kernel.run_groups(ceil_div(narrow.lines(), kGroupLines), [&] { printer.print_together(); });
  else
    kernel.run(narrow.lines(),
               [&] { narrow.has_lanes() ? printer.print_lanes() : printer.print(); });
}

}  // namespace tinyt::gpu
