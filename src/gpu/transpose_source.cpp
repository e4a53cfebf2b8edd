#include "gpu/transpose_source.h"

#include "core/base/error.h"
#include "gpu/fused_values.h"

namespace tinyt::gpu {

namespace {

class TransposePrinter {
 public:
  TransposePrinter(DType dtype, size_t rank, bool streams, std::string_view name,
                   const Dialect& dialect)
      : type_(dialect.memory_types[static_cast<size_t>(dtype)]),
        rank_(rank),
        streams_(streams && !dialect.vector_stream.empty()),
        words_(rank),
        name_(name),
        dialect_(dialect),
        write_(dialect, name) {
    require(!type_.empty(), ErrorKind::NotImplemented, dialect.name, ": no ", tinyt::name_of(dtype),
            " in memory");
  }

  KernelSource print() {
    write_.open_kernel(name_, {{dialect_.reads, type_, "a"}, {dialect_.writes, type_, "y"}},
                       words_.count());
    open_thread();
    write_.line(filled(dialect_.array,
                       {{'T', type_}, {'N', "square"}, {'E', std::to_string(kSquare * kPitch)}}));
    const std::string line = "line * " + write_.word(words_.stride(0, rank_ - 2)),
                      column = "column * " + write_.word(words_.stride(0, rank_ - 1));
    const std::string item = "square[column * " + std::to_string(kPitch) + " + line]";
    loops("column", "line", item, "a[from + " + column + " + line]");
    const std::string target =
        "to + line * " + write_.word(words_.stride(1, rank_ - 2)) + " + column";
    if (streams_)
      stream_lines(target, item);
    else
      loops("line", "column", at("y", target), item);
    write_.close();
    return {{}, write_.text()};
  }

 private:
  void open_thread() {
    const ScalarType index = dialect_.index;
    const std::string lines = write_.word(rank_ - 2), columns = write_.word(rank_ - 1);
    const auto squares = [&](const std::string& n) {
      return "(" + n + " + " + std::to_string(kSquare - 1) + ") / " + side_;
    };
    write_.constant(index, "across", squares(columns));
    write_.constant(index, "down", squares(lines));
    write_.constant(index, "thread", write_.thread());
    write_.constant(index, "row", "thread / across / down");
    write_.open_if("row >= " + write_.product(0, rank_ - 2));
    write_.line("return;");
    write_.close();
    write_.constant(index, "first_column", "thread % across * " + side_);
    write_.constant(index, "first_line", "thread / across % down * " + side_);
    write_.limit(index, "width", columns + " - first_column", side_);
    write_.limit(index, "height", lines + " - first_line", side_);
    for (const size_t side : {size_t{0}, size_t{1}}) {
      std::string place = write_.word(words_.first(side)) + " + first_column * " +
                          write_.word(words_.stride(side, rank_ - 1)) + " + first_line * " +
                          write_.word(words_.stride(side, rank_ - 2));
      for (size_t d = 0; d + 2 < rank_; ++d)
        place += " + " +
                 digit("row", write_.product(d + 1, rank_ - 2),
                       d == 0 ? "" : write_.word(words_.size(d))) +
                 " * " + write_.word(words_.stride(side, d));
      write_.constant(index, side == 0 ? "from" : "to", place);
    }
  }

  // Whole squares in loops of constant ends.
  void loops(const std::string& outer, const std::string& inner, const std::string& to,
             const std::string& from) {
    const auto extent = [](const std::string& v) { return v == "column" ? "width" : "height"; };
    write_.open_count(dialect_.index, outer, "0", extent(outer));
    write_.open_if(std::string(extent(inner)) + " == " + side_);
    for (const bool whole : {true, false}) {
      if (!whole) write_.open_if(std::string(extent(inner)) + " < " + side_);
      write_.open_count(dialect_.index, inner, "0", whole ? side_ : extent(inner));
      write_.assign(to, from);
      write_.close();
      write_.close();
    }
    write_.close();
  }

  // By vectors, from an array of the line.
  void stream_lines(const std::string& target, const std::string& item) {
    const ScalarType index = dialect_.index;
    write_.open_count(index, "line", "0", "height");
    write_.open_if("width == " + side_);
    write_.line(filled(dialect_.array, {{'T', type_}, {'N', "items"}, {'E', side_}}));
    write_.open_count(index, "column", "0", side_);
    write_.assign("items[column]", item);
    write_.close();
    write_.open_for(index, "column", "0", "column < " + side_,
                    "column += " + std::to_string(dialect_.lanes));
    write_.line(filled(dialect_.vector_stream,
                       {{'T', type_},
                        {'C', filled(dialect_.vector_load, {{'N', "items"}, {'E', "column"}})},
                        {'N', "y"},
                        {'E', target}}));
    write_.close();
    write_.close();
    write_.open_if("width < " + side_);
    write_.open_count(index, "column", "0", "width");
    write_.assign(at("y", target), item);
    write_.close();
    write_.close();
    write_.close();
  }

  static constexpr int64_t kPitch = kSquare + 1;  // lines of a square lie in different sets

  const std::string type_;
  const size_t rank_;
  const bool streams_;
  const TransposeWords words_;
  const std::string_view name_;
  const Dialect& dialect_;
  SourceWriter write_;
  const std::string side_ = std::to_string(kSquare);
};

}  // namespace

KernelSource transpose_source(DType dtype, size_t rank, bool streams, std::string_view name,
                              const Dialect& dialect) {
  return TransposePrinter(dtype, rank, streams, name, dialect).print();
}

}  // namespace tinyt::gpu
