// Blocks of attention scores, made by a group of threads, for the kernels of attention and its
// gradients.
#pragma once

#include <string>
#include <vector>

#include "core/ops/kernels.h"
#include "gpu/map_kernel.h"

namespace tinyt::gpu {

// What those kernels share. A group takes a block of rows of the scores of one head, queries or
// (`by_keys`) keys, and goes over the columns, a block at a time; of each a thread has
// kOwn x kOwn scores, and of results kOwn rows and `own_columns`. It knows, in the kernel's text:
// "batch", "first_row", "end_row", "first_column", "part" of the results' columns, "down" and
// "across" of the thread in its group, and "live", whether a block has scores to be made.
class AttentionBlocks {
 public:
  static constexpr int kSide = 8;              // threads along a side of a block
  static constexpr int kOwn = 4;               // rows, and columns, of a block that a thread has
  static constexpr int kBlock = kSide * kOwn;  // rows, and columns
  static_assert(kSide * kSide == kGroupThreads);

  // Columns of results `width` wide that a thread has, of tensors of that dtype, and in how many
  // parts groups make these.
  static int own_columns(DType dtype, int64_t width);
  static int64_t parts_of(DType dtype, int64_t width);
  // Groups for all blocks of `rows`, [B, heads, rows, features].
  static int64_t groups_of(const Tensor& rows, int64_t width);
  // What of a call the text depends on.
  static std::string key_of(std::string_view name, const Attrs& attrs, const Tensor& mask,
                            DType dtype, int64_t width);

 protected:
  // [B, heads, rows, features]; of queries, or of keys.
  struct Operand {
    MapKernel::View view;
    std::vector<std::string> steps;  // along its dimensions
    std::string features, place;     // that of its head's first element
    bool of_keys = false, is_scaled = false;
  };

  // Of queries and keys of a call with such attributes and mask (0-d: none).
  AttentionBlocks(MapKernel& kernel, const Attrs& attrs, const Tensor& query, const Tensor& key,
                  const Tensor& mask, int64_t width, bool by_keys);

  Operand operand(const std::string& name, const Tensor& x, bool of_keys);

  // Its block of rows, up to "end_row": none, of a group that there is no block for. Columns are
  // gone over in the loop that is opened then; `by_keys` inside one over the queries' heads.
  void open_group(std::span<const Operand* const> operands);
  void open_columns(std::span<const Operand* const> operands);
  void close_columns();
  // Its variables out0_0, ..., zeros.
  void declare_results();
  // Variables of that name: products of each row of `rows` with each row of `columns`.
  void multiply(const char* name, const Operand& rows, const Operand& columns);
  // Scores s0_0, ...: the lowest number where a query may not see a key, and where there is none.
  void mask_scores();
  // Whether a thread's row and column of the block are there.
  std::string is_there(int r, int c) const {
    return "first_row + " + row(r) + " < end_row && first_column + " + column(c) + " < " +
           columns();
  }
  // Adds the products of weights s0_0, ... with rows of `values` to the results.
  void add_weighted(const Operand& values);
  // Calls body(column's number, result) inside what is done where row `r` and the column are there.
  template <class F>
  void for_results(int r, const F& body) {
    for (int c = 0; c < own_; ++c) {
      const std::string at = "part * " + text_of(kSide * own_) + " + " + column(c);
      write_.open_if(at + " < " + width_);
      body(at, pair("out", r, c));
      write_.close();
    }
  }
  template <class F>
  static void for_scores(const F& body) {
    for (int r = 0; r < kOwn; ++r)
      for (int c = 0; c < kOwn; ++c) body(r, c);
  }

  // ---- text

  static std::string text_of(int64_t x) { return std::to_string(x); }
  static std::string name(const char* what, int i) { return numbered(what, i); }
  static std::string pair(const char* what, int r, int c) {
    return numbered(what, r) + numbered("_", c);
  }
  // Of a thread's rows and columns, in a block.
  static std::string row(int r) { return "down + " + text_of(r * kSide); }
  static std::string column(int c) { return "across + " + text_of(c * kSide); }
  ScalarType index() const { return kernel_.dialect().index; }
  std::string zero() const;
  std::string lowest() const { return kernel_.identity(OpId::amax, dtype_); }
  std::string call(OpId op, const std::string& operands) {
    return kernel_.call_op(op, dtype_, operands);
  }
  std::string item(const MapKernel::View& view, const std::string& place);
  // A value of the type that is computed in, to memory.
  void set(const MapKernel::View& view, const std::string& place, const std::string& value);
  // The place of row "row" in [B, heads, rows], dense; that of a query in [B, H, L].
  std::string row_place() const {
    return "(batch * " + row_heads() + " + head) * " + rows() + " + row";
  }
  std::string query_place(const std::string& query) const {
    return "(batch * " + heads_ + " + query_head) * " + queries_ + " + " + query;
  }

  MapKernel& kernel_;
  SourceWriter& write_;
  const DType dtype_;  // that is computed in
  const ScalarType type_;
  const bool causal_, by_keys_;
  const int own_;  // columns of results of a thread
  std::string width_, scale_;

 private:
  void load_strip(const Operand& from, const std::string& to, const std::string& first,
                  const std::string& end);
  void add_mask(const std::string& s, const std::string& place);
  void print_places(std::span<const Operand* const> operands, bool of_keys);
  const std::string& row_heads() const { return by_keys_ ? groups_ : heads_; }
  const std::string& rows() const { return by_keys_ ? keys_ : queries_; }
  const std::string& columns() const { return by_keys_ ? queries_ : keys_; }

  std::string batches_, heads_, of_group_, groups_, queries_, keys_, blocks_, parts_;
  bool has_mask_ = false;
  Operand mask_;
};

}  // namespace tinyt::gpu
