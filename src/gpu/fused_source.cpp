#include "gpu/fused_source.h"

#include <algorithm>

#include "core/base/error.h"
#include "gpu/fused_reductions.h"
#include "gpu/scalar_source.h"

namespace tinyt::gpu {

namespace {

constexpr int kLeastDear = 12;  // operations, of a value that is kept

int64_t block_of(OpId op) { return op == OpId::prod ? kRowProductBlock : kRowBlock; }

// Dimensions of a row. Where nothing is reduced a thread has a short way along the last one.
size_t columns_of(const FusedKernel& kernel) {
  return kernel.reduced > 0 ? kernel.reduced : std::min<size_t>(kernel.shape.size(), 1);
}

class KernelPrinter : FusedReductions {
 public:
  KernelPrinter(const FusedKernel& kernel, const KernelForm& form, std::string_view name,
                const Dialect& dialect)
      : FusedReductions(kernel, form, name, dialect, columns_of(kernel)),
        kernel_(kernel),
        form_(form),
        name_(name),
        dialect_(dialect),
        write_(write()),
        rows_(rows()),
        dear_(dear_value()) {
    for (const int v : kernel.stores)
      if (goes_as_halves(v)) leave_unrounded(v);
  }

  KernelSource print() {
    head();
    open_rows();
    for (int pass = 0; pass <= last_pass(); ++pass)
      for (const int64_t block : {kRowBlock, kRowProductBlock}) print_pass(pass, block);
    store_row_values();
    close_rows();
    return {functions(), write_.text()};
  }

 private:
  // ---- frame

  void head() {
    std::vector<SourceWriter::Argument> list;
    const std::string index = write_.type(dialect_.index);
    if (one_thread()) list.push_back({dialect_.sizes, index, "n"});
    for (int k = 0; k < kernel_.loads; ++k) {
      if (!is_number(k)) list.push_back({dialect_.reads, memory_type(k), numbered("a", k)});
      if (one_thread()) list.push_back({dialect_.sizes, index, numbered("s", k)});
    }
    for (size_t k = 0; k < kernel_.stores.size(); ++k)
      list.push_back({write_.writes(value(kernel_.stores[k]).dtype), memory_type(kernel_.stores[k]),
                      numbered("y", static_cast<int64_t>(k))});
    if (dialect_.apart) print_shared();
    write_.open_kernel(name_, std::move(list), words().count());
    if (!dialect_.apart) print_shared();
  }

  // The product of sizes from dimension `first` up to `last`.
  std::string count(size_t first, size_t last) const {
    std::string product;
    for (size_t d = first; d < last; ++d) product += (product.empty() ? "" : " * ") + size(d);
    return product.empty() ? "1" : product;
  }
  void open_rows() {
    const ScalarType index = dialect_.index;
    write_.constant(index, "columns", count(rows_, kernel_.shape.size()));
    if (one_thread()) {
      write_.variable(index, "row", "0");
      for (size_t d = 0; d < rows_; ++d)
        write_.open_count(index, numbered("i", static_cast<int64_t>(d)), "0", size(d));
    } else {
      by_lanes() ? open_lane() : open_thread();
      for (size_t d = 0; d < rows_; ++d)
        write_.constant(index, numbered("i", static_cast<int64_t>(d)),
                        digit("row", count(d + 1, rows_), d == 0 ? "" : size(d)));
    }
    for (int k = 0; k < kernel_.loads; ++k)
      if (is_live(k) && !is_number(k))
        write_.constant(
            index, numbered("first", k),
            row_place(one_thread() ? "" : write_.word(words().load(static_cast<size_t>(k))),
                      [&](size_t d) { return stride(k, d); }));
    for (size_t k = 0; k < kernel_.stores.size() && !one_thread(); ++k)
      if (form_.strided_stores)
        write_.constant(index, numbered("to", static_cast<int64_t>(k)),
                        row_place(write_.word(words().store(k)), [&](size_t d) {
                          return write_.word(words().store_stride(k, d));
                        }));
    print_row_loads();
  }
  // Of its row; where nothing is reduced, of some elements of one.
  void open_thread() {
    const ScalarType index = dialect_.index;
    const std::string lines = write_.word(words().lines());
    write_.constant(index, "rows", count(0, rows_));
    write_.constant(index, "thread", write_.thread());
    if (kernel_.reduced > 0) {
      write_.constant(index, "first_row", "thread * " + lines);
    } else {
      const std::string block = write_.word(words().block());
      write_.constant(index, "parts", "(columns + " + block + " - 1) / " + block);
      write_.constant(index, "first_row", "thread / parts * " + lines);
      write_.constant(index, "first_column", "thread % parts * " + block);
      write_.limit(index, "end_column", "first_column + " + block, "columns");
    }
    write_.limit(index, "end_row", "first_row + " + lines, "rows");
    write_.open_count(index, "row", "first_row", "end_row");
  }
  // Lane `lane` of a row; of one that is not there, no elements.
  void open_lane() {
    const ScalarType index = dialect_.index;
    const std::string lanes = std::to_string(kReduceLanes);
    write_.constant(index, "rows", count(0, rows_));
    write_.constant(index, "thread", write_.thread());
    write_.constant(index, "place", "thread % " + std::to_string(kGroupThreads));
    write_.constant(index, "lane", "thread % " + lanes);
    write_.limit(index, "row", "thread / " + lanes, "rows - 1");
    write_.variable(index, "end_column", "columns");
    write_.open_if("row < thread / " + lanes);
    write_.assign("end_column", "0");
    write_.close();
  }
  // Where a row's first element is.
  template <class F>
  std::string row_place(std::string place, const F& stride_of) const {
    for (size_t d = 0; d < rows_; ++d)
      place += (place.empty() ? "" : " + ") + numbered("i", static_cast<int64_t>(d)) + " * " +
               stride_of(d);
    return place.empty() ? "0" : place;
  }
  void close_rows() {
    if (one_thread()) write_.line("row += 1;");
    for (size_t d = 0; d < open_loops(); ++d) write_.close();
    name_unused();
    write_.close();
  }
  size_t open_loops() const { return one_thread() ? rows_ : by_lanes() ? 0 : 1; }
  void name_unused() {
    if (dialect_.unused.empty()) return;
    const std::string text = write_.text();
    const auto look = [&](const std::string& name, std::string_view mark, size_t from) {
      if (text.find(name + std::string(mark), from) == std::string::npos)
        write_.line(filled(dialect_.unused, {{'N', name}}));
    };
    look("columns", "", text.find("columns") + 1);
    if (one_thread()) look("n", "[", 0);
    for (int k = 0; k < kernel_.loads; ++k) {
      if (!is_number(k)) look(numbered("a", k), "[", 0);
      if (one_thread()) look(numbered("s", k), "[", 0);
    }
  }

  // ---- passes

  std::vector<int> reductions_of(int pass, int64_t block) const {
    std::vector<int> found;
    for (size_t i = 0; i < kernel_.ops.size(); ++i) {
      const FusedKernel::Op& op = kernel_.ops[i];
      const int v = kernel_.made_by(i);
      if (is_live(v) && reduces(op) && block_of(op.op) == block && pass_of(v) == pass + 1)
        found.push_back(v);
    }
    return found;
  }
  std::vector<int> operands_of(const std::vector<int>& reductions) const {
    std::vector<int> operands;
    for (const int v : reductions) operands.push_back(op_of(v).in[0].value);
    return operands;
  }
  // Elements are stored in the last loop over the row alone: the memory may be that of a load.
  int64_t last_block() const {
    return reductions_of(last_pass(), kRowProductBlock).empty() ? kRowBlock : kRowProductBlock;
  }
  std::vector<int> stored_elements() const {
    std::vector<int> stored;
    for (const int v : kernel_.stores)
      if (!value(v).per_row) stored.push_back(v);
    return stored;
  }
  bool goes_as_halves(int v) const {
    return !form_.strided_stores && !value(v).per_row && value(v).dtype == DType::Float16 &&
           !dialect_.vector_halves.empty();
  }
  std::vector<Target> store_targets() {
    std::vector<Target> targets;
    for (size_t k = 0; k < kernel_.stores.size(); ++k) {
      const int v = kernel_.stores[k];
      if (value(v).per_row) continue;
      Target target{numbered("y", static_cast<int64_t>(k)), element_place(k), memory_type(v), "",
                    value(v).dtype};
      target.halves = goes_as_halves(v);
      if (target.halves) {
        target.type = write_.type(ScalarType::F32);
        target.vectors = dialect_.vector_halves;
      } else if (form_.streams && !form_.strided_stores && size_of(value(v).dtype) == 4) {
        target.vectors = dialect_.vector_stream;
      }
      target.value = target.halves ? name_of_value(v) : packed(v);
      targets.push_back(std::move(target));
    }
    return targets;
  }
  // Of a store of one element for each of the space, and of one for each row.
  std::string element_place(size_t k) const {
    if (form_.strided_stores && rows_ < kernel_.shape.size())
      return numbered("to", static_cast<int64_t>(k)) + " + j * " +
             write_.word(words().store_stride(k, rows_));
    return form_.strided_stores ? numbered("to", static_cast<int64_t>(k))
                                : store_place(k, "row * columns + j");
  }
  std::string store_place(size_t k, const std::string& place) const {
    return one_thread() ? place : write_.word(words().store(k)) + " + " + place;
  }

  // The value that is dearest to compute again of those that the last loop and one of sums before
  // it compute, or -1. That one keeps what it has of it of the row's last block.
  int dear_value() const {
    if (!has_vectors() || last_pass() == 0 || !reductions_of(last_pass(), kRowBlock).empty() ||
        !reductions_of(last_pass(), kRowProductBlock).empty())
      return -1;
    const std::vector<int> last = needs(stored_elements(), false),
                           before =
                               needs(operands_of(reductions_of(last_pass() - 1, kRowBlock)), false);
    int dear = -1, most = kLeastDear;
    for (const int v : before) {
      if (is_load(v) || std::ranges::find(last, v) == last.end()) continue;
      int cost = 0;
      for (const int needed : needs({v}, false)) cost += is_load(needed) ? 0 : cost_of(needed);
      if (cost < most) continue;
      most = cost;
      dear = v;
    }
    return dear;
  }

  void print_pass(int pass, int64_t block) {
    const std::vector<int> reductions = reductions_of(pass, block);
    std::vector<int> wanted = operands_of(reductions);
    std::vector<Target> targets;
    if (pass == last_pass() && block == last_block()) {
      const std::vector<int> stored = stored_elements();
      wanted.insert(wanted.end(), stored.begin(), stored.end());
      targets = store_targets();
    }
    if (wanted.empty()) return;
    print_row_operands(wanted);
    if (reductions.empty()) return print_stores(wanted, targets);
    if (dear_ >= 0 && pass == last_pass() - 1 && block == kRowBlock) {
      write_.array(held(value(dear_).dtype), numbered("kept", dear_), kRowBlock);
      targets.push_back({numbered("kept", dear_), "j - begin",
                         write_.type(held(value(dear_).dtype)), name_of_value(dear_),
                         value(dear_).dtype, true});
    }
    print_reductions(reductions, wanted, targets, block);
  }
  void print_stores(const std::vector<int>& wanted, const std::vector<Target>& targets) {
    if (!one_thread() && kernel_.reduced == 0)
      return print_elements("first_column", "end_column", wanted, targets);
    if (dear_ < 0) return print_elements("0", end_column(), wanted, targets);
    const std::string block = std::to_string(kRowBlock);
    write_.constant(dialect_.index, "kept_from", "(columns - 1) / " + block + " * " + block);
    print_elements("0", "kept_from", wanted, targets);
    keep(dear_);
    print_elements("kept_from", "columns", wanted, targets);
  }

  void store_row_values() {
    std::vector<int> wanted;
    for (const int v : kernel_.stores)
      if (value(v).per_row) wanted.push_back(v);
    if (wanted.empty()) return;
    print_row_values(wanted);
    if (by_lanes()) {
      write_.barrier();  // what other lanes read may be where this goes
      write_.open_if("lane == 0 && 0 < end_column");
    }
    for (size_t k = 0; k < kernel_.stores.size(); ++k)
      if (value(kernel_.stores[k]).per_row)
        write_.set_element(value(kernel_.stores[k]).dtype, numbered("y", static_cast<int64_t>(k)),
                           store_place(k, "row"), packed(kernel_.stores[k]));
    if (by_lanes()) write_.close();
  }

  const FusedKernel& kernel_;
  const KernelForm& form_;
  std::string_view name_;
  const Dialect& dialect_;
  SourceWriter& write_;
  size_t rows_;  // dimensions
  int dear_;     // the value that is kept
};

}  // namespace

WordLayout::WordLayout(size_t rank, const KernelForm& form, size_t stores, const Dialect& dialect)
    : count_(rank) {
  for (const Inner inner : form.loads) {
    loads_.push_back(count_);
    count_ += inner != Inner::Number ? 1 + rank : dialect.has_wide_words() ? 1 : 2;
  }
  for (size_t k = 0; k < stores; ++k) {
    stores_.push_back(count_);
    count_ += form.strided_stores ? 1 + rank : 1;
  }
  count_ += 2;  // block and lines
}

std::string digit(const std::string& number, const std::string& below, const std::string& size) {
  const std::string high = below == "1" ? number : number + " / (" + below + ")";
  return size.empty() ? high : high + " % " + size;
}

KernelSource kernel_source(const FusedKernel& kernel, const KernelForm& form, std::string_view name,
                           const Dialect& dialect) {
  verify(kernel);
  require(kernel.front.op == OpId::kCount, ErrorKind::NotImplemented, name,
          ": a product in front of a kernel has no source");
  require(form.loads.size() == static_cast<size_t>(kernel.loads), ErrorKind::Value, name, ": ",
          form.loads.size(), " layouts for ", kernel.loads, " loads");
  require(!form.by_lanes || (kernel.reduced > 0 && !dialect.shared.empty() && !dialect.vectors),
          ErrorKind::Value, name, ": no threads of ", dialect.name, " take its rows together");
  return KernelPrinter(kernel, form, name, dialect).print();
}

std::string whole_source(const KernelSource& source, const Dialect& dialect) {
  std::string text = "\n";
  for (const auto& [name, function] : source.functions) text += function + "\n";
  text += source.text;
  return beginning_of(text, dialect) + text;
}

}  // namespace tinyt::gpu
