#include "gpu/fused_source.h"

#include <algorithm>
#include <map>

#include "core/base/error.h"
#include "gpu/fused_values.h"
#include "gpu/scalar_source.h"

namespace tinyt::gpu {

namespace {

// Elements of a block of a row, and lanes: the order of sums (ADR 0003).
constexpr int64_t kRowLanes = 32, kRowSumBlock = 4096, kRowProductBlock = 1024;
constexpr int64_t kTreeDepth = 64;  // of blocks whose number has so many bits

int64_t block_of(OpId op) { return op == OpId::prod ? kRowProductBlock : kRowSumBlock; }

class KernelPrinter : FusedValues {
 public:
  KernelPrinter(const FusedKernel& kernel, const std::vector<Inner>& inner, std::string_view name,
                const Dialect& dialect)
      : FusedValues(kernel, name, dialect),
        kernel_(kernel),
        inner_(inner),
        name_(name),
        dialect_(dialect),
        write_(write()) {
    const size_t rank = kernel.shape.size();
    columns_ = kernel.reduced;
    // One thread that takes all has a short way along the last dimension.
    if (columns_ == 0 && dialect.thread.empty()) columns_ = std::min<size_t>(rank, 1);
    rows_ = rank - columns_;
  }

  KernelSource print() {
    head();
    open_rows();
    for (int pass = 0; pass <= last_pass(); ++pass)
      for (const int64_t block : {kRowSumBlock, kRowProductBlock}) print_pass(pass, block);
    store_row_values();
    close_rows();
    return {functions(), write_.text()};
  }

 private:
  // ---- frame

  std::vector<std::string> arguments() {
    std::vector<std::string> out;
    const auto add = [&](std::string_view pattern, const std::string& type,
                         const std::string& name) {
      out.push_back(filled(pattern, {{'T', type}, {'N', name}, {'I', std::to_string(out.size())}}));
    };
    const std::string word = write_.type(dialect_.index);
    add(dialect_.sizes, word, "n");
    for (int k = 0; k < kernel_.loads; ++k) {
      add(dialect_.reads, memory_type(k), numbered("a", k));
      add(dialect_.sizes, word, numbered("s", k));
    }
    for (size_t k = 0; k < kernel_.stores.size(); ++k)
      add(dialect_.writes, memory_type(kernel_.stores[k]), numbered("y", static_cast<int64_t>(k)));
    return out;
  }
  void head() {
    std::string list;
    for (const std::string& argument : arguments())
      if (dialect_.apart) {
        write_.line(argument);
      } else {
        list += (list.empty() ? "" : ", ") + argument;
      }
    write_.open(filled(dialect_.kernel, {{'N', name_}, {'A', list}}));
  }

  // The product of sizes from dimension `first` up to `last`.
  std::string count(size_t first, size_t last) const {
    std::string product;
    for (size_t d = first; d < last; ++d)
      product += (product.empty() ? "" : " * ") + at("n", std::to_string(d));
    return product.empty() ? "1" : product;
  }
  void open_rows() {
    const ScalarType index = dialect_.index;
    write_.constant(index, "columns", count(rows_, rows_ + columns_));
    if (dialect_.thread.empty()) {
      write_.variable(index, "row", "0");
      for (size_t d = 0; d < rows_; ++d)
        write_.open_count(index, numbered("i", static_cast<int64_t>(d)), "0",
                          at("n", std::to_string(d)));
    } else {
      write_.constant(index, "row", write_.cast(write_.type(index), std::string(dialect_.thread)));
      write_.open_if("row >= " + count(0, rows_));
      write_.line("return;");
      write_.close();
      for (size_t d = 0; d < rows_; ++d)
        write_.constant(index, numbered("i", static_cast<int64_t>(d)),
                        "row / (" + count(d + 1, rows_) + ") % " + at("n", std::to_string(d)));
    }
    for (int k = 0; k < kernel_.loads; ++k) {
      if (!is_live(k)) continue;
      std::string first;
      for (size_t d = 0; d < rows_; ++d)
        first += (first.empty() ? "" : " + ") + numbered("i", static_cast<int64_t>(d)) + " * " +
                 at(numbered("s", k), std::to_string(d));
      write_.constant(index, numbered("first", k), first.empty() ? "0" : first);
    }
  }
  void close_rows() {
    if (dialect_.thread.empty()) {
      write_.line("row += 1;");
      for (size_t d = 0; d < rows_; ++d) write_.close();
    }
    name_unused();
    write_.close();
  }
  void name_unused() {
    if (dialect_.unused.empty()) return;
    const std::string text = write_.text();
    const auto look = [&](const std::string& name, std::string_view mark, size_t from) {
      if (text.find(name + std::string(mark), from) == std::string::npos)
        write_.line(filled(dialect_.unused, {{'N', name}}));
    };
    look("columns", "", text.find("columns") + 1);
    look("n", "[", 0);
    for (int k = 0; k < kernel_.loads; ++k) {
      look(numbered("a", k), "[", 0);
      look(numbered("s", k), "[", 0);
    }
  }

  // Where column `j` of a load lies behind its row's first one.
  std::string column(int k) const {
    const std::string strides = "s" + std::to_string(k);
    const Inner inner = inner_[static_cast<size_t>(k)];
    if (columns_ == 0) return "0";
    if (columns_ == 1 && inner != Inner::Strided) return inner == Inner::Dense ? "j" : "0";
    if (columns_ == 1) return "j * " + at(strides, std::to_string(rows_));
    std::string at, below = "1";
    for (size_t d = rows_ + columns_; d-- > rows_;) {
      const std::string number = std::to_string(d);
      at += (at.empty() ? "" : " + ") + ("j / (" + below) + ") % n[" + number + "] * " + strides +
            "[" + number + "]";
      below += " * n[" + number + "]";
    }
    return at;
  }

  // ---- values

  void print_load(int k, const std::string& column) {
    const std::string place = numbered("first", k) + (column == "0" ? "" : " + " + column);
    write_.constant(held(value(k).dtype), name_of_value(k),
                    unpacked(k, at(numbered("a", k), place)));
  }
  void print_value(int v) { write_.constant(held(value(v).dtype), name_of_value(v), result_of(v)); }

  void print_values(const std::vector<int>& values, bool per_row) {
    for (const int v : values) {
      if (is_load(v)) {
        print_load(v, per_row ? "0" : column(v));
      } else if (!reduces(op_of(v))) {
        print_value(v);
      }
    }
  }

  // ---- passes

  // Values of one element a row, each once; loads are of the row's first column.
  void print_row_values(const std::vector<int>& wanted) {
    for (const int v : needs(wanted, true)) {
      if (is_load(v) || reduces(op_of(v)) || row_done_[v]) continue;
      row_done_[v] = true;
      write_.variable(held(value(v).dtype), name_of_value(v),
                      literal(held(value(v).dtype), 0, dialect_));
      write_.open("");
      std::vector<int> loads;
      for (const Operand& in : op_of(v).in)
        if (is_load(in.value) && std::ranges::find(loads, in.value) == loads.end())
          loads.push_back(in.value);
      print_values(loads, true);
      write_.assign(name_of_value(v), result_of(v));
      write_.close();
    }
  }
  // What a pass takes of them, before it.
  void print_row_operands(const std::vector<int>& wanted) {
    std::vector<int> missing;
    const auto add = [&](int v) {
      if (!is_load(v) && value(v).per_row) missing.push_back(v);
    };
    for (const int v : wanted) add(v);
    for (const int v : needs(wanted, false))
      if (!is_load(v) && !reduces(op_of(v)))
        for (const Operand& in : op_of(v).in) add(in.value);
    print_row_values(missing);
  }

  void print_pass(int pass, int64_t block) {
    std::vector<int> reductions, wanted, stored;
    for (size_t i = 0; i < kernel_.ops.size(); ++i) {
      const FusedKernel::Op& op = kernel_.ops[i];
      const int v = kernel_.made_by(i);
      if (is_live(v) && reduces(op) && block_of(op.op) == block && pass_of(v) == pass + 1) {
        reductions.push_back(v);
        wanted.push_back(op.in[0].value);
      }
    }
    if (block == kRowSumBlock)
      for (const int v : kernel_.stores)
        if (!value(v).per_row && pass_of(v) == pass) stored.push_back(v);
    wanted.insert(wanted.end(), stored.begin(), stored.end());
    if (wanted.empty()) return;
    print_row_operands(wanted);
    if (reductions.empty()) {
      write_.open_count(dialect_.index, "j", "0", "columns");
      print_values(needs(wanted, false), false);
      store(stored);
      write_.close();
      return;
    }
    print_reductions(reductions, wanted, stored, block);
  }

  void print_reductions(const std::vector<int>& reductions, const std::vector<int>& wanted,
                        const std::vector<int>& stored, int64_t block) {
    const ScalarType index = dialect_.index, small = ScalarType::I32;
    const std::string lanes = std::to_string(kRowLanes), size = std::to_string(block);
    for (const int v : reductions) {
      write_.array(accumulator(v), numbered("tree", v), kTreeDepth);
      write_.variable(small, numbered("depth", v), "0");
    }
    write_.open_for(index, "begin", "0", "begin < columns", "begin += " + size);
    write_.variable(index, "end", "begin + " + size);
    write_.open_if("columns < end");
    write_.assign("end", "columns");
    write_.close();
    for (const int v : reductions) {
      write_.array(accumulator(v), numbered("lane", v), kRowLanes);
      write_.open_count(small, "l", "0", lanes);
      write_.assign(at(numbered("lane", v), "l"), identity(v));
      write_.close();
    }
    write_.open_for(index, "group", "begin", "group < end", "group += " + lanes);
    write_.variable(small, "lanes", lanes);
    write_.open_if("end - group < " + lanes);
    write_.assign("lanes", write_.cast(write_.type(small), "(end - group)"));
    write_.close();
    write_.open_count(small, "l", "0", "lanes");
    const std::vector<int> values = needs(wanted, false);
    const auto moves = [&](int v) { return is_load(v) && column(v) != "0"; };
    if (!stored.empty() || std::ranges::any_of(values, moves))
      write_.constant(index, "j", "group + " + write_.cast(write_.type(index), "l"));
    print_values(values, false);
    for (const int v : reductions) {
      const int from = op_of(v).in[0].value;
      const std::string lane = at(numbered("lane", v), "l");
      write_.assign(lane, joined(v, lane,
                                 call_cast(name_of_value(from), value(from).dtype,
                                           info(value(v).dtype).compute)));
    }
    store(stored);
    write_.close();
    write_.close();
    for (const int v : reductions) fold(v, size);
    write_.close();
    for (const int v : reductions) finish(v);
  }

  // Lanes in halves; then into the tree, where two neighbours of one size become one.
  void fold(int v, const std::string& block) {
    const std::string lane = numbered("lane", v), tree = numbered("tree", v),
                      depth = numbered("depth", v);
    write_.open_for(ScalarType::I32, "width", std::to_string(kRowLanes / 2), "width > 0",
                    "width /= 2");
    write_.open_count(ScalarType::I32, "l", "0", "width");
    write_.assign(at(lane, "l"), joined(v, at(lane, "l"), at(lane, "l + width")));
    write_.close();
    write_.close();
    write_.open_for(dialect_.index, "b", "begin / " + block, "(b & 1) != 0", "b /= 2");
    write_.line(depth + " -= 1;");
    write_.assign(at(lane, "0"), joined(v, at(tree, depth), at(lane, "0")));
    write_.close();
    write_.assign(at(tree, depth), at(lane, "0"));
    write_.line(depth + " += 1;");
  }
  void finish(int v) {
    const std::string tree = numbered("tree", v), depth = numbered("depth", v);
    write_.open_if("columns == 0");
    write_.assign(at(tree, "0"), identity(v));
    write_.close();
    write_.open("while (" + depth + " > 1)");
    write_.line(depth + " -= 1;");
    write_.assign(at(tree, depth + " - 1"), joined(v, at(tree, depth + " - 1"), at(tree, depth)));
    write_.close();
    const DType dtype = value(v).dtype;
    write_.constant(held(dtype), name_of_value(v),
                    call_cast(at(tree, "0"), info(dtype).compute, dtype));
  }

  void store(const std::vector<int>& stored) {
    for (size_t k = 0; k < kernel_.stores.size(); ++k)
      if (std::ranges::find(stored, kernel_.stores[k]) != stored.end())
        write_.assign(at(numbered("y", static_cast<int64_t>(k)), "row * columns + j"),
                      packed(kernel_.stores[k]));
  }
  void store_row_values() {
    std::vector<int> wanted;
    for (const int v : kernel_.stores)
      if (value(v).per_row) wanted.push_back(v);
    print_row_values(wanted);
    for (size_t k = 0; k < kernel_.stores.size(); ++k)
      if (value(kernel_.stores[k]).per_row)
        write_.assign(at(numbered("y", static_cast<int64_t>(k)), "row"), packed(kernel_.stores[k]));
  }
  const FusedKernel& kernel_;
  const std::vector<Inner>& inner_;
  std::string_view name_;
  const Dialect& dialect_;
  SourceWriter& write_;
  size_t rows_ = 0, columns_ = 0;  // dimensions
  std::map<int, bool> row_done_;
};

}  // namespace

KernelSource kernel_source(const FusedKernel& kernel, const std::vector<Inner>& inner,
                           std::string_view name, const Dialect& dialect) {
  verify(kernel);
  require(kernel.front.op == OpId::kCount, ErrorKind::NotImplemented, name,
          ": a product in front of a kernel has no source");
  require(inner.size() == static_cast<size_t>(kernel.loads), ErrorKind::Value, name, ": ",
          inner.size(), " layouts for ", kernel.loads, " loads");
  return KernelPrinter(kernel, inner, name, dialect).print();
}

}  // namespace tinyt::gpu
