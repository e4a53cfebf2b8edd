#include "gpu/column_source.h"

#include "gpu/fused_values.h"

namespace tinyt::gpu {

namespace {

class ColumnPrinter : FusedValues {
 public:
  ColumnPrinter(const FusedKernel& kernel, bool dense, std::string_view name,
                const Dialect& dialect)
      : FusedValues(kernel, name, dialect),
        dense_(dense),
        name_(name),
        kept_(kernel.shape.size() - kernel.reduced),
        reduced_(kernel.reduced),
        words_(kept_, reduced_),
        width_(std::to_string(column_width(dialect))) {}

  KernelSource print() {
    const ScalarType index = dialect().index, small = ScalarType::I32;
    write().open_kernel(name_,
                        {{dialect().reads, memory_type(0), "a"},
                         {write().writes(value(kValue).dtype), memory_type(kValue), "y"}},
                        words_.count());
    open_thread();
    write().array(accumulator(kValue), "sum", column_width(dialect()));
    write().open_count(small, "l", "0", width_);
    write().assign("sum[l]", identity(kValue));
    write().close();
    write().open_count(index, "k", "begin", "end");
    write().constant(index, "place", place());
    // A constant end is what compilers make vectors of.
    write().open_if("width == " + width_);
    print_elements(width_);
    write().close();
    write().open_if("width < " + width_);
    print_elements("width");
    write().close();
    write().close();
    print_store();
    write().close();
    return {functions(), write().text()};
  }

 private:
  static constexpr int kValue = 1;  // that the reduction makes

  void open_thread() {
    const ScalarType index = dialect().index;
    const std::string block = std::to_string(block_of());
    write().constant(index, "columns", write().word(words_.size(kept_ - 1)));
    write().constant(index, "rows", write().product(0, kept_ - 1));
    write().constant(index, "elements", write().product(kept_, kept_ + reduced_));
    write().constant(index, "parts", "(columns + " + width_ + " - 1) / " + width_);
    write().constant(index, "thread", write().thread());
    write().constant(index, "column", "thread % parts * " + width_);
    write().constant(index, "row", "thread / parts % rows");
    write().constant(index, "block", "thread / parts / rows");
    write().open_if("block >= " + write().word(words_.blocks()));
    write().line("return;");
    write().close();
    write().constant(index, "begin", "block * " + block);
    write().limit(index, "end", "begin + " + block, "elements");
    write().limit(index, "width", "columns - column", width_);
    std::string first =
        write().word(words_.first()) + " + column * " + write().word(words_.stride(kept_ - 1));
    for (size_t d = 0; d + 1 < kept_; ++d)
      first += " + " +
               digit("row", write().product(d + 1, kept_ - 1),
                     d == 0 ? "" : write().word(words_.size(d))) +
               " * " + write().word(words_.stride(d));
    write().constant(index, "first", first);
  }

  int64_t block_of() const {
    return kernel().ops[0].op == OpId::prod ? kProductBlock : kColumnBlock;
  }

  // Of reduced element `k` of the first result.
  std::string place() const {
    std::string text = "first";
    for (size_t d = 0; d < reduced_; ++d)
      text += " + " +
              digit("k", write().product(kept_ + d + 1, kept_ + reduced_),
                    d == 0 ? "" : write().word(words_.reduced_size(d))) +
              " * " + write().word(words_.reduced_stride(d));
    return text;
  }

  void print_elements(const std::string& width) {
    write().open_count(ScalarType::I32, "l", "0", width);
    const std::string item = write().element(
        value(0).dtype, "a",
        dense_ ? "place + l" : "place + l * " + write().word(words_.stride(kept_ - 1)));
    write().constant(held(value(0).dtype), name_of_value(0), unpacked(0, item));
    const std::string taken =
        call_cast(name_of_value(0), value(0).dtype, info(value(kValue).dtype).compute);
    write().assign("sum[l]", joined(kValue, "sum[l]", taken));
    write().close();
  }

  void print_store() {
    const DType dtype = value(kValue).dtype;
    write().open_count(ScalarType::I32, "l", "0", "width");
    write().constant(held(dtype), name_of_value(kValue),
                     call_cast("sum[l]", info(dtype).compute, dtype));
    write().set_element(
        dtype, "y", write().word(words_.store()) + " + (block * rows + row) * columns + column + l",
        packed(kValue));
    write().close();
  }

  bool dense_;
  std::string_view name_;
  size_t kept_, reduced_;
  ColumnWords words_;
  std::string width_;
};

}  // namespace

int64_t column_width(const Dialect& dialect) { return dialect.vectors ? 64 : 1; }

KernelSource column_source(const FusedKernel& kernel, bool dense, std::string_view name,
                           const Dialect& dialect) {
  return ColumnPrinter(kernel, dense, name, dialect).print();
}

}  // namespace tinyt::gpu
